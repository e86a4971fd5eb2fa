//! Facts about the thread's state: messages, the application's own state, and the summary of the conversation.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::run::RecordedMessage;
use crate::domain::ids::MessageId;
#[cfg(feature = "schema")]
use crate::domain::message::ConversationMessage;
use crate::domain::thread::ForkedFrom;

/// `STATE_UPDATE`: the parts named by `keys` were written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct StateUpdateBody {
    /// The members of the application state that were written; of other updates `queue`, `messages` or `summary`.
    pub keys: Vec<String>,
    /// The version of the application's state.
    pub state_version: i64,
    /// A message of the conversation; for the message of a queued run, `keys` contains `queue`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<ConversationMessage>))]
    pub message: Option<RecordedMessage>,
    /// A conversation from elsewhere, oldest first, with which the thread's own begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<ConversationMessage>))]
    pub messages: Vec<RecordedMessage>,
    /// The messages that are superseded, because the thread went back to before them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub superseded: Vec<MessageId>,
    /// The whole application state.
    #[serde(default, deserialize_with = "crate::domain::present", skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// The change of the application's state: a merge patch.
    #[serde(default, deserialize_with = "crate::domain::present", skip_serializing_if = "Option::is_none")]
    pub patch: Option<Value>,
    /// The conversation was summed up so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// The origin of the thread, if it begins here as a copy.
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

/// The summary that replaces the oldest messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Summary {
    /// The text; may be a payload reference in storage.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub text: Value,
    /// Its length in bytes.
    pub bytes: u64,
    /// The last message that it covers.
    pub upto: MessageId,
    /// How many messages it covers.
    pub messages: usize,
}
