//! Live events in three shapes of one stream: WebSocket, server-sent events, and a page of the log.

mod ask;
mod ops;
pub(crate) mod page;
pub(crate) mod route;
mod socket;
pub(crate) mod sse;

pub(crate) use ask::Subscribe;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::front::Front;
use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::ids::ThreadId;
use crate::live::{Encoded, EncodedKind};
use crate::runtime::{After, Ear, Feed, FeedAsk, Receipt};

/// Frames of one thread, in order; its end is the end of the stream. Never loses a frame, however it is polled.
pub(crate) type Frames = Pin<Box<dyn Stream<Item = Arc<Encoded>> + Send>>;

/// Backlog, `caught_up`, live.
pub(crate) async fn open(front: &Front, caller: &Caller, id: &ThreadId, ask: FeedAsk) -> Result<Frames, Fault> {
    Ok(frames(front.runtime.feed(caller, id, ask).await?))
}

/// What an open stream does now and then: for the first time after `period`.
fn every(period: Duration) -> Interval {
    let mut ticks = tokio::time::interval_at(Instant::now() + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

fn frames(feed: Feed) -> Frames {
    Box::pin(stream::unfold(feed, |mut feed| async { feed.next().await.map(|frame| (frame, feed)) }))
}

/// One run's events until it ends or suspends: those that the ear hears, or all from the beginning.
pub(crate) async fn run_events(
    front: &Front,
    caller: &Caller,
    receipt: &Receipt,
    ear: Option<Ear>,
) -> Result<Frames, Fault> {
    let run = receipt.run_id.clone();
    let after = ear.as_ref().map_or(After::Seq(0), Ear::after);
    let ask = FeedAsk { after, types: Vec::new(), tokens: true, until: Some(run.clone()), ends_suspended: true };
    let frames = match ear {
        Some(ear) => frames(front.runtime.feed_heard(caller, &receipt.thread_id, ear, ask).await?),
        None => open(front, caller, &receipt.thread_id, ask).await?,
    };
    Ok(Box::pin(frames.filter(move |frame| {
        let passes = match &frame.kind {
            EncodedKind::Observation { run_id, .. }
            | EncodedKind::Run { run_id, .. }
            | EncodedKind::Token { run_id } => *run_id == run,
            EncodedKind::CaughtUp | EncodedKind::Gap | EncodedKind::Draining => true,
        };
        std::future::ready(passes)
    })))
}
