//! One transition, always in this order: decide, prepare the commit, write it, and only then publish, start the effects that
//! the step begins and abort those that it ends.

use std::sync::Arc;

use super::Actor;
use super::claim::{ClaimMode, CommitLease};
use super::command::{CommandError, CommitExtras, DecisionResult};
use super::load::{MAX_ATTEMPTS, contended};
use super::loaded::{LoadedThread, RowAfterCommit};
use super::publish::Publication;
use crate::domain::Millis;
use crate::domain::fault::Fault;
use crate::domain::ids::ThreadId;
use crate::domain::spend::SpendCaps;
use crate::domain::thread::ThreadStatus;
use crate::engine::effect::Effect;
use crate::engine::event::{Event, SystemEvent};
use crate::engine::step::{self, EffectChanges, Step};
use crate::engine::{Reservation, RunAdmission, Stamp, World};
use crate::failpoint;
use crate::runtime::outgoing::PushRecipients;
use crate::runtime::perform::is_progress;
use crate::runtime::spending::{Reservations, Spending};
use crate::runtime::tally::Tally;
use crate::store::outbox::TargetKind;
use crate::store::{Commit, Committed, Crashes, LeaseChange};

impl Actor {
    /// Decides on the events, one after the other, and commits all of them together. Repeats this while the thread in memory is
    /// stale. Effects start only after the commit.
    pub(super) async fn transition(
        &mut self,
        events: &[Arc<Event>],
        extras: &CommitExtras,
    ) -> Result<DecisionResult, CommandError> {
        for _ in 0..MAX_ATTEMPTS {
            self.ensure_loaded(extras).await?;
            if let Some(decided) = self.try_transition(events, extras, ClaimMode::IfFree).await? {
                return Ok(decided);
            }
        }
        Err(contended())
    }

    /// Decides on the thread in memory and commits; `None`: it was stale and must be read again. If one of several events is
    /// refused, none of them takes effect.
    pub(super) async fn try_transition(
        &mut self,
        events: &[Arc<Event>],
        extras: &CommitExtras,
        mode: ClaimMode,
    ) -> Result<Option<DecisionResult>, CommandError> {
        let shared = self.shared.clone();
        let _room = shared.long_queries.room_for(events).await;
        let admission = self.try_begin_run(events).await?;
        let decided = self.decide_and_commit(admission, events, extras, mode).await;
        self.count_run();
        if matches!(&decided, Ok(Some(decided)) if !decided.is_noop) {
            self.note_waiting();
        }
        decided
    }

    async fn decide_and_commit(
        &mut self,
        admission: RunAdmission,
        events: &[Arc<Event>],
        extras: &CommitExtras,
        mode: ClaimMode,
    ) -> Result<Option<DecisionResult>, CommandError> {
        let Some(decision) = self.decide(admission, events, extras, mode).await? else { return Ok(None) };
        if decision.changes_nothing {
            return self.commit_noop(extras, decision.decided, decision.now).await;
        }
        let (commit, prepared) = self.prepare(*decision, events, extras).await?;
        if !self.write_spending(commit, &prepared.spending).await? {
            return Ok(None);
        }
        Ok(Some(self.after_commit(prepared, events).await))
    }

    /// Decides on the events in memory. `None`: the thread was stale. Boxed, because what an async function returns is copied
    /// several times.
    async fn decide(
        &mut self,
        admission: RunAdmission,
        events: &[Arc<Event>],
        extras: &CommitExtras,
        mode: ClaimMode,
    ) -> Result<Option<Box<UncommittedDecision>>, CommandError> {
        let loaded = self.loaded.as_ref().ok_or(CommandError::Gone)?;
        let tools = self.shared.tools.toolset(loaded.row.tenant).await;
        let lease = self.lease_for_commit(loaded, mode);
        let releases_lease = self.shared.stop.is_draining() && self.is_ours(loaded);
        let now = self.shared.now();
        let shared = self.shared.clone();
        let loaded = self.loaded.as_mut().ok_or(CommandError::Gone)?;
        loaded.update_fold(&shared.hub);
        let before = BeforeStep {
            effects: loaded.machine.running(),
            reservations: loaded.machine.reservations(),
            caps: shared.caps(loaded.row.tenant),
            recipients: loaded.recipients(extras, shared.own_address.public_console_urls()),
        };
        let allowance = shared.allowance(&before.caps, self.room_for_retry.take());
        let is_release = events.iter().any(|event| matches!(**event, Event::System(SystemEvent::Released)));
        let world = World { allowance: &allowance, admission, ..shared.world(&tools) };
        let stamp = || Stamp { now, seed: shared.clock.seed(), holder: lease.epoch };
        let step = match loaded.decide_all(&world, stamp, events) {
            Ok(step) => step,
            Err(RefusedEvent { nth: 0, fault }) => {
                return if self.confirm_newest().await? { Err(fault.into()) } else { Ok(None) };
            }
            Err(RefusedEvent { fault, .. }) => {
                // The machine in memory contains the decisions on the earlier events.
                self.loaded = None;
                return Err(fault.into());
            }
        };
        let decided = DecisionResult::of(&step, loaded, extras);
        let changes_nothing = step.is_noop && !(is_release && loaded.row.status == ThreadStatus::Quarantined);
        Ok(Some(Box::new(UncommittedDecision { now, lease, releases_lease, before, step, decided, changes_nothing })))
    }

