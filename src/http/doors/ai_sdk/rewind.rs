//! Handles a message that is sent again: the client wants another answer, or the user has edited the message. The chat
//! goes back to the position before that message, and everything after it is superseded.

use super::accept::RunQuery;
use super::history::id_of;
use super::request::RewindRequest;
use crate::domain::fault::Fault;
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::message::{ConversationMessage, MessageRole};
use crate::http::doors::DoorRequest;
use crate::http::doors::newest_messages::NewestMessages;

/// The query to ask, and the position in the chat.
pub(super) async fn run_query(ctx: &DoorRequest, thread: &ThreadId, rewind: RewindRequest) -> Result<RunQuery, Fault> {
    let mut newest = NewestMessages::of(ctx, thread).await?;
    let last_shown = rewind.unsent.as_ref().and_then(|unsent| unsent.query.message_id.clone());
    let is_last = rewind.message.is_none() || rewind.message == last_shown;
    let wanted = rewind.message.as_ref().or(last_shown.as_ref()).map(String::as_str);
    let is_unsent = |previous_id: &Option<String>| is_last && is_end(newest.read().first(), previous_id.as_deref());
    let unsent = rewind.unsent.filter(|unsent| is_unsent(&unsent.previous_id));
    // A message that never reached the server is a new one, if it is at the end of the chat.
    let most = if unsent.is_some() { 0 } else { usize::MAX };
    let Some(at) = newest.find(most, |message| is_wanted(message, wanted)).await? else {
        let why = "names no message of this chat; get the chat, and look at it again";
        let query = unsent.ok_or_else(|| Fault::invalid("/messageId", why))?.query;
        return Ok(RunQuery { metadata: query.metadata(), text: query.text, continue_at: None });
    };
    if newest.beginnings(at..at + 1).await?.is_empty() {
        return Err(Fault::invalid(
            "/messageId",
            "was said while the agent worked; name the message that it began with",
        ));
    }
    let continue_at = Some(newest.before(at).await?);
    let message = &newest.read()[at];
    Ok(match rewind.edited {
        Some(edited) => RunQuery { metadata: edited.metadata(), text: edited.text, continue_at },
        None => RunQuery { text: message.content.clone(), metadata: message.metadata.clone(), continue_at },
    })
}

/// Whether this is the user's message with this id, or one that the agent's message with this id answers. Without an
/// id, any message of the user.
fn is_wanted(message: &ConversationMessage, id: Option<&str>) -> bool {
    message.role == MessageRole::User && id.is_none_or(|id| id_of(message) == id || is_of_run(message, id))
}

fn is_of_run(message: &ConversationMessage, id: &str) -> bool {
    message.run_id.as_ref().map(RunId::as_str) == Some(id)
}

/// Whether the message with this id is the last one of the chat. `None` is the beginning of a chat.
fn is_end(last: Option<&ConversationMessage>, id: Option<&str>) -> bool {
    match (last, id) {
        (Some(last), Some(id)) => id_of(last) == id || is_of_run(last, id),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}
