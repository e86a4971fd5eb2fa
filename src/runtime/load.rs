//! How an actor gets its thread into memory, and under which lease it commits: the thread is read from the store, set aside
//! if it crashed the process too often, and recovered where a lost holder left effects `Running`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::actor::Actor;
use super::command::{CommitExtras, Refusal};
use super::loaded::LoadedThread;
use super::probation::CRASHES_OF_SUSPECT;
use super::pushes::Receivers;
use super::shared::Shared;
use super::spans::Traced;
use crate::domain::fault::{Code, Fault};
use crate::domain::thread::{ThreadProfile, ThreadStatus};
use crate::engine::Loaded;
use crate::engine::effect::Effect;
use crate::engine::event::{CancelEvent, Event, ModelEvent, PeerEvent, SystemEvent, ToolEvent};
use crate::engine::pes::runs_only;
use crate::engine::step::RowKind;
use crate::store::{Commit, Crashes, Fence, LeaseChange, NewThread, ThreadRow};

/// What a commit does to the thread's lease, and under which epoch it is made.
pub(super) struct CommitLease {
    pub(super) change: LeaseChange,
    /// The epoch of our lease after the commit; `None`: we do not hold the lease.
    pub(super) epoch: Option<i64>,
}

/// When a commit claims the thread's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimMode {
    /// If nobody holds it. A lease of ours is kept, another process's is respected.
    IfFree,
    /// Always, with a new epoch: effects that ran under the old one are lost.
    NewEpoch,
}

/// How many reads and recoveries of one thread may fail in a row because another process wrote it.
pub(super) const TRIES: usize = 16;

impl Actor {
    /// Whether this process holds the lease, according to the loaded row; the store may know better.
    pub(super) fn is_ours(&self, loaded: &LoadedThread) -> bool {
        self.shared.holds(&loaded.row)
    }

    /// The lease under which the next commit is made. While draining, and until a restored database is held back,
    /// nothing may become `Running`, so every commit is made without the lease.
    pub(super) fn lease_for_commit(&self, loaded: &LoadedThread, mode: ClaimMode) -> CommitLease {
        let without = CommitLease { change: LeaseChange::Keep, epoch: None };
        if self.shared.draining.is_cancelled() || self.shared.is_restoring.load(Ordering::SeqCst) {
            return without;
        }
        let Some(hold) = self.shared.lease_keeper.hold() else { return without };
        let epoch = loaded.row.fence.epoch;
        let is_free = !loaded.row.is_owned || loaded.row.replica == Some(hold.replica);
        let claimed = CommitLease {
            change: LeaseChange::Claim { lease: hold.lease, replica: hold.replica },
            epoch: Some(epoch + 1),
        };
        match (mode, loaded.row.fence.lease) {
            (ClaimMode::NewEpoch, _) => claimed,
            (ClaimMode::IfFree, Some(lease)) if lease == hold.lease => {
                CommitLease { change: LeaseChange::Keep, epoch: Some(epoch) }
            }
            (ClaimMode::IfFree, _) if is_free && !self.is_suspect(loaded) => claimed,
            (ClaimMode::IfFree, _) => without,
        }
    }

    /// Whether processes crashed repeatedly while the thread was loaded: then it is claimed only after it was reserved
    /// for this process (see `probation.rs`).
    fn is_suspect(&self, loaded: &LoadedThread) -> bool {
        let replica = self.shared.lease_keeper.hold().map(|hold| hold.replica);
        let is_set_aside = loaded.row.status == ThreadStatus::Quarantined;
        let is_admitted = loaded.row.replica == replica && !self.is_reserved;
        loaded.row.crashes.times >= CRASHES_OF_SUSPECT && !is_admitted && !is_set_aside
    }

    /// Loads the thread if it is not in memory. Effects that a lost holder left `Running` are settled before anything else.
    pub(super) async fn ensure_loaded(&mut self, extras: &CommitExtras) -> Result<(), Refusal> {
        for _ in 0..TRIES {
            if self.loaded.is_some() {
                return Ok(());
            }
            self.loaded = match self.load(extras).await {
                Ok(loaded) => Some(loaded),
                Err(refusal) => {
                    if refusal == Refusal::Gone {
                        self.announce_end();
                    }
                    return Err(refusal);
                }
            };
            self.settle().await?;
            self.reply_to_calls();
        }
        Err(contended())
    }

