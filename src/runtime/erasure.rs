//! Cancelling the tasks that a deleted thread had given to other agents. Nothing else of the thread is left, so each
//! cancel is a delivery of the outbox that holds all it needs.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;

use super::perform::{Reached, Sought};
use super::rows::read;
use super::shared::Shared;
use crate::a2a::client::Error;
use crate::a2a::fault;
use crate::domain::ids::{Mint, TenantPk};
use crate::domain::task::Task;
use crate::engine::step::{Row, RowKind};
use crate::outbox::Outcome;
use crate::store;
use crate::store::outbox::{Delivery, NewDelivery, TargetKind};

/// Of the tasks among a thread's rows, one for each that an agent may be at. Those that are over are not loaded.
pub(super) fn remote_cancels(rows: &[Row], mut mint: Mint) -> store::Result<Vec<NewDelivery>> {
    let mut remote_cancels = Vec::new();
    for row in rows.iter().filter(|row| row.kind == RowKind::Task) {
        let task: Task = read(row)?;
        if task.is_out {
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

impl Shared {
    pub(super) fn stop(self: Arc<Self>, delivery: Delivery) -> BoxFuture<'static, (Outcome, String)> {
        async move {
            match self.stopped(delivery.tenant, &delivery.target, &delivery.body).await {
                Ok(()) => (Outcome::Taken, "it heard".to_owned()),
                Err((outcome, why)) => (outcome, why),
            }
        }
        .boxed()
    }

    async fn stopped(&self, tenant: TenantPk, agent: &str, body: &str) -> Result<(), (Outcome, String)> {
        let failed = |error: Error| (Outcome::Failed, error.to_string());
        let sought: Sought = serde_json::from_str(body).map_err(|error| (Outcome::Useless, error.to_string()))?;
        let reached = Reached::one(&self.agents, tenant, agent).await.map_err(failed)?;
        let reached = reached.ok_or_else(|| (Outcome::Useless, "the agent was removed".to_owned()))?;
        match reached.cancel(&sought).await {
            Ok(_) => Ok(()),
            Err(Error::Said(said)) if said.error == fault::Error::TaskNotCancelable => Ok(()),
            // One that cannot be named may not have arrived yet.
            Err(Error::Said(said)) if sought.remote_task_id.is_some() => Err((Outcome::Useless, said.detail)),
            Err(error) => Err(failed(error)),
        }
    }
}
