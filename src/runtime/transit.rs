//! One transition: decide, commit, publish, then start what was born and abort what died. In this order, always.

use std::sync::Arc;

use uuid::Uuid;

use super::actor::Actor;
use super::audit;
use super::command::{CommitExtras, Decided, Refusal};
use super::loaded::{Claim, Footing, LoadedThread, TRIES, contended};
use super::tally::Tally;
use crate::domain::Millis;
use crate::domain::run::RunStatus;
use crate::domain::thread::{ThreadProfile, ThreadStatus};
use crate::engine::event::{Event, ModelEvent, PeerEvent, SystemEvent, ToolEvent};
use crate::engine::step::{self, Row, RowKind, Step};
use crate::engine::{Illegal, Stamp};
use crate::failpoint;
use crate::store::{Commit, Committed, Crashes, LeaseChange, ThreadRow};

impl Actor {
    /// Decides until a decision holds. An effect of it has started only if all of it is durable.
    pub(super) async fn transit(&mut self, event: &Arc<Event>, extras: &CommitExtras) -> Result<Decided, Refusal> {
        for _ in 0..TRIES {
            self.ensure_loaded(extras).await?;
            if let Some(decided) = self.attempt(Event::clone(event), extras, Claim::IfFree).await? {
                return Ok(decided);
            }
        }
        Err(contended())
    }

    /// One decision on the thread as it is in memory; `None`: it was stale, and must be read again.
    pub(super) async fn attempt(
        &mut self,
        event: Event,
        extras: &CommitExtras,
        claim: Claim,
    ) -> Result<Option<Decided>, Refusal> {
        let loaded = self.loaded.as_ref().ok_or(Refusal::Gone)?;
        let mut footing = self.footing(loaded, claim);
        let gives_back = self.shared.draining.is_cancelled() && self.is_ours(loaded);
        let stamp = Stamp { now: self.shared.now(), seed: self.shared.clock.seed(), holder: footing.holder };
        let shared = self.shared.clone();
        let loaded = self.loaded.as_mut().ok_or(Refusal::Gone)?;
        loaded.attend(&shared);
        let before = loaded.machine.running();
        let releases = matches!(event, Event::System(SystemEvent::Released));
        let brings_on = matches!(
            event,
            Event::Model(ModelEvent::Replied { .. })
                | Event::Tool(ToolEvent::Returned { .. })
                | Event::Peer(PeerEvent::Seen { .. })
        );
        let recipients = loaded.recipients(extras);
        let tools = shared.tools.toolset(loaded.row.tenant);
        let mut step = match step::decide(&mut *loaded.machine, &shared.world(&tools), stamp, event) {
            Ok(step) => step,
            Err(Illegal(fault)) => return if self.is_newest().await? { Err(fault.into()) } else { Ok(None) },
        };
        let decided = Decided::of(&step, loaded, extras);
        if step.is_noop && !(releases && loaded.row.status == ThreadStatus::Quarantined) {
            return self.let_be(extras, decided, stamp.now).await;
        }
        let is_at_rest = loaded.machine.running().is_empty();
        if gives_back && is_at_rest {
            // The last step under way: another process may go on from here while this one still drains.
            footing.lease = LeaseChange::Release;
        } else if footing.holder.is_some() && is_at_rest && !loaded.machine.is_active() {
            // Nothing is left to be done: whoever is asked next takes it.
            footing.lease = loaded.at_rest();
        }
        let news = loaded.news(&step, &shared.waiters);
        let tally = Tally::of(&step, loaded.machine.run());
        let (tenant, thread) = (loaded.row.tenant, &loaded.row.thread_id);
        let id = thread.clone();
        let mut deliveries = shared.outbox.directory.announce(tenant, thread, &step.records, &mut shared.mint());
        let mut receivers: Vec<Row> = extras.pushes.iter().map(|target| target.row(false)).collect();
        if let Some(recipients) = recipients {
            let (pushes, over) = match shared.told_to(recipients, tenant, loaded.row.pk, &step).await {
                Ok(told) => told,
                Err(error) => {
                    self.loaded = None;
                    return Err(error.into());
                }
            };
            deliveries.extend(pushes);
            receivers.retain(|row| over.iter().all(|ended| ended.id != row.id));
            receivers.extend(over);
        }
        let is_told = !deliveries.is_empty();
        let mut commit = Commit { deliveries, ..loaded.commit_of(&mut step, &footing, extras, &decided, stamp.now) };
        commit.rows.extend(receivers);
        if !self.write(commit).await? {
            return Ok(None);
        }
        tally.tell(&shared, id.as_str());
        if step.runs.iter().any(|run| run.status.is_terminal()) {
            failpoint::reached("final.committed");
        }
        if is_told {
            self.shared.outbox.bell.ring();
        }
        if brings_on && step.progress {
            self.forget_crashes().await;
        }
        self.publish(news, &step).await;
        self.perform(&before, footing.holder.is_some()).await;
        Ok(Some(decided))
    }

    /// It got on: what died with it in hand before was not its fault.
    async fn forget_crashes(&mut self) {
        let Some(loaded) = self.loaded.as_mut().filter(|loaded| loaded.row.crashes.times > 0) else { return };
        match self.shared.store.forget_crashes(&[self.pk], false).await {
            Ok(()) => loaded.row.crashes = Crashes::default(),
            Err(error) => tracing::warn!(%error, "its crashes are remembered a while longer"),
        }
    }

