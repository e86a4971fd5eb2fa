//! What reads the changes of a tenant, for everybody who listens.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::quiet::Quiet;
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::hitl::Suspension;
use crate::domain::ids::{SuspensionId, TenantPk, ThreadId, ThreadPk};
use crate::engine::step::RowKind;
use crate::live::{Change, Encoded};
use crate::runtime::rows::legible;
use crate::service::suspensions::{Question, questions};
use crate::service::{Result, Service, threads};
use crate::store::{PageAsk, SuspensionAsk, SuspensionsWanted};

/// What changes within this time is told once.
const TOGETHER: Duration = Duration::from_millis(100);
/// How often changes by other processes are looked for.
const LOOK: Duration = Duration::from_millis(500);
/// How long a thread is looked at after it was active: longer than the clocks of processes may differ.
const RECENT: Millis = 60_000;
/// Questions read at once.
const CHUNK: u32 = 1_000;
/// Batches that wait for one reader at most; one that falls behind is told so and reads everything again.
const WAITING: usize = 64;

/// What changed together.
#[derive(Default)]
pub(super) struct Batch {
    /// Something is missing before this: the lists must be read again.
    has_gap: bool,
    threads: Vec<Arc<Encoded>>,
    questions: Vec<Question>,
}

impl Batch {
    /// As one reader is told it: what may be answered depends on who reads.
    pub(super) fn frames(&self, caller: &Caller) -> Vec<Arc<Encoded>> {
        let gap = self.has_gap.then(|| Arc::new(Encoded::gap(0)));
        let questions = self.questions.iter().map(|question| Arc::new(Encoded::suspension(&question.listed(caller))));
        gap.into_iter().chain(self.threads.iter().cloned()).chain(questions).collect()
    }
}

/// Ends when it is dropped.
pub(super) struct Feed {
    batches: broadcast::Sender<Arc<Batch>>,
    _ends: DropGuard,
}

impl Feed {
    /// Tells everything that changes after this returns.
    pub(super) async fn begin(service: &Service, tenant: TenantPk) -> Result<Self> {
        let batches = broadcast::channel(WAITING).0;
        let mut reader = Reader::of(service, tenant);
        reader.open = reader.all_open().await?;
        if service.store.is_shared() {
            reader.look().await?;
        }
        let end = CancellationToken::new();
        let (ended, told) = (end.clone(), batches.clone());
        tokio::spawn(async move { ended.run_until_cancelled(reader.tell(told)).await });
        Ok(Self { batches, _ends: end.drop_guard() })
    }

    pub(super) fn batches(&self) -> broadcast::Receiver<Arc<Batch>> {
        self.batches.subscribe()
    }
}

type Open = HashMap<ThreadPk, HashMap<SuspensionId, Option<Millis>>>;

struct Reader {
    service: Service,
    tenant: TenantPk,
    changes: broadcast::Receiver<Change>,
    looks: Interval,
    /// Threads that other processes may change, with their versions.
    seen: HashMap<ThreadPk, (ThreadId, i64)>,
    /// The questions that are open as far as the readers know, and until when.
    open: Open,
    /// Threads that ask somebody something, and are not in `seen`.
    quiet: Quiet,
}

/// What is known to have changed.
#[derive(Default)]
struct Changed {
    threads: HashMap<ThreadPk, ThreadId>,
    /// Some changes were missed.
    has_gap: bool,
}

impl Reader {
    fn of(service: &Service, tenant: TenantPk) -> Self {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let changes = service.hub.subscribe_to_changes();
        Self {
            service: service.clone(),
            tenant,
            changes,
            looks,
            seen: HashMap::new(),
            open: HashMap::new(),
            quiet: Quiet::default(),
        }
    }

    async fn tell(mut self, batches: broadcast::Sender<Arc<Batch>>) {
        let mut is_behind = false;
        loop {
            match self.next(is_behind).await {
                Ok(batch) => {
                    is_behind = false;
                    // Whoever listened may have left meanwhile.
                    batches.send(Arc::new(batch)).ok();
                }
                Err(error) => {
                    tracing::warn!(%error, "changes cannot be read; the readers will have to read the lists again");
                    is_behind = true;
                    sleep(LOOK).await;
                }
            }
        }
    }

    async fn next(&mut self, is_behind: bool) -> Result<Batch> {
        let changed = if is_behind {
            // What waits is older than the lists that are to be read.
            self.changes = self.changes.resubscribe();
            Changed { has_gap: true, ..Changed::default() }
        } else {
            self.changed().await?
        };
        self.read(changed).await
    }

    /// Waits until threads change: which.
    async fn changed(&mut self) -> Result<Changed> {
        let mut changed = Changed::default();
        while changed.threads.is_empty() && !changed.has_gap {
            tokio::select! {
                told = self.changes.recv() => match told {
                    Ok(change) => self.note(change, &mut changed),
                    Err(RecvError::Lagged(_)) => changed.has_gap = true,
                    // The server is gone.
                    Err(RecvError::Closed) => std::future::pending().await,
                },
                _ = self.looks.tick(), if self.service.store.is_shared() => changed.threads.extend(self.look().await?),
            }
        }
        sleep(TOGETHER).await;
        loop {
            match self.changes.try_recv() {
                Ok(change) => self.note(change, &mut changed),
                Err(TryRecvError::Lagged(_)) => changed.has_gap = true,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return Ok(changed),
            }
        }
    }

