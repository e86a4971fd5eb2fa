//! The threads and the questions of a tenant as they change, for one reader: whole rows, of which the latest counts. What
//! changed before is not told; whoever begins to listen reads the lists then.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};

use super::suspensions::all_listed;
use super::{Result, Service, threads};
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::hitl::Suspension;
use crate::domain::ids::{SuspensionId, ThreadId, ThreadPk};
use crate::engine::step::RowKind;
use crate::live::{Change, Encoded};
use crate::runtime::rows::legible;
use crate::store::{PageAsk, SuspensionAsk, SuspensionsWanted};

/// What changes within this time is told once.
const TOGETHER: Duration = Duration::from_millis(100);
/// How often changes by other processes are looked for.
const LOOK: Duration = Duration::from_millis(500);
/// How long a thread is looked at after it was active: longer than the clocks of processes may differ.
const RECENT: Millis = 60_000;
/// Questions read at once.
const CHUNK: u32 = 1_000;

/// The changes for one reader. Dropping it leaves.
pub struct Changes {
    service: Service,
    caller: Caller,
    told: broadcast::Receiver<Change>,
    looks: Interval,
    /// Threads that other processes may change, with their versions.
    seen: HashMap<ThreadPk, (ThreadId, i64)>,
    /// The questions that are open as far as the reader knows, and until when.
    open: HashMap<ThreadPk, HashMap<SuspensionId, Option<Millis>>>,
    ready: VecDeque<Arc<Encoded>>,
}

/// Everything that changes from now on. The first frame says that it is told from here.
pub async fn open(service: &Service, caller: &Caller) -> Result<Changes> {
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut changes = Changes {
        service: service.clone(),
        caller: caller.clone(),
        told: service.hub.changes(),
        looks,
        seen: HashMap::new(),
        open: HashMap::new(),
        ready: VecDeque::from([Arc::new(Encoded::caught_up(0))]),
    };
    for (pk, suspension) in changes.questions(None).await? {
        changes.open.entry(pk).or_default().insert(suspension.suspension_id, suspension.expires_at);
    }
    if service.store.is_shared() {
        changes.look().await?;
    }
    Ok(changes)
}

impl Changes {
    /// The next frames. It must not be dropped half-way.
    pub async fn next(&mut self) -> Vec<Arc<Encoded>> {
        while self.ready.is_empty() {
            let read = match self.changed().await {
                Ok(changed) => self.read(changed).await,
                Err(error) => Err(error),
            };
            if let Err(error) = read {
                tracing::warn!(%error, "changes cannot be read; the reader must read the lists again");
                self.ready.push_back(Arc::new(Encoded::gap(0)));
            }
        }
        self.ready.drain(..).collect()
    }

    /// Waits until threads change: which.
    async fn changed(&mut self) -> Result<HashMap<ThreadPk, ThreadId>> {
        let mut changed = HashMap::new();
        while changed.is_empty() && self.ready.is_empty() {
            tokio::select! {
                told = self.told.recv() => match told {
                    Ok(change) => self.note(change, &mut changed),
                    Err(RecvError::Lagged(_)) => self.ready.push_back(Arc::new(Encoded::gap(0))),
                    // The server is gone; whoever reads is told elsewhere.
                    Err(RecvError::Closed) => std::future::pending().await,
                },
                _ = self.looks.tick(), if self.service.store.is_shared() => changed.extend(self.look().await?),
            }
        }
        sleep(TOGETHER).await;
        loop {
            match self.told.try_recv() {
                Ok(change) => self.note(change, &mut changed),
                Err(TryRecvError::Lagged(_)) => self.ready.push_back(Arc::new(Encoded::gap(0))),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return Ok(changed),
            }
        }
    }

    fn note(&self, change: Change, changed: &mut HashMap<ThreadPk, ThreadId>) {
        if change.tenant == self.caller.tenant {
            changed.insert(change.pk, change.thread_id);
        }
    }

