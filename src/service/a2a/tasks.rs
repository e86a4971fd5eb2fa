//! Runs as those see them who asked for them from outside: where they stand, what was said, what is asked.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::console_urls::ConsoleUrls;
use crate::domain::fault::Fault;
use crate::domain::hitl::{Suspension, SuspensionStatus};
use crate::domain::ids::{RunId, ThreadId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::run::{CallerStatus, Run, RunStatus};
use crate::engine::step::{Row, RowKind};
use crate::runtime::rows::{legible, read};
use crate::service::pages::Entries;
use crate::service::{Result, Service, runs, threads};
use crate::store::{FoundRow, Page, PageAsk, StandingAsk};

/// How many messages are read at once.
const CHUNK: u32 = 100;

/// Clocks of replicas that had a run one after the other differ by less than this.
const CLOCKS_DIFFER: Millis = 60_000;

/// A run as those see it who asked for it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSnapshot {
    pub run: Run,
    /// What it said and was told, in order; empty if nobody wanted to see it.
    pub messages: Vec<ConversationMessage>,
    /// The open questions, oldest first.
    pub open: Vec<Suspension>,
    /// Where people find what is asked; `None`: no public address is configured.
    pub urls: Option<ConsoleUrls>,
}

/// Which runs to list: the last to change first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunSnapshotAsk {
    pub thread: Option<ThreadId>,
    /// Empty = all.
    pub standings: Vec<CallerStatus>,
    /// Only those that have stood so since then, or a shorter time.
    pub since: Option<Millis>,
    pub with_messages: bool,
    pub page: PageAsk,
}

pub async fn get(service: &Service, caller: &Caller, id: &RunId, with_messages: bool) -> Result<RunSnapshot> {
    let found = service.store.find_row(caller.tenant, RowKind::Run, id.as_str()).await?;
    let found = found.ok_or_else(|| Fault::not_found("run"))?;
    let run = read(&found.row)?;
    seen(service, &found, run, with_messages).await
}

/// Returns when the run is over or asks something, or when the time is up.
pub async fn wait(service: &Service, caller: &Caller, id: &RunId, at_most: Duration) -> Result<()> {
    let until = Instant::now() + at_most;
    let mut waiter = service.runtime.wait_on(id);
    loop {
        let (pk, run) = runs::stored(service, caller, id).await?;
        let asks = matches!(run.standing, CallerStatus::Suspended | CallerStatus::NeedsAuth);
        let is_settled = asks || run.status.is_terminal() || run.status == RunStatus::Suspended;
        if is_settled || timeout_at(until, waiter.changed(pk)).await.is_err() {
            return Ok(());
        }
    }
}

/// The run as of a place in its thread's log, and that place: a reader of the log from there misses nothing.
pub async fn get_with_seq(service: &Service, caller: &Caller, id: &RunId) -> Result<(RunSnapshot, i64)> {
    let find = async || {
        let found = service.store.find_row(caller.tenant, RowKind::Run, id.as_str()).await?;
        found.ok_or_else(|| Fault::not_found("run"))
    };
    let found = find().await?;
    let (thread, rows) = service.reads.load(found.pk).await?.ok_or_else(|| Fault::not_found("run"))?;
    // One that is over is not loaded, and does not change any more.
    let row = match rows.iter().find(|row| row.kind == RowKind::Run && row.id == id.as_str()) {
        Some(row) => row.clone(),
        None => find().await?.row,
    };
    let run: Run = read(&row)?;
    let open = open_of(service, found.pk, &rows, &run).await?;
    let messages = messages_of(service, found.pk, row.ord, &run).await?;
    Ok((RunSnapshot { run, messages, open, urls: service.runtime.public_console_urls().cloned() }, thread.last_seq))
}

