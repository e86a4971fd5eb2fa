//! Push notifications of A2A tasks: the receivers are stored with the thread, the deliveries are sent by the outbox.
//!
//! A receiver is a row of its thread. So it is written by the commit that accepts the task, and a replica that decides for
//! the thread knows every receiver, or its commit is stale. A thread without receivers costs nothing.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Outgoing;
use crate::a2a::task_events::TaskEvents;
use crate::a2a::types::{Metadata, StreamEvent, Task, TaskState};
use crate::a2a::view;
use crate::a2a::wire::Version;
use crate::domain::console_urls::ConsoleUrls;
use crate::domain::facts::Fact;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::domain::observation::Record;
use crate::domain::payload::Payloads;
use crate::domain::run::Run;
use crate::engine::step::{Keep, Row, RowKind, Step};
use crate::outbox::PushTarget;
use crate::runtime::actor::{CommitExtras, LoadedThread};
use crate::runtime::rows::read;
use crate::runtime::shared::Shared;
use crate::store;
use crate::store::outbox::{NewDelivery, TargetKind};

/// The push receivers of a thread, by the ids of their rows.
#[derive(Clone, Debug, Default)]
pub(in crate::runtime) struct Receivers(BTreeMap<String, PushTarget>);

impl Receivers {
    /// Reads the receivers from the rows of a thread. Unreadable ones are left out, so that the thread can still be loaded.
    pub(in crate::runtime) fn of(rows: &[Row]) -> Self {
        let mut receivers = Self::default();
        receivers.apply_rows(rows);
        receivers
    }

    /// Applies the receivers among these rows.
    pub(in crate::runtime) fn apply_rows(&mut self, rows: &[Row]) {
        for row in rows.iter().filter(|row| row.kind == RowKind::Push) {
            match PushTarget::read(row) {
                Ok(Some(target)) if row.keep == Keep::Always => drop(self.0.insert(row.id.clone(), target)),
                Ok(_) => drop(self.0.remove(&row.id)),
                Err(error) => {
                    tracing::error!(%error, "a receiver is told nothing more");
                    self.0.remove(&row.id);
                }
            }
        }
    }
}

/// The push receivers of the next decision, with the state of their tasks before it.
pub(in crate::runtime) struct PushRecipients(Vec<(PushTarget, TaskEvents)>);

impl LoadedThread {
    /// The receivers, taken before a decision; `None`: there are none.
    pub(in crate::runtime) fn recipients(
        &self,
        extras: &CommitExtras,
        urls: Option<&ConsoleUrls>,
    ) -> Option<PushRecipients> {
        if self.receivers.0.is_empty() && extras.pushes.is_empty() {
            return None;
        }
        let active = self.machine.run().map(|run| run.run_id.clone());
        let open = self.machine.questions();
        let recipient = |target: PushTarget| {
            let is_active = active.as_ref() == Some(&target.run_id);
            let open = if is_active { open.clone() } else { Vec::new() };
            let state = if is_active { view::state_of_questions(&open) } else { TaskState::Submitted };
            let task_events = TaskEvents::new(target.run_id.as_str(), self.row.thread_id.as_str(), state, open);
            (target, task_events.linked(urls.cloned()))
        };
        // A receiver in `extras` replaces the one with its name.
        let new = || extras.pushes.iter().map(|new| &new.target);
        let is_replaced = |known: &&PushTarget| new().any(|new| (&new.run_id, &new.id) == (&known.run_id, &known.id));
        let known = self.receivers.0.values().filter(|known| !is_replaced(known));
        let targets = known.chain(new()).cloned();
        Some(PushRecipients(targets.map(recipient).collect()))
    }
}

impl Shared {
    /// The row as it is to be stored: that of a receiver whose run has ended is not loaded with the thread any more. If
    /// the run ends after this, the commit of the row is stale, because the thread was loaded before.
    pub(in crate::runtime) async fn receiver_row_of_now(&self, pk: ThreadPk, row: &Row) -> store::Result<Row> {
        let target = if row.kind == RowKind::Push { PushTarget::read(row)? } else { None };
        let Some(target) = target else { return Ok(row.clone()) };
        let stored = self.store.row(pk, RowKind::Run, target.run_id.as_str()).await?;
        let run = stored.as_ref().map(read::<Run>).transpose()?;
        Ok(target.row(run.is_some_and(|run| run.status.is_terminal())))
    }

    /// The deliveries of a step to the push receivers. The rows are those of the receivers whose task it ends.
    pub(super) async fn pushes(
        &self,
        recipients: PushRecipients,
        tenant: TenantPk,
        pk: ThreadPk,
        step: &Step,
    ) -> store::Result<Outgoing> {
        let relevant: Vec<&Record> =
            step.records.iter().filter(|record| TaskEvents::OBSERVATION_TYPES.contains(&record.kind())).collect();
        let contents: Vec<Value> = relevant.iter().map(|record| record.fact.content()).collect();
        let mut known: Payloads = step.payloads.iter().cloned().collect();
        self.fetch(pk, &contents, &mut known).await?;
        let facts: Vec<(&Record, Fact)> =
            relevant.into_iter().map(|record| (record, record.fact.clone().inlined(&known))).collect();
        let (Outgoing { mut deliveries, mut rows }, mut mint) = (Outgoing::default(), self.mint());
        for (mut target, mut task_events) in recipients.0 {
            let apply =
                |(record, fact): &(&Record, Fact)| task_events.apply(&record.run_id, record.timestamp, fact.clone());
            let events: Vec<StreamEvent> = facts.iter().flat_map(apply).collect();
            deliveries.extend(bodies(&target, events).into_iter().map(|(event, body)| NewDelivery {
                id: mint.delivery(),
                kind: TargetKind::Push,
                target: PushTarget::name(&target.run_id, &target.id),
                ordering_key: Some(target.ordering_key(pk)),
                event: event.to_owned(),
                body: body.to_string(),
            }));
            if task_events.state().is_terminal() {
                // A key rotation may have sealed the stored row again since it was read. A secret that cannot be opened stays.
                let _ = target.reseal(&self.sealer, tenant);
                rows.push(target.row(true));
            }
        }
        Ok(Outgoing { deliveries, rows })
    }
}

/// Each event in the receiver's version. In 0.3 the body is the whole task at every change of its state.
fn bodies(target: &PushTarget, events: Vec<StreamEvent>) -> Vec<(&'static str, Value)> {
    if Version::named(&target.version) == Some(Version::V1) {
        let named = |event: &StreamEvent| match event {
            StreamEvent::Task(_) => "task",
            StreamEvent::Message(_) => "message",
            StreamEvent::StatusUpdate(_) => "statusUpdate",
            StreamEvent::ArtifactUpdate(_) => "artifactUpdate",
        };
        return events.iter().map(|event| (named(event), Version::V1.event(event))).collect();
    }
    let (mut artifacts, mut bodies) = (Vec::new(), Vec::new());
    for event in events {
        match event {
            StreamEvent::ArtifactUpdate(update) => artifacts.push(update.artifact),
            StreamEvent::StatusUpdate(update) => {
                let task = Task {
                    id: update.task_id,
                    context_id: update.context_id,
                    status: update.status,
                    artifacts: artifacts.clone(),
                    history: Vec::new(),
                    metadata: Metadata::new(),
                };
                bodies.push(("task", Version::V03.task(&task)));
            }
            StreamEvent::Task(_) | StreamEvent::Message(_) => {}
        }
    }
    bodies
}
