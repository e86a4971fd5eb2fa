//! A thread's task: it alone decides for the thread in this process, one thing after the other.
//!
//! Everything it does follows one order: decide, commit, publish, then start and abort effects. The result of an effect
//! is kept, and its commit tried again, until it is committed or the lease is lost.
//!
//! The methods of [`Actor`] stand in five files: the mailbox and the commands here, `load.rs` (into memory),
//! `transit.rs` (one transition), `publish.rs` (after its commit), `effects.rs` (starting calls).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::audit;
use super::command::{Audited, Command, CommitExtras, Decided, ProfileEdit, Refusal};
use super::lease::Lease;
use super::load::{ClaimMode, TRIES, contended};
use super::loaded::LoadedThread;
use super::perform::{Work, model_failed, tool_failed};
use super::shared::Shared;
use super::tenant_runs::RunPlace;
use crate::domain::Millis;
use crate::domain::fault::Code;
use crate::domain::ids::ThreadPk;
use crate::domain::model::FailureKind;
use crate::domain::run::Run;
use crate::engine::CapRoom;
use crate::engine::event::{CancelEvent, Event, ModelEvent, PeerEvent, SystemEvent, ToolEvent};
use crate::engine::step::Row;
use crate::store::{self, LeaseChange};

/// Between two tries to commit the result of an effect.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How many results are committed together at most.
const MOST_TOGETHER: usize = 32;
/// How long a wake-up that found nothing is put off.
const PUT_OFF: Millis = 1_000;

