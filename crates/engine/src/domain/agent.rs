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
    /// The id by which `delegate_to_agent` names it.
    pub id: String,
    /// Where its agent card is; of an agent of the server's configuration only the origin.
    pub card: String,
    /// It is in the server's configuration: every tenant has it, and none can remove it.
    pub is_fixed: bool,
    /// It declares that a message sent twice under one id is taken once, so that one that may have arrived is sent
    /// again.
    pub dedupes: bool,
    /// The longest time for one task, in milliseconds; absent: as in the settings of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i64>,
    /// Its card's name; absent until the card was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its card's description; absent until the card was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What its card says it can do; empty until the card was read.
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

/// What a skill of a remote agent's card says of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct KnownSkill {
    /// The agent's own id of the skill.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// What the skill does, in the agent's words: it is shown to the model.
    pub description: String,
    /// Words of the agent to find it by.
    pub tags: Vec<String>,
}
