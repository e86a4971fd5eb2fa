//! Runs as those see them who asked for them from outside: where they stand, what was said, what is asked.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::runs::{legible, read};
use super::{Result, RunSnapshot, RunSnapshotAsk, Runtime};
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::hitl::{Suspension, SuspensionStatus};
use crate::domain::ids::{RunId, ThreadId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::run::{CallerStatus, Run, RunStatus};
use crate::engine::step::{Row, RowKind};
use crate::store::{Found, Page, PageAsk, StandingAsk};

/// How many messages are read at once.
const CHUNK: u32 = 100;

impl Runtime {
    pub async fn run_snapshot(&self, caller: &Caller, id: &RunId, with_messages: bool) -> Result<RunSnapshot> {
        let found = self.0.store.find_row(caller.tenant, RowKind::Run, id.as_str()).await?;
        self.seen(found.ok_or_else(|| Fault::not_found("run"))?, with_messages).await
    }

    /// Returns when the run is over or asks something, or when the time is up.
    pub async fn wait_errand(&self, caller: &Caller, id: &RunId, at_most: Duration) -> Result<()> {
        let until = Instant::now() + at_most;
        let mut waiter = self.0.waiters.join(id);
        loop {
            let (pk, run) = self.stored_run(caller, id).await?;
            let asks = matches!(run.standing, CallerStatus::Suspended | CallerStatus::NeedsAuth);
            let is_settled = asks || run.status.is_terminal() || run.status == RunStatus::Suspended;
            if is_settled || timeout_at(until, waiter.moved(pk)).await.is_err() {
                return Ok(());
            }
        }
    }

    /// The run as of a place in its thread's log, and that place: whoever reads the log from there misses nothing.
    pub async fn run_snapshot_now(&self, caller: &Caller, id: &RunId) -> Result<(RunSnapshot, i64)> {
        let find = async || {
            let found = self.0.store.find_row(caller.tenant, RowKind::Run, id.as_str()).await?;
            found.ok_or_else(|| Fault::not_found("run"))
        };
        let found = find().await?;
        let (thread, rows) = self.0.reads.load(found.pk).await?.ok_or_else(|| Fault::not_found("run"))?;
        // One that is over is not loaded, and does not change any more.
        let row = match rows.iter().find(|row| row.kind == RowKind::Run && row.id == id.as_str()) {
            Some(row) => row.clone(),
            None => find().await?.row,
        };
        let run: Run = read(&row)?;
        let open = self.open_of(found.pk, &rows, &run).await?;
        let messages = self.messages_of(found.pk, row.ord, &run).await?;
        Ok((RunSnapshot { run, messages, open }, thread.last_seq))
    }

    /// The tenant's, and how many there are on all pages.
    pub async fn run_snapshots(&self, caller: &Caller, ask: RunSnapshotAsk) -> Result<(Page<RunSnapshot>, u64)> {
        let thread = match &ask.thread {
            Some(id) => Some(self.row(caller, id).await?.pk),
            None => None,
        };
        let (tenant, standings) = (caller.tenant, ask.standings);
        let ask = (StandingAsk { tenant, thread, standings, since: ask.since, page: ask.page }, ask.with_messages);
        let (page, total) = self.0.reads.runs_by_standing(&ask.0).await?;
        let mut items = Vec::with_capacity(page.items.len());
        for found in page.items {
            items.push(self.seen(found, ask.1).await?);
        }
        Ok((Page { items, next_cursor: page.next_cursor }, total))
    }

    pub fn now(&self) -> Millis {
        self.0.now()
    }

    /// An id for a thread that is to be made.
    pub fn new_thread_id(&self) -> ThreadId {
        self.0.mint().thread()
    }

    async fn seen(&self, found: Found, with_messages: bool) -> Result<RunSnapshot> {
        let run: Run = read(&found.row)?;
        let open = match run.standing {
            CallerStatus::Suspended | CallerStatus::NeedsAuth => self.questions(found.pk, found.row.ord, &run).await?,
            CallerStatus::Queued
            | CallerStatus::Running
            | CallerStatus::Waiting
            | CallerStatus::Completed
            | CallerStatus::Failed
            | CallerStatus::Refused
            | CallerStatus::Cancelled => Vec::new(),
        };
        let messages = match with_messages {
            true => self.messages_of(found.pk, found.row.ord, &run).await?,
            false => Vec::new(),
        };
        Ok(RunSnapshot { run, messages, open })
    }

    /// All of them have a number above the run's own.
    async fn questions(&self, pk: ThreadPk, ord: i64, run: &Run) -> Result<Vec<Suspension>> {
        let mut page = PageAsk::beyond(ord, CHUNK);
        let mut open = Vec::new();
        loop {
            let found = self.0.reads.rows(pk, RowKind::Suspension, false, &page).await?;
            open.extend(self.open_of(pk, &found.items, run).await?);
            match found.next_cursor {
                Some(cursor) => page.cursor = Some(cursor),
                None => return Ok(open),
            }
        }
    }

    async fn open_of(&self, pk: ThreadPk, rows: &[Row], run: &Run) -> Result<Vec<Suspension>> {
        let mut open = Vec::new();
        for row in rows.iter().filter(|row| row.kind == RowKind::Suspension) {
            let Some(mut suspension) = legible::<Suspension>(row) else { continue };
            if suspension.status == SuspensionStatus::Pending && suspension.run_id == run.run_id {
                for part in [&mut suspension.tool_input, &mut suspension.plan] {
                    if let Some(stored) = part.take() {
                        *part = Some(self.0.shown(pk, stored).await?);
                    }
                }
                open.push(suspension);
            }
        }
        Ok(open)
    }

    /// All of them have a number above the run's own; the last one of a run that is over is its answer.
    async fn messages_of(&self, pk: ThreadPk, ord: i64, run: &Run) -> Result<Vec<ConversationMessage>> {
        let answer = run.outcome.as_ref().map(|outcome| &outcome.message_id);
        let mut page = PageAsk::beyond(ord, CHUNK);
        let mut messages = Vec::new();
        loop {
            let found = self.0.reads.rows(pk, RowKind::Message, false, &page).await?;
            for row in &found.items {
                let Some(mut message) = legible::<ConversationMessage>(row) else { continue };
                if message.run_id.as_ref() != Some(&run.run_id) {
                    continue;
                }
                message.metadata = self.whole(pk, message.metadata).await?;
                let is_last = Some(&message.message_id) == answer;
                messages.push(message);
                if is_last {
                    return Ok(messages);
                }
            }
            match found.next_cursor {
                Some(cursor) => page.cursor = Some(cursor),
                None => return Ok(messages),
            }
        }
    }
}
