//! One transition, always in this order: decide, prepare the commit, write it, and only then publish, start the effects that
//! the step began and abort those that it ended.

use std::sync::Arc;

use super::actor::Actor;
use super::command::{CommitExtras, Decided, Refusal};
use super::load::{ClaimMode, CommitLease, TRIES, contended};
use super::loaded::{LoadedThread, RowAfterCommit};
use super::publish::Announcement;
use super::pushes::PushRecipients;
use super::spending::Spending;
use super::tally::Tally;
use crate::domain::Millis;
use crate::domain::fault::Fault;
use crate::domain::ids::ThreadId;
use crate::domain::spend::SpendCaps;
use crate::domain::thread::ThreadStatus;
use crate::engine::effect::Effect;
use crate::engine::event::{Event, ModelEvent, PeerEvent, SystemEvent, ToolEvent};
use crate::engine::step::{self, Step};
use crate::engine::{Illegal, Reservation, RunAdmission, Stamp, World};
use crate::failpoint;
use crate::store::outbox::TargetKind;
use crate::store::{Commit, Committed, Crashes, LeaseChange};

impl Actor {
    /// Decides until the decision holds: one event after the other, and all of them in one commit. An effect of it has
    /// started only if all of it is durable.
    pub(super) async fn transit(&mut self, events: &[Arc<Event>], extras: &CommitExtras) -> Result<Decided, Refusal> {
        for _ in 0..TRIES {
            self.ensure_loaded(extras).await?;
            if let Some(decided) = self.attempt(events, extras, ClaimMode::IfFree).await? {
                return Ok(decided);
            }
        }
        Err(contended())
    }

    /// Decides on the thread as it is in memory and commits that; `None`: it was stale, and must be read again. Where one
    /// of several events is refused, nothing of the others has happened.
    pub(super) async fn attempt(
        &mut self,
        events: &[Arc<Event>],
        extras: &CommitExtras,
        mode: ClaimMode,
    ) -> Result<Option<Decided>, Refusal> {
        let begin = self.try_begin_run(events).await?;
        let decided = self.decide_and_commit(begin, events, extras, mode).await;
        self.count_run();
        if matches!(&decided, Ok(Some(decided)) if !decided.is_noop) {
            self.announce_wait();
        }
        decided
    }

    async fn decide_and_commit(
        &mut self,
        begin: RunAdmission,
        events: &[Arc<Event>],
        extras: &CommitExtras,
        mode: ClaimMode,
    ) -> Result<Option<Decided>, Refusal> {
        let Some(decision) = self.decide(begin, events, extras, mode).await? else { return Ok(None) };
        if decision.changes_nothing {
            return self.commit_noop(extras, decision.decided, decision.now).await;
        }
        let (commit, prepared) = self.prepare(decision, events, extras).await?;
        if !self.write_spending(commit, &prepared.spending).await? {
            return Ok(None);
        }
        Ok(Some(self.after_commit(prepared, events).await))
    }

    /// What the events come to, decided in memory. `None`: the thread was stale.
    async fn decide(
        &mut self,
        begin: RunAdmission,
        events: &[Arc<Event>],
        extras: &CommitExtras,
        mode: ClaimMode,
    ) -> Result<Option<Decision>, Refusal> {
        let loaded = self.loaded.as_ref().ok_or(Refusal::Gone)?;
        self.shared.tools.prepare(loaded.row.tenant).await;
        let lease = self.lease_for_commit(loaded, mode);
        let gives_back = self.shared.draining.is_cancelled() && self.is_ours(loaded);
        let now = self.shared.now();
        let shared = self.shared.clone();
        let loaded = self.loaded.as_mut().ok_or(Refusal::Gone)?;
        loaded.keep_fold_while_watched(&shared);
        let (before, reserved) = (loaded.machine.running(), loaded.machine.reservations());
        let caps = shared.caps(loaded.row.tenant);
        let allowance = shared.allowance(&caps, self.room.take());
        let releases = events.iter().any(|event| matches!(**event, Event::System(SystemEvent::Released)));
        let recipients = loaded.recipients(extras, shared.public_console_urls());
        let tools = shared.tools.toolset(loaded.row.tenant);
        let world = World { allowance: &allowance, begin, ..shared.world(&tools) };
        let stamp = || Stamp { now, seed: shared.clock.seed(), holder: lease.epoch };
        let step = match loaded.decide(&world, stamp, events) {
            Ok(step) => step,
            Err(Refused { nth: 0, fault }) => {
                return if self.confirm_newest().await? { Err(fault.into()) } else { Ok(None) };
            }
            Err(Refused { fault, .. }) => {
                // It has what the events before made of it.
                self.loaded = None;
                return Err(fault.into());
            }
        };
        let decided = Decided::of(&step, loaded, extras);
        let changes_nothing = step.is_noop && !(releases && loaded.row.status == ThreadStatus::Quarantined);
        let held = Held { before: reserved, caps };
        Ok(Some(Decision { now, lease, gives_back, before, held, recipients, step, decided, changes_nothing }))
    }

