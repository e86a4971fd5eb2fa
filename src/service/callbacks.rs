//! Reports of agents: each is a hint that one of their tasks is worth asking about.

use std::collections::HashSet;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;

use super::{Result, Service, delegated_tasks};
use crate::a2a::callback;
use crate::domain::fault::Fault;
use crate::domain::ids::{TaskId, TenantPk, ThreadPk};
use crate::engine::event::{Event, PeerEvent};
use crate::failpoint;
use crate::runtime::CommitExtras;

/// How long a report waits to be durable before it is answered all the same: a busy thread takes it later, and what a crash
/// takes of it is found out when the agent is asked anyway.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long it waits behind others about the same task.
const TURN: Duration = Duration::from_secs(60);

/// What is reported: of which task, and what the agent calls it.
type Report = (TaskId, Option<String>);

/// Reports that nobody has begun to decide on.
#[derive(Default)]
pub(super) struct Reports(Mutex<HashSet<Report>>);

/// The place of one of them; dropping it makes room for the next.
struct PendingReport {
    service: Service,
    report: Report,
}

impl Drop for PendingReport {
    fn drop(&mut self) {
        self.service.reports.0.lock().remove(&self.report);
    }
}

/// Refuses a caller that does not know the secret of this task, without a read of the store.
pub fn check(service: &Service, id: &TaskId, token: &str) -> Result<()> {
    callback::check(&service.sealer, id, token).map(|_| ()).ok_or_else(|| Fault::not_found("task"))
}

/// An agent reports, or somebody who says so: `token` must be this task's. The report is stored, and the agent is asked
/// for the truth later. Whatever is wrong, nobody learns whether there is such a task.
pub async fn report(service: &Service, id: &TaskId, token: &str, remote_task_id: Option<String>) -> Result<()> {
    let unknown = || Fault::not_found("task");
    let tenant = callback::check(&service.sealer, id, token).ok_or_else(unknown)?;
    service.runtime.accepting()?;
    let (pk, task) = delegated_tasks::stored(service, tenant, id).await?;
    if task.is_over() {
        return Ok(());
    }
    let report = (id.clone(), remote_task_id);
    // One that waits already will be decided on after this moment, so it says as much.
    if !service.reports.0.lock().insert(report.clone()) {
        return Ok(());
    }
    let waiting = PendingReport { service: service.clone(), report };
    let taken = service.runtime.spawn_until_halt(take(service.clone(), tenant, pk, waiting));
    match timeout(PATIENCE, taken).await {
        Ok(Ok(Some(taken))) => taken,
        Ok(Ok(None) | Err(_)) | Err(_) => Ok(()),
    }
}

async fn take(service: Service, tenant: TenantPk, pk: ThreadPk, waiting: PendingReport) -> Result<()> {
    let (task, remote_task_id) = waiting.report.clone();
    let taken = async {
        // However many say the same at once, they take one place in the thread's queue.
        let _turn = service.key_locks.turn(tenant, "callback", task.as_str(), TURN).await?;
        failpoint::reached("callback.verified");
        drop(waiting);
        let event = Event::Peer(PeerEvent::CalledBack { task: task.clone(), remote_task_id });
        service.runtime.decide(pk, event, CommitExtras::default()).await?;
        failpoint::reached("callback.committed");
        Ok(())
    };
    let taken: Result<()> = taken.await;
    if let Err(fault) = &taken {
        tracing::warn!(taskId = %task, why = fault.detail, "a report was not taken; the agent is asked when it is due");
    }
    taken
}
