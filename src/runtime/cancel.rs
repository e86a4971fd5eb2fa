//! Cancel: a barrier. Answered only when nothing of the run can start any more.

use serde_json::{Value, json};

use super::command::Note;
use super::{CancelReceipt, Result, Runtime};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{RunId, ThreadId, ThreadPk};
use crate::domain::run::{Run, RunStatus};
use crate::engine::event::Event;

impl Runtime {
    /// Cancels the active run and every queued one.
    pub async fn cancel_thread(&self, caller: &Caller, id: &ThreadId) -> Result<CancelReceipt> {
        let row = self.row(caller, id).await?;
        self.cancel(caller, row.pk, None).await
    }

    pub async fn cancel_run(&self, caller: &Caller, id: &RunId) -> Result<CancelReceipt> {
        let (pk, run) = self.stored_run(caller, id).await?;
        match run.status {
            RunStatus::Cancelled => Ok(CancelReceipt { run_ids: vec![run.run_id], already: true }),
            RunStatus::Completed | RunStatus::Failed => {
                let detail = "The run is over; there is nothing to cancel.";
                Err(Fault::new(Code::RunFinished, detail).with("status", run.status.as_str()))
            }
            RunStatus::Queued | RunStatus::Running | RunStatus::Suspended | RunStatus::Waiting => {
                let mut receipt = self.cancel(caller, pk, Some(run.run_id.clone())).await?;
                // The run that started in its place moved too.
                receipt.run_ids = vec![run.run_id];
                Ok(receipt)
            }
        }
    }

    async fn cancel(&self, caller: &Caller, pk: ThreadPk, run: Option<RunId>) -> Result<CancelReceipt> {
        self.0.accepting()?;
        let detail = run.as_ref().map_or(Value::Null, |run| json!({ "runId": run }));
        let note = Note { audit: Some((caller.name.clone(), "cancel", detail)), ..Note::default() };
        let event = Event::CancelAsked { run, by: caller.name.clone() };
        let decided = self.decide(pk, event, note).await?;
        let mut run_ids: Vec<RunId> = decided.runs.iter().filter(is_cancelled).map(|run| run.run_id.clone()).collect();
        run_ids.sort_unstable();
        run_ids.dedup();
        let already = run_ids.is_empty();
        Ok(CancelReceipt { run_ids, already })
    }
}

fn is_cancelled(run: &&Run) -> bool {
    run.status == RunStatus::Cancelled
}
