//! A conversation that was held elsewhere becomes the beginning of a thread's conversation.

use crate::domain::facts::StateUpdateBody;
use crate::domain::fault::{Code, Fault};
use crate::domain::message::{ConversationMessage, HistoryMessage};
use crate::pes::run::message;
use crate::pes::tx::Tx;

/// Only a thread on which nothing has happened can import a conversation: otherwise its own messages would come first.
pub(crate) fn check(tx: &Tx<'_>, history: &[HistoryMessage]) -> Result<(), Fault> {
    if history.is_empty() || tx.state.last_seq == 0 {
        return Ok(());
    }
    let detail = "The thread has a conversation of its own; leave `history` out, or name another thread.";
    Err(Fault::new(Code::ThreadExists, detail).at("/history", "is only taken in by a thread that begins"))
}

/// Stores the messages and records them at once, so that a fold of the log has the whole conversation.
pub(crate) fn import(tx: &mut Tx<'_>, history: Vec<HistoryMessage>) {
    if history.is_empty() {
        return;
    }
    let mut messages = Vec::with_capacity(history.len());
    for HistoryMessage { role, content } in history {
        let message = ConversationMessage {
            message_id: tx.mint.message(),
            thread_id: tx.state.thread_id.clone(),
            role: role.into(),
            content,
            timestamp: tx.stamp.now,
            run_id: None,
            requested_by: None,
            metadata: None,
        };
        messages.push(message::store(tx, &message));
    }
    let body = StateUpdateBody { messages, ..tx.state_update(vec!["messages".to_owned()]) };
    tx.record(None, "State changed", body);
}
