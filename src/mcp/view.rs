//! Servers and their tools as `GET /mcp-servers` shows them.

use serde::{Deserialize, Serialize};

use super::server::Health;
use super::tenants::Endpoint;
use crate::domain::tool::ToolClass;
use crate::store::documents::Illegible;

#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = McpServer)]
pub struct ServerView {
    pub name: String,
    pub origin: Origin,
    pub enabled: bool,
    pub health: Health,
    /// Why it is down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Of a server of this tenant; what a reference leads to is never shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub settings: Option<serde_json::Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    pub restarts: u32,
    /// The server has more tools than are taken.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_more_tools: bool,
    pub tools: Vec<ToolView>,
}

impl ServerView {
    /// As a tenant's server looks when it was just added.
    pub fn new(endpoint: &Endpoint) -> Self {
        let health = if endpoint.enabled { Health::Starting } else { Health::Disabled };
        let settings = Some(endpoint.stored());
        Self { enabled: endpoint.enabled, health, ..Self::resting(&endpoint.name, Origin::Tenant, settings) }
    }

    /// A server that does not run.
    pub(super) fn resting(name: &str, origin: Origin, settings: Option<serde_json::Value>) -> Self {
        Self {
            name: name.to_owned(),
            origin,
            enabled: false,
            health: Health::Disabled,
            reason: None,
            settings,
            protocol_version: None,
            restarts: 0,
            has_more_tools: false,
            tools: Vec::new(),
        }
    }

    /// A tenant's server of which nothing is known but that it cannot be read.
    pub(super) fn illegible(name: &str, why: &Illegible) -> Self {
        Self { health: Health::Down, reason: Some(why.to_string()), ..Self::resting(name, Origin::Tenant, None) }
    }
}

/// On whose word a server is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The operator's configuration.
    Config,
    /// This tenant.
    Tenant,
}

#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = McpTool)]
pub struct ToolView {
    /// As agents call it.
    pub name: String,
    /// As the server calls it.
    pub tool: String,
    pub class: ToolClass,
    pub idempotent: bool,
    pub standing: ToolStanding,
    /// Why it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Of what the server says now; what is approved is this.
    pub hash: String,
}

/// Whether agents may be offered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolStanding {
    Offered,
    /// The server describes it otherwise than when it was approved: off until it is approved again.
    Changed,
    /// By `allow` or `deny`.
    Denied,
    /// The server lists another of this name before it.
    Shadowed,
    /// It cannot be offered: see `reason`.
    Refused,
}
