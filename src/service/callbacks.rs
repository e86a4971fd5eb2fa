//! Reports (push notifications) of remote agents. A report is only a hint that one of their tasks has changed: the server
//! then polls the agent for the task's status.

use std::collections::{HashMap, HashSet};
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
/// The longest task id of an agent that a report may name; a longer one counts as none.
const MAX_ID_BYTES: usize = 1_024;
/// How many reports about one task may be pending. The poll of the agent finds what the others would have told.
const MAX_PENDING: usize = 16;

/// The task that a report is about, and the id that the agent gave it.
type ReportKey = (TaskId, Option<String>);

/// Reports that were received and whose processing has not begun: the ids that they name, by task.
#[derive(Default)]
pub(super) struct PendingReports(Mutex<HashMap<TaskId, HashSet<Option<String>>>>);

impl PendingReports {
    /// `false`: the report adds nothing. An equal one is pending and will be processed after this moment, or too many
    /// about this task are pending.
    fn add(&self, (task, remote_task_id): &ReportKey) -> bool {
        let mut pending = self.0.lock();
        let named = pending.entry(task.clone()).or_default();
        named.len() < MAX_PENDING && named.insert(remote_task_id.clone())
    }

    fn remove(&self, (task, remote_task_id): &ReportKey) {
        let mut pending = self.0.lock();
        let Some(named) = pending.get_mut(task) else { return };
        named.remove(remote_task_id);
        if named.is_empty() {
            pending.remove(task);
        }
    }
}

/// A report in [`PendingReports`]. Dropping this removes it, so that the next equal report is processed again.
struct PendingReport {
    service: Service,
    report: ReportKey,
}

impl Drop for PendingReport {
    fn drop(&mut self) {
        self.service.reports.remove(&self.report);
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
    let remote_task_id = remote_task_id.filter(|id| id.len() <= MAX_ID_BYTES);
    let names_another =
        remote_task_id.is_some() && task.remote_task_id.is_some() && remote_task_id != task.remote_task_id;
    if task.is_over() || names_another {
        return Ok(());
    }
    let report = (id.clone(), remote_task_id);
    if !service.reports.add(&report) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_that_name_many_ids_are_pending_up_to_a_bound() {
        let pending = PendingReports::default();
        let named = |task: &str, n: usize| (TaskId::from(task), Some(format!("their-{n}")));
        let added: Vec<bool> = (0..1_000).map(|n| pending.add(&named("task_1", n))).collect();
        assert_eq!(added.iter().filter(|is_added| **is_added).count(), 16);
        assert!(added[..16].iter().all(|is_added| *is_added), "the first ones have the places");
        assert!(pending.add(&named("task_2", 0)), "each task has places of its own");
        pending.remove(&named("task_1", 3));
        assert_eq!([4, 16, 3].map(|n| pending.add(&named("task_1", n))), [false, true, false], "one place was free");
        (0..17).for_each(|n| pending.remove(&named("task_1", n)));
        pending.remove(&named("task_2", 0));
        assert!(pending.0.lock().is_empty(), "nothing is left behind");
    }
}
