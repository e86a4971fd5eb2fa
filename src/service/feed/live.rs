//! A thread's events for one subscriber: the backlog, then the live events. None comes twice; if some are gone, a gap says so.
//!
//! The subscription is created before the backlog is read. What is committed in between arrives twice and is sent once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::early::EarlySubscription;
use super::log::{CHUNK, LogReader};
use super::run_frames::RunFrames;
use super::until::{EndCondition, RunState};
use super::{After, FeedAsk};
use crate::domain::caller::Caller;
use crate::domain::ids::{RunId, ThreadId, ThreadPk};
use crate::domain::observation::ObservationType;
use crate::domain::run::RunResource;
use crate::live::{Encoded, EncodedKind, Live, Subscription, SubscriptionFilter};
use crate::service::{Result, Service, fork, runs, threads};
use crate::store::ThreadVersion;

/// A subscriber that takes longer than this for one frame is slow. One that only overflowed in a burst reads the store
/// again.
const SLOW_READER_AFTER: Duration = Duration::from_millis(500);

/// How many bytes of a backlog are in memory for one subscriber. The rest is read after those are sent.
const MAX_BACKLOG_BYTES: usize = 256 << 10;

/// The events of one thread for one subscriber. Dropping it unsubscribes. It ends when the thread is deleted, when its
/// subscriber is too slow (after a `gap`), and when the server stops (after `draining`): the next one begins after the last
/// seq that was received.
pub struct Feed {
    service: Service,
    caller: Caller,
    pk: ThreadPk,
    live: Subscription,
    log: LogReader,
    /// Everything up to this seq was sent, or is not wanted by the subscriber.
    cursor: i64,
    ready: VecDeque<Arc<Encoded>>,
    source: FeedSource,
    /// The `caught_up` frame reports at least this seq.
    last_seq: i64,
    is_caught_up: bool,
    /// The types that the subscriber wants; empty = all.
    types: Vec<ObservationType>,
    /// `types`, and those that show whether a run has another status, and the feed its end.
    read_types: Vec<ObservationType>,
    until: Option<EndCondition>,
    runs: RunFrames,
    /// When the last frame was handed over.
    last_sent_at: Option<Instant>,
    /// The subscriber was slow since it last caught up.
    is_slow: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FeedSource {
    Store,
    Live,
    /// The only frame left to send is the run as it ended.
    LastRun,
    Ended,
}

/// Opens a feed on a thread that exists.
pub async fn open(service: &Service, caller: &Caller, id: &ThreadId, ask: FeedAsk) -> Result<Feed> {
    let row = threads::row(service, caller, id).await?;
    let live = service.hub.subscribe(row.pk, SubscriptionFilter { tokens: ask.tokens, types: ask.subscribed_types() });
    begin(service, caller, id, live, ask, FeedSource::Store).await
}

/// Opens a feed on a subscription that was created earlier.
pub async fn continued(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    early: EarlySubscription,
    ask: FeedAsk,
) -> Result<Feed> {
    begin(service, caller, id, early.live, ask, FeedSource::Live).await
}

/// Subscribes to a thread, for a feed that is opened later.
pub async fn subscribe(service: &Service, caller: &Caller, id: &ThreadId) -> Result<EarlySubscription> {
    let row = threads::row(service, caller, id).await?;
    EarlySubscription::of(service, row.pk).await
}

/// The position in the log before the first observation of the run.
pub async fn before(service: &Service, caller: &Caller, id: &ThreadId, run: &RunId) -> Result<After> {
    // The row is read first: a run that has not begun by then begins after its last seq.
    let row = threads::row(service, caller, id).await?;
    let began = service.reads.run_began(row.pk, run).await?;
    Ok(After::Seq(began.map_or(row.last_seq, |seq| seq - 1)))
}

/// The position after `seq`. A fault if that part of the log was deleted.
pub async fn after_seq(service: &Service, caller: &Caller, id: &ThreadId, seq: i64) -> Result<After> {
    let row = threads::row(service, caller, id).await?;
    Ok(After::Seq(fork::within(&row, seq, "?after")?))
}

async fn begin(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    live: Subscription,
    ask: FeedAsk,
    source: FeedSource,
) -> Result<Feed> {
    // Read after the subscription: what was committed before it is in the store only.
    let row = threads::row(service, caller, id).await?;
    ask.check_until(service, caller, row.pk).await?;
    let read_types = ask.read_types();
    let (cursor, is_beyond) = match ask.after {
        // The log went back to an earlier state, and nothing that the subscriber has can be relied on.
        After::Seq(seq) if seq > row.last_seq => (row.min_seq - 1, true),
        After::Seq(seq) => (seq.max(0), false),
        After::Latest => (row.last_seq, false),
    };
    let mut ready = VecDeque::new();
    if is_beyond {
        ready.push_back(Arc::new(Encoded::gap(row.min_seq)));
    }
    let is_caught_up = source == FeedSource::Live;
    if is_caught_up {
        ready.push_back(Arc::new(Encoded::caught_up(cursor)));
    }
    Ok(Feed {
        service: service.clone(),
        caller: caller.clone(),
        pk: row.pk,
        live,
        log: LogReader::new(service, row.pk),
        cursor,
        ready,
        source,
        last_seq: row.last_seq,
        is_caught_up,
        types: ask.types,
        read_types,
        until: ask.until.map(|run| EndCondition { run, ends_suspended: ask.ends_suspended }),
        runs: RunFrames::default(),
        last_sent_at: None,
        is_slow: false,
    })
}

impl Feed {
    /// From now on consecutive buffered tokens are joined into one frame. Otherwise all fast subscribers get the same
    /// frames.
    #[must_use]
    pub fn with_joined_tokens(mut self) -> Self {
        self.live.join_tokens();
        self
    }

