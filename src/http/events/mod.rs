//! Live events in three forms of one stream: WebSocket, server-sent events, and a page of the log.

mod ask;
pub(crate) mod changes;
mod ops;
pub(crate) mod page;
mod read_ahead;
pub(crate) mod route;
mod socket;
pub(crate) mod sse;

pub(crate) use ask::Subscribe;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::app_state::AppState;
use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::ids::ThreadId;
use crate::live::{Encoded, EncodedKind};
use crate::service::feed::{self, After, EarlySubscription, Feed, FeedAsk};
use crate::service::runs::Receipt;

/// The frames of one thread, in order. One item holds the frames that were waiting together. The stream ends with the
/// subscription, and never loses a frame, however it is polled.
pub(crate) type Frames = Pin<Box<dyn Stream<Item = Vec<Arc<Encoded>>> + Send>>;

/// About how many bytes of waiting frames are sent in one write.
const WRITE_BYTES: usize = 16 << 10;

/// Opens a feed: the backlog, `caught_up`, then live frames.
pub(crate) async fn open(app: &AppState, caller: &Caller, id: &ThreadId, ask: FeedAsk) -> Result<Frames, Fault> {
    Ok(frames(feed::open(&app.service, caller, id, ask).await?))
}

/// An interval whose first tick comes after `period`.
pub(crate) fn delayed_interval(period: Duration) -> Interval {
    let mut ticks = tokio::time::interval_at(Instant::now() + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

fn frames(feed: Feed) -> Frames {
    // Boxed, because it is moved with each item.
    let feed = Box::new(feed.with_joined_tokens());
    Box::pin(stream::unfold(feed, |mut feed| async { feed.next_few(WRITE_BYTES).await.map(|batch| (batch, feed)) }))
}

/// The events of one run until it ends or is suspended: those of the subscription, or all from the beginning.
pub(crate) async fn run_events(
    app: &AppState,
    caller: &Caller,
    receipt: &Receipt,
    early: Option<EarlySubscription>,
) -> Result<Frames, Fault> {
    let run = receipt.run_id.clone();
    let after = early.as_ref().map_or(After::Seq(0), EarlySubscription::after);
    let ask = FeedAsk { after, types: Vec::new(), tokens: true, until: Some(run.clone()), ends_suspended: true };
    let frames = match early {
        Some(early) => frames(feed::continued(&app.service, caller, &receipt.thread_id, early, ask).await?),
        None => open(app, caller, &receipt.thread_id, ask).await?,
    };
    let is_of_run = move |frame: &Arc<Encoded>| match &frame.kind {
        EncodedKind::Observation { run_id, .. }
        | EncodedKind::Run { run_id, .. }
        | EncodedKind::ToolStarted { run_id }
        | EncodedKind::Token { run_id } => *run_id == run,
        EncodedKind::CaughtUp | EncodedKind::Gap | EncodedKind::LogUnreadable | EncodedKind::Draining => true,
        EncodedKind::Thread | EncodedKind::ThreadDeleted | EncodedKind::Suspension => false,
    };
    Ok(Box::pin(frames.map(move |mut batch| {
        batch.retain(&is_of_run);
        batch
    })))
}
