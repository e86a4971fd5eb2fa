//! Handles a message that is sent again: the client wants another answer, or the user has edited the message. The chat
//! goes back to the position before that message, and everything after it is superseded.

use super::accept::RunQuery;
use super::history::id_of;
use super::request::{RewindRequest, UnsentMessage};
use crate::domain::fault::Fault;
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::message::{ConversationMessage, MessageRole};
use crate::http::doors::DoorRequest;
use crate::http::doors::conversation::{self, begins_run, position_before};

/// The query to ask, and the position in the chat.
pub(super) async fn run_query(ctx: &DoorRequest, thread: &ThreadId, rewind: RewindRequest) -> Result<RunQuery, Fault> {
    let messages = conversation::messages_or_empty(&ctx.app, &ctx.caller, thread).await?;
    let last_shown = rewind.unsent.as_ref().and_then(|unsent| unsent.query.message_id.clone());
    let wanted = rewind.message.as_ref().or(last_shown.as_ref());
    let Some(at) = position(&messages, wanted.map(String::as_str)) else {
        let is_last = rewind.message.is_none() || rewind.message == last_shown;
        return unsent(&messages, rewind.unsent.filter(|_| is_last));
    };
    let message = &messages[at];
    if !begins_run(&messages, at) {
        return Err(Fault::invalid(
            "/messageId",
            "was said while the agent worked; name the message that it began with",
        ));
    }
    let continue_at = Some(position_before(&messages, at));
    Ok(match rewind.edited {
        Some(edited) => RunQuery { metadata: edited.metadata(), text: edited.text, continue_at },
        None => RunQuery { text: message.content.clone(), metadata: message.metadata.clone(), continue_at },
    })
}

/// The user's message with this id, or the one that the agent's message with this id answers. Without an id, the last
/// one.
fn position(messages: &[ConversationMessage], id: Option<&str>) -> Option<usize> {
    let last = |is_it: &dyn Fn(&ConversationMessage) -> bool| {
        messages.iter().rposition(|message| message.role == MessageRole::User && is_it(message))
    };
    match id {
        None => last(&|_| true),
        Some(id) => last(&|message| id_of(message) == id).or_else(|| last(&|message| is_of_run(message, id))),
    }
}

fn is_of_run(message: &ConversationMessage, id: &str) -> bool {
    message.run_id.as_ref().map(RunId::as_str) == Some(id)
}

/// A message that never reached the server is a new one, if it is at the end of the chat.
fn unsent(messages: &[ConversationMessage], unsent: Option<UnsentMessage>) -> Result<RunQuery, Fault> {
    let is_end = |previous_id: &Option<String>| match (messages.last(), previous_id) {
        (Some(last), Some(previous_id)) => id_of(last) == previous_id || is_of_run(last, previous_id),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    match unsent.filter(|unsent| is_end(&unsent.previous_id)) {
        Some(UnsentMessage { query, .. }) => {
            Ok(RunQuery { metadata: query.metadata(), text: query.text, continue_at: None })
        }
        None => Err(Fault::invalid("/messageId", "names no message of this chat; get the chat, and look at it again")),
    }
}