    /// Which threads have another version than when this was asked last, or are gone.
    async fn look(&mut self) -> Result<Vec<(ThreadPk, ThreadId)>> {
        let since = self.service.now() - RECENT;
        let found = self.service.reads.recent_threads(self.caller.tenant, since).await?;
        let now = found.into_iter().map(|(pk, id, version)| (pk, (id, version))).collect();
        let mut before = std::mem::replace(&mut self.seen, now);
        let is_new = |(pk, now): &(&ThreadPk, &(ThreadId, i64))| before.get(pk) != Some(now);
        let mut changed: Vec<_> = self.seen.iter().filter(is_new).map(|(pk, (id, _))| (*pk, id.clone())).collect();
        before.retain(|pk, _| !self.seen.contains_key(pk));
        let left: Vec<ThreadPk> = before.keys().copied().collect();
        if !left.is_empty() {
            for mark in self.service.reads.marks(&left).await? {
                // It is there still, and has not been active for a while.
                before.remove(&mark.pk);
            }
            changed.extend(before.into_iter().map(|(pk, (id, _))| (pk, id)));
        }
        Ok(changed)
    }

    /// Makes the frames of what these have become.
    async fn read(&mut self, changed: HashMap<ThreadPk, ThreadId>) -> Result<()> {
        let mut rows = Vec::with_capacity(changed.len());
        for (pk, id) in changed {
            match self.service.reads.thread_by_pk(pk).await? {
                Some(row) => rows.push(row),
                None => {
                    self.open.remove(&pk);
                    self.ready.push_back(Arc::new(Encoded::thread_deleted(&id)));
                }
            }
        }
        let pks: Vec<ThreadPk> = rows.iter().map(|row| row.pk).collect();
        for thread in threads::all_shown(&self.service, rows).await? {
            self.ready.push_back(Arc::new(Encoded::thread(&thread)));
        }
        for pk in pks {
            self.read_questions(pk).await?;
        }
        Ok(())
    }

    /// Makes frames of the thread's questions that are new, open for longer, or over.
    async fn read_questions(&mut self, pk: ThreadPk) -> Result<()> {
        let open = self.questions(Some(pk)).await?;
        let is_open = |(_, one): &(ThreadPk, Suspension)| (one.suspension_id.clone(), one.expires_at);
        let now: HashMap<SuspensionId, Option<Millis>> = open.iter().map(is_open).collect();
        let before = self.open.remove(&pk).unwrap_or_default();
        let is_over = |id: &&SuspensionId| !now.contains_key(*id);
        let over: Vec<_> = before.keys().filter(is_over).map(|id| (pk, RowKind::Suspension, id.to_string())).collect();
        let mut told: Vec<(ThreadPk, Suspension)> =
            open.into_iter().filter(|(_, one)| before.get(&one.suspension_id) != Some(&one.expires_at)).collect();
        if !over.is_empty() {
            let rows = self.service.reads.rows_by_id(&over).await?;
            told.extend(rows.iter().filter_map(|(pk, row)| Some((*pk, legible(row)?))));
        }
        if !now.is_empty() {
            self.open.insert(pk, now);
        }
        for listed in all_listed(&self.service, &self.caller, &told).await? {
            self.ready.push_back(Arc::new(Encoded::suspension(&listed)));
        }
        Ok(())
    }

    /// What is open, of one thread or of all.
    async fn questions(&self, thread: Option<ThreadPk>) -> Result<Vec<(ThreadPk, Suspension)>> {
        let mut all = Vec::new();
        let page = PageAsk { cursor: None, limit: CHUNK };
        let mut ask = SuspensionAsk { tenant: self.caller.tenant, thread, wanted: SuspensionsWanted::Open, page };
        loop {
            let page = self.service.reads.suspensions(&ask).await?;
            all.extend(page.items.iter().filter_map(|found| Some((found.pk, legible(&found.row)?))));
            let Some(cursor) = page.next_cursor else { return Ok(all) };
            ask.page.cursor = Some(cursor);
        }
    }
}
