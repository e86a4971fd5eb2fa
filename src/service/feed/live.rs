//! A thread's events for one reader: the backlog, then live; no gap, no duplicate.
//!
//! The subscription stands before the backlog is read, so what is committed meanwhile comes twice and is sent once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::log::{CHUNK, Log};
use super::{After, FeedAsk};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{RunId, ThreadId, ThreadPk};
use crate::domain::observation::ObservationType;
use crate::domain::run::{Run, RunStatus};
use crate::live::{Encoded, EncodedKind, Hub, Live, Subscription, SubscriptionFilter};
use crate::service::{Result, Service, fork, runs, threads};

/// A reader that sits on one frame for so long is slow; one that overflowed in a burst just reads again.
const SLOW: Duration = Duration::from_millis(500);

/// What of a backlog is in memory for one reader, in bytes; the rest is read when that is sent.
const ROOM: usize = 256 << 10;

/// A thread that is listened to since before something was decided there: nothing of that is missed.
pub struct EarlySubscription {
    live: Subscription,
    /// Where the log stood.
    after: i64,
}

impl EarlySubscription {
    /// To a thread that is not there yet.
    pub(crate) fn of_new(hub: &Arc<Hub>, pk: ThreadPk) -> Self {
        Self { live: hub.subscribe(pk, SubscriptionFilter { tokens: true, types: Vec::new() }), after: 0 }
    }

    /// To a thread that is there.
    pub(crate) async fn of(service: &Service, pk: ThreadPk) -> Result<Self> {
        let live = service.hub.subscribe(pk, SubscriptionFilter { tokens: true, types: Vec::new() });
        // Read after the subscription: what is committed from here on is heard.
        let after = service.store.thread_by_pk(pk).await?.map_or(0, |row| row.last_seq);
        live.mark_read(after);
        Ok(Self { live, after })
    }

    /// Everything that comes after what had happened when it began to listen.
    pub fn after(&self) -> After {
        After::Seq(self.after)
    }
}

/// The events of one thread for one reader. Dropping it leaves.
pub struct Feed {
    service: Service,
    caller: Caller,
    pk: ThreadPk,
    live: Subscription,
    log: Log,
    /// Everything up to this seq was sent, or is not wanted.
    cursor: i64,
    ready: VecDeque<Arc<Encoded>>,
    source: Source,
    /// `caught_up` says at least this.
    last_seq: i64,
    is_caught_up: bool,
    /// What the reader wants; empty = all.
    types: Vec<ObservationType>,
    /// That, and what tells the end.
    heard: Vec<ObservationType>,
    until: Option<Until>,
    /// When the last frame was handed over, and whether one was held for long since the reader last had them all.
    handed_at: Option<Instant>,
    is_slow: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Store,
    Live,
    /// All that is left to say is how the run ended.
    LastRun,
    Over,
}

struct Until {
    run: RunId,
    ends_suspended: bool,
}

/// How the run of `until` stands.
enum Stands {
    GoesOn,
    Over(Box<Run>),
    /// With its thread.
    Erased,
}

impl Until {
    fn is_met(&self, status: RunStatus) -> bool {
        status.is_terminal() || (self.ends_suspended && status == RunStatus::Suspended)
    }
}

pub async fn open(service: &Service, caller: &Caller, id: &ThreadId, ask: FeedAsk) -> Result<Feed> {
    let row = threads::row(service, caller, id).await?;
    let live = service.hub.subscribe(row.pk, SubscriptionFilter { tokens: ask.tokens, types: heard(&ask) });
    begin(service, caller, id, live, ask, Source::Store).await
}

/// The same, for a subscription that began before what is asked for.
pub async fn continued(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    early: EarlySubscription,
    ask: FeedAsk,
) -> Result<Feed> {
    begin(service, caller, id, early.live, ask, Source::Live).await
}

/// Begins to listen to a thread.
pub async fn subscribe(service: &Service, caller: &Caller, id: &ThreadId) -> Result<EarlySubscription> {
    let row = threads::row(service, caller, id).await?;
    EarlySubscription::of(service, row.pk).await
}

/// The place before everything that the log tells of the run.
pub async fn before(service: &Service, caller: &Caller, id: &ThreadId, run: &RunId) -> Result<After> {
    // Read first: a run that has not begun then begins behind it.
    let row = threads::row(service, caller, id).await?;
    let began = service.reads.run_began(row.pk, run).await?;
    Ok(After::Seq(began.map_or(row.last_seq, |seq| seq - 1)))
}

