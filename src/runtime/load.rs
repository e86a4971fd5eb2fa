//! Loading an actor's thread, and the lease under which it commits. The thread is read from the store, quarantined if it
//! crashed the process too often, and recovered if a lost lease holder left effects `Running`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::actor::Actor;
use super::command::{CommandError, CommitExtras, DecisionResult};
use super::loaded::LoadedThread;
use super::perform::{is_result, is_result_of};
use super::probation::CRASHES_OF_SUSPECT;
use super::pushes::Receivers;
use super::shared::Shared;
use super::spans::TraceProgress;
use crate::domain::fault::{Code, Fault};
use crate::domain::thread::{ThreadProfile, ThreadStatus};
use crate::engine::Loaded;
use crate::engine::effect::Effect;
use crate::engine::event::{CancelEvent, Event, SystemEvent};
use crate::engine::pes::runs_only;
use crate::engine::step::{Row, RowKind};
use crate::store::{Commit, Committed, Crashes, Fence, LeaseChange, NewThread, ThreadRow};

/// What a commit does to the thread's lease, and under which epoch it is made.
pub(super) struct CommitLease {
    pub(super) change: LeaseChange,
    /// The epoch of our lease after the commit; `None`: we do not hold the lease.
    pub(super) epoch: Option<i64>,
}

/// When a commit claims the thread's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimMode {
    /// If nobody holds it. A lease of ours is kept, that of another process is respected.
    IfFree,
    /// Always, with a new epoch: effects that ran under the old one are lost.
    NewEpoch,
}

/// Bounds the attempts that fail in a row because another process wrote the thread.
pub(super) const MAX_ATTEMPTS: usize = 16;

impl Actor {
    /// Whether this process holds the lease, according to the loaded row. The stored row may be newer.
    pub(super) fn is_ours(&self, loaded: &LoadedThread) -> bool {
        self.shared.holds(&loaded.row)
    }

    /// The lease under which the next commit is made. While draining, and while the runs of a restored database are being held
    /// back, nothing may become `Running`, so commits are made without the lease.
    pub(super) fn lease_for_commit(&self, loaded: &LoadedThread, mode: ClaimMode) -> CommitLease {
        let without = CommitLease { change: LeaseChange::Keep, epoch: None };
        if self.shared.stop.is_draining() || self.shared.is_restoring.load(Ordering::SeqCst) {
            return without;
        }
        let Some(current) = self.shared.lease_keeper.current_lease() else { return without };
        let epoch = loaded.row.fence.epoch;
        let is_free = !loaded.row.is_owned || loaded.row.replica == Some(current.replica);
        let claimed = CommitLease {
            change: LeaseChange::Claim { lease: current.id, replica: current.replica },
            epoch: Some(epoch + 1),
        };
        match (mode, loaded.row.fence.lease) {
            (ClaimMode::NewEpoch, _) => claimed,
            (ClaimMode::IfFree, Some(lease)) if lease == current.id => {
                CommitLease { change: LeaseChange::Keep, epoch: Some(epoch) }
            }
            (ClaimMode::IfFree, _) if is_free && !self.is_suspect(loaded) => claimed,
            (ClaimMode::IfFree, _) => without,
        }
    }

    /// Whether processes crashed repeatedly while the thread was loaded, and the sweeper has not reserved it for this process
    /// (see `probation.rs`). Such a thread is not claimed.
    fn is_suspect(&self, loaded: &LoadedThread) -> bool {
        let replica = self.shared.lease_keeper.current_lease().map(|lease| lease.replica);
        let is_quarantined = loaded.row.status == ThreadStatus::Quarantined;
        let is_admitted = loaded.row.replica == replica && !self.is_reserved;
        loaded.row.crashes.times >= CRASHES_OF_SUSPECT && !is_admitted && !is_quarantined
    }

    /// Loads the thread if it is not in memory. Effects that a lost holder left `Running` are settled before anything else.
    pub(super) async fn ensure_loaded(&mut self, extras: &CommitExtras) -> Result<(), CommandError> {
        for _ in 0..MAX_ATTEMPTS {
            if self.loaded.is_some() {
                return Ok(());
            }
            self.loaded = match self.load(extras).await {
                Ok(loaded) => Some(loaded),
                Err(refusal) => {
                    if refusal == CommandError::Gone {
                        self.after_deletion();
                    }
                    return Err(refusal);
                }
            };
            self.settle_lost_effects().await?;
            self.reply_to_calls();
        }
        Err(contended())
    }