    /// Whether it crashed the process too often.
    pub(super) fn is_to_be_set_aside(&self, row: &ThreadRow) -> bool {
        row.crashes.alone >= self.shared.config.runtime.crash_limit && row.status != ThreadStatus::Quarantined
    }

    async fn load(&mut self, extras: &CommitExtras) -> Result<LoadedThread, Refusal> {
        // The primary key of a new thread was just allotted: nothing can be stored under it.
        let is_fresh = extras.create.is_some() && !self.has_written;
        if !is_fresh {
            self.reserve_before_read().await?;
        }
        let stored = if is_fresh { None } else { self.shared.store.load(self.pk).await? };
        let limit = self.shared.config.runtime.crash_limit;
        let stored = match stored {
            Some((row, rows)) if self.is_to_be_set_aside(&row) => {
                self.set_aside(&row, rows.iter().any(|row| row.kind == RowKind::Run)).await?;
                self.shared.store.load(self.pk).await?
            }
            stored => stored,
        };
        if let Some((row, rows)) = stored {
            let (receivers, traced) = (Receivers::of(&rows), Traced::of(&rows));
            let loaded =
                Loaded { thread_id: Some(row.thread_id.clone()), head: row.head.clone(), rows, last_seq: row.last_seq };
            // Set aside, its runs were to be ended, and it crashed the process once more.
            let crashes_when_rebuilt = row.status == ThreadStatus::Quarantined
                && row.crashes.alone > limit
                && loaded.rows.iter().any(|row| row.kind == RowKind::Run);
            let machine =
                if crashes_when_rebuilt { runs_only(loaded) } else { self.shared.core(&row.core)?.load(loaded)? };
            self.shared.hub.publish_gap_up_to(self.pk, row.last_seq);
            return Ok(LoadedThread { row, machine, new: None, fold: None, receivers, traced });
        }
        let (new, profile) = extras.create.clone().ok_or(Refusal::Gone)?;
        let loaded = Loaded { thread_id: Some(new.thread_id.clone()), ..Loaded::default() };
        let machine = self.shared.core(&new.core)?.load(loaded)?;
        let (row, receivers, traced) = (self.new_row(&new, profile), Receivers::default(), Traced::default());
        Ok(LoadedThread { row, machine, new: Some(new), fold: None, receivers, traced })
    }

    /// Quarantines the thread before its machine is rebuilt from the rows: rebuilding may be what crashes. It stays due while
    /// it has runs, so that they end whatever becomes of this process.
    pub(super) async fn set_aside(&self, row: &ThreadRow, has_runs: bool) -> Result<(), Refusal> {
        metrics::counter!("pes_threads_quarantined_total").increment(1);
        tracing::error!(threadId = %row.thread_id, crashes = row.crashes.alone, "the thread is quarantined: it crashed the process too often");
        let commit = Commit {
            status: ThreadStatus::Quarantined,
            wake_at: has_runs.then(|| self.shared.now()),
            ..row.commit(LeaseChange::Release, self.shared.now())
        };
        // A stale commit is no error: another process quarantined the thread or went on with it.
        self.shared.store.commit(commit).await.map(drop).map_err(Refusal::from)
    }

    fn new_row(&self, new: &NewThread, profile: ThreadProfile) -> ThreadRow {
        ThreadRow {
            pk: self.pk,
            tenant: new.tenant,
            thread_id: new.thread_id.clone(),
            fence: Fence::NEW,
            replica: None,
            core: new.core.clone(),
            head: String::new(),
            status: ThreadStatus::Idle,
            profile,
            wake_at: None,
            floor: 0,
            last_seq: 0,
            min_seq: 1,
            is_owned: false,
            crashes: Crashes::default(),
            created_at: new.created_at,
            updated_at: new.created_at,
            created_by: new.created_by.clone(),
        }
    }

