//! The end of a thread: who asked for it, or how long nobody used it, and what may stand in the way.
//!
//! Nothing of the thread is left then, so the tasks that it had given to other agents are cancelled by deliveries of the
//! outbox, each of which holds all it needs.

use std::iter;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;

use super::actor::Actor;
use super::audit;
use super::command::Refusal;
use super::load::{TRIES, contended};
use super::perform::{Reached, Sought};
use super::rows::{legible, read};
use super::shared::Shared;
use super::spending::Spending;
use crate::a2a::client::Error;
use crate::a2a::fault;
use crate::domain::Millis;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{Mint, TenantPk, ThreadPk};
use crate::domain::retention::ThreadTerms;
use crate::domain::task::Task;
use crate::domain::thread::ThreadStatus;
use crate::domain::usage::ModelUse;
use crate::engine::event::{CancelEvent, Event, SystemEvent};
use crate::engine::step::{self, Row, RowKind, Step};
use crate::engine::{Loaded, Machine, Reservation, Stamp};
use crate::failpoint;
use crate::outbox::{AttemptOutcome, AttemptResult};
use crate::store::outbox::{Delivery, NewDelivery, TargetKind};
use crate::store::{self, Erasure, ThreadRow};

/// Who deletes what is too old, as the audit names it.
const RETENTION: &str = "retention";

/// Of the tasks among a thread's rows, one for each that an agent may be at. Those that are over are not loaded.
pub(super) fn remote_cancels(rows: &[Row], mut mint: Mint) -> store::Result<Vec<NewDelivery>> {
    let mut remote_cancels = Vec::new();
    for row in rows.iter().filter(|row| row.kind == RowKind::Task) {
        let task: Task = read(row)?;
        if task.may_have_arrived {
            remote_cancels.push(NewDelivery {
                id: mint.delivery(),
                kind: TargetKind::Agent,
                body: json!(Sought::of(&task)).to_string(),
                target: task.agent_id,
                ordering_key: None,
                event: "cancel".to_owned(),
            });
        }
    }
    Ok(remote_cancels)
}

impl Actor {
    /// Stops everything and erases the thread. Where it is not erased, what was stopped for that is started again, and what
    /// came of it until then counts.
    pub(super) async fn delete(&mut self, by: &str) -> Result<(), Refusal> {
        let Some(row) = self.shared.store.thread_by_pk(self.pk).await? else { return Err(Refusal::Gone) };
        self.shared.check_hold(row.tenant, self.pk).await?;
        let stopped = self.work.stop().await.into_iter().map(Arc::new);
        let results: Vec<Arc<Event>> = self.uncommitted.drain(..).chain(stopped).collect();
        self.drop_work_in_progress();
        self.loaded = None;
        self.shared.tools.prepare(row.tenant).await;
        let erased = self.erase(by, false, &results, |_| true).await;
        if let Err(Refusal::Fault(_)) = erased {
            self.uncommitted.extend(results);
            self.uncommitted.push_back(Arc::new(Event::System(SystemEvent::Woke)));
            self.commit_pending().await;
            return erased.map(drop);
        }
        self.announce_end();
        erased.map(drop)
    }

    /// Erases the thread if it is at rest and nobody used it since `before`; where nobody asked for that it is a chore.
    pub(super) async fn expire(&mut self, before: Millis, by: Option<&str>) -> Result<bool, Refusal> {
        let is_expired = |row: &ThreadRow| row.updated_at < before && is_at_rest(row.status);
        if !self.work.is_empty() || !self.uncommitted.is_empty() {
            return Ok(false);
        }
        match self.erase(by.unwrap_or(RETENTION), by.is_none(), &[], is_expired).await {
            Ok(true) => {
                self.loaded = None;
                self.announce_end();
                Ok(true)
            }
            Err(Refusal::Fault(fault)) if fault.code == Code::OnHold => Ok(false),
            kept => kept,
        }
    }

