//! A thread's whole conversation, for pages that reload.

use std::collections::HashMap;

use super::told::ToldFact;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::message::ConversationMessage;
use crate::domain::observation::ObservationType;
use crate::http::app_state::AppState;
use crate::service::feed::{self, After, FeedAsk};
use crate::service::threads;
use crate::store::PageAsk;

/// How much is read at once.
const CHUNK: u32 = 200;

/// What is said, oldest first.
pub(super) async fn said(
    app: &AppState,
    caller: &Caller,
    thread: &ThreadId,
) -> Result<Vec<ConversationMessage>, Fault> {
    let mut all = Vec::new();
    let mut ask = PageAsk { cursor: None, limit: CHUNK };
    loop {
        let page = threads::messages(&app.service, caller, thread, ask).await?;
        all.extend(page.items);
        let Some(cursor) = page.next_cursor else { return Ok(all) };
        ask = PageAsk { cursor: Some(cursor), limit: CHUNK };
    }
}

/// The same; of a thread that there is not yet, nothing.
pub(super) async fn said_so_far(
    app: &AppState,
    caller: &Caller,
    thread: &ThreadId,
) -> Result<Vec<ConversationMessage>, Fault> {
    match said(app, caller, thread).await {
        Err(fault) if fault.code == Code::NotFound => Ok(Vec::new()),
        said => said,
    }
}

/// Every observation of these types that can be read, in order.
pub(super) async fn told(
    app: &AppState,
    caller: &Caller,
    thread: &ThreadId,
    types: &[ObservationType],
    mut hears: impl FnMut(ToldFact),
) -> Result<(), Fault> {
    let mut after = 0;
    loop {
        let ask = FeedAsk { after: After::Seq(after), types: types.to_vec(), ..FeedAsk::default() };
        let page = feed::page(&app.service, caller, thread, ask, CHUNK).await?;
        for observation in page.items {
            after = observation.seq;
            ToldFact::of(observation).into_iter().for_each(&mut hears);
        }
        if page.next_cursor.is_none() {
            return Ok(());
        }
    }
}

/// Where the last message of each run stands.
pub(super) fn ends_of_runs(said: &[ConversationMessage]) -> HashMap<RunId, usize> {
    said.iter().enumerate().filter_map(|(at, message)| Some((message.run_id.clone()?, at))).collect()
}
