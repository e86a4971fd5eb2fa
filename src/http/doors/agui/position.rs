//! Finds where in its thread a query continues: at the end, or at an earlier message, if the client has removed or edited
//! the messages after that or wants another answer. Messages are recognised by the client's own ids, which the thread
//! stores.

use super::conversation::client_id;
use super::request::AguiQuery;
use crate::domain::fault::Fault;
use crate::domain::ids::ThreadId;
use crate::domain::message::{ConversationMessage, HistoryMessage, HistoryRole, MessageRole};
use crate::domain::run::OnBusy;
use crate::http::doors::DoorRequest;
use crate::http::doors::conversation::{self, begins_run, position_before};
use crate::service::runs::ContinueAt;
use crate::service::threads;

/// The position of a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct QueryPosition {
    /// The messages before it, for a new thread.
    pub(super) history: Vec<HistoryMessage>,
    /// The position in the thread. `None` means its end.
    pub(super) continue_at: Option<ContinueAt>,
    /// What happens to an active run.
    pub(super) on_busy: OnBusy,
}

pub(super) async fn of_query(ctx: &DoorRequest, thread: &ThreadId, query: &AguiQuery) -> Result<QueryPosition, Fault> {
    let stored = conversation::messages_or_empty(&ctx.app, &ctx.caller, thread).await?;
    if let Some(at) = of_resent(&stored, query) {
        // The active run answers a message that is superseded.
        return Ok(QueryPosition { continue_at: Some(at), on_busy: OnBusy::Interrupt, ..QueryPosition::default() });
    }
    if !stored.is_empty() {
        let removed = of_new(&stored, query, &ctx.caller.name);
        // What still runs may have been asked in another tab, which this client does not show.
        let continue_at = match removed {
            Some(at) if is_at_rest(ctx, thread).await? => Some(at),
            Some(_) | None => None,
        };
        return Ok(QueryPosition { continue_at, ..QueryPosition::default() });
    }
    // The newest ones, as many as a thread may begin with.
    let most = ctx.app.config.limits.history_messages;
    let earlier = &query.earlier[query.earlier.len().saturating_sub(most)..];
    let history = earlier.iter().map(|message| HistoryMessage { role: message.role, content: message.text.clone() });
    Ok(QueryPosition { history: history.collect(), ..QueryPosition::default() })
}

/// Whether the thread has this message, possibly with another text.
pub(super) async fn is_in_thread(ctx: &DoorRequest, thread: &ThreadId, query: &AguiQuery) -> Result<bool, Fault> {
    let stored = conversation::messages_or_empty(&ctx.app, &ctx.caller, thread).await?;
    Ok(position(&stored, &query.message_id).is_some())
}

async fn is_at_rest(ctx: &DoorRequest, thread: &ThreadId) -> Result<bool, Fault> {
    Ok(threads::get(&ctx.app.service, &ctx.caller, thread).await?.status.is_at_rest())
}

/// The position of a message that is sent again, for another answer or because it was edited.
fn of_resent(stored: &[ConversationMessage], query: &AguiQuery) -> Option<ContinueAt> {
    position(stored, &query.message_id).filter(|at| begins_run(stored, *at)).map(|at| position_before(stored, at))
}

/// The position of a new message whose client has removed the messages after the one before it. Nobody removes what
/// others said.
fn of_new(stored: &[ConversationMessage], query: &AguiQuery, caller: &str) -> Option<ContinueAt> {
    let mut earlier = query.earlier.iter().rev().filter(|message| message.role == HistoryRole::User);
    let previous = earlier.find_map(|message| position(stored, &message.message_id))?;
    let is_removed = |at: &usize| stored[*at].role == MessageRole::User && begins_run(stored, *at);
    let removed: Vec<usize> = (previous + 1..stored.len()).filter(is_removed).collect();
    // The client may not know a message that came by another way.
    let has_known = removed.iter().all(|at| client_id(&stored[*at]).is_some());
    let first = *removed.first().filter(|_| has_known)?;
    let is_own = |message: &ConversationMessage| message.requested_by.as_deref() == Some(caller);
    let mut said = stored[first..].iter().filter(|message| message.role == MessageRole::User);
    said.all(is_own).then(|| position_before(stored, first))
}

/// The user's message that the client knows by this id.
fn position(stored: &[ConversationMessage], id: &str) -> Option<usize> {
    let is_known = |message: &ConversationMessage| {
        message.role == MessageRole::User && client_id(message).unwrap_or(message.message_id.as_str()) == id
    };
    stored.iter().rposition(is_known).filter(|_| !id.is_empty())
}

#[cfg(test)]
mod tests;