pub(super) struct Actor {
    pub(super) shared: Arc<Shared>,
    pub(super) pk: ThreadPk,
    mailbox: mpsc::Receiver<Command>,
    /// Whether this process holds the lease; read by those that watch the store for commits of other processes.
    is_holder: Arc<AtomicBool>,
    /// The thread as it is stored; `None`: to be read (again) before the next decision.
    pub(super) loaded: Option<LoadedThread>,
    /// Whether it was reserved for this process before it was read for a request.
    pub(super) is_reserved: bool,
    /// Whether a commit was tried: until then nothing is stored of a thread that does not exist yet.
    pub(super) has_written: bool,
    /// What the caps on spending leave, after they had no room for the last decision.
    pub(super) room: Option<CapRoom>,
    /// Its run counts among those of its tenant that are under way.
    pub(super) place: Option<RunPlace>,
    /// The lease under which the effects below were started.
    pub(super) hold: Option<Lease>,
    pub(super) work: Work,
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
        is_holder: Arc<AtomicBool>,
    ) -> Self {
        Self {
            shared,
            pk,
            mailbox,
            is_holder,
            loaded: None,
            is_reserved: false,
            has_written: false,
            room: None,
            place: None,
            hold: None,
            work: Work::default(),
            uncommitted: VecDeque::new(),
            retry: None,
        }
    }

    pub(super) async fn run(mut self) {
        let shared = self.shared.clone();
        let ended = |hold: &Option<Lease>| {
            let token = hold.as_ref().map(|hold| hold.ended.clone());
            async move {
                match token {
                    Some(token) => token.cancelled_owned().await,
                    None => std::future::pending().await,
                }
            }
        };
        loop {
            self.is_holder.store(self.loaded.as_ref().is_some_and(|loaded| self.is_ours(loaded)), Ordering::Relaxed);
            let (idle, retry) = (self.idle_after(), self.retry.map(|(at, _)| at));
            tokio::select! {
                biased;
                () = shared.halted.cancelled() => return self.halt(),
                () = ended(&self.hold) => self.drop_work_in_progress(),
                event = self.work.next() => {
                    self.uncommitted.push_back(Arc::new(event));
                    self.commit_pending().await;
                }
                () = sleep_until(retry.unwrap_or_else(Instant::now)), if retry.is_some() => drop(self.commit_pending().await),
                command = self.mailbox.recv() => match command {
                    Some(command) => self.handle(command).await,
                    None => return,
                },
                () = sleep(idle.unwrap_or_default()), if idle.is_some() => {
                    if shared.actors.leave(self.pk, &self.mailbox) {
                        return;
                    }
                }
                // Looks again at whether it may leave.
                () = shared.draining.cancelled(), if idle != Some(Duration::ZERO) && !shared.draining.is_cancelled() => {}
            }
        }
    }

    /// How long to stay without anything to do; `None`: there is something.
    fn idle_after(&self) -> Option<Duration> {
        if !self.work.is_empty() || !self.uncommitted.is_empty() {
            return None;
        }
        if self.shared.draining.is_cancelled() {
            return Some(Duration::ZERO);
        }
        let is_active = self.loaded.as_ref().is_some_and(|loaded| loaded.machine.is_active() && self.is_ours(loaded));
        (!is_active).then(|| Duration::from_millis(self.shared.config.runtime.idle_ms))
    }

    /// Another process may act for this thread now: aborts its effects and drops their uncommitted results.
    pub(super) fn drop_work_in_progress(&mut self) {
        self.work.drop_all();
        self.uncommitted.clear();
        self.retry = None;
        self.hold = None;
    }

    fn halt(mut self) {
        self.drop_work_in_progress();
        self.mailbox.close();
        while self.mailbox.try_recv().is_ok() {}
        self.shared.actors.leave(self.pk, &self.mailbox);
    }

    async fn handle(&mut self, command: Command) {
        match command {
            Command::Decide { event, extras, reply } => {
                let decided = self.decide_and_settle(&event, &extras).await;
                self.answer(reply, decided).await;
            }
            Command::EditProfile { edit, reply } => {
                let edited = self.edit_profile(&edit).await;
                self.answer(reply, edited).await;
            }
            Command::Keep { row, audit, reply } => {
                let kept = self.keep(&row, audit).await;
                self.answer(reply, kept).await;
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
                // The sweeper has reserved it, if anybody had to.
                self.is_reserved = false;
                let looked = self.look_after().await;
                self.answer(reply, looked).await;
            }
        }
    }

    /// A decision with what it brings about: a cancel goes on until the effects are stopped.
    async fn decide_and_settle(&mut self, event: &Arc<Event>, extras: &CommitExtras) -> Result<Decided, Refusal> {
        let mut decided = self.transit(std::slice::from_ref(event), extras).await?;
        self.complete(&mut decided).await?;
        Ok(decided)
    }

    /// A cancel that waits until the effects are stopped: only the lease holder can record that they are.
    async fn complete(&mut self, decided: &mut Decided) -> Result<(), Refusal> {
        if decided.stop_effects && self.loaded.as_ref().is_some_and(|loaded| self.is_ours(loaded)) {
            decided.runs.extend(self.stop_effects().await?);
            decided.stop_effects = false;
        }
        Ok(())
    }

    /// The second phase of a cancel: nothing runs any more, and that is recorded. Returns the runs that it ended.
    async fn stop_effects(&mut self) -> Result<Vec<Run>, Refusal> {
        let spent = self.work.stop().await;
        // What other agents said may be of a task whose run is over long since, and what model calls took is paid for.
        self.uncommitted.retain(|event| {
            matches!(&**event, Event::Model(_) | Event::Peer(PeerEvent::Reported { .. } | PeerEvent::Failed { .. }))
        });
        self.uncommitted.extend(spent.into_iter().map(Arc::new));
        self.uncommitted.push_back(Arc::new(Event::Cancel(CancelEvent::EffectsStopped)));
        let ended = self.commit_pending().await;
        if self.uncommitted.is_empty() {
            Ok(ended)
        } else {
            Err(store::Error::Unavailable("the cancel is stored, its end is not yet".to_owned()).into())
        }
    }

    /// Commits the results of effects, oldest first, those that have ended by then together; what the store does not take
    /// now is tried again later. Returns the runs that changed.
    pub(super) async fn commit_pending(&mut self) -> Vec<Run> {
        let (mut moved, mut most) = (Vec::new(), MOST_TOGETHER);
        while !self.uncommitted.is_empty() {
            while self.uncommitted.len() < most
                && let Some(event) = self.work.next().now_or_never()
            {
                self.uncommitted.push_back(Arc::new(event));
            }
            let events: Vec<Arc<Event>> = self.uncommitted.iter().take(most).cloned().collect();
            match self.transit(&events, &CommitExtras::default()).await {
                // A lease that was lost on the way has emptied it.
                Ok(decided) => moved.extend(decided.runs),
                Err(Refusal::Fault(fault)) if fault.code == Code::StoreUnavailable => {
                    self.commit_later();
                    return moved;
                }
                Err(Refusal::Gone) => {}
                // Each by itself shows which of them it is about.
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
                    self.uncommitted.extend(events.iter().filter_map(|event| unstorable(event)).map(Arc::new));
                }
            }
            self.uncommitted.drain(..events.len().min(self.uncommitted.len()));
        }
        self.retry = None;
        self.reply_to_calls();
        moved
    }

    /// The results that are not committed are tried again after a pause, which grows.
    pub(super) fn commit_later(&mut self) {
        let pause = self.retry.map_or(FIRST_PAUSE, |(_, pause)| (pause * 2).min(LONGEST_PAUSE));
        self.retry = Some((Instant::now() + pause, pause));
    }

    /// Has the machine start what is due. Called when a timer is due, a slot is ready, or nobody owns the thread.
    async fn look_after(&mut self) -> Result<(), Refusal> {
        // A timer of ours is set in memory first. What is due and not known of here, somebody else wrote.
        let now = self.shared.now();
        let is_due = |loaded: &LoadedThread| loaded.row.wake_at.is_some_and(|at| at <= now);
        self.loaded = self.loaded.take().filter(|loaded| self.is_ours(loaded) && is_due(loaded));
        let woken = self.transit(&[Event::System(SystemEvent::Woke).into()], &CommitExtras::default()).await;
        match woken {
            Ok(mut decided) if decided.stop_effects => self.complete(&mut decided).await,
            Ok(decided) if decided.is_noop => self.put_off().await,
            Ok(_) => Ok(()),
            Err(Refusal::Gone) => Ok(()),
            Err(refusal) => Err(refusal),
        }
    }

    /// A wake-up that found nothing to do takes the thread off the sweeper's list: for a while, or as its holder.
    async fn put_off(&mut self) -> Result<(), Refusal> {
        let Some(loaded) = &self.loaded else { return Ok(()) };
        let now = self.shared.now();
        let lease = self.lease_for_commit(loaded, ClaimMode::IfFree);
        let is_kept = loaded.machine.is_active() || lease.epoch.is_none();
        let lease = if is_kept { lease.change } else { loaded.lease_when_idle() };
        let is_due = loaded.row.wake_at.is_some_and(|at| at <= now);
        if !is_due && lease == LeaseChange::Keep {
            return Ok(());
        }
        let mut commit = loaded.commit(lease, now);
        if is_due {
            commit.wake_at = Some(now + PUT_OFF);
        }
        self.write(commit).await.map(drop)
    }

    async fn edit_profile(&mut self, edit: &ProfileEdit) -> Result<(), Refusal> {
        let extras = CommitExtras::default();
        for _ in 0..TRIES {
            self.ensure_loaded(&extras).await?;
            let Some(loaded) = &self.loaded else { continue };
            let now = self.shared.now();
            let (profile, audit) = match edit(&loaded.row, now) {
                Ok(edited) => edited,
                Err(fault) if self.confirm_newest().await? => return Err(fault.into()),
                Err(_) => continue,
            };
            let Some(loaded) = &self.loaded else { continue };
            let mut commit = loaded.commit(LeaseChange::Keep, now);
            commit.audit.extend(audit);
            commit.profile = Some(profile);
            if self.write(commit).await? {
                return Ok(());
            }
        }
        Err(contended())
    }

    async fn keep(&mut self, row: &Row, audited: Option<Audited>) -> Result<(), Refusal> {
        let extras = CommitExtras::default();
        for _ in 0..TRIES {
            self.ensure_loaded(&extras).await?;
            let Some(loaded) = &self.loaded else { continue };
            let now = self.shared.now();
            let mut commit = loaded.commit(LeaseChange::Keep, now);
            commit.rows.push(row.clone());
            commit.audit.extend(
                audited.iter().cloned().map(|(by, action, detail)| audit::line(&loaded.row, now, &by, action, detail)),
            );
            if self.write(commit).await? {
                return Ok(());
            }
        }
        Err(contended())
    }
}

/// The failure that is recorded in place of a result that the store refused.
fn unstorable(event: &Event) -> Option<Event> {
    const WHY: &str = "the result of this call cannot be stored";
    match event {
        Event::Model(ModelEvent::Replied { stream, attempt, .. }) => {
            Some(model_failed(stream, *attempt, FailureKind::Broken, WHY))
        }
        Event::Tool(ToolEvent::Returned { call, attempt, outcome }) if outcome.result.is_ok() => {
            // It ran, and may have had its effect.
            let outcome = Box::new(tool_failed("invalid_output", WHY));
            Some(Event::Tool(ToolEvent::Returned { call: call.clone(), attempt: *attempt, outcome }))
        }
        Event::Asked { .. }
        | Event::Cancel(_)
        | Event::Model(_)
        | Event::Tool(_)
        | Event::Peer(_)
        | Event::Person(_)
        | Event::System(_) => None,
    }
}
