//! Runs as the clients that started them from outside see them: status, messages, open questions.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::console_urls::ConsoleUrls;
use crate::domain::fault::Fault;
use crate::domain::hitl::{Suspension, SuspensionStatus};
use crate::domain::ids::{RunId, ThreadId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::payload::approximate_bytes;
use crate::domain::run::{CallerStatus, Run, RunStatus};
use crate::engine::step::{Row, RowKind};
use crate::runtime::rows::{legible, read};
use crate::service::pages::Entries;
use crate::service::{Result, Service, runs, suspensions, threads};
use crate::store::{FoundRow, MAX_PAGE_BYTES, Order, Page, PageAsk, RunsByStatusAsk};

/// Messages that are read at once.
const CHUNK: u32 = 100;

/// The clocks of replicas that owned a run one after the other differ by less than this.
const MAX_CLOCK_SKEW: Millis = 60_000;

/// A run as the client that started it sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSnapshot {
    pub run: Run,
    /// The run's messages in order; empty if they were not requested.
    pub messages: Vec<ConversationMessage>,
    /// The open questions, oldest first.
    pub open: Vec<Suspension>,
    /// The URLs under which people find the questions. `None`: no public address is configured.
    pub urls: Option<ConsoleUrls>,
}

impl RunSnapshot {
    /// The approximate size of its messages and questions in bytes.
    fn bytes(&self) -> usize {
        let asked = self.open.iter().flat_map(|question| [&question.tool_input, &question.plan]);
        let messages: usize = self.messages.iter().map(ConversationMessage::approximate_bytes).sum();
        messages + asked.flatten().map(approximate_bytes).sum::<usize>()
    }
}

/// Which runs are read with their messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Messages {
    All,
    /// The last message of a failed run says why, which is part of the task's status.
    #[default]
    OfFailedRuns,
}

/// Which runs to list. The most recently changed come first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunSnapshotAsk {
    pub thread: Option<ThreadId>,
    /// Empty = all.
    pub statuses: Vec<CallerStatus>,
    /// Only runs whose status changed at this time or later.
    pub since: Option<Millis>,
    pub messages: Messages,
    pub page: PageAsk,
}

pub async fn get(service: &Service, caller: &Caller, id: &RunId, messages: Messages) -> Result<RunSnapshot> {
    let found = service.store.find_row(caller.tenant, RowKind::Run, id.as_str()).await?;
    let found = found.ok_or_else(|| Fault::not_found("run"))?;
    let run = read(&found.row)?;
    snapshot(service, caller, &found, run, messages).await
}

/// Returns when the run has ended or has an open question, or after `at_most`.
pub async fn wait(service: &Service, caller: &Caller, id: &RunId, at_most: Duration) -> Result<()> {
    let until = Instant::now() + at_most;
    let mut waiter = service.runtime.wait_on(id);
    loop {
        let (pk, run) = runs::stored(service, caller, id).await?;
        let is_settled = run.caller_status.asks() || run.status.is_terminal() || run.status == RunStatus::Suspended;
        if is_settled || timeout_at(until, waiter.changed(pk)).await.is_err() {
            return Ok(());
        }
    }
}

/// The run as of a seq of its thread's log, and that seq: a reader of the log who continues after it misses nothing.
pub async fn get_with_seq(service: &Service, caller: &Caller, id: &RunId) -> Result<(RunSnapshot, i64)> {
    let find = async || {
        let found = service.store.find_row(caller.tenant, RowKind::Run, id.as_str()).await?;
        found.ok_or_else(|| Fault::not_found("run"))
    };
    let found = find().await?;
    let (thread, rows) = service.reads.load(found.pk).await?.ok_or_else(|| Fault::not_found("run"))?;
    // A run that has ended is not among the loaded rows, and does not change any more.
    let row = match rows.iter().find(|row| row.kind == RowKind::Run && row.id == id.as_str()) {
        Some(row) => row.clone(),
        None => find().await?.row,
    };
    let run: Run = read(&row)?;
    let open = open_of(service, found.pk, &rows, &run).await?;
    let messages = messages_of(service, found.pk, row.ord, &run).await?;
    Ok((RunSnapshot { run, messages, open, urls: service.runtime.public_console_urls().cloned() }, thread.last_seq))
}