    /// The thread was deleted: everybody who waits for one of its runs or listens to it reads the store and finds that.
    pub(super) fn announce_end(&mut self) {
        self.drop_work_in_progress();
        self.shared.waiters.notify_thread(self.pk);
        self.shared.hub.publish_gap(self.pk);
    }

    /// Deletes the thread if it may be. The same transaction queues a cancel for each task that another agent may be
    /// working on, and counts what its model calls took, as far as `results` tell of that.
    async fn erase(
        &self,
        by: &str,
        is_chore: bool,
        results: &[Arc<Event>],
        may_be: impl Fn(&ThreadRow) -> bool,
    ) -> Result<bool, Refusal> {
        for _ in 0..TRIES {
            let Some((row, rows)) = self.shared.store.load(self.pk).await? else { return Err(Refusal::Gone) };
            self.shared.check_hold(row.tenant, self.pk).await?;
            if !may_be(&row) {
                return Ok(false);
            }
            let deliveries = remote_cancels(&rows, self.shared.mint())?;
            let (version, now) = (row.fence.version, self.shared.now());
            let thread = self.pk;
            let audit = audit::erased(&row, now, by);
            let (spending, took) = self.shared.last_spending(&row, rows, results, by);
            let mut kinds: Vec<TargetKind> = deliveries.iter().map(|delivery| delivery.kind).collect();
            kinds.extend(spending.tells().then_some(TargetKind::Webhook));
            let spend = spending.changes();
            let erasure = Erasure { thread, version, now, deliveries, audit, spend, took, is_chore };
            if self.shared.store.delete_thread(erasure).await? {
                failpoint::reached("delete.committed");
                self.shared.hub.publish_change(row.tenant, row.pk, &row.thread_id);
                self.shared.erased.notify_one();
                self.shared.outbox.wakeup.notify(kinds);
                return Ok(true);
            }
        }
        Err(contended())
    }
}

/// Whether nothing runs, and nobody is waited for.
fn is_at_rest(status: ThreadStatus) -> bool {
    match status {
        ThreadStatus::Idle | ThreadStatus::Failed | ThreadStatus::Quarantined => true,
        ThreadStatus::Running | ThreadStatus::Suspended | ThreadStatus::Waiting => false,
    }
}

/// Whether the agent will say the same for ever. That it is out of order, or takes no key, may be a matter of minutes.
fn is_final(error: fault::Error) -> bool {
    use fault::Error::{Internal, PermissionDenied, ResourceExhausted, Unauthenticated, Unavailable};
    !matches!(error, Internal | PermissionDenied | ResourceExhausted | Unauthenticated | Unavailable)
}

impl Shared {
    /// What the end of a thread settles under the caps, and what its last model calls took: what they held is given back, and
    /// what `results` say that they took counts. Calls that are made elsewhere took what they held, as what they come to is
    /// heard by nobody.
    fn last_spending(
        &self,
        row: &ThreadRow,
        rows: Vec<Row>,
        results: &[Arc<Event>],
        by: &str,
    ) -> (Spending, Vec<(Millis, ModelUse)>) {
        let loaded =
            Loaded { thread_id: Some(row.thread_id.clone()), head: row.head.clone(), rows, last_seq: row.last_seq };
        // What cannot be read holds what it held until the day and the month are over.
        let Ok(mut machine) = self.core(&row.core).and_then(|core| core.load(loaded)) else {
            return Default::default();
        };
        let (held, caps) = (machine.reservations(), self.caps(row.tenant));
        let usage = self.usage_in(&mut *machine, row.tenant, results, by);
        let mut spending = Spending::of((row.tenant, &caps), &held, &[], &usage, self.now());
        if !self.holds(row) {
            let is_unheard = |reserved: &&Reservation| usage.iter().all(|row| row.id != reserved.stream.as_str());
            let unheard: Vec<&Reservation> = held.iter().filter(is_unheard).collect();
            spending.use_up(row.tenant, &unheard);
        }
        self.announce_used(&caps, &mut spending);
        let took = usage.iter().filter_map(|row| Some((row.ord, legible(row)?)));
        (spending, took.collect())
    }

