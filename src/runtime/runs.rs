//! Runs as people see them, and waiting for one.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::{Result, Runtime, Waited, WaitsFor};
use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::hitl::{Suspension, SuspensionStatus};
use crate::domain::ids::{RunId, ThreadId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::run::{CallerStatus, Run, RunResource, RunStatus};
use crate::engine::step::{Row, RowKind};
use crate::store::{self, Found, Page, PageAsk, StandingAsk};

impl Runtime {
    pub async fn run(&self, caller: &Caller, id: &RunId) -> Result<RunResource> {
        let (pk, run) = self.stored_run(caller, id).await?;
        self.resource(pk, run).await
    }

    /// The run once it has ended or is suspended, or as it is when the time is up.
    pub async fn wait_run(&self, caller: &Caller, id: &RunId, at_most: Duration) -> Result<Waited> {
        self.wait_for(caller, id, WaitsFor::Suspension, at_most).await
    }

    /// The run once it has ended or what is waited for has come, or as it is when the time is up.
    pub async fn wait_for(&self, caller: &Caller, id: &RunId, what: WaitsFor, at_most: Duration) -> Result<Waited> {
        let until = Instant::now() + at_most;
        let mut waiter = self.0.waiters.join(id);
        loop {
            let (pk, run) = self.stored_run(caller, id).await?;
            if !self.has_come(what, pk, &run).await? {
                match timeout_at(until, waiter.moved(pk)).await {
                    Ok(Some(run)) if run.status.is_terminal() => return Ok(Waited { run, suspensions: Vec::new() }),
                    Ok(Some(_) | None) => continue,
                    Err(_) => {}
                }
            }
            let suspensions = match run.status {
                RunStatus::Suspended | RunStatus::Running | RunStatus::Waiting => {
                    self.open_suspensions_of(pk, id).await?
                }
                RunStatus::Queued | RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => Vec::new(),
            };
            return Ok(Waited { run: self.resource(pk, run).await?, suspensions });
        }
    }

    async fn has_come(&self, what: WaitsFor, pk: ThreadPk, run: &Run) -> Result<bool> {
        if run.status.is_terminal() || run.status == RunStatus::Suspended {
            return Ok(true);
        }
        // Only where a question is open the thread is read.
        let asks = matches!(run.standing, CallerStatus::Suspended | CallerStatus::NeedsAuth);
        if what == WaitsFor::Suspension || !asks {
            return Ok(false);
        }
        let open = self.open_suspensions_of(pk, &run.run_id).await?;
        Ok(open.iter().any(|question| what == WaitsFor::Question || question["whileRunning"] == true))
    }

    /// Oldest first.
    pub async fn runs(&self, caller: &Caller, id: &ThreadId, page: PageAsk) -> Result<Page<RunResource>> {
        let thread = self.row(caller, id).await?;
        let page = self.0.reads.rows(thread.pk, RowKind::Run, false, &page).await?;
        let mut items = Vec::with_capacity(page.items.len());
        for row in page.items {
            let Some(run) = legible(&row) else { continue };
            items.push(self.resource(thread.pk, run).await?);
        }
        Ok(Page { items, next_cursor: page.next_cursor })
    }

    /// The tenant's runs, or a thread's, the last to change first. A page may hold fewer than it could: a run may stand
    /// as it was asked for without having that status.
    pub async fn all_runs(
        &self,
        caller: &Caller,
        status: Option<RunStatus>,
        thread: Option<&ThreadId>,
        page: PageAsk,
    ) -> Result<Page<RunResource>> {
        let thread = match thread {
            Some(id) => Some(self.row(caller, id).await?.pk),
            None => None,
        };
        let standings = status.map(standings).unwrap_or_default();
        let ask = StandingAsk { tenant: caller.tenant, thread, standings, since: None, page };
        let (page, _) = self.0.reads.runs_by_standing(&ask).await?;
        let mut items = Vec::with_capacity(page.items.len());
        for found in page.items {
            let Some(run) = legible::<Run>(&found.row) else { continue };
            if status.is_none_or(|status| run.status == status) {
                items.push(self.resource(found.pk, run).await?);
            }
        }
        Ok(Page { items, next_cursor: page.next_cursor })
    }

    pub(super) async fn stored_run(&self, caller: &Caller, id: &RunId) -> Result<(ThreadPk, Run)> {
        let found = self.0.store.find_row(caller.tenant, RowKind::Run, id.as_str()).await?;
        let Found { pk, row, .. } = found.ok_or_else(|| Fault::not_found("run"))?;
        Ok((pk, read(&row)?))
    }

    async fn resource(&self, pk: ThreadPk, run: Run) -> Result<RunResource> {
        let answer: Option<ConversationMessage> = match &run.outcome {
            None => None,
            Some(outcome) => {
                let row = self.0.reads.row(pk, RowKind::Message, outcome.message_id.as_str()).await?;
                row.as_ref().and_then(legible)
            }
        };
        Ok(run.resource(answer))
    }

    /// What `AGENT_SUSPENDED` said of each open suspension of a run, oldest first.
    async fn open_suspensions_of(&self, pk: ThreadPk, run: &RunId) -> Result<Vec<Value>> {
        let Some((_, rows)) = self.0.reads.load(pk).await? else { return Ok(Vec::new()) };
        let mut open = Vec::new();
        for row in rows.iter().filter(|row| row.kind == RowKind::Suspension) {
            let Some(suspension) = legible::<Suspension>(row) else { continue };
            if suspension.status == SuspensionStatus::Pending && suspension.run_id == *run {
                open.push(self.0.shown(pk, told(&suspension)).await?);
            }
        }
        Ok(open)
    }
}

/// How a run of this status may stand.
fn standings(status: RunStatus) -> Vec<CallerStatus> {
    match status {
        RunStatus::Queued => vec![CallerStatus::Queued],
        RunStatus::Running => vec![CallerStatus::Running, CallerStatus::Suspended, CallerStatus::NeedsAuth],
        RunStatus::Suspended => vec![CallerStatus::Suspended, CallerStatus::NeedsAuth],
        RunStatus::Waiting => vec![CallerStatus::Waiting, CallerStatus::Suspended, CallerStatus::NeedsAuth],
        RunStatus::Completed => vec![CallerStatus::Completed],
        RunStatus::Failed => vec![CallerStatus::Failed, CallerStatus::Refused],
        RunStatus::Cancelled => vec![CallerStatus::Cancelled, CallerStatus::Refused],
    }
}

/// The content of its `AGENT_SUSPENDED`.
fn told(suspension: &Suspension) -> Value {
    const TOLD: [&str; 14] = [
        "suspensionId",
        "kind",
        "callId",
        "toolName",
        "toolInput",
        "plan",
        "message",
        "feedbackSchema",
        "whileRunning",
        "digest",
        "riskLevel",
        "policy",
        "expiresAt",
        "expiryPolicy",
    ];
    let mut whole = serde_json::to_value(suspension).expect("a suspension is plain data");
    if let Some(fields) = whole.as_object_mut() {
        fields.retain(|field, _| TOLD.contains(&field.as_str()));
    }
    whole
}

/// The same as [`read`] for lists: one that cannot be read is reported and left out.
pub(super) fn legible<T: serde::de::DeserializeOwned>(row: &Row) -> Option<T> {
    read(row).inspect_err(|error| tracing::error!(%error, "a stored row cannot be read and is left out")).ok()
}

/// A stored row whose body is documented.
pub(super) fn read<T: serde::de::DeserializeOwned>(row: &Row) -> store::Result<T> {
    serde_json::from_str(&row.body)
        .map_err(|error| store::Error::Damaged(format!("{:?} {}: {error}", row.kind, row.id)))
}
