//! The stream of one run in the events of a wire format: from a subscription or a position of the log, until the run
//! ends or asks something, or the stream is cut.

use std::collections::VecDeque;

use futures_util::stream::{self, Stream};

use super::DoorRequest;
use super::frames::RunFrame;
use crate::domain::fault::Fault;
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::observation::ObservationType;
use crate::service::feed::{self, After, EarlySubscription, Feed, FeedAsk};

/// Projects the frames of one run to the events of a wire format.
pub(super) trait Projection: Send {
    type Event: Send;

    /// The observation types that the projection needs; empty = all.
    const OBSERVATION_TYPES: &'static [ObservationType];

    fn project(&mut self, frame: RunFrame) -> impl Future<Output = Vec<Self::Event>> + Send;

    /// No event follows.
    fn is_finished(&self) -> bool;
}

/// From where a stream is read.
pub(super) enum RunStart {
    /// A subscription from before the run started: everything from there.
    Live(EarlySubscription),
    /// Everything after this position of the log.
    After(After),
}

impl RunStart {
    /// The whole run: from `early`, if there is one, else from its first observation.
    pub(super) async fn whole(
        ctx: &DoorRequest,
        thread: &ThreadId,
        run: &RunId,
        early: Option<EarlySubscription>,
    ) -> Result<Self, Fault> {
        Ok(match early {
            Some(early) => RunStart::Live(early),
            None => RunStart::After(feed::before(&ctx.app.service, &ctx.caller, thread, run).await?),
        })
    }

    /// The position of the log from which is read.
    pub(super) fn after(&self) -> After {
        match self {
            RunStart::Live(early) => early.after(),
            RunStart::After(after) => *after,
        }
    }
}

/// The events of one run. Dropping it unsubscribes.
pub(super) struct RunStream<P: Projection> {
    pub(super) projection: P,
    run: RunId,
    ready: VecDeque<P::Event>,
    /// `None` if nothing is read.
    feed: Option<Feed>,
}

impl<P: Projection> RunStream<P> {
    /// Sends `first`, then what the projection makes of the run's frames.
    pub(super) async fn open(
        ctx: &DoorRequest,
        thread: &ThreadId,
        run: &RunId,
        start: RunStart,
        projection: P,
        first: Vec<P::Event>,
    ) -> Result<Self, Fault> {
        let (service, caller) = (&ctx.app.service, &ctx.caller);
        let ask = FeedAsk {
            after: start.after(),
            types: P::OBSERVATION_TYPES.to_vec(),
            tokens: true,
            until: Some(run.clone()),
            ends_suspended: true,
        };
        let feed = match start {
            RunStart::Live(early) => feed::continued(service, caller, thread, early, ask).await?,
            RunStart::After(_) => feed::open(service, caller, thread, ask).await?,
        };
        Ok(Self { feed: Some(feed.with_joined_tokens()), ..Self::of_events(run, projection, first) })
    }

    /// Sends only these events, with which the projection is finished.
    pub(super) fn of_events(run: &RunId, projection: P, events: Vec<P::Event>) -> Self {
        Self { projection, run: run.clone(), ready: events.into(), feed: None }
    }

    /// The next event. `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Option<P::Event> {
        self.queue().await?.pop_front()
    }

    /// The queued events, at least one. `None` at the end of the stream.
    pub(super) async fn queue(&mut self) -> Option<&mut VecDeque<P::Event>> {
        while self.ready.is_empty() {
            if self.projection.is_finished() {
                return None;
            }
            self.read_frame().await;
        }
        Some(&mut self.ready)
    }

    /// Reads the next frame and queues its events. Returns `true` when everything from before the subscription was
    /// read.
    pub(super) async fn read_frame(&mut self) -> bool {
        let frame = match &mut self.feed {
            Some(feed) => feed.next().await.map_or(Some(RunFrame::Erased), |frame| RunFrame::decode(&frame, &self.run)),
            None => Some(RunFrame::Erased),
        };
        let Some(frame) = frame else { return false };
        let has_caught_up = matches!(frame, RunFrame::CaughtUp);
        self.ready.extend(self.projection.project(frame).await);
        has_caught_up
    }

    pub(super) fn into_events(self) -> impl Stream<Item = P::Event> + Send {
        stream::unfold(self, |mut stream| async { stream.next().await.map(|event| (event, stream)) })
    }
}
