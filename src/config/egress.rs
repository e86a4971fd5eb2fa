//! `[egress]`

use std::collections::BTreeMap;

use super::section::{by_path, file_only, named};

section! {
    /// What may be called for models, tools, tenants and clients besides the public internet. Addresses that these
    /// settings name elsewhere need no entry here.
    Egress {
        /// host, host:port, address or range, e.g. "intern.example:8080", "10.1.0.0/16".
        allow: Vec<String> = Vec::new(), named("PES_EGRESS_ALLOW");
        /// The same for the threads of one tenant, by its name.
        tenants: BTreeMap<String, Vec<String>> = BTreeMap::new(), file_only().example("{ acme = [\"10.1.0.0/16\"] }");
        /// Whether http is called, too, and not only https, where `allow` does not name the host.
        plain_http: bool = true, file_only();
        /// Until a connection stands, in milliseconds.
        connect_timeout_ms: u64 = 10_000, by_path();
    }
}
