//! A thread's task: it alone decides for the thread in this process, one thing after the other.
//!
//! Everything it does follows one order: decide, commit, publish, then start and abort effects. What effects come to is
//! owed to the engine until it is committed or the lease is lost.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::audit;
use super::command::{Command, CommitExtras, Decided, ProfileEdit, Refusal};
use super::erasure::remote_cancels;
use super::lease::Lease;
use super::loaded::{Claim, LoadedThread, TRIES, contended};
use super::perform::{Work, model_failed, tool_failed};
use super::shared::Shared;
use crate::domain::Millis;
use crate::domain::fault::Code;
use crate::domain::ids::ThreadPk;
use crate::domain::model::FailureKind;
use crate::domain::run::Run;
use crate::engine::event::{CancelEvent, Event, ModelEvent, PeerEvent, SystemEvent, ToolEvent};
use crate::engine::step::Row;
use crate::failpoint;
use crate::store::Erasure;
use crate::store::{self, LeaseChange};

/// Between two tries to commit what is owed.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long a wake-up that found nothing is put off.
const PUT_OFF: Millis = 1_000;

pub(super) struct Actor {
    pub(super) shared: Arc<Shared>,
    pub(super) pk: ThreadPk,
    mailbox: mpsc::Receiver<Command>,
    /// Told to those who watch the store for what others do.
    is_holder: Arc<AtomicBool>,
    /// The thread as it is stored; `None`: to be read (again) before the next decision.
    pub(super) loaded: Option<LoadedThread>,
    /// Whether a commit was tried: until then nothing is stored of a thread that does not exist yet.
    pub(super) has_written: bool,
    /// The lease under which the effects below were started.
    pub(super) hold: Option<Lease>,
    pub(super) work: Work,
    /// What effects came to, not committed yet.
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
            has_written: false,
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
                () = ended(&self.hold) => self.let_go(),
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

    /// Another may act for this thread now, so nothing of ours may: what was under way is dropped, answers too.
    pub(super) fn let_go(&mut self) {
        self.work.drop_all();
        self.uncommitted.clear();
        self.retry = None;
        self.hold = None;
    }

    fn halt(mut self) {
        self.let_go();
        self.mailbox.close();
        while self.mailbox.try_recv().is_ok() {}
        self.shared.actors.leave(self.pk, &self.mailbox);
    }

    async fn handle(&mut self, command: Command) {
        // Who asked may be gone by the time of the answer; what was decided holds.
        match command {
            Command::Decide { event, extras, reply } => drop(reply.send(self.decide_and_settle(&event, &extras).await)),
            Command::EditProfile { edit, reply } => drop(reply.send(self.edit_profile(&edit).await)),
            Command::Keep { row, reply } => drop(reply.send(self.keep(&row).await)),
            Command::Delete { by, reply } => drop(reply.send(self.delete(&by).await)),
            Command::Wake { reply } => drop(reply.send(self.look_after().await)),
        }
    }

    /// A decision with what it brings about: a cancel goes on until the effects are stopped.
    async fn decide_and_settle(&mut self, event: &Arc<Event>, extras: &CommitExtras) -> Result<Decided, Refusal> {
        let mut decided = self.transit(event, extras).await?;
        self.complete(&mut decided).await?;
        Ok(decided)
    }

    /// A cancel that waits until the effects are stopped: only whoever holds the thread can say that they are.
    async fn complete(&mut self, decided: &mut Decided) -> Result<(), Refusal> {
        if decided.stop_effects && self.loaded.as_ref().is_some_and(|loaded| self.is_ours(loaded)) {
            decided.runs.extend(self.stop_effects().await?);
            decided.stop_effects = false;
        }
        Ok(())
    }

    /// The second phase of a cancel: nothing runs any more, and that is recorded. Returns the runs that it ended.
    async fn stop_effects(&mut self) -> Result<Vec<Run>, Refusal> {
        self.work.stop().await;
        // What other agents said may be of a task whose run is over long since.
        self.uncommitted
            .retain(|event| matches!(&**event, Event::Peer(PeerEvent::Seen { .. } | PeerEvent::Failed { .. })));
        self.uncommitted.push_back(Arc::new(Event::Cancel(CancelEvent::EffectsStopped)));
        let ended = self.commit_pending().await;
        if self.uncommitted.is_empty() {
            Ok(ended)
        } else {
            Err(store::Error::Unavailable("the cancel is stored, its end is not yet".to_owned()).into())
        }
    }

