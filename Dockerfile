# syntax=docker/dockerfile:1
# docker build -t pes . && docker run -p 127.0.0.1:7070:7070 -e PES_API_KEYS=default:read+run+approve+admin:A_LONG_RANDOM_KEY pes

FROM rust:1.95-slim-bookworm AS chef
RUN cargo install --locked cargo-chef
WORKDIR /src

# What the dependencies hang on, and nothing else: their layer is rebuilt only when it changes.
FROM chef AS plan
COPY . .
RUN cargo chef prepare --bin pes --recipe-path recipe.json

FROM chef AS build
COPY --from=plan /src/recipe.json recipe.json
RUN cargo chef cook --locked --profile dist --bin pes --recipe-path recipe.json
COPY . .
RUN cargo build --locked --profile dist --bin pes && mkdir /data

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /src/target/dist/pes /usr/local/bin/pes
COPY --from=build --chown=nonroot:nonroot /data /data
# Reachable from outside the container, so it does not start without keys: PES_API_KEYS, or `pes keys new`.
ENV HOST=0.0.0.0 PORT=7070 PES_DATA_DIR=/data PES_LOG_FORMAT=json
VOLUME /data
EXPOSE 7070
# There is no shell to ask with. SIGTERM drains within 25 seconds, and 5 more in production: allow 40.
HEALTHCHECK --interval=10s --timeout=6s --start-period=15s CMD ["pes", "health"]
ENTRYPOINT ["pes"]
CMD ["serve"]
