//! `[metrics]`

use std::net::SocketAddr;

use serde::{Deserialize, Deserializer};

use super::section::named;

section! {
    /// Numbers for Prometheus (docs/METRICS.md).
    Metrics {
        /// `/metrics` on an address of its own, where nothing else is and no key is asked for: let nobody but Prometheus
        /// reach it. Unset = only beside everything else, where it needs a key with the scope operator if any key is needed.
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