    /// Commits what is owed, oldest first; what the store does not take now is tried again later. Returns the runs that
    /// it moved.
    async fn commit_pending(&mut self) -> Vec<Run> {
        let mut moved = Vec::new();
        while let Some(event) = self.uncommitted.front().cloned() {
            match self.transit(&event, &CommitExtras::default()).await {
                // A lease that was lost on the way has emptied it.
                Ok(decided) => moved.extend(decided.runs),
                Err(Refusal::Fault(fault)) if fault.code == Code::StoreUnavailable => {
                    let pause = self.retry.map_or(FIRST_PAUSE, |(_, pause)| (pause * 2).min(LONGEST_PAUSE));
                    self.retry = Some((Instant::now() + pause, pause));
                    return moved;
                }
                Err(Refusal::Gone) => {}
                Err(refusal) => {
                    tracing::error!(thread = self.pk.0, ?refusal, "an effect's answer was refused");
                    self.uncommitted.extend(unstorable(&event).map(Arc::new));
                }
            }
            self.uncommitted.pop_front();
        }
        self.retry = None;
        self.reply_to_calls();
        moved
    }

    /// A timer is due, something is ready, or nobody owns the thread.
    async fn look_after(&mut self) -> Result<(), Refusal> {
        // A timer of ours is set in memory first. What is due and not known of here, somebody else wrote.
        let now = self.shared.now();
        let is_due = |loaded: &LoadedThread| loaded.row.wake_at.is_some_and(|at| at <= now);
        self.loaded = self.loaded.take().filter(|loaded| self.is_ours(loaded) && is_due(loaded));
        let woken = self.transit(&Arc::new(Event::System(SystemEvent::Woke)), &CommitExtras::default()).await;
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
        let footing = self.footing(loaded, Claim::IfFree);
        let lease =
            if loaded.machine.is_active() || footing.holder.is_none() { footing.lease } else { loaded.at_rest() };
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
            let (sheet, audit) = match edit(&loaded.row, now) {
                Ok(edited) => edited,
                Err(fault) if self.is_newest().await? => return Err(fault.into()),
                Err(_) => continue,
            };
            let Some(loaded) = &self.loaded else { continue };
            let mut commit = loaded.commit(LeaseChange::Keep, now);
            commit.audit.extend(audit);
            commit.sheet = Some(sheet);
            if self.write(commit).await? {
                return Ok(());
            }
        }
        Err(contended())
    }

    async fn keep(&mut self, row: &Row) -> Result<(), Refusal> {
        let extras = CommitExtras::default();
        for _ in 0..TRIES {
            self.ensure_loaded(&extras).await?;
            let Some(loaded) = &self.loaded else { continue };
            let mut commit = loaded.commit(LeaseChange::Keep, self.shared.now());
            commit.rows.push(row.clone());
            if self.write(commit).await? {
                return Ok(());
            }
        }
        Err(contended())
    }

    async fn delete(&mut self, by: &str) -> Result<(), Refusal> {
        self.work.stop().await;
        self.let_go();
        self.loaded = None;
        let erased = self.erase(by).await;
        if let Err(Refusal::Fault(_)) = erased {
            // What was stopped for it is taken up again, as soon as the store lets it be.
            self.uncommitted.push_back(Arc::new(Event::System(SystemEvent::Woke)));
            self.commit_pending().await;
            return erased;
        }
        self.tell_the_end();
        erased
    }

    /// The thread is gone. Who waits for a run of it, or for more of it, looks again and finds that.
    pub(super) fn tell_the_end(&mut self) {
        self.let_go();
        self.shared.waiters.tell_all(self.pk);
        self.shared.hub.gap(self.pk);
    }

    /// Agents that work for it are told to stop: of what it had given them when it was erased, nothing is missed.
    async fn erase(&self, by: &str) -> Result<(), Refusal> {
        for _ in 0..TRIES {
            let Some((row, rows)) = self.shared.store.load(self.pk).await? else { return Err(Refusal::Gone) };
            let deliveries = remote_cancels(&rows, self.shared.mint())?;
            let (version, now) = (row.fence.version, self.shared.now());
            let (leaves_some, thread) = (!deliveries.is_empty(), self.pk);
            let audit = audit::erased(&row, now, by);
            if self.shared.store.delete_thread(Erasure { thread, version, now, deliveries, audit }).await? {
                failpoint::reached("delete.committed");
                if leaves_some {
                    self.shared.outbox.bell.ring();
                }
                return Ok(());
            }
        }
        Err(contended())
    }
}

/// What is recorded of an answer that cannot be stored.
fn unstorable(event: &Event) -> Option<Event> {
    const WHY: &str = "what came back cannot be stored";
    match event {
        Event::Model(ModelEvent::Replied { stream, attempt, .. }) => {
            Some(model_failed(stream, *attempt, FailureKind::Broken, WHY))
        }
        Event::Tool(ToolEvent::Returned { call, attempt, outcome }) if outcome.result.is_ok() => {
            let outcome = Box::new(tool_failed("failed", WHY));
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
