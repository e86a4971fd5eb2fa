//! Reads the changes of a tenant once, and broadcasts them to all its subscribers.

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::dormant::DormantThreads;
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::Suspension;
use crate::domain::ids::{SuspensionId, TenantPk, ThreadId, ThreadPk};
use crate::engine::step::RowKind;
use crate::live::{Change, Encoded};
use crate::runtime::rows::{legible, read};
use crate::service::suspensions::{QuestionView, question_views};
use crate::service::{Result, Service, suspensions, threads};
use crate::store::{PageAsk, SuspensionAsk, SuspensionsWanted};

/// Changes within this time are sent as one batch.
const BATCH_WINDOW: Duration = Duration::from_millis(100);
/// How often the store is polled for changes by other processes.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The longest pause between two attempts while the store cannot be read.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(4);
/// How long a thread is polled after its last activity: longer than the clocks of processes may differ.
const RECENT_WINDOW: Millis = 60_000;
/// How many of a thread's newest questions are read at once to find those that are new: mostly there are none.
const NEWEST: u32 = 5;
/// For how many threads is known which question was read last. Beyond it questions of the last minute may be sent twice.
const MAX_LAST_READ: usize = 10_000;
/// How many batches are buffered for one subscriber. One that falls behind gets a gap frame and reads the lists again.
const MAX_BUFFERED_BATCHES: usize = 64;

/// Changes that are sent together.
#[derive(Default)]
pub(super) struct ChangeBatch {
    /// Changes before this batch were missed: subscribers must read the lists again.
    has_gap: bool,
    threads: Vec<Arc<Encoded>>,
    questions: Vec<QuestionView>,
}

impl ChangeBatch {
    /// The frames for one subscriber. They differ by caller, because they say what the caller may answer.
    pub(super) fn frames(&self, caller: &Caller) -> Vec<Arc<Encoded>> {
        let gap = self.has_gap.then(|| Arc::new(Encoded::gap(0)));
        let questions = self.questions.iter().map(|question| Arc::new(Encoded::suspension(&question.listed(caller))));
        gap.into_iter().chain(self.threads.iter().cloned()).chain(questions).collect()
    }
}

/// Broadcasts the changes of one tenant, until it is dropped.
pub(super) struct ChangeFeed {
    batches: broadcast::Sender<Arc<ChangeBatch>>,
    _cancel: DropGuard,
}

impl ChangeFeed {
    /// Starts the feed. It covers every change after this returns.
    pub(super) async fn begin(service: &Service, tenant: TenantPk) -> Result<Self> {
        let batches = broadcast::channel(MAX_BUFFERED_BATCHES).0;
        let mut reader = ChangeReader::of(service, tenant);
        if service.store.is_shared() {
            reader.poll().await?;
        }
        // Read after the poll: what another process commits in between has another version at the next one.
        reader.open = reader.all_open().await?;
        if service.store.is_shared() {
            reader.watch_dormant(&HashMap::new()).await?;
        }
        let end = CancellationToken::new();
        let (ended, sender) = (end.clone(), batches.clone());
        tokio::spawn(async move { ended.run_until_cancelled(reader.run(sender)).await });
        Ok(Self { batches, _cancel: end.drop_guard() })
    }

    pub(super) fn batches(&self) -> broadcast::Receiver<Arc<ChangeBatch>> {
        self.batches.subscribe()
    }
}

type OpenQuestions = HashMap<ThreadPk, HashMap<SuspensionId, Option<Millis>>>;

struct ChangeReader {
    service: Service,
    tenant: TenantPk,
    changes: broadcast::Receiver<Change>,
    ticks: Interval,
    /// Recently active threads, which other processes may change, with their versions at the last poll.
    seen: HashMap<ThreadPk, (ThreadId, i64)>,
    /// The open questions that subscribers know of, and when each expires.
    open: OpenQuestions,
    /// By thread, the `ord` of the last question that was read since `last_read_since`.
    last_read: HashMap<ThreadPk, i64>,
    last_read_since: Millis,
    /// Threads with an open question that are not in `seen`.
    dormant: DormantThreads,
}

/// Threads that are known to have changed.
#[derive(Default)]
struct ChangedThreads {
    threads: HashMap<ThreadPk, ThreadId>,
    /// Some changes were missed.
    has_gap: bool,
}

