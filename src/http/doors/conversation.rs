//! Reads a thread: its messages, its open questions, its runs, its log.

use std::collections::HashMap;

use super::DoorRequest;
use super::frames::DecodedObservation;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::Suspension;
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::message::ConversationMessage;
use crate::domain::observation::ObservationType;
use crate::domain::run::RunResource;
use crate::http::app_state::AppState;
use crate::service::feed::{self, After, EventsPage, FeedAsk};
use crate::service::{runs, suspensions, threads};
use crate::store::PageAsk;

/// How many messages or observations one query to the store reads.
const PAGE_SIZE: u32 = 200;

/// How many runs of a thread are searched for an active one.
const MAX_RUNS: u32 = 50;

/// All messages of the thread, oldest first.
async fn messages(app: &AppState, caller: &Caller, thread: &ThreadId) -> Result<Vec<ConversationMessage>, Fault> {
    let mut all = Vec::new();
    let mut ask = PageAsk { cursor: None, limit: PAGE_SIZE };
    loop {
        let page = threads::messages(&app.service, caller, thread, ask).await?;
        all.extend(page.items);
        let Some(cursor) = page.next_cursor else { return Ok(all) };
        ask = PageAsk { cursor: Some(cursor), limit: PAGE_SIZE };
    }
}

/// Like [`messages`], but empty if the thread does not exist yet.
pub(super) async fn messages_or_empty(
    app: &AppState,
    caller: &Caller,
    thread: &ThreadId,
) -> Result<Vec<ConversationMessage>, Fault> {
    or_empty(messages(app, caller, thread).await)
}

/// The open questions of the thread, oldest first. Empty if the thread does not exist yet.
pub(super) async fn open_questions(ctx: &DoorRequest, thread: &ThreadId) -> Result<Vec<Suspension>, Fault> {
    or_empty(suspensions::open_on(&ctx.app.service, &ctx.caller, thread).await)
}

/// The runs of the thread that changed last, the last one first. Empty if the thread does not exist yet.
pub(super) async fn latest_runs(app: &AppState, caller: &Caller, thread: &ThreadId) -> Result<Vec<RunResource>, Fault> {
    let ask = PageAsk { cursor: None, limit: MAX_RUNS };
    or_empty(runs::list(&app.service, caller, None, Some(thread), ask).await.map(|page| page.items))
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

/// The index of each run's last message.
pub(super) fn last_of_each_run(messages: &[ConversationMessage]) -> HashMap<RunId, usize> {
    messages.iter().enumerate().filter_map(|(at, message)| Some((message.run_id.clone()?, at))).collect()
}