    /// The next frame, or `None` if the feed has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Arc<Encoded>> {
        self.is_slow |= self.last_sent_at.take().is_some_and(|at| at.elapsed() > SLOW_READER_AFTER);
        loop {
            if let Some(frame) = self.next_ready() {
                self.last_sent_at = Some(Instant::now());
                return Some(frame);
            }
            match self.source {
                FeedSource::Ended => return None,
                FeedSource::LastRun => {
                    // This future and that of the backlog are boxed, because a subscriber that has caught up needs neither.
                    let run = Box::pin(self.last_run()).await;
                    self.ready.extend(run);
                    self.source = FeedSource::Ended;
                }
                FeedSource::Live => {
                    let received = self.live.next().await;
                    self.handle_received(received);
                }
                FeedSource::Store => {
                    if let Err(error) = Box::pin(self.read()).await {
                        tracing::warn!(%error, "a reader's backlog cannot be read; it must come again");
                        self.ready.push_back(Arc::new(Encoded::log_unreadable(self.cursor + 1)));
                        self.source = FeedSource::Ended;
                    }
                }
            }
        }
    }

    /// The next frame and those buffered after it, until they have about `bytes` bytes. Cancel safe.
    pub async fn next_few(&mut self, bytes: usize) -> Option<Vec<Arc<Encoded>>> {
        let first = self.next().await?;
        let mut together = first.json().len();
        let mut few = vec![first];
        while together < bytes
            && let Some(frame) = self.next_buffered()
        {
            together += frame.json().len();
            few.push(frame);
        }
        Some(few)
    }

    fn next_buffered(&mut self) -> Option<Arc<Encoded>> {
        loop {
            if let Some(frame) = self.next_ready() {
                return Some(frame);
            }
            if self.source != FeedSource::Live {
                return None;
            }
            let received = self.live.try_next()?;
            self.handle_received(received);
        }
    }

    /// The next frame that was read already and is to be sent.
    fn next_ready(&mut self) -> Option<Arc<Encoded>> {
        while let Some(frame) = self.ready.pop_front() {
            if let Some(frame) = self.filter(frame) {
                return Some(frame);
            }
        }
        None
    }

