//! Finds where in its thread a query continues: at the end, or at an earlier message, if the client has removed or edited
//! the messages after that or wants another answer. Messages are recognised by the client's own ids, which the thread
//! stores.

use std::collections::HashSet;

use super::conversation::client_id;
use super::request::AguiQuery;
use crate::domain::fault::Fault;
use crate::domain::ids::ThreadId;
use crate::domain::message::{ConversationMessage, HistoryMessage, HistoryRole, MessageRole};
use crate::domain::run::OnBusy;
use crate::http::doors::DoorRequest;
use crate::http::doors::conversation::first_query;
use crate::http::doors::newest_messages::{MAX_SEARCHED, NewestMessages};
use crate::service::runs::ContinueAt;

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
    let mut newest = NewestMessages::of(ctx, thread).await?;
    if newest.read().is_empty() {
        // The newest ones, as many as a thread may begin with.
        let most = ctx.app.config.limits.history_messages;
        let earlier = &query.earlier[query.earlier.len().saturating_sub(most)..];
        let history =
            earlier.iter().map(|message| HistoryMessage { role: message.role, content: message.text.clone() });
        return Ok(QueryPosition { history: history.collect(), ..QueryPosition::default() });
    }
    let shown = ShownIds::of(query);
    let found =
        newest.find(shown.most_searched(), |message| shown.is_query(message) || shown.is_earlier(message)).await?;
    let (resent, previous) = match found {
        Some(at) if shown.is_query(&newest.read()[at]) => {
            if newest.beginnings(at..at + 1).await?.is_empty() {
                (None, newest.find(shown.most_searched(), |message| shown.is_earlier(message)).await?)
            } else {
                (Some(newest.before(at).await?), None)
            }
        }
        Some(at) => (None, Some(at)),
        None => (of_first(ctx, thread, &newest, &shown).await?, None),
    };
    if resent.is_some() {
        // The active run answers a message that is superseded.
        return Ok(QueryPosition { continue_at: resent, on_busy: OnBusy::Interrupt, ..QueryPosition::default() });
    }
    let continue_at = match previous {
        Some(previous) => newest.before_removed(previous, |message| client_id(message).is_some()).await?,
        None => None,
    };
    Ok(QueryPosition { continue_at, ..QueryPosition::default() })
}

/// Whether the thread has this message, possibly with another text.
pub(super) async fn is_in_thread(ctx: &DoorRequest, thread: &ThreadId, query: &AguiQuery) -> Result<bool, Fault> {
    let mut newest = NewestMessages::of(ctx, thread).await?;
    let shown = ShownIds::of(query);
    let is_shown = |message: &ConversationMessage| shown.is_query(message) || shown.is_earlier(message);
    let found = newest.find(shown.most_searched(), is_shown).await?;
    Ok(match found {
        Some(at) => shown.is_query(&newest.read()[at]),
        None => of_first(ctx, thread, &newest, &shown).await?.is_some(),
    })
}

/// The ids of the user's messages in the client's conversation.
struct ShownIds<'q> {
    query: &'q str,
    /// Of those before the query.
    earlier: HashSet<&'q str>,
}

impl<'q> ShownIds<'q> {
    fn of(query: &'q AguiQuery) -> Self {
        let earlier = query.earlier.iter().filter(|message| message.role == HistoryRole::User);
        let earlier = earlier.map(|message| message.message_id.as_str()).filter(|id| !id.is_empty());
        Self { query: &query.message_id, earlier: earlier.collect() }
    }

    fn is_query(&self, stored: &ConversationMessage) -> bool {
        id_of_user(stored).is_some_and(|id| id == self.query)
    }

    fn is_earlier(&self, stored: &ConversationMessage) -> bool {
        id_of_user(stored).is_some_and(|id| self.earlier.contains(id))
    }

    /// How many of the thread's messages to search, besides its newest few. A client that shows nothing before its query
    /// mostly sends only what is new, or its first message. To look for each of these in the whole thread would take longer
    /// the older it is.
    fn most_searched(&self) -> usize {
        if self.earlier.is_empty() { 0 } else { MAX_SEARCHED }
    }
}

/// The id by which the client knows a message of the user.
fn id_of_user(stored: &ConversationMessage) -> Option<&str> {
    let id = client_id(stored).unwrap_or(stored.message_id.as_str());
    Some(id).filter(|id| stored.role == MessageRole::User && !id.is_empty())
}

/// The position of the thread's first message, if the query sends that again, nothing is shown before it, and it is older
/// than what was searched.
async fn of_first(
    ctx: &DoorRequest,
    thread: &ThreadId,
    newest: &NewestMessages<'_>,
    shown: &ShownIds<'_>,
) -> Result<Option<ContinueAt>, Fault> {
    if newest.is_whole() || !shown.earlier.is_empty() {
        return Ok(None);
    }
    let first = first_query(ctx, thread).await?.filter(|(first, _)| shown.is_query(first));
    Ok(first.map(|(_, before)| before.map_or(ContinueAt::Start, ContinueAt::After)))
}

#[cfg(test)]
mod tests;