    /// Brings the effects in line with what was read. Slots `Running` without an effect in this process were left by a
    /// lost holder: one commit claims the thread and settles them.
    async fn settle(&mut self) -> Result<(), Refusal> {
        let Some(loaded) = &self.loaded else { return Ok(()) };
        let running = loaded.machine.running();
        if self.is_ours(loaded) {
            self.work.keep_only(&running)
        } else {
            self.drop_work_in_progress()
        }
        let Some(loaded) = &self.loaded else { return Ok(()) };
        if loaded.machine.is_unreadable() {
            // The holder of the lease may still have in memory what cannot be read from the store.
            if self.lease_for_commit(loaded, ClaimMode::IfFree).epoch.is_none() && loaded.row.is_owned {
                // Nothing may be decided on what was made of it without the part that cannot be read.
                self.loaded = None;
                return Err(contended());
            }
            self.drop_work_in_progress();
            return self
                .attempt(
                    &[Event::System(SystemEvent::Unreadable).into()],
                    &CommitExtras::default(),
                    ClaimMode::NewEpoch,
                )
                .await
                .map(drop);
        }
        let is_lost = running.iter().any(|effect| !self.work.holds(effect) && !self.is_uncommitted(effect));
        let is_set_aside = loaded.row.status == ThreadStatus::Quarantined && loaded.machine.run().is_some();
        if !(is_lost || is_set_aside) || self.lease_for_commit(loaded, ClaimMode::IfFree).epoch.is_none() {
            return Ok(());
        }
        let crashes = loaded.row.crashes.alone;
        tracing::info!(threadId = %loaded.row.thread_id, crashes, "settling effects that a lost lease holder left running");
        let results: Vec<Arc<Event>> = self.uncommitted.drain(..).filter(|event| is_outcome(event)).collect();
        self.drop_work_in_progress();
        if is_set_aside {
            let crashes = u32::try_from(crashes).unwrap_or(u32::MAX);
            let event = Event::System(SystemEvent::Quarantined { crashes });
            return self.attempt(&[event.into()], &CommitExtras::default(), ClaimMode::NewEpoch).await.map(drop);
        }
        self.recover(results).await
    }

    /// Settles what was lost, after what is known of the rest: a result that is there is neither thrown away nor made twice.
    async fn recover(&mut self, results: Vec<Arc<Event>>) -> Result<(), Refusal> {
        let recovered = Arc::new(Event::System(SystemEvent::Recovered));
        let events: Vec<Arc<Event>> = results.iter().cloned().chain([recovered]).collect();
        match self.attempt(&events, &CommitExtras::default(), ClaimMode::NewEpoch).await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => {
                self.keep_uncommitted(results);
                Ok(())
            }
            Err(Refusal::Fault(fault)) if fault.code == Code::StoreUnavailable => {
                self.keep_uncommitted(results);
                Err(fault.into())
            }
            Err(refusal) if results.is_empty() => Err(refusal),
            Err(refusal) => {
                tracing::error!(
                    thread = self.pk.0,
                    ?refusal,
                    "results of effects were refused; their effects count as lost"
                );
                self.loaded = None;
                Ok(())
            }
        }
    }

    fn keep_uncommitted(&mut self, results: Vec<Arc<Event>>) {
        if !results.is_empty() {
            self.uncommitted.extend(results);
            self.commit_later();
        }
    }

    /// Whether the result of this effect waits to be committed.
    fn is_uncommitted(&self, effect: &Effect) -> bool {
        self.uncommitted.iter().any(|event| match (&**event, effect) {
            (
                Event::Model(
                    ModelEvent::Replied { stream, attempt, .. }
                    | ModelEvent::Failed { stream, attempt, .. }
                    | ModelEvent::Overflowed { stream, attempt, .. },
                ),
                Effect::CallModel { stream: asked, attempt: current },
            ) => stream == asked && attempt == current,
            (
                Event::Tool(ToolEvent::Returned { call, attempt, .. }),
                Effect::CallTool { call: asked, attempt: current },
            ) => call == asked && attempt == current,
            (
                Event::Peer(PeerEvent::Reported { task, attempt, .. } | PeerEvent::Failed { task, attempt, .. }),
                Effect::Delegate { task: asked, attempt: current }
                | Effect::AskPeer { task: asked, attempt: current }
                | Effect::CancelPeer { task: asked, attempt: current },
            ) => task == asked && attempt == current,
            (event, _) => matches!(event, Event::Cancel(CancelEvent::EffectsStopped)),
        })
    }
}

/// Whether it is what an effect came to.
fn is_outcome(event: &Event) -> bool {
    matches!(
        event,
        Event::Model(_)
            | Event::Tool(ToolEvent::Returned { .. })
            | Event::Peer(PeerEvent::Reported { .. } | PeerEvent::Failed { .. })
    )
}

impl Shared {
    /// Whether this process holds the thread's lease, according to this row.
    pub(super) fn holds(&self, row: &ThreadRow) -> bool {
        self.lease_keeper.hold().is_some_and(|hold| row.fence.lease == Some(hold.lease))
    }
}

pub(super) fn contended() -> Refusal {
    Fault::new(Code::StoreUnavailable, "The thread is being written by others; try again.").retry_after(500).into()
}
