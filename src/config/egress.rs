//! `[egress]`

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::section::{by_path, file_only, named};
use super::{Config, Environment};

section! {
    /// What may be called for models, tools, tenants and clients besides the public internet. Addresses that these
    /// settings name elsewhere need no entry here.
    Egress {
        /// What becomes of an address that neither these settings nor `allow` names, whether a model chooses it
        /// (`http_fetch`, a redirect, what an agent's card names) or a tenant registers it (webhooks, tools, agents, MCP
        /// servers; refused when it is registered): "allow" = the public internet is called, "deny" = nothing is.
        /// Unset = deny in production, else allow.
        default: Option<EgressDefault> = None, by_path().example("\"deny\"");
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EgressDefault {
    Allow,
    Deny,
}

impl Config {
    /// Whether nothing is called that is not named.
    pub fn denies_egress(&self) -> bool {
        match (self.egress.default, self.env) {
            (Some(EgressDefault::Deny), _) | (None, Environment::Production) => true,
            (Some(EgressDefault::Allow), _) | (None, Environment::Development) => false,
        }
    }
}
