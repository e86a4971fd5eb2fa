//! Facts about the thread's state: messages, the application's own state, and the summary of the conversation.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::run::RecordedMessage;
use crate::domain::ids::MessageId;
#[cfg(feature = "schema")]
use crate::domain::message::ConversationMessage;
use crate::domain::thread::ForkedFrom;

/// `STATE_UPDATE`: what `keys` name was written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct StateUpdateBody {
    pub keys: Vec<String>,
    /// Of the application's state.
    pub state_version: i64,
    /// Of the conversation; that of a run that waits has the key `queue`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<ConversationMessage>))]
    pub message: Option<RecordedMessage>,
    /// A conversation that was held elsewhere, oldest first: the thread's own begins with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<ConversationMessage>))]
    pub messages: Vec<RecordedMessage>,
    /// The messages that count no more: the thread went back to before them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub superseded: Vec<MessageId>,
    /// The application's state, whole.
    #[serde(default, deserialize_with = "crate::domain::present", skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// What of the application's state changed: a merge patch.
    #[serde(default, deserialize_with = "crate::domain::present", skip_serializing_if = "Option::is_none")]
    pub patch: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// Where the thread comes from that begins here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
}

impl StateUpdateBody {
    /// An update with these keys and nothing else yet.
    pub fn of(keys: Vec<String>, state_version: i64) -> Self {
        Self {
            keys,
            state_version,
            message: None,
            messages: Vec::new(),
            superseded: Vec::new(),
            data: None,
            patch: None,
            summary: None,
            forked_from: None,
        }
    }

    /// The key of an update that has the message of a queued run.
    pub const QUEUE: &'static str = "queue";

    /// Whether it has the message of a queued run.
    pub fn is_queued(&self) -> bool {
        self.keys.iter().any(|key| key == Self::QUEUE)
    }
}

/// What stands for the oldest messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Summary {
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub text: Value,
    /// How long it is, in bytes.
    pub bytes: u64,
    /// The last message that it tells of.
    pub upto: MessageId,
    /// How many messages it tells of.
    pub messages: usize,
}