impl ChangeReader {
    fn of(service: &Service, tenant: TenantPk) -> Self {
        let mut ticks = interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let changes = service.hub.subscribe_to_changes();
        Self {
            service: service.clone(),
            tenant,
            changes,
            ticks,
            seen: HashMap::new(),
            open: HashMap::new(),
            last_read: HashMap::new(),
            last_read_since: service.now(),
            dormant: DormantThreads::default(),
        }
    }

    async fn run(mut self, batches: broadcast::Sender<Arc<ChangeBatch>>) {
        let (mut is_behind, mut pause) = (false, POLL_INTERVAL);
        loop {
            let read = AssertUnwindSafe(self.next(is_behind)).catch_unwind().await;
            match read.unwrap_or_else(|_| Err(Fault::new(Code::Internal, "reading them panicked"))) {
                Ok(batch) => {
                    (is_behind, pause) = (false, POLL_INTERVAL);
                    // An error means that no subscriber is left.
                    batches.send(Arc::new(batch)).ok();
                }
                Err(error) => {
                    // Once for each outage.
                    if !is_behind {
                        let tenant = self.tenant.0;
                        tracing::warn!(%error, tenant, "changes cannot be read; the readers will have to read the lists again");
                    }
                    is_behind = true;
                    sleep(pause).await;
                    pause = (pause * 2).min(MAX_RETRY_PAUSE);
                }
            }
        }
    }

    async fn next(&mut self, is_behind: bool) -> Result<ChangeBatch> {
        let changed = if is_behind {
            // The buffered changes are older than the lists that subscribers will read.
            self.changes = self.changes.resubscribe();
            ChangedThreads { has_gap: true, ..ChangedThreads::default() }
        } else {
            self.changed().await?
        };
        self.read(changed).await
    }

    /// Waits until threads change, and returns which.
    async fn changed(&mut self) -> Result<ChangedThreads> {
        let mut changed = ChangedThreads::default();
        while changed.threads.is_empty() && !changed.has_gap {
            tokio::select! {
                received = self.changes.recv() => match received {
                    Ok(change) => self.note(change, &mut changed),
                    Err(RecvError::Lagged(_)) => changed.has_gap = true,
                    // The server is gone.
                    Err(RecvError::Closed) => std::future::pending().await,
                },
                _ = self.ticks.tick(), if self.service.store.is_shared() => changed.threads.extend(self.poll().await?),
            }
        }
        sleep(BATCH_WINDOW).await;
        loop {
            match self.changes.try_recv() {
                Ok(change) => self.note(change, &mut changed),
                Err(TryRecvError::Lagged(_)) => changed.has_gap = true,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return Ok(changed),
            }
        }
    }

    fn note(&self, change: Change, changed: &mut ChangedThreads) {
        if change.tenant == self.tenant {
            changed.threads.insert(change.pk, change.thread_id);
        }
    }

    /// Polls the store. Returns the threads that have another version than at the last poll, or were deleted.
    async fn poll(&mut self) -> Result<Vec<(ThreadPk, ThreadId)>> {
        let since = self.service.now() - RECENT_WINDOW;
        let found = self.service.reads.recent_threads(self.tenant, since).await?;
        let now = found.into_iter().map(|thread| (thread.pk, (thread.thread_id, thread.version))).collect();
        let mut before = std::mem::replace(&mut self.seen, now);
        let is_new = |(pk, now): &(&ThreadPk, &(ThreadId, i64))| before.get(pk) != Some(now);
        let mut changed: Vec<_> = self.seen.iter().filter(is_new).map(|(pk, (id, _))| (*pk, id.clone())).collect();
        before.retain(|pk, _| !self.seen.contains_key(pk));
        self.watch_dormant(&before).await?;
        let reads = self.service.reads.clone();
        changed.extend(self.dormant.changed(&*reads).await?);
        let left: Vec<ThreadPk> = before.keys().copied().collect();
        if !left.is_empty() {
            for one in reads.thread_versions(&left).await? {
                // The thread is unchanged. It left the list only because it was not active recently.
                if before.get(&one.pk).is_some_and(|(_, version)| *version == one.version) {
                    before.remove(&one.pk);
                }
            }
            changed.extend(before.into_iter().map(|(pk, (id, _))| (pk, id)));
        }
        Ok(changed)
    }

    /// Sets which threads with an open question are dormant. `left`: the known versions of threads that are no longer in `seen`.
    async fn watch_dormant(&mut self, left: &HashMap<ThreadPk, (ThreadId, i64)>) -> Result<()> {
        let reads = self.service.reads.clone();
        let asking: Vec<ThreadPk> = self.open.keys().filter(|pk| !self.seen.contains_key(pk)).copied().collect();
        Ok(self.dormant.set_asking(&*reads, &asking, left).await?)
    }

