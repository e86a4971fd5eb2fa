//! Other agents, as people name them and as clients see them.

use serde::{Deserialize, Serialize};

/// The body of `POST /agents`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentSpec {
    /// The name by which `delegate_to_agent` addresses it.
    pub id: String,
    /// The URL of its agent card.
    pub card: String,
    /// Sent to it as a bearer token; never shown again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// It processes a message once, however often it is sent: messages that may have been lost are sent again.
    #[serde(default)]
    pub dedupes: bool,
    /// The longest time for one task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i64>,
}

/// `GET /agents/{id}`: an agent, and what its card said when it was last read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct KnownAgent {
    pub id: String,
    /// Where its agent card is; of an agent of the server's configuration only the origin.
    pub card: String,
    /// It is in the server's configuration: every tenant has it, and none can remove it.
    pub is_fixed: bool,
    pub dedupes: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub skills: Vec<KnownSkill>,
    /// Why nothing is sent to it: its token cannot be opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_error: Option<String>,
    /// Why it cannot be used: its stored definition cannot be read. Nothing else is known of it; replace or delete it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_error: Option<String>,
}

impl KnownAgent {
    /// An agent whose stored document cannot be read.
    pub fn illegible(id: String, why: String) -> Self {
        Self {
            id,
            card: String::new(),
            is_fixed: false,
            dedupes: false,
            timeout_ms: None,
            name: None,
            description: None,
            skills: Vec::new(),
            secret_error: None,
            stored_error: Some(why),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct KnownSkill {
    pub id: String,
    pub name: String,
    pub description: String,
    pub tags: Vec<String>,
}
