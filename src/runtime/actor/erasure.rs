//! Erasing a thread: on request or because of its age, unless a retention hold forbids it.
//!
//! Nothing of the thread is left afterwards. So the tasks that it had given to other agents are cancelled by deliveries of
//! the outbox, each of which contains all it needs.

use std::iter;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;

use super::Actor;
use super::command::CommandError;
use super::load::{MAX_ATTEMPTS, contended};
use crate::a2a::client::Error;
use crate::a2a::fault;
use crate::domain::Millis;
use crate::domain::actor::ServerActor;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{Mint, TenantPk, ThreadPk};
use crate::domain::retention::ThreadTerms;
use crate::domain::task::Task;
use crate::domain::usage::ModelUse;
use crate::engine::event::{CancelEvent, Event, SystemEvent};
use crate::engine::step::{self, Row, RowKind, Step};
use crate::engine::{Machine, Reservation, Stamp};
use crate::failpoint;
use crate::outbox::AttemptResult;
use crate::runtime::audit;
use crate::runtime::clock::Clock;
use crate::runtime::perform::{PeerConnection, RemoteTaskRef};
use crate::runtime::rows::{legible, read};
use crate::runtime::shared::Shared;
use crate::runtime::spending::{Reservations, Spending};
use crate::store::outbox::{Delivery, NewDelivery, TargetKind};
use crate::store::{self, Erasure, ThreadRow};

/// A cancel for each task among the rows that an agent may be working on. Ended tasks are not among the loaded rows.
fn remote_cancels(rows: &[Row], clock: &dyn Clock, mut mint: Mint) -> store::Result<Vec<NewDelivery>> {
    let mut remote_cancels = Vec::new();
    for row in rows.iter().filter(|row| row.kind == RowKind::Task) {
        let task: Task = read(row)?;
        if task.may_have_arrived {
            remote_cancels.push(NewDelivery {
                id: mint.delivery(),
                kind: TargetKind::Agent,
                body: json!(RemoteTaskRef::of(&task, clock)).to_string(),
                target: task.agent_id,
                ordering_key: None,
                event: "cancel".to_owned(),
            });
        }
    }
    Ok(remote_cancels)
}

impl Actor {
    /// Stops all effects and erases the thread. If it cannot be erased, the effects are started again, and results from before
    /// are committed.
    pub(super) async fn delete(&mut self, by: &str) -> Result<(), CommandError> {
        let Some(row) = self.shared.store.thread_by_pk(self.pk).await? else { return Err(CommandError::Gone) };
        self.shared.check_hold(row.tenant, self.pk).await?;
        let stopped = self.effects.stop().await.into_iter().map(Arc::new);
        let results: Vec<Arc<Event>> = self.uncommitted.drain(..).chain(stopped).collect();
        self.abort_effects();
        self.loaded = None;
        let erased = self.erase(Some(by), &results, |_| true).await;
        if let Err(CommandError::Fault(_)) = erased {
            self.uncommitted.extend(results);
            self.uncommitted.push_back(Arc::new(Event::System(SystemEvent::Woke)));
            self.commit_pending().await;
            return erased.map(drop);
        }
        self.drop_deleted_thread();
        erased.map(drop)
    }

    /// Erases the thread if its status allows it and it is unused since `before`. Without `by` it is a background chore.
    pub(super) async fn expire(&mut self, before: Millis, by: Option<&str>) -> Result<bool, CommandError> {
        let is_expired = |row: &ThreadRow| row.updated_at < before && row.status.may_be_erased();
        if !self.effects.is_empty() || !self.uncommitted.is_empty() {
            return Ok(false);
        }
        match self.erase(by, &[], is_expired).await {
            Ok(true) => {
                self.drop_deleted_thread();
                Ok(true)
            }
            Err(CommandError::Fault(fault)) if fault.code == Code::OnHold => Ok(false),
            kept => kept,
        }
    }

    /// Drops a thread that was deleted, with its effects. Notifies subscribers and those who wait for a run: they read the store
    /// and find it gone.
    pub(super) fn drop_deleted_thread(&mut self) {
        self.loaded = None;
        self.abort_effects();
        self.shared.waiters.notify_thread(self.pk);
        self.shared.hub.publish_gap(self.pk);
    }