    /// Reads the current rows of these threads. After a gap all open questions are read again: some may have ended, or be
    /// new.
    async fn read(&mut self, ChangedThreads { threads, has_gap }: ChangedThreads) -> Result<ChangeBatch> {
        if has_gap {
            self.open = self.all_open().await?;
        }
        let mut batch = ChangeBatch { has_gap, ..ChangeBatch::default() };
        let pks: Vec<ThreadPk> = threads.keys().copied().collect();
        let rows = self.service.reads.threads_by_pk(&pks).await?;
        let mut gone = threads;
        for row in &rows {
            gone.remove(&row.pk);
        }
        for (pk, id) in gone {
            self.open.remove(&pk);
            self.last_read.remove(&pk);
            batch.threads.push(Arc::new(Encoded::thread_deleted(&id)));
        }
        let existing: Vec<ThreadPk> = rows.iter().map(|row| row.pk).collect();
        let shown = threads::all_shown(&self.service, rows).await?;
        batch.threads.extend(shown.iter().map(|thread| Arc::new(Encoded::thread(thread))));
        let mut questions = Vec::new();
        for pk in existing {
            self.read_questions(pk, &mut questions).await?;
        }
        batch.questions = question_views(&self.service, questions).await?;
        Ok(batch)
    }

    /// Adds the thread's questions that are new, have another deadline, or have ended: also those that began and ended since
    /// the last read, which a list may have shown.
    async fn read_questions(&mut self, pk: ThreadPk, changed: &mut Vec<(ThreadPk, Suspension)>) -> Result<()> {
        // Read first: whichever of these are open no more when the open ones are read have ended.
        let mut known = self.new_questions(pk).await?;
        let open = suspensions::open(&self.service, self.tenant, Some(pk)).await?;
        let is_open = |(_, one): &(ThreadPk, Suspension)| (one.suspension_id.clone(), one.expires_at);
        let now: HashMap<SuspensionId, Option<Millis>> = open.iter().map(is_open).collect();
        let before = self.open.remove(&pk).unwrap_or_default();
        known.extend(before.keys().cloned());
        known.retain(|id| !now.contains_key(id));
        let over: Vec<_> = known.into_iter().map(|id| (pk, RowKind::Suspension, id.to_string())).collect();
        changed.extend(open.into_iter().filter(|(_, one)| before.get(&one.suspension_id) != Some(&one.expires_at)));
        if !over.is_empty() {
            let rows = self.service.reads.rows_by_id(&over).await?;
            changed.extend(rows.iter().filter_map(|(pk, row)| Some((*pk, legible(row)?))));
        }
        if !now.is_empty() {
            self.open.insert(pk, now);
        }
        Ok(())
    }

    /// The thread's questions, open or ended, that were asked since its last read, or since the feed began.
    async fn new_questions(&mut self, pk: ThreadPk) -> Result<HashSet<SuspensionId>> {
        let last = self.last_read.get(&pk).copied();
        let since = self.last_read_since - RECENT_WINDOW;
        let (mut new, mut newest, mut page) = (HashSet::new(), last, PageAsk::first(NEWEST));
        loop {
            let wanted = SuspensionsWanted::Past { status: None, decided_by: None };
            let ask = SuspensionAsk { tenant: self.tenant, thread: Some(pk), wanted, page };
            let asked = self.service.reads.suspensions(&ask).await?;
            let before = new.len();
            for row in asked.items.iter().map(|found| &found.row) {
                let Ok(question) = read::<Suspension>(row) else { continue };
                if last.map_or(question.created_at >= since, |last| row.ord > last) {
                    newest = newest.max(Some(row.ord));
                    new.insert(question.suspension_id);
                }
            }
            if new.len() == before || asked.next_cursor.is_none() {
                break;
            }
            page = PageAsk { cursor: asked.next_cursor, limit: NEWEST };
        }
        if let Some(newest) = newest {
            if self.last_read.len() >= MAX_LAST_READ {
                self.last_read.clear();
                self.last_read_since = self.service.now();
            }
            self.last_read.insert(pk, newest);
        }
        Ok(new)
    }

    async fn all_open(&self) -> Result<OpenQuestions> {
        let mut open = OpenQuestions::new();
        for (pk, suspension) in suspensions::open(&self.service, self.tenant, None).await? {
            open.entry(pk).or_default().insert(suspension.suspension_id, suspension.expires_at);
        }
        Ok(open)
    }
}
