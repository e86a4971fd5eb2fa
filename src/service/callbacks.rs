//! Reports (push notifications) of remote agents. A report is only a hint that one of their tasks has changed: the server
//! then polls the agent for the task's status.

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

/// How long the response to a report waits for its commit. After that the report is acknowledged all the same: a busy thread
/// commits it later, and if a crash loses it, the regular poll of the agent finds the change.
const MAX_COMMIT_WAIT: Duration = Duration::from_millis(500);
/// How long a report waits for the other reports about the same task.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(60);

/// The task that a report is about, and the id that the agent gave it.
type ReportKey = (TaskId, Option<String>);

/// Reports that were received and whose processing has not begun.
#[derive(Default)]
pub(super) struct PendingReports(Mutex<HashSet<ReportKey>>);

/// A report in [`PendingReports`]. Dropping this removes it, so that the next equal report is processed again.
struct PendingReport {
    service: Service,
    report: ReportKey,
}

impl Drop for PendingReport {
    fn drop(&mut self) {
        self.service.reports.0.lock().remove(&self.report);
    }
}

/// Refuses a caller that does not know the secret of this task. Does not read the store.
pub fn check(service: &Service, id: &TaskId, token: &str) -> Result<()> {
    callback::check(&service.sealer, id, token).map(|_| ()).ok_or_else(|| Fault::not_found("task"))
}

/// Receives a report. The caller need not be the agent: `token` must be this task's. The report is committed, and the agent
/// is polled later. Every refusal is the same fault, so that a caller cannot learn whether the task exists.
pub async fn report(service: &Service, id: &TaskId, token: &str, remote_task_id: Option<String>) -> Result<()> {
    let unknown = || Fault::not_found("task");
    let tenant = callback::check(&service.sealer, id, token).ok_or_else(unknown)?;
    service.runtime.accepting()?;
    let (pk, task) = delegated_tasks::stored(service, tenant, id).await?;
    if task.is_over() {
        return Ok(());
    }
    let report = (id.clone(), remote_task_id);
    // An equal report is pending and will be processed after this moment, so this one adds nothing.
    if !service.reports.0.lock().insert(report.clone()) {
        return Ok(());
    }
    let pending = PendingReport { service: service.clone(), report };
    let taken = service.runtime.spawn_until_halt(process_report(service.clone(), tenant, pk, pending));
    match timeout(MAX_COMMIT_WAIT, taken).await {
        Ok(Ok(Some(taken))) => taken,
        Ok(Ok(None) | Err(_)) | Err(_) => Ok(()),
    }
}

async fn process_report(service: Service, tenant: TenantPk, pk: ThreadPk, pending: PendingReport) -> Result<()> {
    let (task, remote_task_id) = pending.report.clone();
    let processed = async {
        // Equal reports that arrive at the same time take one place in the thread's queue.
        let _guard = service.key_locks.lock(tenant, "callback", task.as_str(), MAX_LOCK_WAIT).await?;
        failpoint::reached("callback.verified");
        drop(pending);
        let event = Event::Peer(PeerEvent::CalledBack { task: task.clone(), remote_task_id });
        service.runtime.decide(pk, event, CommitExtras::default()).await?;
        failpoint::reached("callback.committed");
        Ok(())
    };
    let processed: Result<()> = processed.await;
    if let Err(fault) = &processed {
        tracing::warn!(taskId = %task, why = fault.detail, "a report was not taken; the agent is asked when it is due");
    }
    processed
}
