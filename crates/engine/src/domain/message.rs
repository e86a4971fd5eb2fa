//! The conversation as people see it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Millis;
use super::ids::{MessageId, RunId, ThreadId};
use super::payload;

/// Who speaks in a message of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum MessageRole {
    /// Whoever asks.
    User,
    /// The agent.
    Ai,
    /// Not written by this server; shown to models like a message of the user.
    System,
    /// Not written by this server; shown to models like a message of the user.
    Tool,
}

/// A message of a thread, as `GET /threads/{id}/messages` lists it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ConversationMessage {
    /// The id that observations name it by.
    pub message_id: MessageId,
    /// The thread whose conversation it belongs to.
    pub thread_id: ThreadId,
    /// Who speaks.
    pub role: MessageRole,
    /// Markdown, without the tags of `uiMetadata`.
    pub content: String,
    /// When it was accepted or written, in Unix milliseconds.
    pub timestamp: Millis,
    /// The run it belongs to; contexts leave out messages of queued runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The name of the key that sent it; absent if no caller did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_by: Option<String>,
    /// Of a user's message what the caller sent with it; of an answer its `uiMetadata` or its error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

impl ConversationMessage {
    /// The metadata key of a message that says why a run failed. Such a message is not part of the conversation:
    /// contexts leave it out.
    pub const ERROR: &'static str = "error";

    /// The metadata key of what an answer has besides its text.
    pub const UI: &'static str = "uiMetadata";

    /// Whether it says why its run failed, in place of an answer.
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
    /// Whoever asked.
    User,
    /// Whoever answered; becomes `AI`.
    Assistant,
}

/// A message of a conversation from elsewhere that continues in a thread of this server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct HistoryMessage {
    /// Who sent it.
    pub role: HistoryRole,
    /// Text; no calls and no files.
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
