//! Servers and their tools as `GET /mcp-servers` returns them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::definition::Definition;
use super::server::Health;
use super::tenants::Endpoint;
use crate::domain::tool::ToolClass;
use crate::store::documents::Illegible;

/// The maximum length of a description, and of a schema, that is returned for comparison.
const SHOWN_CHARS: usize = 16_000;
const SHOWN_BYTES: usize = 64 << 10;

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
    /// The settings of a server of this tenant. References are shown as they are written, never their values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub settings: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    pub restarts: u32,
    /// The server has more tools than are taken.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_more_tools: bool,
    pub tools: Vec<ToolView>,
}

impl ServerView {
    /// A tenant's server that was just added.
    pub fn new(endpoint: &Endpoint) -> Self {
        let health = if endpoint.enabled { Health::Starting } else { Health::Disabled };
        let settings = Some(endpoint.stored());
        Self { enabled: endpoint.enabled, health, ..Self::stopped(&endpoint.name, Origin::Tenant, settings) }
    }

    /// A server that is not running.
    pub(super) fn stopped(name: &str, origin: Origin, settings: Option<Value>) -> Self {
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

    /// A tenant's server whose document cannot be read.
    pub(super) fn illegible(name: &str, why: &Illegible) -> Self {
        Self { health: Health::Down, reason: Some(why.to_string()), ..Self::stopped(name, Origin::Tenant, None) }
    }
}

/// Who configured a server.
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
    /// Why it is denied, shadowed or refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The hash of the definition that the server lists now, to which an approval is bound.
    pub hash: String,
    /// The approved definition of a changed tool, if there is one. Only where a single server is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<DefinitionView>,
    /// What the server says of it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<DefinitionView>,
}

/// What a server says of a tool, for whoever approves it.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = McpToolDefinition)]
pub struct DefinitionView {
    pub description: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub input_schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Value>,
    /// What it claims of its effects: `readOnly`, `destructive`, `idempotent`, `openWorld`.
    #[schema(value_type = Object)]
    pub annotations: Value,
    /// The members that are too long to be shown whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

impl DefinitionView {
    pub(super) fn of(definition: &Definition) -> Self {
        let description: String = definition.description.chars().take(SHOWN_CHARS).collect();
        let shown = |schema: &Value| (schema.to_string().len() <= SHOWN_BYTES).then(|| schema.clone());
        let output = definition.output_schema.as_ref();
        let (input_schema, output_schema) = (shown(&definition.input_schema), output.and_then(shown));
        let left_out = [
            ("description", description.len() < definition.description.len()),
            ("inputSchema", input_schema.is_none()),
            ("outputSchema", output_schema.is_some() != output.is_some()),
        ];
        Self {
            description,
            input_schema,
            output_schema,
            annotations: json!(definition.hints),
            left_out: left_out.into_iter().filter(|(_, is_out)| *is_out).map(|(name, _)| name.to_owned()).collect(),
        }
    }
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
    /// The server lists another that is offered under this name: the approved one, else the one before it.
    Shadowed,
    /// It cannot be offered: see `reason`.
    Refused,
}