    /// Filters a frame before it is sent: drops what the subscriber has or does not want, and detects the end of the feed.
    fn filter(&mut self, frame: Arc<Encoded>) -> Option<Arc<Encoded>> {
        match &frame.kind {
            EncodedKind::Observation { seq, kind, run_id } => {
                if *seq <= self.cursor {
                    return None;
                }
                self.cursor = *seq;
                if self.is_caught_up {
                    self.runs.observe(run_id);
                }
                let is_end = *kind == ObservationType::RunFinished;
                if is_end && self.until.as_ref().is_some_and(|until| until.run == *run_id) {
                    self.finish();
                    self.source = FeedSource::LastRun;
                }
                (self.types.is_empty() || self.types.contains(kind)).then_some(frame)
            }
            EncodedKind::Run { run_id, status, after } => {
                self.runs.know(run_id, *status, *after);
                // After a run has ended, the feed continues to its RUN_FINISHED.
                let is_end =
                    |until: &EndCondition| until.run == *run_id && !status.is_terminal() && until.is_met(*status);
                if self.until.as_ref().is_some_and(is_end) {
                    self.finish();
                }
                Some(frame)
            }
            EncodedKind::Token { .. }
            | EncodedKind::ToolStarted { .. }
            | EncodedKind::CaughtUp
            | EncodedKind::Gap
            | EncodedKind::LogUnreadable
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
        self.source = FeedSource::Ended;
    }

    fn handle_received(&mut self, received: Live) {
        match received {
            Live::Frame(frame) if self.runs.is_outdated(&frame.kind) => {}
            Live::Frame(frame) => self.ready.push_back(frame),
            Live::Gap { overflowed: true } if self.is_slow => {
                self.ready.push_back(Arc::new(Encoded::gap(self.cursor + 1)));
                self.source = FeedSource::Ended;
            }
            Live::Gap { .. } => self.source = FeedSource::Store,
            Live::Draining(retry_in_ms) => self.ready.push_back(Arc::new(Encoded::draining(retry_in_ms))),
        }
    }

    /// Reads the next page of the backlog. After the last page the subscriber has caught up.
    async fn read(&mut self) -> Result<()> {
        if self.read_page().await? {
            return Ok(());
        }
        let run_state = match &self.until {
            Some(until) => until.run_state(&self.service, &self.caller).await?,
            None => RunState::Unfinished(None),
        };
        let changed = self.changed_runs(&run_state).await?;
        // What the runs were then follows from observations that were sent, or that have come meanwhile.
        if self.read_page().await? {
            return Ok(());
        }
        let stored = self.service.store.thread_versions(&[self.pk]).await?;
        let known = self.cursor.max(self.last_seq);
        if stored.iter().all(|thread| thread.last_seq < known) {
            // The thread was deleted, and no more events will follow; or it went back to an earlier state, and the subscriber
            // must begin anew.
            let row = self.service.store.thread_by_pk(self.pk).await?;
            self.ready.extend(row.map(|row| Arc::new(Encoded::gap(row.min_seq))));
            self.source = FeedSource::Ended;
            return Ok(());
        }
        self.skip_deleted(&stored);
        self.cursor = self.cursor.max(known);
        self.live.mark_read(self.cursor);
        self.is_slow = false;
        if !std::mem::replace(&mut self.is_caught_up, true) {
            self.ready.push_back(Arc::new(Encoded::caught_up(self.cursor)));
        }
        self.source = match run_state {
            RunState::Unfinished(_) => {
                self.runs.mark_read(self.cursor);
                self.ready.extend(changed.iter().map(|run| Arc::new(Encoded::run(run, self.cursor))));
                FeedSource::Live
            }
            RunState::Ended(run) => {
                // The run as of before the page was read. It may have continued since, but what it did is not part of this
                // feed.
                let run = runs::resource(&self.service, self.pk, *run).await?;
                self.ready.push_back(Arc::new(Encoded::run(&run, self.cursor)));
                FeedSource::Ended
            }
            RunState::Erased => FeedSource::Ended,
        };
        self.log.drop_fold();
        Ok(())
    }

    /// `false`: there is no further page.
    async fn read_page(&mut self) -> Result<bool> {
        let page = self.log.page(self.cursor, CHUNK, &self.read_types, MAX_BACKLOG_BYTES).await?.items;
        let Some(first) = page.first() else { return Ok(false) };
        // What lies in between is not wanted, or was deleted because of its age.
        if !self.is_caught_up && first.seq > self.cursor + 1 {
            let stored = self.service.store.thread_versions(&[self.pk]).await?;
            self.skip_deleted(&stored);
        }
        self.ready.extend(page.into_iter().map(|observation| Arc::new(Encoded::observation(observation))));
        Ok(true)
    }

    /// Sends a gap if the log begins beyond what was sent of the backlog: it may have been shortened since the page before
    /// was read. A subscriber that has caught up misses nothing of what is deleted later.
    fn skip_deleted(&mut self, stored: &[ThreadVersion]) {
        let Some(min_seq) = stored.first().map(|thread| thread.min_seq) else { return };
        if !self.is_caught_up && min_seq > self.cursor + 1 {
            self.ready.push_back(Arc::new(Encoded::gap(min_seq)));
            self.cursor = min_seq - 1;
        }
    }

    /// The runs whose new status the subscriber does not know. One that has not caught up knows the status of `until`.
    async fn changed_runs(&mut self, state: &RunState) -> Result<Vec<RunResource>> {
        let RunState::Unfinished(until) = state else { return Ok(Vec::new()) };
        match until {
            Some(run) if self.is_caught_up => self.runs.observe(&run.run_id),
            Some(run) => self.runs.know(&run.run_id, run.status, self.cursor),
            None => {}
        }
        self.runs.changed(&self.service, self.pk, until.as_deref()).await
    }

    /// The approximate memory of the feed in bytes, without the buffered frames.
    pub fn bytes(&self) -> usize {
        let beside = self.log.bytes() + self.runs.bytes() + self.ready.capacity() * size_of::<Arc<Encoded>>();
        size_of::<Self>() + beside
    }

    /// The frame with the run of `until` as it ended. `None` if it was deleted in the meantime.
    async fn last_run(&self) -> Option<Arc<Encoded>> {
        let run = runs::get(&self.service, &self.caller, &self.until.as_ref()?.run).await;
        run.inspect_err(|error| tracing::debug!(%error, "a feed ends without its run"))
            .ok()
            .map(|run| Arc::new(Encoded::run(&run, self.cursor)))
    }
}
