//! Cancel: a barrier. Answered only when nothing of the run can start any more.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::command::{CommitExtras, Decided, Refusal, StoredResponse};
use super::idempotent::Admission;
use super::{Answered, CancelReceipt, Idempotent, Result, Runtime};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{RunId, ThreadId, ThreadPk};
use crate::domain::run::{Run, RunStatus};
use crate::engine::event::{CancelEvent, Event};
use crate::store::IdempotencyRow;

/// How long, beyond an owner's lease, its thread may take to be taken over.
const TAKEOVER: Duration = Duration::from_secs(5);

impl Runtime {
    /// Cancels the active run and every queued one.
    pub async fn cancel_thread(
        &self,
        caller: &Caller,
        id: &ThreadId,
        idempotent: Option<Idempotent>,
    ) -> Result<Answered<CancelReceipt>> {
        let _flight = match self.0.admit(caller, idempotent.as_ref()).await? {
            Admission::First(flight) => flight,
            Admission::Stored(row) => return self.cancelled_before(caller, row).await,
        };
        let row = self.row(caller, id).await?;
        self.cancel(caller, row.pk, None, idempotent).await
    }

    pub async fn cancel_run(
        &self,
        caller: &Caller,
        id: &RunId,
        idempotent: Option<Idempotent>,
    ) -> Result<Answered<CancelReceipt>> {
        let _flight = match self.0.admit(caller, idempotent.as_ref()).await? {
            Admission::First(flight) => flight,
            Admission::Stored(row) => return self.cancelled_before(caller, row).await,
        };
        let (pk, run) = self.stored_run(caller, id).await?;
        match run.status {
            RunStatus::Cancelled => Ok(Answered::Fresh(CancelReceipt { run_ids: vec![run.run_id], already: true })),
            RunStatus::Completed | RunStatus::Failed => {
                let detail = "The run is over; there is nothing to cancel.";
                Err(Fault::new(Code::RunFinished, detail).with("status", run.status.as_str()))
            }
            RunStatus::Queued | RunStatus::Running | RunStatus::Suspended | RunStatus::Waiting => {
                self.cancel(caller, pk, Some(run.run_id), idempotent).await
            }
        }
    }

    async fn cancel(
        &self,
        caller: &Caller,
        pk: ThreadPk,
        run: Option<RunId>,
        idempotent: Option<Idempotent>,
    ) -> Result<Answered<CancelReceipt>> {
        self.0.accepting()?;
        let detail = run.as_ref().map_or(Value::Null, |run| json!({ "runId": run }));
        let extras = CommitExtras {
            kept: idempotent.clone().map(|key| kept(caller, key, run.clone())),
            audit: Some((caller.name.clone(), "cancel", detail)),
            ..CommitExtras::default()
        };
        let event = Event::Cancel(CancelEvent::Asked { run: run.clone(), by: caller.name.clone() });
        let decided = match self.decide(pk, event, extras).await {
            Err(Refusal::Duplicate) => {
                let row = self.0.stored(caller, idempotent.as_ref()).await?;
                return self.cancelled_before(caller, row).await;
            }
            decided => decided?,
        };
        let receipt = receipt(run.as_ref(), &decided);
        if let (true, Some(current)) = (decided.stop_effects, &decided.current) {
            self.await_stop(caller, &current.run_id).await?;
        }
        Ok(Answered::Fresh(receipt))
    }

    /// The stored answer, once what it says is so: whoever made it may have died before.
    async fn cancelled_before(&self, caller: &Caller, row: IdempotencyRow) -> Result<Answered<CancelReceipt>> {
        if let Ok(receipt) = serde_json::from_str::<CancelReceipt>(&row.body) {
            for run in &receipt.run_ids {
                self.await_stop(caller, run).await?;
            }
        }
        Ok(row.into())
    }

    /// Returns when the thread's owner has stopped the run, or this process did, because the owner is gone.
    async fn await_stop(&self, caller: &Caller, run: &RunId) -> Result<()> {
        let lease = Duration::from_millis(u64::try_from(self.0.config.runtime.lease_ms).unwrap_or(0));
        let until = Instant::now() + lease + TAKEOVER;
        let mut waiter = self.0.waiters.join(run);
        loop {
            let pk = match self.stored_run(caller, run).await {
                Ok((_, run)) if run.status.is_terminal() => return Ok(()),
                Ok((pk, _)) => pk,
                Err(fault) if fault.code == Code::NotFound => return Ok(()),
                Err(fault) => return Err(fault),
            };
            timeout_at(until, waiter.moved(pk)).await.map_err(|_| not_yet())?;
        }
    }
}

/// The runs that it ends: by now, or as soon as their effects are stopped. Cancelling one run moves the next one too,
/// which is none of them.
fn receipt(run: Option<&RunId>, decided: &Decided) -> CancelReceipt {
    if let Some(run) = run {
        return CancelReceipt { run_ids: vec![run.clone()], already: false };
    }
    let stopping = decided.current.iter().filter(|_| decided.stop_effects);
    let ended = decided.runs.iter().filter(is_cancelled).chain(stopping);
    let mut run_ids: Vec<RunId> = ended.map(|run| run.run_id.clone()).collect();
    run_ids.sort_unstable();
    run_ids.dedup();
    let already = run_ids.is_empty();
    CancelReceipt { run_ids, already }
}

fn kept(caller: &Caller, key: Idempotent, run: Option<RunId>) -> StoredResponse {
    StoredResponse {
        tenant: caller.tenant,
        key,
        answer: Box::new(move |decided| {
            let receipt = receipt(run.as_ref(), decided);
            let status = if receipt.already { 200 } else { 202 };
            (status, serde_json::to_string(&receipt).expect("a receipt is plain data"), None)
        }),
    }
}

fn is_cancelled(run: &&Run) -> bool {
    run.status == RunStatus::Cancelled
}

fn not_yet() -> Fault {
    let detail = "The cancel is stored, but the thread's owner has not stopped the run yet; repeat it.";
    let mut fault = Fault::new(Code::StoreUnavailable, detail);
    fault.retry_after_ms = Some(1_000);
    fault
}
