//! `[egress]`

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::section::{by_path, file_only, named};
use super::{Config, Environment};

section! {
    /// Which addresses models, tools, tenants and clients may call. Addresses in other settings need no entry here.
    Egress {
        /// Whether addresses are called that neither the settings nor `allow` name, chosen by a model (`http_fetch`, a
        /// redirect, an agent's card) or registered by a tenant (webhooks, tools, agents, MCP servers; rejected at
        /// registration): "allow" = on the public internet, "deny" = never. Unset = deny in production, else allow.
        default: Option<EgressDefault> = None, by_path().example("\"deny\"");
        /// host, host:port, address or range, e.g. "intern.example:8080", "10.1.0.0/16".
        allow: Vec<String> = Vec::new(), named("PES_EGRESS_ALLOW");
        /// Additional entries for one tenant, by its name: for its threads and for what it registers.
        tenants: BTreeMap<String, Vec<String>> = BTreeMap::new(), file_only().example("{ acme = [\"10.1.0.0/16\"] }");
        /// Whether http URLs are called, and not only https, if `allow` does not name the host.
        plain_http: bool = true, file_only();
        /// The timeout for opening a connection, in milliseconds; at most four fifths of a call's own time are used.
        connect_timeout_ms: u64 = 10_000, by_path();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EgressDefault {
    Allow,
    Deny,
}

impl Config {
    /// Whether only addresses that are named are called.
    pub fn denies_egress(&self) -> bool {
        match (self.egress.default, self.env) {
            (Some(EgressDefault::Deny), _) | (None, Environment::Production) => true,
            (Some(EgressDefault::Allow), _) | (None, Environment::Development) => false,
        }
    }
}
