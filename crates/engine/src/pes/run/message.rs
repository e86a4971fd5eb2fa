//! Messages of the conversation, as they are stored and as observations show them.

use serde_json::{Map, Value};

use crate::domain::facts::RecordedMessage;
use crate::domain::ids::MessageId;
use crate::domain::message::{ConversationMessage, MessageRole};
use crate::domain::run::Run;
use crate::pes::tx::Tx;

/// The user's message of a run.
pub(crate) fn user_message(run: &Run) -> ConversationMessage {
    ConversationMessage {
        message_id: run.message_id.clone(),
        thread_id: run.thread_id.clone(),
        role: MessageRole::User,
        content: run.query.to_string(),
        timestamp: run.created_at,
        run_id: Some(run.run_id.clone()),
        requested_by: run.requested_by.first().cloned(),
        metadata: run.metadata.clone(),
    }
}

/// Stores a message's metadata: large members become payloads, once.
pub(crate) fn store_metadata(tx: &mut Tx<'_>, message: &MessageId, metadata: Map<String, Value>) -> Map<String, Value> {
    let mut apart = |name: &str, value: Value| tx.store(format!("{message}.{name}"), value);
    let stored = metadata.into_iter().map(|(name, value)| match value {
        Value::Object(members) => {
            let members = members.into_iter().map(|(member, value)| {
                let value = apart(&format!("{name}.{member}"), value);
                (member, value)
            });
            let members = members.collect();
            (name, Value::Object(members))
        }
        plain => {
            let plain = apart(&name, plain);
            (name, plain)
        }
    });
    stored.collect()
}

/// Stores and records a message of the active run that is not its query. Returns its text as observations hold it.
pub(crate) fn add(tx: &mut Tx<'_>, mut message: ConversationMessage) -> Value {
    let id = message.message_id.clone();
    message.metadata = message.metadata.map(|metadata| store_metadata(tx, &id, metadata));
    message.run_id = Some(tx.state.active_run().run_id.clone());
    let shown = store(tx, &message);
    let text = shown.content.clone();
    tx.record_message("messages", shown);
    text
}

/// Stores a message and returns it as observations show it.
pub(crate) fn store(tx: &mut Tx<'_>, message: &ConversationMessage) -> RecordedMessage {
    let ord = tx.next_ord();
    tx.write_message(ord, message);
    recorded(tx, message)
}

/// The message as observations hold it; a large text becomes a payload.
pub(crate) fn recorded(tx: &mut Tx<'_>, message: &ConversationMessage) -> RecordedMessage {
    let content = tx.store(message.message_id.as_str(), Value::String(message.content.clone()));
    RecordedMessage::of(message, content)
}
