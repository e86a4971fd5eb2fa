//! A thread's task. It alone decides for the thread in this process, one event after the other.
//!
//! Everything it does follows one order: decide, commit, publish, then start and abort effects. The result of an effect is
//! kept and its commit is retried until it succeeds or the lease is lost.
//!
//! The mailbox, the commit of results and the wake-ups are here. The methods that belong to one part are in its file.

use std::collections::VecDeque;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::actors::KnownVersion;
use super::claim::ClaimMode;
use super::command::{Command, CommandError, CommitExtras, DecisionResult, Reply};
use super::lease::Lease;
use super::loaded::LoadedThread;
use super::perform::{RunningEffects, instead_of, is_result};
use super::shared::Shared;
use super::tenant_runs::RunSlot;
use crate::domain::Millis;
use crate::domain::ids::ThreadPk;
use crate::domain::run::Run;
use crate::engine::CapRoom;
use crate::engine::event::{CancelEvent, Event, SystemEvent};
use crate::store::{self, LeaseChange};

/// The pause before a failed commit of results is retried. It doubles with each failure.
const MIN_RETRY_PAUSE: Duration = Duration::from_millis(50);
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(2);
/// Bounds the results that are committed together.
const MAX_RESULTS_PER_COMMIT: usize = 32;
/// How long a due thread is postponed after a wake-up that found nothing to do.
const WAKE_POSTPONEMENT: Millis = 1_000;

pub(super) struct Actor {
    pub(super) shared: Arc<Shared>,
    pub(super) pk: ThreadPk,
    mailbox: mpsc::Receiver<Command>,
    /// The version that is compared with the store while the actor waits.
    pub(super) known_version: KnownVersion,
    /// The last version that it had in memory.
    pub(super) version: i64,
    /// The thread as it is stored; `None`: it must be read before the next decision.
    pub(super) loaded: Option<LoadedThread>,
    /// The thread was reserved for this process before it was read for a request.
    pub(super) is_reserved: bool,
    /// A commit was attempted. Until then nothing is stored of a new thread.
    pub(super) has_written: bool,
    /// What the spending caps leave, if they had no room for the last decision: the next one fits what it reserves to this
    /// (`reserve` in the engine's `pes/state/funds.rs`).
    pub(super) room_for_retry: Option<CapRoom>,
    /// The slot of its run among the tenant's runs under way.
    pub(super) run_slot: Option<RunSlot>,
    /// The lease under which the effects below were started.
    pub(super) lease: Option<Lease>,
    pub(super) effects: RunningEffects,
    /// Results of effects that are not committed yet.
    pub(super) uncommitted: VecDeque<Arc<Event>>,
    /// When to try the oldest of them again, and how long the pause was.
    retry: Option<(Instant, Duration)>,
}

impl Actor {
    pub(super) fn new(
        shared: Arc<Shared>,
        pk: ThreadPk,
        mailbox: mpsc::Receiver<Command>,
        known_version: KnownVersion,
    ) -> Self {
        let effects = RunningEffects::new(shared.stop.out_of_time.clone());
        Self {
            shared,
            pk,
            mailbox,
            known_version,
            version: 0,
            loaded: None,
            is_reserved: false,
            has_written: false,
            room_for_retry: None,
            run_slot: None,
            lease: None,
            effects,
            uncommitted: VecDeque::new(),
            retry: None,
        }
    }

    pub(super) async fn run(mut self) {
        let shared = self.shared.clone();
        // All threads share these tokens, so each waits for them once, not at each turn of the loop.
        let (mut halted, mut draining) = (pin!(shared.stop.halted.cancelled()), pin!(shared.stop.draining.cancelled()));
        loop {
            let (idle, retry) = (self.idle_after(), self.retry.map(|(at, _)| at));
            self.version = self.loaded.as_ref().map_or(self.version, |loaded| loaded.row.fence.version);
            self.known_version.set(idle.is_none().then_some(self.version));
            tokio::select! {
                biased;
                () = &mut halted => return self.halt(),
                () = ended(self.lease.as_ref()) => self.abort_effects(),
                event = self.effects.next() => {
                    self.uncommitted.push_back(Arc::new(event));
                    self.commit_pending().await;
                }
                () = sleep_until(retry.unwrap_or_else(Instant::now)), if retry.is_some() => drop(self.commit_pending().await),
                command = self.mailbox.recv() => match command {
                    Some(command) => self.handle(command).await,
                    None => return,
                },
                () = sleep(idle.unwrap_or_default()), if idle.is_some() => {
                    self.release_while_draining().await;
                    if shared.actors.remove_if_idle(self.pk, &self.mailbox) {
                        return;
                    }
                }
                // Draining changes when the actor may end, so the loop looks again.
                () = &mut draining, if idle != Some(Duration::ZERO) && !shared.stop.is_draining() => {}
            }
        }
    }

