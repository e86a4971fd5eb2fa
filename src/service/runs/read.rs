//! Reading runs, and waiting for them.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use super::{OpenQuestion, Waited, WaitsFor};
use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::ids::{MessageId, RunId, ThreadId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::run::{CallerStatus, Run, RunResource, RunStatus};
use crate::engine::step::{Keep, RowKind};
use crate::runtime::rows::{legible, read};
use crate::service::pages::{self, Entries};
use crate::service::{Result, Service, suspensions, threads};
use crate::store::{self, FoundRow, Order, Page, PageAsk, RowKey, RunsByStatusAsk};

/// Runs that are read at once.
const CHUNK: u32 = 100;

pub async fn get(service: &Service, caller: &Caller, id: &RunId) -> Result<RunResource> {
    let (pk, run) = stored(service, caller, id).await?;
    resource(service, pk, run).await
}

/// A run, and the metadata of its user's message.
pub async fn get_with_metadata(
    service: &Service,
    caller: &Caller,
    id: &RunId,
) -> Result<(RunResource, Option<Map<String, Value>>)> {
    let (pk, mut run) = stored(service, caller, id).await?;
    let metadata = threads::metadata_with_payloads(service, pk, run.metadata.take()).await?;
    Ok((resource(service, pk, run).await?, metadata))
}

/// Waits until the run has ended or is suspended, or until `at_most` has passed.
pub async fn wait(service: &Service, caller: &Caller, id: &RunId, at_most: Duration) -> Result<Waited> {
    wait_for(service, caller, id, WaitsFor::Suspension, at_most).await
}

/// Waits until the run has ended, until the event `what` has happened, or until `at_most` has passed.
pub async fn wait_for(
    service: &Service,
    caller: &Caller,
    id: &RunId,
    what: WaitsFor,
    at_most: Duration,
) -> Result<Waited> {
    let until = Instant::now() + at_most;
    let mut waiter = service.runtime.wait_on(id);
    loop {
        let (pk, mut run) = stored(service, caller, id).await?;
        if !has_happened(service, caller, what, pk, &run).await? {
            match timeout_at(until, waiter.changed(pk)).await {
                Ok(Some(run)) if run.status.is_terminal() => return Ok(Waited { run, suspensions: Vec::new() }),
                Ok(Some(_) | None) => continue,
                // Another process may have changed the run without notifying this one.
                Err(_) => run = stored(service, caller, id).await?.1,
            }
        }
        let suspensions =
            if run.caller_status.asks() { open_suspensions_of(service, caller, pk, id).await? } else { Vec::new() };
        return Ok(Waited { run: resource(service, pk, run).await?, suspensions });
    }
}

async fn has_happened(service: &Service, caller: &Caller, what: WaitsFor, pk: ThreadPk, run: &Run) -> Result<bool> {
    if run.status.is_terminal() || run.status == RunStatus::Suspended {
        return Ok(true);
    }
    if !run.caller_status.asks() {
        return Ok(false);
    }
    match what {
        WaitsFor::Suspension => Ok(false),
        WaitsFor::CallQuestion => {
            let open = suspensions::open_of_run(service, caller.tenant, pk, &run.run_id).await?;
            Ok(open.iter().any(|question| question.while_running))
        }
        WaitsFor::Question => Ok(true),
    }
}

/// Oldest first.
pub async fn of_thread(service: &Service, caller: &Caller, id: &ThreadId, page: PageAsk) -> Result<Page<RunResource>> {
    let thread = threads::row(service, caller, id).await?;
    let page = service.reads.rows(thread.pk, RowKind::Run, Order::Ascending, &page).await?;
    resources(service, page.filter_map(|row| Some((thread.pk, legible(&row)?)))).await
}

/// The messages with which these runs of a thread began. Runs that are not stored with it are left out: those of the
/// thread that it is a copy of.
pub async fn first_messages(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    runs: &[RunId],
) -> Result<HashMap<RunId, MessageId>> {
    let thread = threads::row(service, caller, id).await?;
    let wanted: Vec<_> = runs.iter().map(|run| (thread.pk, RowKind::Run, run.to_string())).collect();
    let rows = service.reads.rows_by_id(&wanted).await?;
    let found = rows.iter().filter_map(|(_, row)| legible::<Run>(row));
    Ok(found.map(|run| (run.run_id, run.message_id)).collect())
}

/// The tenant's runs, or a thread's, the most recently changed first. A page may have fewer than `limit`, because the index
/// is by [`CallerStatus`] and the result is filtered by status, or because its runs are large.
pub async fn list(
    service: &Service,
    caller: &Caller,
    status: Option<RunStatus>,
    thread: Option<&ThreadId>,
    page: PageAsk,
) -> Result<Page<RunResource>> {
    let thread = threads::pk_of(service, caller, thread).await?;
    let statuses = status.map(caller_statuses).unwrap_or_default();
    let ask = RunsByStatusAsk { tenant: caller.tenant, thread, statuses, since: None, page };
    let page = service.reads.runs_by_caller_status(&ask).await?;
    let runs = page.filter_map(|found| Some((found.pk, legible::<Run>(&found.row)?)));
    let is_wanted = |run: &Run| status.is_none_or(|status| run.status == status);
    resources(service, runs.filter_map(|(pk, run)| is_wanted(&run).then_some((pk, run)))).await
}

/// The thread's runs that have not ended, with their statuses, the most recently changed first.
pub async fn unfinished(service: &Service, caller: &Caller, thread: &ThreadId) -> Result<Vec<(RunId, RunStatus)>> {
    let thread = threads::pk_of(service, caller, Some(thread)).await?;
    let statuses = [RunStatus::Queued, RunStatus::Running, RunStatus::Waiting];
    let statuses: HashSet<CallerStatus> = statuses.into_iter().flat_map(caller_statuses).collect();
    let statuses: Vec<CallerStatus> = statuses.into_iter().collect();
    let mut found = Entries::from(PageAsk::first(CHUNK), |page| {
        let ask = RunsByStatusAsk { tenant: caller.tenant, thread, statuses: statuses.clone(), since: None, page };
        async move { service.reads.runs_by_caller_status(&ask).await }
    });
    let mut runs = Vec::new();
    while let Some(found) = found.next().await? {
        let run = legible::<Run>(&found.row).filter(|run| !run.status.is_terminal());
        runs.extend(run.map(|run| (run.run_id, run.status)));
    }
    Ok(runs)
}

/// Reads a run. An unfinished run that cannot be read is ended, so that no caller waits for it.
pub(crate) async fn stored(service: &Service, caller: &Caller, id: &RunId) -> Result<(ThreadPk, Run)> {
    found(service, caller, id).await??.ok_or_else(|| Fault::not_found("run"))
}

/// Like [`stored`], for lists. `None`: there is no such run, or it is over and cannot be read, which is logged.
pub(crate) async fn legible_run(service: &Service, caller: &Caller, id: &RunId) -> Result<Option<(ThreadPk, Run)>> {
    match found(service, caller, id).await? {
        Err(error) if error.is_of_data() => {
            tracing::error!(%error, run = %id, "a run that is over cannot be read and is left out");
            Ok(None)
        }
        found => Ok(found?),
    }
}

/// Reads a run, if it exists. The inner error is that of reading it; an unfinished run is ended first.
async fn found(service: &Service, caller: &Caller, id: &RunId) -> Result<store::Result<Option<(ThreadPk, Run)>>> {
    let find = async || service.store.find_row(caller.tenant, RowKind::Run, id.as_str()).await;
    let FoundRow { pk, row, .. } = match find().await {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(Ok(None)),
        Err(error) => return Ok(Err(error)),
    };
    match read(&row) {
        Err(_) if row.keep == Keep::Always => service.runtime.wake(pk).await?,
        run => return Ok(run.map(|run| Some((pk, run)))),
    }
    Ok(find().await.and_then(|found| found.map(|FoundRow { pk, row, .. }| Ok((pk, read(&row)?))).transpose()))
}

pub(crate) async fn resource(service: &Service, pk: ThreadPk, run: Run) -> Result<RunResource> {
    let answer: Option<ConversationMessage> = match &run.outcome {
        None => None,
        Some(outcome) => {
            let row = service.reads.row(pk, RowKind::Message, outcome.message_id.as_str()).await?;
            row.as_ref().and_then(legible)
        }
    };
    Ok(service.runtime.resource(&run, answer))
}

/// These runs as clients see them, in their order. Their answers are read in one batch, and count as part of the page.
async fn resources(service: &Service, runs: Page<(ThreadPk, Run)>) -> Result<Page<RunResource>> {
    let answer_of = |(pk, run): &(ThreadPk, Run)| -> Option<RowKey> {
        Some((*pk, RowKind::Message, run.outcome.as_ref()?.message_id.to_string()))
    };
    let runs = pages::within_bytes(&*service.reads, runs, |run| answer_of(run).into_iter().collect()).await?;
    let wanted: Vec<_> = runs.items.iter().filter_map(answer_of).collect();
    let answers = store::by_key(service.reads.rows_by_id(&wanted).await?);
    let shown = |run: (ThreadPk, Run)| {
        let answer = answer_of(&run).and_then(|answer| answers.get(&answer));
        service.runtime.resource(&run.1, answer.and_then(legible))
    };
    Ok(runs.map(shown))
}

/// The [`OpenQuestion`]s of a run, oldest first, with their payloads.
async fn open_suspensions_of(service: &Service, caller: &Caller, pk: ThreadPk, run: &RunId) -> Result<Vec<Value>> {
    let (mut open, urls) = (Vec::new(), service.runtime.console_urls());
    for suspension in suspensions::open_of_run(service, caller.tenant, pk, run).await? {
        let url = urls.map(|urls| urls.question(&suspension.suspension_id));
        let question = OpenQuestion { asked: suspension.asked(), url };
        let content = serde_json::to_value(question).expect("a question is plain data");
        open.push(service.with_payloads(pk, content).await?);
    }
    Ok(open)
}

/// The caller statuses that a run with this status may have.
fn caller_statuses(status: RunStatus) -> Vec<CallerStatus> {
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
