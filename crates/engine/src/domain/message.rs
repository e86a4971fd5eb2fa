//! The conversation as people see it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Millis;
use super::ids::{MessageId, RunId, ThreadId};
use super::payload;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum MessageRole {
    User,
    Ai,
    System,
    Tool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ConversationMessage {
    pub message_id: MessageId,
    pub thread_id: ThreadId,
    pub role: MessageRole,
    pub content: String,
    pub timestamp: Millis,
    /// The run it belongs to; contexts leave out messages of queued runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The name of the key that sent it; absent if no caller did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

impl ConversationMessage {
    /// The metadata key of a message that says why a run failed. Such a message is not part of the conversation:
    /// contexts leave it out.
    pub const ERROR: &'static str = "error";

    /// The metadata key of what an answer has besides its text.
    pub const UI: &'static str = "uiMetadata";

    pub fn is_error(&self) -> bool {
        self.metadata.as_ref().is_some_and(|metadata| metadata.contains_key(Self::ERROR))
    }

    /// The approximate size of its text and metadata in bytes.
    pub fn approximate_bytes(&self) -> usize {
        let metadata = self.metadata.iter().flat_map(Map::values);
        self.content.len() + metadata.map(payload::approximate_bytes).sum::<usize>()
    }
}

/// Who sent a message of a conversation from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum HistoryRole {
    User,
    Assistant,
}

/// A message of a conversation from elsewhere that continues in a thread of this server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct HistoryMessage {
    pub role: HistoryRole,
    pub content: String,
}

impl From<HistoryRole> for MessageRole {
    fn from(role: HistoryRole) -> Self {
        match role {
            HistoryRole::User => MessageRole::User,
            HistoryRole::Assistant => MessageRole::Ai,
        }
    }
}