/// The tenant's, and how many there were on all pages when the first was read: they are counted once, and the cursors of
/// the pages carry the number on.
pub async fn list(service: &Service, caller: &Caller, ask: RunSnapshotAsk) -> Result<(Page<RunSnapshot>, u64)> {
    let thread = match &ask.thread {
        Some(id) => Some(threads::row(service, caller, id).await?.pk),
        None => None,
    };
    let (tenant, standings, with_messages) = (caller.tenant, ask.standings, ask.with_messages);
    let (known, page) = counted(ask.page);
    let ask = StandingAsk { tenant, thread, standings, since: ask.since, page };
    let page = service.reads.runs_by_standing(&ask).await?;
    let total = match known {
        Some(total) => total,
        None => service.reads.count_by_standing(&ask).await?,
    };
    let mut items = Vec::with_capacity(page.items.len());
    for found in page.items {
        let Some(run) = legible(&found.row) else { continue };
        items.push(seen(service, &found, run, with_messages).await?);
    }
    Ok((Page { items, next_cursor: page.next_cursor.map(|cursor| format!("{total}.{cursor}")) }, total))
}

/// The number that the cursor carries, and the page without it.
fn counted(page: PageAsk) -> (Option<u64>, PageAsk) {
    let carried = page.cursor.as_deref().and_then(|cursor| cursor.split_once('.'));
    let Some((Ok(total), cursor)) = carried.map(|(total, cursor)| (total.parse::<u64>(), cursor.to_owned())) else {
        return (None, page);
    };
    (Some(total), PageAsk { cursor: Some(cursor), ..page })
}

async fn seen(service: &Service, found: &FoundRow, run: Run, with_messages: bool) -> Result<RunSnapshot> {
    let open = match run.standing {
        CallerStatus::Suspended | CallerStatus::NeedsAuth => questions(service, found.pk, found.row.ord, &run).await?,
        CallerStatus::Queued
        | CallerStatus::Running
        | CallerStatus::Waiting
        | CallerStatus::Completed
        | CallerStatus::Failed
        | CallerStatus::Refused
        | CallerStatus::Cancelled => Vec::new(),
    };
    let messages = if with_messages { messages_of(service, found.pk, found.row.ord, &run).await? } else { Vec::new() };
    Ok(RunSnapshot { run, messages, open, urls: service.runtime.public_console_urls().cloned() })
}

/// All of them have a number above the run's own.
async fn questions(service: &Service, pk: ThreadPk, ord: i64, run: &Run) -> Result<Vec<Suspension>> {
    let mut rows = Entries::from(PageAsk::beyond(ord, CHUNK), |page| async move {
        service.reads.rows(pk, RowKind::Suspension, false, &page).await
    });
    let mut open = Vec::new();
    while let Some(row) = rows.next().await? {
        open.extend(open_of(service, pk, &[row], run).await?);
    }
    Ok(open)
}

async fn open_of(service: &Service, pk: ThreadPk, rows: &[Row], run: &Run) -> Result<Vec<Suspension>> {
    let mut open = Vec::new();
    for row in rows.iter().filter(|row| row.kind == RowKind::Suspension) {
        let Some(mut suspension) = legible::<Suspension>(row) else { continue };
        if suspension.status == SuspensionStatus::Pending && suspension.run_id == run.run_id {
            for part in [&mut suspension.tool_input, &mut suspension.plan] {
                if let Some(stored) = part.take() {
                    *part = Some(service.shown(pk, stored).await?);
                }
            }
            open.push(suspension);
        }
    }
    Ok(open)
}

/// All of them have a number above the run's own. The last one of a run that has an answer is that; of another that is over none
/// was said after its end.
async fn messages_of(service: &Service, pk: ThreadPk, ord: i64, run: &Run) -> Result<Vec<ConversationMessage>> {
    let answer = run.outcome.as_ref().map(|outcome| &outcome.message_id);
    let mut rows = Entries::from(PageAsk::beyond(ord, CHUNK), |page| async move {
        service.reads.rows(pk, RowKind::Message, false, &page).await
    });
    let mut messages = Vec::new();
    while let Some(row) = rows.next().await? {
        let Some(mut message) = legible::<ConversationMessage>(&row) else { continue };
        if message.run_id.as_ref() != Some(&run.run_id) {
            if run.finished_at.is_some_and(|end| message.timestamp > end + CLOCKS_DIFFER) {
                break;
            }
            continue;
        }
        message.metadata = threads::whole(service, pk, message.metadata).await?;
        let is_last = Some(&message.message_id) == answer;
        messages.push(message);
        if is_last {
            break;
        }
    }
    Ok(messages)
}