/// Behind this place of the log, which must be kept.
pub async fn behind(service: &Service, caller: &Caller, id: &ThreadId, seq: i64) -> Result<After> {
    let row = threads::row(service, caller, id).await?;
    Ok(After::Seq(fork::within(&row, seq, "?after")?))
}

async fn begin(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    live: Subscription,
    ask: FeedAsk,
    source: Source,
) -> Result<Feed> {
    // Read after the subscription: what was committed before it stood is in the store, and only there.
    let row = threads::row(service, caller, id).await?;
    if let Some(run) = &ask.until {
        let (pk, _) = runs::stored(service, caller, run).await?;
        if pk != row.pk {
            return Err(Fault::not_found("run"));
        }
    }
    let heard = heard(&ask);
    let cursor = match ask.after {
        After::Seq(seq) => seq.clamp(0, row.last_seq),
        After::Latest => row.last_seq,
    };
    let mut ready = VecDeque::new();
    if cursor + 1 < row.min_seq {
        ready.push_back(Arc::new(Encoded::gap(row.min_seq)));
    }
    let is_caught_up = source == Source::Live;
    if is_caught_up {
        ready.push_back(Arc::new(Encoded::caught_up(cursor)));
    }
    Ok(Feed {
        service: service.clone(),
        caller: caller.clone(),
        pk: row.pk,
        live,
        log: Log::new(service, row.pk),
        cursor,
        ready,
        source,
        last_seq: row.last_seq,
        is_caught_up,
        types: ask.types,
        heard,
        until: ask.until.map(|run| Until { run, ends_suspended: ask.ends_suspended }),
        handed_at: None,
        is_slow: false,
    })
}

/// What must be heard to know the end.
pub(crate) fn heard(ask: &FeedAsk) -> Vec<ObservationType> {
    let mut types = ask.types.clone();
    if ask.until.is_some() && !types.is_empty() {
        types.push(ObservationType::RunFinished);
    }
    types
}

impl Feed {
    /// Tokens that wait in a row are one frame from here on. Else all who keep up receive the same frames.
    #[must_use]
    pub fn with_joined_tokens(mut self) -> Self {
        self.live.join_tokens();
        self
    }

    /// The next frame; `None`: the feed is over. Cancel safe.
    pub async fn next(&mut self) -> Option<Arc<Encoded>> {
        self.is_slow |= self.handed_at.take().is_some_and(|at| at.elapsed() > SLOW);
        loop {
            if let Some(frame) = self.ready.pop_front() {
                if let Some(frame) = self.pass(frame) {
                    self.handed_at = Some(Instant::now());
                    return Some(frame);
                }
                continue;
            }
            match self.source {
                Source::Over => return None,
                Source::LastRun => {
                    // Boxed, as what is read of the store: a reader that has caught up needs neither.
                    let run = Box::pin(self.last_run()).await;
                    self.ready.extend(run);
                    self.source = Source::Over;
                }
                Source::Live => {
                    let received = self.live.next().await;
                    self.take(received);
                }
                Source::Store => {
                    if let Err(error) = Box::pin(self.read()).await {
                        tracing::warn!(%error, "a reader's backlog cannot be read; it must come again");
                        self.ready.push_back(Arc::new(Encoded::gap(self.cursor + 1)));
                        self.source = Source::Over;
                    }
                }
            }
        }
    }

    /// The same, with the frames that wait right behind it, until they are about so many bytes. Cancel safe.
    pub async fn next_few(&mut self, bytes: usize) -> Option<Vec<Arc<Encoded>>> {
        let first = self.next().await?;
        let mut together = first.json().len();
        let mut few = vec![first];
        while together < bytes
            && let Some(frame) = self.waiting()
        {
            together += frame.json().len();
            few.push(frame);
        }
        Some(few)
    }

    fn waiting(&mut self) -> Option<Arc<Encoded>> {
        loop {
            match self.ready.pop_front() {
                Some(frame) => match self.pass(frame) {
                    Some(frame) => return Some(frame),
                    None => continue,
                },
                None if self.source == Source::Live => {
                    let told = self.live.try_next()?;
                    self.take(told);
                }
                None => return None,
            }
        }
    }

