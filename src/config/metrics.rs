//! `[metrics]`

use std::net::SocketAddr;

use super::section::named;

section! {
    /// Numbers for Prometheus (docs/METRICS.md).
    Metrics {
        /// `/metrics` on an address of its own, where nothing else is and no key is asked for: let nobody but Prometheus
        /// reach it. Unset = only beside everything else, where it needs a key with the scope operator if any key is needed.
        listen: Option<SocketAddr> = None, named("PES_METRICS_LISTEN").example("\"127.0.0.1:9464\"");
    }
}