    fn note(&self, change: Change, changed: &mut Changed) {
        if change.tenant == self.tenant {
            changed.threads.insert(change.pk, change.thread_id);
        }
    }

    /// Which threads have another version than when this was asked last, or are gone.
    async fn look(&mut self) -> Result<Vec<(ThreadPk, ThreadId)>> {
        let since = self.service.now() - RECENT;
        let found = self.service.reads.recent_threads(self.tenant, since).await?;
        let now = found.into_iter().map(|(pk, id, version)| (pk, (id, version))).collect();
        let mut before = std::mem::replace(&mut self.seen, now);
        let is_new = |(pk, now): &(&ThreadPk, &(ThreadId, i64))| before.get(pk) != Some(now);
        let mut changed: Vec<_> = self.seen.iter().filter(is_new).map(|(pk, (id, _))| (*pk, id.clone())).collect();
        before.retain(|pk, _| !self.seen.contains_key(pk));
        let reads = self.service.reads.clone();
        let asking: Vec<ThreadPk> = self.open.keys().filter(|pk| !self.seen.contains_key(pk)).copied().collect();
        self.quiet.set_asking(&*reads, &asking, &before).await?;
        changed.extend(self.quiet.changed(&*reads).await?);
        let left: Vec<ThreadPk> = before.keys().copied().collect();
        if !left.is_empty() {
            for mark in reads.marks(&left).await? {
                // It is there still as it was, and has not been active for a while.
                if before.get(&mark.pk).is_some_and(|(_, version)| *version == mark.version) {
                    before.remove(&mark.pk);
                }
            }
            changed.extend(before.into_iter().map(|(pk, (id, _))| (pk, id)));
        }
        Ok(changed)
    }

    /// Reads what these have become. After a gap the open questions are read anew: some may be over, or may have come.
    async fn read(&mut self, Changed { threads, has_gap }: Changed) -> Result<Batch> {
        if has_gap {
            self.open = self.all_open().await?;
        }
        let mut batch = Batch { has_gap, ..Batch::default() };
        let pks: Vec<ThreadPk> = threads.keys().copied().collect();
        let rows = self.service.reads.threads_by_pk(&pks).await?;
        let mut gone = threads;
        for row in &rows {
            gone.remove(&row.pk);
        }
        for (pk, id) in gone {
            self.open.remove(&pk);
            batch.threads.push(Arc::new(Encoded::thread_deleted(&id)));
        }
        let there: Vec<ThreadPk> = rows.iter().map(|row| row.pk).collect();
        let shown = threads::all_shown(&self.service, rows).await?;
        batch.threads.extend(shown.iter().map(|thread| Arc::new(Encoded::thread(thread))));
        let mut asked = Vec::new();
        for pk in there {
            self.read_questions(pk, &mut asked).await?;
        }
        batch.questions = questions(&self.service, asked).await?;
        Ok(batch)
    }

    /// The thread's questions that are new, open for longer, or over.
    async fn read_questions(&mut self, pk: ThreadPk, asked: &mut Vec<(ThreadPk, Suspension)>) -> Result<()> {
        let open = self.questions(Some(pk)).await?;
        let is_open = |(_, one): &(ThreadPk, Suspension)| (one.suspension_id.clone(), one.expires_at);
        let now: HashMap<SuspensionId, Option<Millis>> = open.iter().map(is_open).collect();
        let before = self.open.remove(&pk).unwrap_or_default();
        let is_over = |id: &&SuspensionId| !now.contains_key(*id);
        let over: Vec<_> = before.keys().filter(is_over).map(|id| (pk, RowKind::Suspension, id.to_string())).collect();
        asked.extend(open.into_iter().filter(|(_, one)| before.get(&one.suspension_id) != Some(&one.expires_at)));
        if !over.is_empty() {
            let rows = self.service.reads.rows_by_id(&over).await?;
            asked.extend(rows.iter().filter_map(|(pk, row)| Some((*pk, legible(row)?))));
        }
        if !now.is_empty() {
            self.open.insert(pk, now);
        }
        Ok(())
    }

    async fn all_open(&self) -> Result<Open> {
        let mut open = Open::new();
        for (pk, suspension) in self.questions(None).await? {
            open.entry(pk).or_default().insert(suspension.suspension_id, suspension.expires_at);
        }
        Ok(open)
    }

    /// What is open, of one thread or of all.
    async fn questions(&self, thread: Option<ThreadPk>) -> Result<Vec<(ThreadPk, Suspension)>> {
        let mut all = Vec::new();
        let page = PageAsk { cursor: None, limit: CHUNK };
        let mut ask = SuspensionAsk { tenant: self.tenant, thread, wanted: SuspensionsWanted::Open, page };
        loop {
            let page = self.service.reads.suspensions(&ask).await?;
            all.extend(page.items.iter().filter_map(|found| Some((found.pk, legible(&found.row)?))));
            let Some(cursor) = page.next_cursor else { return Ok(all) };
            ask.page.cursor = Some(cursor);
        }
    }
}