    /// Deletes the thread if `is_allowed`. The same transaction queues a cancel for each task that another agent may be working
    /// on, and counts the usage of model calls in `results`. Without `by` it is a background chore.
    async fn erase(
        &self,
        by: Option<&str>,
        results: &[Arc<Event>],
        is_allowed: impl Fn(&ThreadRow) -> bool,
    ) -> Result<bool, CommandError> {
        let (by, is_chore) = (by.unwrap_or(ServerActor::Retention.as_str()), by.is_none());
        for _ in 0..MAX_ATTEMPTS {
            let Some((row, rows)) = self.shared.store.load(self.pk).await? else { return Err(CommandError::Gone) };
            self.shared.check_hold(row.tenant, self.pk).await?;
            if !is_allowed(&row) {
                return Ok(false);
            }
            let deliveries = remote_cancels(&rows, &*self.shared.clock, self.shared.mint())?;
            let (version, now) = (row.fence.version, self.shared.now());
            let thread = self.pk;
            let audit = audit::erasure_row(&row, now, by);
            let FinalSpending { spending, calls } = self.shared.final_spending(&row, rows, results, by).await;
            let mut kinds: Vec<TargetKind> = deliveries.iter().map(|delivery| delivery.kind).collect();
            kinds.extend(spending.has_notices().then_some(TargetKind::Webhook));
            let spend = spending.changes();
            let used: Vec<ModelUse> = calls.iter().map(|(_, used)| used.clone()).collect();
            let erasure = Erasure { thread, version, now, deliveries, audit, spend, calls, is_chore };
            if self.shared.store.delete_thread(erasure).await? {
                used.iter().for_each(|used| self.shared.models.meters.record_usage(used));
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

/// Whether a retry would get the same error. An outage or a refused key may end within minutes.
fn is_final(error: fault::Error) -> bool {
    use fault::Error::{Internal, PermissionDenied, ResourceExhausted, Unauthenticated, Unavailable};
    !matches!(error, Internal | PermissionDenied | ResourceExhausted | Unauthenticated | Unavailable)
}

/// What the end of a thread settles.
struct FinalSpending {
    spending: Spending,
    /// What its last calls used, and when they ended.
    calls: Vec<(Millis, ModelUse)>,
}

impl Shared {
    /// Reservations are released, and the usage in `results` counts. Calls of another process count with their whole
    /// reservation, because nobody will see their results.
    async fn final_spending(&self, row: &ThreadRow, rows: Vec<Row>, results: &[Arc<Event>], by: &str) -> FinalSpending {
        let tenant = row.tenant;
        let loaded = row.loaded_with(rows);
        // An unreadable thread keeps its reservations until the day and the month end.
        let Ok(mut machine) = self.core(&row.core).and_then(|core| core.load(loaded)) else {
            return FinalSpending { spending: Spending::none(tenant, self.now()), calls: Vec::new() };
        };
        let (reservations, caps) = (machine.reservations(), self.caps(tenant));
        let usage = self.usage_in(&mut *machine, tenant, results, by).await;
        let ending = Reservations { before: &reservations, after: &[] };
        let mut spending = Spending::of(tenant, &caps, ending, &usage, self.now());
        if !self.holds(row) {
            let has_no_result = |reserved: &&Reservation| usage.iter().all(|row| row.id != reserved.stream.as_str());
            let without_result: Vec<&Reservation> = reservations.iter().filter(has_no_result).collect();
            spending.use_reserved(&without_result);
        }
        self.add_notices(&caps, &mut spending);
        let calls = usage.iter().filter_map(|row| Some((row.ord, legible(row)?)));
        FinalSpending { spending, calls: calls.collect() }
    }

    /// The usage rows of the model calls in `results`. The events are decided as if the run was cancelled; the decisions are not
    /// stored.
    async fn usage_in(
        &self,
        machine: &mut dyn Machine,
        tenant: TenantPk,
        results: &[Arc<Event>],
        by: &str,
    ) -> Vec<Row> {
        let replies: Vec<&Arc<Event>> = results.iter().filter(|event| matches!(***event, Event::Model(_))).collect();
        if replies.is_empty() || machine.is_unreadable() {
            return Vec::new();
        }
        let tools = self.tools.toolset(tenant).await;
        let world = self.world(&tools);
        let cancel = Event::Cancel(CancelEvent::Asked { run: None, by: by.to_owned() });
        let events = iter::once(cancel).chain(replies.into_iter().map(|event| Event::clone(event)));
        let mut rows = Vec::new();
        for event in events {
            let stamp = Stamp { now: self.now(), seed: self.clock.seed(), holder: None };
            // A refused event has changed nothing.
            let step = step::decide(machine, &world, stamp, event).unwrap_or_else(|_| Step::nothing());
            rows.extend(step.rows.into_iter().filter(|row| row.kind == RowKind::Usage));
        }
        rows
    }

    /// Refuses to delete a thread that must be kept.
    async fn check_hold(&self, tenant: TenantPk, pk: ThreadPk) -> Result<(), CommandError> {
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

    /// Makes a delivery that cancels a task at another agent.
    pub(in crate::runtime) fn cancel_remote_task(
        self: Arc<Self>,
        delivery: Delivery,
    ) -> BoxFuture<'static, AttemptResult> {
        async move {
            match self.try_cancel_remote_task(delivery.tenant, &delivery.target, &delivery.body).await {
                Ok(()) => AttemptResult::Delivered("it heard".to_owned()),
                Err(result) => result,
            }
        }
        .boxed()
    }

    async fn try_cancel_remote_task(&self, tenant: TenantPk, agent: &str, body: &str) -> Result<(), AttemptResult> {
        let failed = |error: Error| AttemptResult::Failed(error.to_string());
        let task: RemoteTaskRef =
            serde_json::from_str(body).map_err(|error| AttemptResult::Undeliverable(error.to_string()))?;
        let connection = PeerConnection::open(&self.agents, tenant, agent).await.map_err(failed)?;
        let connection = connection.ok_or_else(|| AttemptResult::Undeliverable("the agent was removed".to_owned()))?;
        match connection.cancel(&task).await {
            Ok(_) => Ok(()),
            Err(Error::Fault(said)) if said.error == fault::Error::TaskNotCancelable => Ok(()),
            // The agent accepted the cancel.
            Err(Error::TooLarge(_)) => Ok(()),
            // A task without a remote id may not have arrived yet, so only one with an id is given up.
            Err(Error::Fault(said)) if task.remote_task_id.is_some() && is_final(said.error) => {
                Err(AttemptResult::Undeliverable(said.detail))
            }
            Err(error) => Err(failed(error)),
        }
    }
}
