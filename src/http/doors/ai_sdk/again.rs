//! A message that is said again: another answer to it is wanted, or it was changed. The chat goes back to the place before
//! it, and what stood behind that place counts no more.

use super::accept::{Asker, Asks};
use super::history::id_of;
use super::request::{Again, Unsent, invalid};
use crate::domain::fault::Fault;
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::message::{ConversationMessage, MessageRole};
use crate::http::doors::conversation;
use crate::service::runs::ContinueAt;

/// What is asked, and where in the chat.
pub(super) async fn asks(asker: &Asker, thread: &ThreadId, again: Again) -> Result<Asks, Fault> {
    let said = conversation::said_so_far(&asker.app, &asker.caller, thread).await?;
    let last_shown = again.unsent.as_ref().and_then(|unsent| unsent.query.message_id.clone());
    let wanted = again.message.as_ref().or(last_shown.as_ref());
    let Some(at) = position(&said, wanted.map(String::as_str)) else {
        let is_last = again.message.is_none() || again.message == last_shown;
        return unsent(&said, again.unsent.filter(|_| is_last));
    };
    let message = &said[at];
    let first_of_run = said.iter().position(|other| other.run_id == message.run_id);
    if message.run_id.is_some() && first_of_run != Some(at) {
        return Err(invalid("/messageId", "was said while the agent worked; name the message that it began with"));
    }
    let place = match at.checked_sub(1) {
        Some(before) => ContinueAt::After(said[before].message_id.clone()),
        None => ContinueAt::Start,
    };
    Ok(match again.edited {
        Some(edited) => Asks { metadata: edited.metadata(), text: edited.text, place: Some(place) },
        None => Asks { text: message.content.clone(), metadata: message.metadata.clone(), place: Some(place) },
    })
}

/// The user's message of this id, or the one that the agent's message of this id answers; of no id, the last one.
fn position(said: &[ConversationMessage], id: Option<&str>) -> Option<usize> {
    let last = |is_it: &dyn Fn(&ConversationMessage) -> bool| {
        said.iter().rposition(|message| message.role == MessageRole::User && is_it(message))
    };
    match id {
        None => last(&|_| true),
        Some(id) => last(&|message| id_of(message) == id).or_else(|| last(&|message| is_of_run(message, id))),
    }
}

fn is_of_run(message: &ConversationMessage, id: &str) -> bool {
    message.run_id.as_ref().map(RunId::as_str) == Some(id)
}

/// A message that never came here is said now, where it stands at the end of the chat.
fn unsent(said: &[ConversationMessage], unsent: Option<Unsent>) -> Result<Asks, Fault> {
    let is_end = |behind: &Option<String>| match (said.last(), behind) {
        (Some(last), Some(behind)) => id_of(last) == behind || is_of_run(last, behind),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    match unsent.filter(|unsent| is_end(&unsent.behind)) {
        Some(Unsent { query, .. }) => Ok(Asks { metadata: query.metadata(), text: query.text, place: None }),
        None => Err(invalid("/messageId", "names no message of this chat; get the chat, and look at it again")),
    }
}