    /// Builds the commit of a decision, with its outgoing deliveries, and what is left to do after the commit.
    async fn prepare(
        &mut self,
        decision: UncommittedDecision,
        events: &[Arc<Event>],
        extras: &CommitExtras,
    ) -> Result<(Commit, Box<Prepared>), CommandError> {
        let UncommittedDecision { now, mut lease, releases_lease, before, mut step, decided, .. } = decision;
        let shared = &self.shared;
        let loaded = self.loaded.as_mut().ok_or(CommandError::Gone)?;
        let has_no_effects = loaded.machine.running().is_empty();
        if releases_lease && has_no_effects {
            // Nothing runs here any more: another process may continue the thread while this one still drains.
            lease.change = LeaseChange::Release;
        } else if lease.epoch.is_some() && has_no_effects && !loaded.machine.is_active() {
            // Nothing is left to do: the process that gets the next request claims the thread.
            lease.change = loaded.lease_when_idle();
        }
        let publication = loaded.publication(&step);
        let reservations = Reservations { before: &before.reservations, after: &loaded.machine.reservations() };
        let mut spending = Spending::of(loaded.row.tenant, &before.caps, reservations, &step.rows, now);
        let mut tally = Tally::of(&step, loaded.machine.run());
        if events.iter().any(|event| matches!(**event, Event::System(SystemEvent::Recovered))) {
            tally.count_repeated_calls(&before.effects, &step.rows);
        }
        let outgoing = match shared.outgoing(loaded, &step, before.recipients, extras, now).await {
            Ok(outgoing) => outgoing,
            Err(error) => {
                self.loaded = None;
                return Err(error.into());
            }
        };
        shared.add_notices(&before.caps, &mut spending);
        let mut delivery_kinds = outgoing.kinds();
        delivery_kinds.extend(spending.has_notices().then_some(TargetKind::Webhook));
        let thread = loaded.row.thread_id.clone();
        let mut commit = loaded.commit_of(&mut step, &lease, extras, &decided, now);
        if lease.epoch.is_none() && loaded.row.is_owned {
            commit.wake_at = loaded.row.due_to_its_owner(commit.wake_at, now);
        }
        commit.deliveries = outgoing.deliveries;
        commit.rows.extend(outgoing.rows);
        commit.spend = spending.changes();
        let is_holder = lease.epoch.is_some();
        let effects_before = before.effects;
        let prepared =
            Prepared { thread, effects_before, is_holder, step, decided, publication, spending, tally, delivery_kinds };
        Ok((commit, Box::new(prepared)))
    }

    /// After the commit: emits metrics, notifies senders and subscribers, and starts effects.
    async fn after_commit(&mut self, prepared: Box<Prepared>, events: &[Arc<Event>]) -> DecisionResult {
        let Prepared { thread, effects_before, is_holder, step, decided, publication, tally, delivery_kinds, .. } =
            *prepared;
        tally.emit(&self.shared, thread.as_str()).await;
        if step.runs.iter().any(|run| run.status.is_terminal()) {
            failpoint::reached("final.committed");
        }
        self.shared.outbox.wakeup.notify(delivery_kinds);
        if step.progress && events.iter().any(|event| is_progress(event)) {
            self.forget_crashes().await;
        }
        self.publish(publication, &step).await;
        self.start_and_abort_effects(&effects_before, is_holder).await;
        decided
    }

    /// The thread made progress, so earlier crashes of processes that had it loaded were not its fault.
    async fn forget_crashes(&mut self) {
        let Some(loaded) = self.loaded.as_mut().filter(|loaded| loaded.row.crashes.times > 0) else { return };
        match self.shared.store.forget_crashes(&[self.pk]).await {
            Ok(()) => loaded.row.crashes = Crashes::default(),
            Err(error) => tracing::warn!(
                threadId = %loaded.row.thread_id,
                %error,
                "the crash count of a thread that made progress was not reset; it is reset with its next progress"
            ),
        }
    }

    /// The step changed nothing: stores only the answer under the request's idempotency key, if it has one. `None`: the
    /// thread in memory was stale.
    async fn commit_noop(
        &mut self,
        extras: &CommitExtras,
        decided: DecisionResult,
        now: Millis,
    ) -> Result<Option<DecisionResult>, CommandError> {
        let Some((loaded, row)) = self.loaded.as_ref().zip(extras.idempotency.as_ref()) else {
            return Ok(self.confirm_newest().await?.then_some(decided));
        };
        let idempotency = Some(row(&decided, now));
        let commit = Commit { idempotency, ..loaded.commit_with_lease(LeaseChange::Keep, now) };
        Ok(self.write(commit).await?.then_some(decided))
    }