    /// Whether the thread crashed the process too often and is not quarantined yet.
    pub(super) fn must_quarantine(&self, row: &ThreadRow) -> bool {
        row.crashes.attributed >= self.shared.config.runtime.crash_limit && row.status != ThreadStatus::Quarantined
    }

    /// Reads the thread, or makes the one that `extras` creates.
    async fn load(&mut self, extras: &CommitExtras) -> Result<LoadedThread, CommandError> {
        // The primary key of a new thread was just made: nothing can be stored under it.
        let is_fresh = extras.create.is_some() && !self.has_written;
        let stored = if is_fresh { None } else { self.read().await? };
        match (stored, &extras.create) {
            (Some((row, rows)), _) => self.rebuild(row, rows),
            (None, Some((new, profile))) => self.create(new.clone(), profile.clone()),
            (None, None) => Err(CommandError::Gone),
        }
    }

    /// Reads the thread from the store, and quarantines it if it has crashed the process too often.
    async fn read(&mut self) -> Result<Option<(ThreadRow, Vec<Row>)>, CommandError> {
        self.reserve_before_read().await?;
        Ok(match self.shared.store.load(self.pk).await? {
            Some((row, rows)) if self.must_quarantine(&row) => {
                self.quarantine(&row, rows.iter().any(|row| row.kind == RowKind::Run)).await?;
                self.shared.store.load(self.pk).await?
            }
            stored => stored,
        })
    }

    /// The thread as it was read.
    fn rebuild(&self, row: ThreadRow, rows: Vec<Row>) -> Result<LoadedThread, CommandError> {
        self.shared.report_if_went_back(&row, self.version);
        let (receivers, trace_progress) = (Receivers::of(&rows), TraceProgress::of(&rows));
        // It was quarantined, and crashed the process once more while its runs were to be ended.
        let must_not_rebuild = row.status == ThreadStatus::Quarantined
            && row.crashes.attributed > self.shared.config.runtime.crash_limit
            && rows.iter().any(|row| row.kind == RowKind::Run);
        let loaded = row.loaded_with(rows);
        let machine = if must_not_rebuild { runs_only(loaded) } else { self.shared.core(&row.core)?.load(loaded)? };
        self.shared.hub.publish_gap_up_to(self.pk, row.last_seq);
        Ok(LoadedThread { row, machine, new: None, fold: None, receivers, trace_progress })
    }

    /// A thread that its first commit creates.
    fn create(&self, new: NewThread, profile: ThreadProfile) -> Result<LoadedThread, CommandError> {
        let machine = self.shared.core(&new.core)?.load(Loaded::empty(new.thread_id.clone()))?;
        let row = self.new_row(&new, profile);
        let (receivers, trace_progress) = (Receivers::default(), TraceProgress::default());
        Ok(LoadedThread { row, machine, new: Some(new), fold: None, receivers, trace_progress })
    }

