//! Reads a thread: its messages, its open questions, its runs, its log.

use super::DoorRequest;
use super::frames::DecodedObservation;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::Suspension;
use crate::domain::ids::{MessageId, RunId, ThreadId};
use crate::domain::message::{ConversationMessage, MessageRole};
use crate::domain::observation::ObservationType;
use crate::domain::run::RunStatus;
use crate::http::app_state::AppState;
use crate::service::feed::{self, After, EventsPage, FeedAsk};
use crate::service::{runs, suspensions, threads};
use crate::store::PageAsk;

/// How many observations one query to the store reads.
const PAGE_SIZE: u32 = 200;

/// How many of a thread's first messages are searched for one of a user.
const FIRST_MESSAGES: u32 = 16;

/// The open questions of the thread, oldest first. Empty if the thread does not exist yet.
pub(super) async fn open_questions(ctx: &DoorRequest, thread: &ThreadId) -> Result<Vec<Suspension>, Fault> {
    or_empty(suspensions::open_on(&ctx.app.service, &ctx.caller, thread).await)
}

/// The runs of the thread that have not ended, the one that changed last first. Empty if the thread does not exist yet.
pub(super) async fn unfinished_runs(
    app: &AppState,
    caller: &Caller,
    thread: &ThreadId,
) -> Result<Vec<(RunId, RunStatus)>, Fault> {
    or_empty(runs::unfinished(&app.service, caller, thread).await)
}

/// The thread's first message of a user, if it is among its first few messages, and the id of the message before it.
pub(super) async fn first_query(
    ctx: &DoorRequest,
    thread: &ThreadId,
) -> Result<Option<(ConversationMessage, Option<MessageId>)>, Fault> {
    let (mut ask, mut before) = (PageAsk::first(FIRST_MESSAGES), None);
    loop {
        let page = threads::messages(&ctx.app.service, &ctx.caller, thread, ask.clone()).await?;
        let read = page.items.len() as u32;
        for message in page.items {
            if message.role == MessageRole::User {
                return Ok(Some((message, before)));
            }
            before = Some(message.message_id);
        }
        ask = PageAsk { cursor: page.next_cursor, limit: ask.limit.saturating_sub(read) };
        if ask.cursor.is_none() || ask.limit == 0 {
            return Ok(None);
        }
    }
}

/// Empty if the thread does not exist yet.
pub(super) fn or_empty<T>(found: Result<Vec<T>, Fault>) -> Result<Vec<T>, Fault> {
    match found {
        Err(fault) if fault.code == Code::NotFound => Ok(Vec::new()),
        found => found,
    }
}

/// Calls `apply` with every readable observation of these types, in order.
pub(super) async fn for_each_observation(
    app: &AppState,
    caller: &Caller,
    thread: &ThreadId,
    types: &[ObservationType],
    mut apply: impl FnMut(DecodedObservation),
) -> Result<(), Fault> {
    let mut pages = LogPages::new(app, caller, thread, FeedAsk { types: types.to_vec(), ..FeedAsk::default() });
    while let Some(page) = pages.next().await? {
        page.items.into_iter().flat_map(DecodedObservation::decode).for_each(&mut apply);
    }
    Ok(())
}

/// A thread's observations, page by page, oldest first.
pub(super) struct LogPages<'a> {
    app: &'a AppState,
    caller: &'a Caller,
    thread: &'a ThreadId,
    /// `None` after the last page.
    next: Option<FeedAsk>,
}

impl<'a> LogPages<'a> {
    pub(super) fn new(app: &'a AppState, caller: &'a Caller, thread: &'a ThreadId, ask: FeedAsk) -> Self {
        Self { app, caller, thread, next: Some(ask) }
    }

    /// The next page. It may be empty although another one follows. `None` after the last one.
    pub(super) async fn next(&mut self) -> Result<Option<EventsPage>, Fault> {
        let Some(ask) = self.next.take() else { return Ok(None) };
        let page = feed::page(&self.app.service, self.caller, self.thread, ask.clone(), PAGE_SIZE).await?;
        // The cursor also counts observations that the page leaves out, which it may if the feed ends with a run.
        let after = page.next_cursor.as_deref().and_then(|cursor| cursor.parse().ok());
        self.next = after.map(|seq| FeedAsk { after: After::Seq(seq), ..ask });
        Ok(Some(page))
    }
}
