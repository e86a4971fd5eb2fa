//! Cancelling runs. The response is sent only when nothing of the run can start any more.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::CancelReceipt;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{RunId, ThreadId, ThreadPk};
use crate::domain::run::{Run, RunStatus};
use crate::engine::event::{CancelEvent, Event};
use crate::runtime::{CommandError, CommitExtras, DecisionResult, IdempotencyRowFn};
use crate::service::once::{self, Answered, Idempotent, StoredResponse};
use crate::service::{Result, Service, runs, threads};

/// How long a takeover of the thread may take after the owner's lease has expired.
const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(5);

/// Cancels the active run and every queued one.
pub async fn cancel_thread(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    key: Option<Idempotent>,
) -> Result<Answered<CancelReceipt>> {
    let work = async {
        let row = threads::row(service, caller, id).await?;
        request(service, caller, row.pk, None, key.as_ref()).await
    };
    await_replayed(service, caller, once::perform(service, caller, key.as_ref(), work).await?).await
}

/// Cancels this run, active or queued. A fault if it has completed or failed; one that was cancelled before is `already` so.
pub async fn cancel(
    service: &Service,
    caller: &Caller,
    id: &RunId,
    key: Option<Idempotent>,
) -> Result<Answered<CancelReceipt>> {
    let work = async {
        let (pk, run) = runs::stored(service, caller, id).await?;
        if run.status.is_terminal() {
            return Ok(receipt_of_ended(run)?);
        }
        match request(service, caller, pk, Some(run.run_id), key.as_ref()).await {
            // It has ended since it was read.
            Err(CommandError::Fault(fault)) if fault.code == Code::RunFinished => {
                Ok(receipt_of_ended(runs::stored(service, caller, id).await?.1)?)
            }
            requested => requested,
        }
    };
    await_replayed(service, caller, once::perform(service, caller, key.as_ref(), work).await?).await
}

/// The receipt for a run that has ended. A fault unless it was cancelled.
fn receipt_of_ended(run: Run) -> Result<CancelReceipt> {
    if run.status == RunStatus::Cancelled {
        return Ok(CancelReceipt { run_ids: vec![run.run_id], already: true });
    }
    let detail = "The run is over; there is nothing to cancel.";
    Err(Fault::new(Code::RunFinished, detail).with("runStatus", run.status.as_str()))
}

async fn request(
    service: &Service,
    caller: &Caller,
    pk: ThreadPk,
    run: Option<RunId>,
    key: Option<&Idempotent>,
) -> Result<CancelReceipt, CommandError> {
    service.runtime.accepting()?;
    let detail = run.as_ref().map_or(Value::Null, |run| json!({ "runId": run }));
    let extras = CommitExtras {
        idempotency: key.cloned().map(|key| stored_response(caller, key, run.clone())),
        ..CommitExtras::audited(caller.name.clone(), "cancel", detail)
    };
    let event = Event::Cancel(CancelEvent::Asked { run: run.clone(), by: caller.name.clone() });
    let decided = service.runtime.decide(pk, event, extras).await?;
    let receipt = receipt(run.as_ref(), &decided);
    if let (true, Some(current)) = (decided.is_cancelling, &decided.current) {
        await_stop(service, caller, &current.run_id).await?;
    }
    Ok(receipt)
}

/// A stored response is returned only after its runs have stopped: the process that stored it may have crashed before that.
async fn await_replayed(
    service: &Service,
    caller: &Caller,
    answered: Answered<CancelReceipt>,
) -> Result<Answered<CancelReceipt>> {
    if let Answered::Replayed(stored) = &answered
        && let Ok(receipt) = serde_json::from_str::<CancelReceipt>(&stored.body)
    {
        for run in &receipt.run_ids {
            await_stop(service, caller, run).await?;
        }
    }
    Ok(answered)
}

/// Returns when the thread's owner has stopped the run, or when this process has, because the owner is gone.
async fn await_stop(service: &Service, caller: &Caller, run: &RunId) -> Result<()> {
    let lease = Duration::from_millis(u64::try_from(service.config.runtime.lease_ms).unwrap_or(0));
    let until = Instant::now() + lease + TAKEOVER_TIMEOUT;
    let mut waiter = service.runtime.wait_on(run);
    loop {
        let pk = match runs::stored(service, caller, run).await {
            Ok((_, run)) if run.status.is_terminal() => return Ok(()),
            Ok((pk, _)) => pk,
            Err(fault) if fault.code == Code::NotFound => return Ok(()),
            Err(fault) => return Err(fault),
        };
        timeout_at(until, waiter.changed(pk)).await.map_err(|_| not_yet())?;
    }
}

/// The runs that the cancel ends, now or as soon as their effects are stopped. Cancelling one run starts the next one, which
/// is not among them.
fn receipt(run: Option<&RunId>, decided: &DecisionResult) -> CancelReceipt {
    if let Some(run) = run {
        return CancelReceipt { run_ids: vec![run.clone()], already: false };
    }
    let stopping = decided.current.iter().filter(|_| decided.is_cancelling);
    let ended = decided.runs.iter().filter(is_cancelled).chain(stopping);
    let mut run_ids: Vec<RunId> = ended.map(|run| run.run_id.clone()).collect();
    run_ids.sort_unstable();
    run_ids.dedup();
    let already = run_ids.is_empty();
    CancelReceipt { run_ids, already }
}

fn stored_response(caller: &Caller, key: Idempotent, run: Option<RunId>) -> IdempotencyRowFn {
    let tenant = caller.tenant;
    Box::new(move |decided, now| {
        let receipt = receipt(run.as_ref(), decided);
        let status = if receipt.already { 200 } else { 202 };
        let body = serde_json::to_string(&receipt).expect("a receipt is plain data");
        key.row(tenant, now, StoredResponse { status, body, location: None })
    })
}

fn is_cancelled(run: &&Run) -> bool {
    run.status == RunStatus::Cancelled
}

fn not_yet() -> Fault {
    let detail = "The cancel is stored, but the thread's owner has not stopped the run yet; repeat it.";
    Fault::new(Code::StoreUnavailable, detail).retry_after(1_000)
}