    /// Quarantines the thread before its machine is rebuilt from the rows: rebuilding may be what crashes. The thread stays due
    /// while it has runs, so that they are ended even if this process dies.
    pub(super) async fn quarantine(&self, row: &ThreadRow, has_runs: bool) -> Result<(), CommandError> {
        metrics::counter!("pes_threads_quarantined_total").increment(1);
        tracing::error!(
            threadId = %row.thread_id,
            crashes = row.crashes.attributed,
            "the thread is quarantined: it crashed the process too often; POST /threads/{{id}}/release lets it run again"
        );
        let commit = Commit {
            status: ThreadStatus::Quarantined,
            wake_at: has_runs.then(|| self.shared.now()),
            ..row.commit(LeaseChange::Release, self.shared.now())
        };
        // A stale commit is no error: another process quarantined the thread or continued it.
        if self.shared.store.commit(commit).await? == Committed::Done {
            self.shared.hub.publish_change(row.tenant, row.pk, &row.thread_id);
        }
        Ok(())
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

    /// Aborts effects that the loaded thread no longer has. Slots that are `Running` without an effect in this process were left
    /// by a lost holder: one commit claims the thread and settles them.
    async fn settle_lost_effects(&mut self) -> Result<(), CommandError> {
        let Some(loaded) = &self.loaded else { return Ok(()) };
        let running = loaded.machine.running();
        if self.is_ours(loaded) {
            self.effects.retain(&running)
        } else {
            self.abort_effects()
        }
        let Some(loaded) = &self.loaded else { return Ok(()) };
        if loaded.machine.is_unreadable() {
            return self.end_unreadable_runs().await;
        }
        let is_lost = running.iter().any(|effect| !self.effects.contains(effect) && !self.is_uncommitted(effect));
        // A run that waits for admission must not begin either.
        let has_runs = loaded.machine.run().is_some() || loaded.machine.waits_to_begin();
        let is_quarantined = loaded.row.status == ThreadStatus::Quarantined && has_runs;
        if !(is_lost || is_quarantined) || self.lease_for_commit(loaded, ClaimMode::IfFree).epoch.is_none() {
            return Ok(());
        }
        let crashes = loaded.row.crashes.attributed;
        tracing::info!(threadId = %loaded.row.thread_id, crashes, "settling effects that a lost lease holder left running");
        let results: Vec<Arc<Event>> = self.uncommitted.drain(..).filter(|event| is_result(event)).collect();
        self.abort_effects();
        if is_quarantined {
            let crashes = u32::try_from(crashes).unwrap_or(u32::MAX);
            return self.take_over(&[Event::System(SystemEvent::Quarantined { crashes }).into()]).await.map(drop);
        }
        self.recover(results).await
    }

    /// Ends the runs of a thread of which part cannot be read.
    async fn end_unreadable_runs(&mut self) -> Result<(), CommandError> {
        let Some(loaded) = &self.loaded else { return Ok(()) };
        // The lease holder may still have in memory what cannot be read from the store.
        if self.lease_for_commit(loaded, ClaimMode::IfFree).epoch.is_none() && loaded.row.is_owned {
            // Nothing may be decided on a machine that lacks the unreadable part.
            self.loaded = None;
            return Err(contended());
        }
        self.abort_effects();
        self.take_over(&[Event::System(SystemEvent::Unreadable).into()]).await.map(drop)
    }

    /// Decides on these events in a commit that claims the thread with a new epoch. `None`: the thread was stale.
    async fn take_over(&mut self, events: &[Arc<Event>]) -> Result<Option<DecisionResult>, CommandError> {
        self.try_transition(events, &CommitExtras::default(), ClaimMode::NewEpoch).await
    }

    /// Settles lost effects, after committing the results that are known, so that no result is dropped or produced twice.
    async fn recover(&mut self, results: Vec<Arc<Event>>) -> Result<(), CommandError> {
        let recovered = Arc::new(Event::System(SystemEvent::Recovered));
        let events: Vec<Arc<Event>> = results.iter().cloned().chain([recovered]).collect();
        match self.take_over(&events).await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => {
                self.keep_uncommitted(results);
                Ok(())
            }
            Err(refusal) if refusal.is_outage() => {
                self.keep_uncommitted(results);
                Err(refusal)
            }
            Err(refusal) if results.is_empty() => Err(refusal),
            Err(refusal) => {
                tracing::error!(
                    threadPk = self.pk.0,
                    threadId = self.thread_id(),
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
            self.schedule_retry();
        }
    }

    /// Whether the result of this effect waits to be committed.
    fn is_uncommitted(&self, effect: &Effect) -> bool {
        self.uncommitted.iter().any(|event| {
            // The end of a cancel ends every effect of the run: none of them is lost.
            is_result_of(event, effect) || matches!(**event, Event::Cancel(CancelEvent::EffectsStopped))
        })
    }
}

impl Shared {
    /// Whether this process holds the thread's lease, according to this row.
    pub(super) fn holds(&self, row: &ThreadRow) -> bool {
        self.lease_keeper.current_lease().is_some_and(|lease| row.fence.lease == Some(lease.id))
    }
}

pub(super) fn contended() -> CommandError {
    Fault::new(Code::StoreUnavailable, "The thread is being written by others; try again.").retry_after(500).into()
}
