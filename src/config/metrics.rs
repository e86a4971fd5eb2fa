//! `[metrics]`

use std::net::SocketAddr;

use serde::{Deserialize, Deserializer};

use super::section::named;

section! {
    /// Numbers for Prometheus (docs/METRICS.md).
    Metrics {
        /// A separate address for `/metrics` only, without authentication: restrict it to Prometheus. Unset = only on
        /// the main address, where it needs a key with the scope operator if keys are required.
        #[serde(deserialize_with = "address")]
        listen: Option<SocketAddr> = None, named("PES_METRICS_LISTEN").example("\"127.0.0.1:9464\"");
    }
}

fn address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let wrong = |text: &str| {
        let port = text.trim_start_matches(':').parse::<u16>().unwrap_or(9464);
        serde::de::Error::custom(format!("`{text}` is no address with a port; write 127.0.0.1:{port}"))
    };
    Option::<String>::deserialize(from)?.map(|text| text.parse().map_err(|_| wrong(&text))).transpose()
}