    /// How long to wait before the actor ends; `None`: it has something to do.
    fn idle_after(&self) -> Option<Duration> {
        if !self.effects.is_empty() || !self.uncommitted.is_empty() {
            return None;
        }
        if self.shared.stop.is_draining() {
            return Some(Duration::ZERO);
        }
        let is_active = self.loaded.as_ref().is_some_and(|loaded| loaded.machine.is_active() && self.is_ours(loaded));
        (!is_active).then(|| Duration::from_millis(self.shared.config.runtime.idle_ms))
    }

    /// Another process may act for this thread now: aborts its effects and drops their uncommitted results.
    pub(super) fn abort_effects(&mut self) {
        self.effects.abort_all();
        self.uncommitted.clear();
        self.retry = None;
        self.lease = None;
    }

    /// Releases the lease of a thread of which no call is in flight, if this process drains: it would start no other one.
    async fn release_while_draining(&mut self) {
        let is_leaving = self.shared.store.is_shared() && self.shared.stop.is_draining();
        let Some(loaded) = self.loaded.as_ref().filter(|loaded| is_leaving && self.is_ours(loaded)) else { return };
        let commit = loaded.commit(LeaseChange::Release, self.shared.now());
        if let Err(refusal) = self.write(commit).await {
            tracing::warn!(threadPk = self.pk.0, ?refusal, "a thread stays with this process until it has drained");
        }
    }

    fn halt(mut self) {
        self.abort_effects();
        self.shared.actors.remove(self.pk);
    }

    async fn handle(&mut self, command: Command) {
        match command {
            Command::Decide { event, extras, reply } => {
                let decided = self.decide_and_finish_cancel(&event, &extras).await;
                self.answer(reply, decided).await;
            }
            Command::EditProfile { edit, reply } => {
                let edited = self.edit_profile(&edit).await;
                self.answer(reply, edited).await;
            }
            Command::StoreRow { row, audit, reply } => {
                let stored = self.store_row(&row, audit).await;
                self.answer(reply, stored).await;
            }
            Command::Delete { by, reply } => {
                let deleted = self.delete(&by).await;
                self.answer(reply, deleted).await;
            }
            Command::Expire { before, by, reply } => {
                let expired = self.expire(before, by.as_deref()).await;
                self.answer(reply, expired).await;
            }
            Command::Wake { reply } => {
                // If a reservation was necessary, the sweeper made it, and it must stay.
                self.is_reserved = false;
                let looked = self.look_after().await;
                self.leave_to_others(&looked).await;
                self.answer(reply, looked).await;
            }
        }
    }

    /// Replies to a command, after releasing a reservation that turned out unnecessary.
    async fn answer<T>(&mut self, reply: Reply<T>, answer: Result<T, CommandError>) {
        if self.is_reserved {
            let released = self.end_reservation().await;
            self.warn_if_reserved(released);
        }
        // The caller may be gone by now; the decision is durable anyway.
        drop(reply.send(answer));
    }

    /// Decides and commits. A cancel also stops the effects before this returns.
    async fn decide_and_finish_cancel(
        &mut self,
        event: &Arc<Event>,
        extras: &CommitExtras,
    ) -> Result<DecisionResult, CommandError> {
        let mut decided = self.transition(std::slice::from_ref(event), extras).await?;
        self.finish_cancel(&mut decided).await?;
        Ok(decided)
    }

    /// Finishes a cancel that waits until the effects are stopped, if this process holds the lease: only the lease holder can
    /// record that they are.
    async fn finish_cancel(&mut self, decided: &mut DecisionResult) -> Result<(), CommandError> {
        if decided.stop_effects && self.loaded.as_ref().is_some_and(|loaded| self.is_ours(loaded)) {
            decided.runs.extend(self.stop_effects().await?);
            decided.stop_effects = false;
        }
        Ok(())
    }

    /// The second phase of a cancel: stops the effects and records that. Returns the runs that it ended.
    async fn stop_effects(&mut self) -> Result<Vec<Run>, CommandError> {
        let ended = self.effects.stop().await;
        // What a tool has done is known, an agent's answer may belong to a task of an earlier run, and the usage of model calls
        // must be paid.
        self.uncommitted.retain(|event| is_result(event));
        self.uncommitted.extend(ended.into_iter().map(Arc::new));
        self.uncommitted.push_back(Arc::new(Event::Cancel(CancelEvent::EffectsStopped)));
        let ended = self.commit_pending().await;
        if self.uncommitted.is_empty() {
            Ok(ended)
        } else {
            Err(store::Error::Unavailable("the cancel is stored, its end is not yet".to_owned()).into())
        }
    }