/// The runs of the tenant, and how many there were on all pages when the first page was read. They are counted once; the
/// cursors of the pages carry the number. A page ends with the run by which it has more than [`MAX_PAGE_BYTES`].
pub async fn list(service: &Service, caller: &Caller, ask: RunSnapshotAsk) -> Result<(Page<RunSnapshot>, u64)> {
    let thread = threads::pk_of(service, caller, ask.thread.as_ref()).await?;
    let (tenant, statuses, messages) = (caller.tenant, ask.statuses, ask.messages);
    let (known, page) = split_total(ask.page);
    let ask = RunsByStatusAsk { tenant, thread, statuses, since: ask.since, page };
    let page = service.reads.runs_by_caller_status(&ask).await?;
    let total = match known {
        Some(total) => total,
        None => service.reads.count_by_caller_status(&ask).await?,
    };
    let (mut items, mut bytes, mut read) = (Vec::with_capacity(page.items.len()), 0, 0);
    for found in &page.items {
        if bytes > MAX_PAGE_BYTES as usize {
            break;
        }
        read += 1;
        let Some(run) = legible(&found.row) else { continue };
        let snapshot = snapshot(service, caller, found, run, messages).await?;
        bytes += snapshot.bytes();
        items.push(snapshot);
    }
    let next_cursor = page.cut(read).next_cursor;
    Ok((Page::new(items, next_cursor.map(|cursor| format!("{total}.{cursor}"))), total))
}

/// Splits the total off the cursor.
fn split_total(page: PageAsk) -> (Option<u64>, PageAsk) {
    let carried = page.cursor.as_deref().and_then(|cursor| cursor.split_once('.'));
    let Some((Ok(total), cursor)) = carried.map(|(total, cursor)| (total.parse::<u64>(), cursor.to_owned())) else {
        return (None, page);
    };
    (Some(total), PageAsk { cursor: Some(cursor), ..page })
}

async fn snapshot(
    service: &Service,
    caller: &Caller,
    found: &FoundRow,
    run: Run,
    messages: Messages,
) -> Result<RunSnapshot> {
    let open =
        if run.caller_status.asks() { open_questions(service, caller, found.pk, &run).await? } else { Vec::new() };
    let messages = match messages {
        Messages::OfFailedRuns if run.status != RunStatus::Failed => Vec::new(),
        Messages::OfFailedRuns | Messages::All => messages_of(service, found.pk, found.row.ord, &run).await?,
    };
    Ok(RunSnapshot { run, messages, open, urls: service.runtime.public_console_urls().cloned() })
}

/// The open questions of a run, oldest first.
async fn open_questions(service: &Service, caller: &Caller, pk: ThreadPk, run: &Run) -> Result<Vec<Suspension>> {
    let mut open = Vec::new();
    for question in suspensions::open_of_run(service, caller.tenant, pk, &run.run_id).await? {
        open.push(suspensions::with_payloads(service, pk, question).await?);
    }
    Ok(open)
}

/// The open questions of a run among the loaded rows of its thread.
async fn open_of(service: &Service, pk: ThreadPk, rows: &[Row], run: &Run) -> Result<Vec<Suspension>> {
    let mut open = Vec::new();
    for row in rows.iter().filter(|row| row.kind == RowKind::Suspension) {
        let Some(suspension) = legible::<Suspension>(row) else { continue };
        if suspension.status == SuspensionStatus::Pending && suspension.run_id == run.run_id {
            open.push(suspensions::with_payloads(service, pk, suspension).await?);
        }
    }
    Ok(open)
}

/// The messages of a run. Their numbers are above the run's own. If the run has an answer, that is its last message.
/// Otherwise no message follows the end of the run.
async fn messages_of(service: &Service, pk: ThreadPk, ord: i64, run: &Run) -> Result<Vec<ConversationMessage>> {
    let answer = run.outcome.as_ref().map(|outcome| &outcome.message_id);
    let mut rows = Entries::from(PageAsk::beyond(ord, CHUNK), |page| async move {
        service.reads.rows(pk, RowKind::Message, Order::Ascending, &page).await
    });
    let mut messages = Vec::new();
    while let Some(row) = rows.next().await? {
        let Some(mut message) = legible::<ConversationMessage>(&row) else { continue };
        if message.run_id.as_ref() != Some(&run.run_id) {
            if run.finished_at.is_some_and(|end| message.timestamp > end + MAX_CLOCK_SKEW) {
                break;
            }
            continue;
        }
        message.metadata = threads::metadata_with_payloads(service, pk, message.metadata).await?;
        let is_last = Some(&message.message_id) == answer;
        messages.push(message);
        if is_last {
            break;
        }
    }
    Ok(messages)
}