    /// Nothing changed; the answer to the request's key is kept all the same. `None`: it was stale.
    async fn let_be(
        &mut self,
        extras: &CommitExtras,
        decided: Decided,
        now: Millis,
    ) -> Result<Option<Decided>, Refusal> {
        let Some((loaded, kept)) = self.loaded.as_ref().zip(extras.kept.as_ref()) else {
            return Ok(self.is_newest().await?.then_some(decided));
        };
        let idempotency = Some(kept(&decided, now));
        let commit = Commit { idempotency, ..loaded.commit(LeaseChange::Keep, now) };
        Ok(self.write(commit).await?.then_some(decided))
    }

    /// Whether the thread in memory is as it is stored; if not, it is read again before the next decision. Commits are
    /// fenced; a refusal and a "nothing to do" write nothing, so they are compared: others may have committed a decision,
    /// and the holder of the lease does not hear of it at once.
    pub(super) async fn is_newest(&mut self) -> Result<bool, Refusal> {
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
                row_after.note_in(loaded);
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
                }
            }
        }
    }

    async fn perform(&mut self, before: &[crate::engine::effect::Effect], is_holder: bool) {
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

impl LoadedThread {
    /// A commit that changes nothing.
    pub(super) fn commit(&self, lease: LeaseChange, now: Millis) -> Commit {
        let sheet = self.new.is_some().then(|| self.row.sheet.clone());
        Commit { create: self.new.clone(), sheet, ..self.row.commit(lease, now) }
    }

    /// What becomes of the lease when nothing is left to be done.
    pub(super) fn at_rest(&self) -> LeaseChange {
        if self.row.replica.is_some() { LeaseChange::Release } else { LeaseChange::Keep }
    }

    /// An idle thread tells whether its last run failed.
    fn status_after(&self, step: &Step) -> ThreadStatus {
        let ended = step.runs.iter().rev().find(|run| run.status.is_terminal());
        match (step.status, ended.map(|run| run.status)) {
            (ThreadStatus::Idle, Some(RunStatus::Failed)) => ThreadStatus::Failed,
            (ThreadStatus::Idle, None) if self.row.status == ThreadStatus::Failed => ThreadStatus::Failed,
            (status, _) => status,
        }
    }

    /// The step as a commit; what readers are told later stays in the step.
    fn commit_of(
        &self,
        step: &mut Step,
        footing: &Footing,
        extras: &CommitExtras,
        decided: &Decided,
        now: Millis,
    ) -> Commit {
        let mut commit = self.commit(footing.lease.clone(), now);
        commit.head = step.head.take();
        commit.status = self.status_after(step);
        commit.wake_at = step.wake_at;
        commit.floor = step.floor;
        commit.rows = std::mem::take(&mut step.rows);
        commit.records = std::mem::take(&mut step.records);
        // A title that a person gave stays.
        if let (Some(title), None) = (&step.title, &self.row.sheet.title) {
            commit.sheet.get_or_insert_with(|| self.row.sheet.clone()).title = Some(title.clone());
        }
        commit.idempotency = extras.kept.as_ref().map(|kept| kept(decided, now));
        commit.audit = audit::lines(&self.row, &commit.records);
        if let Some((actor, action, detail)) = &extras.audit {
            let mut detail = detail.clone();
            if let Some((_, version)) = &decided.plan {
                detail["planVersion"] = (*version).into();
            }
            commit.audit.push(audit::line(&self.row, now, actor, action, detail));
        }
        commit
    }
}

impl ThreadRow {
    /// A commit on top of it that changes nothing.
    pub(super) fn commit(&self, lease: LeaseChange, now: Millis) -> Commit {
        Commit {
            pk: self.pk,
            create: None,
            fence: self.fence.clone(),
            lease,
            token: Uuid::new_v4(),
            now,
            head: None,
            sheet: None,
            status: self.status,
            wake_at: self.wake_at,
            floor: self.floor,
            rows: Vec::new(),
            last_seq: self.last_seq,
            records: Vec::new(),
            idempotency: None,
            audit: Vec::new(),
            deliveries: Vec::new(),
        }
    }
}

/// What a commit makes of the thread's row.
struct RowAfterCommit {
    lease: LeaseChange,
    status: ThreadStatus,
    wake_at: Option<Millis>,
    floor: i64,
    last_seq: i64,
    now: Millis,
    sheet: Option<ThreadProfile>,
    receivers: Vec<Row>,
}

impl RowAfterCommit {
    fn of(commit: &Commit) -> Self {
        Self {
            lease: commit.lease.clone(),
            status: commit.status,
            wake_at: commit.wake_at,
            floor: commit.floor,
            last_seq: commit.last_seq + commit.records.len() as i64,
            now: commit.now,
            sheet: commit.sheet.clone(),
            receivers: commit.rows.iter().filter(|row| row.kind == RowKind::Push).cloned().collect(),
        }
    }

    fn note_in(self, loaded: &mut LoadedThread) {
        loaded.new = None;
        loaded.receivers.extras(self.receivers);
        let row = &mut loaded.row;
        row.fence.version += 1;
        match self.lease {
            LeaseChange::Keep => {}
            LeaseChange::Claim { lease, replica } => {
                row.fence.epoch += 1;
                row.fence.lease = Some(lease);
                row.replica = Some(replica);
                row.is_owned = true;
            }
            LeaseChange::Release => {
                row.fence.lease = None;
                row.replica = None;
                row.is_owned = false;
            }
        }
        row.status = self.status;
        row.wake_at = self.wake_at;
        row.floor = self.floor;
        row.last_seq = self.last_seq;
        row.updated_at = self.now;
        row.sheet = self.sheet.unwrap_or_else(|| std::mem::take(&mut row.sheet));
    }
}