    /// Commits the results of effects, oldest first, in batches. Results that the store does not take now are retried later.
    /// Returns the runs that changed.
    pub(super) async fn commit_pending(&mut self) -> Vec<Run> {
        let (mut changed, mut most) = (Vec::new(), MAX_RESULTS_PER_COMMIT);
        while !self.uncommitted.is_empty() {
            while self.uncommitted.len() < most
                && let Some(event) = self.effects.next().now_or_never()
            {
                self.uncommitted.push_back(Arc::new(event));
            }
            let events: Vec<Arc<Event>> = self.uncommitted.iter().take(most).cloned().collect();
            match self.transition(&events, &CommitExtras::default()).await {
                // If the lease was lost meanwhile, `uncommitted` is empty now.
                Ok(decided) => changed.extend(decided.runs),
                Err(refusal) if refusal.is_outage() => {
                    self.schedule_retry();
                    return changed;
                }
                Err(CommandError::Gone) => {}
                // One was refused: committing them one by one shows which.
                Err(_) if events.len() > 1 => {
                    most = 1;
                    continue;
                }
                Err(refusal) => {
                    tracing::error!(
                        threadPk = self.pk.0,
                        threadId = self.thread_id(),
                        ?refusal,
                        "the result of an effect was refused"
                    );
                    // A machine in memory does not show that the effect has ended.
                    self.loaded = None;
                    self.uncommitted.extend(events.iter().filter_map(|event| instead_of(event)).map(Arc::new));
                }
            }
            self.uncommitted.drain(..events.len().min(self.uncommitted.len()));
        }
        self.retry = None;
        self.reply_to_calls();
        changed
    }

    /// Schedules the next attempt to commit the results, after a growing pause.
    pub(super) fn schedule_retry(&mut self) {
        let pause = self.retry.map_or(MIN_RETRY_PAUSE, |(_, pause)| (pause * 2).min(MAX_RETRY_PAUSE));
        self.retry = Some((Instant::now() + pause, pause));
    }

    /// Has the machine start what is due: a timer is due, a slot is ready, or nobody owns the thread.
    async fn look_after(&mut self) -> Result<(), CommandError> {
        // Timers that this process set are in memory. If the row here is not due, another process wrote the thread.
        let now = self.shared.now();
        let is_due = |loaded: &LoadedThread| loaded.row.wake_at.is_some_and(|at| at <= now);
        self.loaded = self.loaded.take().filter(|loaded| self.is_ours(loaded) && is_due(loaded));
        let woken = self.transition(&[Event::System(SystemEvent::Woke).into()], &CommitExtras::default()).await;
        match woken {
            Ok(mut decided) if decided.stop_effects => self.finish_cancel(&mut decided).await,
            Ok(decided) if decided.is_noop => self.postpone().await,
            Ok(_) => Ok(()),
            Err(CommandError::Gone) => Ok(()),
            Err(refusal) => Err(refusal),
        }
    }

    /// After a wake-up that found nothing to do: postpones the timer, takes or releases the lease, or stores that no run waits
    /// to begin, so that the sweeper does not find the thread again at once.
    async fn postpone(&mut self) -> Result<(), CommandError> {
        let Some(loaded) = &self.loaded else { return Ok(()) };
        let now = self.shared.now();
        let lease = self.lease_for_commit(loaded, ClaimMode::IfFree);
        let is_kept = loaded.machine.is_active() || lease.epoch.is_none();
        let lease = if is_kept { lease.change } else { loaded.lease_when_idle() };
        let is_due = loaded.row.wake_at.is_some_and(|at| at <= now);
        let outdated_wait = self.outdated_wait(loaded).await?;
        if !is_due && lease == LeaseChange::Keep && outdated_wait.is_none() {
            return Ok(());
        }
        let mut commit = loaded.commit(lease, now);
        commit.rows.extend(outdated_wait);
        if is_due {
            commit.wake_at = Some(now + WAKE_POSTPONEMENT);
        }
        self.write(commit).await.map(drop)
    }
}

/// Waits until the lease has ended; for ever without a lease.
async fn ended(lease: Option<&Lease>) {
    match lease {
        Some(lease) => lease.ended.cancelled().await,
        None => pending().await,
    }
}
