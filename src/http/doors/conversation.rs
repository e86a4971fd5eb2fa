//! Reads a thread's whole conversation, for pages that reload.

use std::collections::HashMap;

use super::frames::DecodedObservation;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::message::ConversationMessage;
use crate::domain::observation::ObservationType;
use crate::http::app_state::AppState;
use crate::service::feed::{self, After, FeedAsk};
use crate::service::threads;
use crate::store::PageAsk;

/// How many messages or observations one query to the store reads.
const PAGE_SIZE: u32 = 200;

/// All messages of the thread, oldest first.
pub(super) async fn messages(
    app: &AppState,
    caller: &Caller,
    thread: &ThreadId,
) -> Result<Vec<ConversationMessage>, Fault> {
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
    match messages(app, caller, thread).await {
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
    let mut after = 0;
    loop {
        let ask = FeedAsk { after: After::Seq(after), types: types.to_vec(), ..FeedAsk::default() };
        let page = feed::page(&app.service, caller, thread, ask, PAGE_SIZE).await?;
        for observation in page.items {
            after = observation.seq;
            DecodedObservation::decode(observation).into_iter().for_each(&mut apply);
        }
        if page.next_cursor.is_none() {
            return Ok(());
        }
    }
}

/// The index of each run's last message.
pub(super) fn last_of_each_run(messages: &[ConversationMessage]) -> HashMap<RunId, usize> {
    messages.iter().enumerate().filter_map(|(at, message)| Some((message.run_id.clone()?, at))).collect()
}