    /// What these results say that model calls took, as rows: it is decided on them as if the run was cancelled, and nothing of
    /// that is stored.
    fn usage_in(&self, machine: &mut dyn Machine, tenant: TenantPk, results: &[Arc<Event>], by: &str) -> Vec<Row> {
        let replies: Vec<&Arc<Event>> = results.iter().filter(|event| matches!(***event, Event::Model(_))).collect();
        if replies.is_empty() || machine.is_unreadable() {
            return Vec::new();
        }
        let tools = self.tools.toolset(tenant);
        let world = self.world(&tools);
        let cancel = Event::Cancel(CancelEvent::Asked { run: None, by: by.to_owned() });
        let events = iter::once(cancel).chain(replies.into_iter().map(|event| Event::clone(event)));
        let mut rows = Vec::new();
        for event in events {
            let stamp = Stamp { now: self.now(), seed: self.clock.seed(), holder: None };
            // What is refused has changed nothing.
            let step = step::decide(machine, &world, stamp, event).unwrap_or_else(|_| Step::nothing());
            rows.extend(step.rows.into_iter().filter(|row| row.kind == RowKind::Usage));
        }
        rows
    }

    /// Refuses to delete a thread that must be kept.
    async fn check_hold(&self, tenant: TenantPk, pk: ThreadPk) -> Result<(), Refusal> {
        let own = self.store.row(pk, RowKind::Retention, "").await?;
        let own: Option<ThreadTerms> = own.as_ref().map(read).transpose()?;
        let refused =
            |why: &str, ends: &str| Fault::new(Code::OnHold, format!("The thread must be kept: {why}. {ends}"));
        if let Some(hold) = own.and_then(|own| own.hold) {
            let ends = "PUT /threads/{id}/retention without `hold`, by a key with `admin`, ends the hold.";
            return Err(refused(&hold.reason, ends).with("by", hold.by).with("at", hold.at).into());
        }
        if self.config.retention.tenants.values().all(|tenant| tenant.hold.is_none()) {
            return Ok(());
        }
        let name = self.store.tenant_name(tenant).await?.unwrap_or_default();
        match self.config.retention.hold_of(&name) {
            Some(why) => {
                let ends = "Whoever runs the server ends the hold there.";
                Err(refused(&format!("`retention.tenants.{name}.hold` says {why}"), ends).into())
            }
            None => Ok(()),
        }
    }

    pub(super) fn cancel_remote_task(self: Arc<Self>, delivery: Delivery) -> BoxFuture<'static, AttemptResult> {
        async move {
            match self.stopped(delivery.tenant, &delivery.target, &delivery.body).await {
                Ok(()) => (AttemptOutcome::Delivered, "it heard".to_owned()),
                Err((outcome, why)) => (outcome, why),
            }
        }
        .boxed()
    }

    async fn stopped(&self, tenant: TenantPk, agent: &str, body: &str) -> Result<(), AttemptResult> {
        let failed = |error: Error| (AttemptOutcome::Failed, error.to_string());
        let sought: Sought =
            serde_json::from_str(body).map_err(|error| (AttemptOutcome::Undeliverable, error.to_string()))?;
        let reached = Reached::one(&self.agents, tenant, agent).await.map_err(failed)?;
        let reached = reached.ok_or_else(|| (AttemptOutcome::Undeliverable, "the agent was removed".to_owned()))?;
        match reached.cancel(&sought).await {
            Ok(_) => Ok(()),
            Err(Error::Said(said)) if said.error == fault::Error::TaskNotCancelable => Ok(()),
            // One that cannot be named may not have arrived yet.
            Err(Error::Said(said)) if sought.remote_task_id.is_some() && is_final(said.error) => {
                Err((AttemptOutcome::Undeliverable, said.detail))
            }
            Err(error) => Err(failed(error)),
        }
    }
}
