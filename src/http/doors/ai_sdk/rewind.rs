//! Finds the position in the chat at which a message of the user continues. A message that is sent again, because the
//! client wants another answer or the user has edited it, takes the chat back to the position before it. So does a new
//! one whose client no longer shows the messages after the one before it. Everything after that position is superseded.

use super::accept::RunQuery;
use super::history::{client_id, id_of};
use super::request::{LastMessage, RewindRequest};
use crate::domain::fault::Fault;
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::message::{ConversationMessage, MessageRole};
use crate::domain::run::OnBusy;
use crate::http::doors::DoorRequest;
use crate::http::doors::newest_messages::{MAX_SEARCHED, NewestMessages};
use crate::service::runs::ContinueAt;

/// The query to ask for a message that is sent again, and its position in the chat.
pub(super) async fn run_query(ctx: &DoorRequest, thread: &ThreadId, rewind: RewindRequest) -> Result<RunQuery, Fault> {
    let RewindRequest { message: named, is_regenerated, last } = rewind;
    let mut newest = NewestMessages::of(ctx, thread).await?;
    let last_shown = last.as_ref().and_then(|last| last.query.message_id.as_deref());
    let is_last = named.is_none() || named.as_deref() == last_shown;
    let wanted = named.as_deref().or(last_shown);
    // A message that never reached the server is a new one, if it is at the end of the chat.
    let is_at_end = last.as_ref().is_some_and(|last| is_end(newest.read().first(), last.previous_id.as_deref()));
    let is_unsent = is_last && is_at_end;
    let most = if is_unsent { 0 } else { usize::MAX };
    let Some(at) = newest.find(most, |message| is_wanted(message, wanted)).await? else {
        let position = match &last {
            Some(_) if is_unsent => Some(None),
            // The edited message has an id of its own in some clients.
            Some(last) if named.is_none() => position_after(&mut newest, last).await?.map(Some),
            Some(_) | None => None,
        };
        return match (last, position) {
            (Some(last), Some(continue_at)) => Ok(RunQuery { continue_at, ..RunQuery::at_end(last.query) }),
            (_, _) => {
                let why = "names no message of this chat; get the chat, and look at it again";
                Err(Fault::invalid("/messageId", why))
            }
        };
    };
    if newest.beginnings(at..at + 1).await?.is_empty() {
        return Err(Fault::invalid(
            "/messageId",
            "was said while the agent worked; name the message that it began with",
        ));
    }
    let (continue_at, on_busy) = (Some(newest.before(at).await?), OnBusy::Interrupt);
    let message = &newest.read()[at];
    // Some clients edit a message and then ask for another answer to it.
    let is_edited = |text: &str| !is_regenerated || (last_shown == Some(id_of(message)) && text != message.content);
    let is_edited = last.as_ref().is_some_and(|last| is_edited(&last.query.text));
    Ok(match last.filter(|_| is_edited) {
        // The active run answers a message that is superseded.
        Some(last) => RunQuery { continue_at, on_busy, ..RunQuery::at_end(last.query) },
        None => RunQuery { text: message.content.clone(), metadata: message.metadata.clone(), continue_at, on_busy },
    })
}

/// The position of a new message that follows the message with this id. `None` means the end of the chat: nothing
/// follows that message there, or the client may not remove what does.
pub(super) async fn position_of_new(
    ctx: &DoorRequest,
    thread: &ThreadId,
    last: &LastMessage,
) -> Result<Option<ContinueAt>, Fault> {
    // A client may send only what is new.
    if last.is_first {
        return Ok(None);
    }
    let mut newest = NewestMessages::of(ctx, thread).await?;
    position_after(&mut newest, last).await
}

/// The position after the message that is shown before this one, if the client may remove what follows there.
async fn position_after(newest: &mut NewestMessages<'_>, last: &LastMessage) -> Result<Option<ContinueAt>, Fault> {
    let previous = match &last.previous_id {
        Some(id) => newest.find(MAX_SEARCHED, |message| has_id(message, id)).await?,
        None if last.is_first => {
            newest.find(MAX_SEARCHED, |_| false).await?;
            newest.is_whole().then_some(newest.read().len())
        }
        None => None,
    };
    match previous {
        Some(previous) => newest.before_removed(previous, |message| client_id(message).is_some()).await,
        None => Ok(None),
    }
}

/// Whether this is the user's message with this id, or one that the agent's message with this id answers. Without an
/// id, any message of the user.
fn is_wanted(message: &ConversationMessage, id: Option<&str>) -> bool {
    message.role == MessageRole::User && id.is_none_or(|id| has_id(message, id))
}

/// Whether the client knows this message, or the agent's message of its run, by this id.
fn has_id(message: &ConversationMessage, id: &str) -> bool {
    id_of(message) == id || message.run_id.as_ref().map(RunId::as_str) == Some(id)
}

/// Whether the message with this id is the last one of the chat. `None` is the beginning of a chat.
fn is_end(last: Option<&ConversationMessage>, id: Option<&str>) -> bool {
    match (last, id) {
        (Some(last), Some(id)) => has_id(last, id),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}