    /// A frame on its way out: what the reader has or does not want is left out, and the end is noticed.
    fn pass(&mut self, frame: Arc<Encoded>) -> Option<Arc<Encoded>> {
        match &frame.kind {
            EncodedKind::Observation { seq, kind, run_id } => {
                if *seq <= self.cursor {
                    return None;
                }
                self.cursor = *seq;
                let is_end = *kind == ObservationType::RunFinished;
                if is_end && self.until.as_ref().is_some_and(|until| until.run == *run_id) {
                    self.finish();
                    self.source = Source::LastRun;
                }
                (self.types.is_empty() || self.types.contains(kind)).then_some(frame)
            }
            EncodedKind::Run { run_id, status } => {
                // A run that ended goes on to its RUN_FINISHED.
                let is_end = |until: &Until| until.run == *run_id && !status.is_terminal() && until.is_met(*status);
                if self.until.as_ref().is_some_and(is_end) {
                    self.finish();
                }
                Some(frame)
            }
            EncodedKind::Token { .. }
            | EncodedKind::ToolStarted { .. }
            | EncodedKind::CaughtUp
            | EncodedKind::Gap
            | EncodedKind::Thread
            | EncodedKind::ThreadDeleted
            | EncodedKind::Suspension => Some(frame),
            EncodedKind::Draining => {
                self.finish();
                Some(frame)
            }
        }
    }

    fn finish(&mut self) {
        self.ready.clear();
        self.source = Source::Over;
    }

    fn take(&mut self, received: Live) {
        match received {
            Live::Frame(frame) => self.ready.push_back(frame),
            Live::Gap { overflowed: true } if self.is_slow => {
                self.ready.push_back(Arc::new(Encoded::gap(self.cursor + 1)));
                self.source = Source::Over;
            }
            Live::Gap { .. } => self.source = Source::Store,
            Live::Draining(retry_in_ms) => self.ready.push_back(Arc::new(Encoded::draining(retry_in_ms))),
        }
    }

    /// The next page of the store; after the last one the reader has caught up.
    async fn read(&mut self) -> Result<()> {
        // Asked first: if the run is over now, then its last observation is in what is read next, or was told.
        let stands = self.stands().await?;
        let page = self.log.page(self.cursor, CHUNK, &self.heard, ROOM).await?.items;
        if !page.is_empty() {
            self.ready.extend(page.iter().map(|seen| Arc::new(Encoded::observation(seen))));
            return Ok(());
        }
        if self.service.store.marks(&[self.pk]).await?.is_empty() {
            // Erased: nothing comes any more.
            self.source = Source::Over;
            return Ok(());
        }
        self.cursor = self.cursor.max(self.last_seq);
        self.live.mark_read(self.cursor);
        self.is_slow = false;
        if !std::mem::replace(&mut self.is_caught_up, true) {
            self.ready.push_back(Arc::new(Encoded::caught_up(self.cursor)));
        }
        self.source = match stands {
            Stands::GoesOn => Source::Live,
            Stands::Over(run) => {
                // As it stood before the page was read: it may go on by now, and what it did since is not read.
                let run = runs::resource(&self.service, self.pk, *run).await?;
                self.ready.push_back(Arc::new(Encoded::run(&run)));
                Source::Over
            }
            Stands::Erased => Source::Over,
        };
        self.log.rest();
        Ok(())
    }

    /// What it keeps in memory besides the frames that wait, roughly.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.log.bytes() + self.ready.capacity() * size_of::<Arc<Encoded>>()
    }

    /// The frame that says how the run of `until` ended; none if it was erased meanwhile.
    async fn last_run(&self) -> Option<Arc<Encoded>> {
        let run = runs::get(&self.service, &self.caller, &self.until.as_ref()?.run).await;
        run.inspect_err(|error| tracing::debug!(%error, "a feed ends without its run"))
            .ok()
            .map(|run| Arc::new(Encoded::run(&run)))
    }

    async fn stands(&self) -> Result<Stands> {
        let Some(until) = &self.until else { return Ok(Stands::GoesOn) };
        match runs::stored(&self.service, &self.caller, &until.run).await {
            Ok((_, run)) if until.is_met(run.status) => Ok(Stands::Over(Box::new(run))),
            Ok(_) => Ok(Stands::GoesOn),
            Err(fault) if fault.code == Code::NotFound => Ok(Stands::Erased),
            Err(fault) => Err(fault),
        }
    }
}