    /// The decision as a commit, with all that others are told of it, and what is left to be done once it is stored.
    async fn prepare(
        &mut self,
        decision: Decision,
        events: &[Arc<Event>],
        extras: &CommitExtras,
    ) -> Result<(Commit, Prepared), Refusal> {
        let Decision { now, mut lease, gives_back, before, held, recipients, mut step, decided, .. } = decision;
        let shared = &self.shared;
        let loaded = self.loaded.as_mut().ok_or(Refusal::Gone)?;
        let is_at_rest = loaded.machine.running().is_empty();
        if gives_back && is_at_rest {
            // Nothing runs any more here: another process may go on with the thread while this one still drains.
            lease.change = LeaseChange::Release;
        } else if lease.epoch.is_some() && is_at_rest && !loaded.machine.is_active() {
            // Nothing is left to be done: the process that gets the next request claims the thread.
            lease.change = loaded.lease_when_idle();
        }
        let news = loaded.news(&step, &shared.waiters);
        let whose = (loaded.row.tenant, &held.caps);
        let mut spending = Spending::of(whose, &held.before, &loaded.machine.reservations(), &step.rows, now);
        let mut tally = Tally::of(&step, loaded.machine.run());
        if events.iter().any(|event| matches!(**event, Event::System(SystemEvent::Recovered))) {
            tally.made_again(&before, &step.rows);
        }
        let outgoing = match shared.outgoing(loaded, &step, recipients, extras, now).await {
            Ok(outgoing) => outgoing,
            Err(error) => {
                self.loaded = None;
                return Err(error.into());
            }
        };
        shared.announce_used(&held.caps, &mut spending);
        let mut rings = outgoing.kinds();
        rings.extend(spending.tells().then_some(TargetKind::Webhook));
        let thread = loaded.row.thread_id.clone();
        let mut commit = loaded.commit_of(&mut step, &lease, extras, &decided, now);
        if lease.epoch.is_none() && loaded.row.is_owned {
            commit.wake_at = loaded.row.due_to_its_owner(commit.wake_at, now);
        }
        commit.deliveries = outgoing.deliveries;
        commit.rows.extend(outgoing.rows);
        commit.spend = spending.changes();
        let is_holder = lease.epoch.is_some();
        Ok((commit, Prepared { thread, before, is_holder, step, decided, news, spending, tally, rings }))
    }

    /// The commit is stored: it is counted and told, and what it begins is started.
    async fn after_commit(&mut self, prepared: Prepared, events: &[Arc<Event>]) -> Decided {
        let Prepared { thread, before, is_holder, step, decided, news, tally, rings, .. } = prepared;
        tally.emit(&self.shared, thread.as_str());
        if step.runs.iter().any(|run| run.status.is_terminal()) {
            failpoint::reached("final.committed");
        }
        self.shared.outbox.wakeup.notify(rings);
        if step.progress && events.iter().any(|event| is_result(event)) {
            self.forget_crashes().await;
        }
        self.publish(news, &step).await;
        self.perform(&before, is_holder).await;
        decided
    }