    /// Whether the thread in memory is as it is stored; if not, it is unloaded, so that it is read again before the next
    /// decision. Commits are fenced, but a refusal and a no-op write nothing, so they are compared with the store here: another
    /// process may have committed a decision, which the lease holder does not learn at once.
    pub(super) async fn confirm_newest(&mut self) -> Result<bool, CommandError> {
        let Some(loaded) = self.loaded.as_ref() else { return Ok(false) };
        if loaded.new.is_some() || !self.shared.store.is_shared() {
            return Ok(true);
        }
        let version = loaded.row.fence.version;
        let versions = self.shared.store.thread_versions(&[self.pk]).await?;
        let is_newest = versions.iter().any(|one| one.version == version);
        if !is_newest {
            self.loaded = None;
        }
        Ok(is_newest)
    }

    /// Commits, and updates the row in memory. `false`: the thread was stale. Unless `true` is returned, the thread is unloaded.
    pub(super) async fn write(&mut self, commit: Commit) -> Result<bool, CommandError> {
        let row_after = RowAfterCommit::of(&commit);
        self.has_written = true;
        // The stored version is about to change; until the actor waits again, no other is compared with it.
        self.known_version.set(None);
        failpoint::reached("commit.before");
        let committed = self.shared.store.commit(commit).await;
        match (committed, &mut self.loaded) {
            (Ok(Committed::Done), Some(loaded)) => {
                failpoint::reached("commit.after");
                row_after.apply_to(loaded);
                self.shared.hub.publish_change(loaded.row.tenant, loaded.row.pk, &loaded.row.thread_id);
                if let Some(at) = loaded.row.wake_at {
                    self.shared.sweeper.look_by(at);
                }
                Ok(true)
            }
            (outcome, loaded) => {
                *loaded = None;
                match outcome? {
                    Committed::Done | Committed::Stale => Ok(false),
                    Committed::Exists => Err(CommandError::Exists),
                    Committed::Duplicate => Err(CommandError::Duplicate),
                    Committed::NotDue => Err(CommandError::NotDue),
                    Committed::Capped => Err(CommandError::Capped),
                }
            }
        }
    }

    /// Like [`write`](Self::write). If the caps have no room, reads what they leave, to which the next decision is limited.
    async fn write_spending(&mut self, commit: Commit, spending: &Spending) -> Result<bool, CommandError> {
        match self.write(commit).await {
            Err(CommandError::Capped) => {
                self.room_for_retry = Some(self.shared.room_for(spending).await?);
                Ok(false)
            }
            written => written,
        }
    }

    async fn start_and_abort_effects(&mut self, before: &[Effect], is_holder: bool) {
        let Some(loaded) = &self.loaded else { return };
        let EffectChanges { stopped, started } = step::effect_changes(before, &*loaded.machine);
        for effect in stopped {
            self.effects.abort(effect);
        }
        self.reply_to_calls();
        if is_holder && !started.is_empty() {
            self.start_effects(started).await;
        }
    }
}

/// A decision in memory, before its commit.
struct UncommittedDecision {
    now: Millis,
    lease: CommitLease,
    /// The process drains and holds the lease, which it releases if nothing runs any more.
    releases_lease: bool,
    before: BeforeStep,
    step: Step,
    decided: DecisionResult,
    /// Only the answer under an idempotency key is stored, if there is one.
    changes_nothing: bool,
}

/// What the thread had before a decision: what the step starts, ends, spends and announces is the difference.
struct BeforeStep {
    effects: Vec<Effect>,
    /// Of model calls, under these caps.
    reservations: Vec<Reservation>,
    caps: SpendCaps,
    recipients: Option<PushRecipients>,
}

/// What is left to do after the commit of a decision.
struct Prepared {
    thread: ThreadId,
    effects_before: Vec<Effect>,
    /// Whether the committer may start effects.
    is_holder: bool,
    /// Without the rows and records that are committed.
    step: Step,
    decided: DecisionResult,
    publication: Publication,
    spending: Spending,
    tally: Tally,
    /// The kinds of the deliveries that the commit stores.
    delivery_kinds: Vec<TargetKind>,
}

/// The event that was refused, and why.
struct RefusedEvent {
    nth: usize,
    fault: Fault,
}

impl LoadedThread {
    /// Decides on the events, one after the other, as one step. If one is refused, the machine contains those before it.
    fn decide_all(
        &mut self,
        world: &World<'_>,
        stamp: impl Fn() -> Stamp,
        events: &[Arc<Event>],
    ) -> Result<Step, RefusedEvent> {
        let mut step = Step::nothing();
        for (nth, event) in events.iter().enumerate() {
            let next = step::decide(&mut *self.machine, world, stamp(), Event::clone(event));
            step = step.then(next.map_err(|fault| RefusedEvent { nth, fault })?);
        }
        Ok(step)
    }
}