    /// The thread made progress, so earlier crashes of processes that had it loaded were not its fault.
    async fn forget_crashes(&mut self) {
        let Some(loaded) = self.loaded.as_mut().filter(|loaded| loaded.row.crashes.times > 0) else { return };
        match self.shared.store.forget_crashes(&[self.pk], false).await {
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
        decided: Decided,
        now: Millis,
    ) -> Result<Option<Decided>, Refusal> {
        let Some((loaded, kept)) = self.loaded.as_ref().zip(extras.kept.as_ref()) else {
            return Ok(self.confirm_newest().await?.then_some(decided));
        };
        let idempotency = Some(kept(&decided, now));
        let commit = Commit { idempotency, ..loaded.commit(LeaseChange::Keep, now) };
        Ok(self.write(commit).await?.then_some(decided))
    }

    /// Whether the thread in memory is as it is stored; if not, it is unloaded, so that it is read again before the next
    /// decision. Commits are fenced; a refusal and a "nothing to do" write nothing, so they are compared: others may have
    /// committed a decision, and the holder of the lease does not hear of it at once.
    pub(super) async fn confirm_newest(&mut self) -> Result<bool, Refusal> {
        let Some(loaded) = self.loaded.as_ref() else { return Ok(false) };
        if loaded.new.is_some() || !self.shared.store.is_shared() {
            return Ok(true);
        }
        let version = loaded.row.fence.version;
        let marks = self.shared.store.marks(&[self.pk]).await?;
        let is_newest = marks.iter().any(|mark| mark.version == version);
        if !is_newest {
            self.loaded = None;
        }
        Ok(is_newest)
    }

    /// Commits and keeps the row in memory equal to the stored one. `false`: stale; whatever is not `true` leaves the
    /// thread to be loaded again.
    pub(super) async fn write(&mut self, commit: Commit) -> Result<bool, Refusal> {
        let row_after = RowAfterCommit::of(&commit);
        self.has_written = true;
        failpoint::reached("commit.before");
        let committed = self.shared.store.commit(commit).await;
        match (committed, &mut self.loaded) {
            (Ok(Committed::Done), Some(loaded)) => {
                failpoint::reached("commit.after");
                row_after.apply_to(loaded);
                self.shared.hub.publish_change(loaded.row.tenant, loaded.row.pk, &loaded.row.thread_id);
                if let Some(at) = loaded.row.wake_at {
                    self.shared.alarm.sooner(at);
                }
                Ok(true)
            }
            (outcome, loaded) => {
                *loaded = None;
                match outcome? {
                    Committed::Done | Committed::Stale => Ok(false),
                    Committed::Exists => Err(Refusal::Exists),
                    Committed::Duplicate => Err(Refusal::Duplicate),
                    Committed::NotDue => Err(Refusal::NotDue),
                    Committed::Capped => Err(Refusal::Capped),
                }
            }
        }
    }

    /// The same; where the caps have no room for it, the next decision keeps to what they have.
    async fn write_spending(&mut self, commit: Commit, spending: &Spending) -> Result<bool, Refusal> {
        match self.write(commit).await {
            Err(Refusal::Capped) => {
                self.room = Some(self.shared.room_for(spending).await?);
                Ok(false)
            }
            written => written,
        }
    }

    async fn perform(&mut self, before: &[Effect], is_holder: bool) {
        let Some(loaded) = &self.loaded else { return };
        for effect in step::stopped(before, &*loaded.machine) {
            self.work.abort(effect);
        }
        self.reply_to_calls();
        let Some(loaded) = &self.loaded else { return };
        let started = step::started(before, &*loaded.machine);
        if is_holder && !started.is_empty() {
            self.start(started).await;
        }
    }
}

/// Whether it is what an effect came to, which shows that the thread gets on.
fn is_result(event: &Event) -> bool {
    matches!(
        event,
        Event::Model(ModelEvent::Replied { .. })
            | Event::Tool(ToolEvent::Returned { .. })
            | Event::Peer(PeerEvent::Reported { .. })
    )
}

/// What some events came to in memory.
struct Decision {
    now: Millis,
    lease: CommitLease,
    /// The process drains and holds the lease, which it gives back if nothing runs any more.
    gives_back: bool,
    /// The effects that ran before.
    before: Vec<Effect>,
    held: Held,
    recipients: Option<PushRecipients>,
    step: Step,
    decided: Decided,
    /// Only the answer to the request is stored, if it is kept.
    changes_nothing: bool,
}

/// What model calls held before a decision, under these caps.
struct Held {
    before: Vec<Reservation>,
    caps: SpendCaps,
}

/// What is left to be done once the commit of a decision is stored.
struct Prepared {
    thread: ThreadId,
    /// The effects that ran before.
    before: Vec<Effect>,
    /// Whether the committer may start effects.
    is_holder: bool,
    /// Without the rows and records that are committed.
    step: Step,
    decided: Decided,
    news: Announcement,
    spending: Spending,
    tally: Tally,
    /// Whose deliveries are left in the outbox.
    rings: Vec<TargetKind>,
}

/// Which of several events was refused, and why.
struct Refused {
    nth: usize,
    fault: Fault,
}

impl LoadedThread {
    /// What the events come to, one after the other, as one step. Where one is refused, those before it are decided in memory.
    fn decide(&mut self, world: &World<'_>, stamp: impl Fn() -> Stamp, events: &[Arc<Event>]) -> Result<Step, Refused> {
        let mut step = Step::nothing();
        for (nth, event) in events.iter().enumerate() {
            let next = step::decide(&mut *self.machine, world, stamp(), Event::clone(event));
            step = step.then(next.map_err(|Illegal(fault)| Refused { nth, fault })?);
        }
        Ok(step)
    }
}
