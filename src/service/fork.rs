//! A thread as of a past observation: read, or continued as a new thread.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::once::{self, Answered, Idempotent};
use super::pages::Observations;
use super::{Result, Service, feed, later_calls, threads};
use crate::domain::caller::Caller;
use crate::domain::facts::{RecordedMessage, Summary};
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{ItemId, MessageId, RunId, ThreadId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::observation::ObservationType;
use crate::domain::plan::ItemStatus;
use crate::domain::run::Run;
use crate::domain::thread::{AgentState, ForkedFrom, ItemCounts, Thread, ThreadProfile};
use crate::engine::event::{Event, PersonEvent};
use crate::engine::history::fold::{Fold, StateWrite, StateWrites};
use crate::engine::history::later_calls::digests_of_head;
use crate::engine::history::{ShownPlan, shapers};
use crate::engine::step::RowKind;
use crate::runtime::rows::legible;
use crate::runtime::{CommandError, CommitExtras, IdempotencyRowFn};
use crate::store::{self, ObservationAsk, ThreadRow};

/// How much of a conversation is copied, or taken back, at once, in bytes: it is in memory, and stored in one transaction.
pub(crate) const MAX_CONVERSATION_BYTES: usize = 64 << 20;

/// Where a request of a copy names its place.
const AT: &str = "/at";

/// Whether a place in the log was refused because the conversation up to there is too long for a copy.
pub(crate) fn is_too_long(refused: &Fault) -> bool {
    refused.code == Code::Invalid && refused.errors.iter().any(|error| error.pointer == AT)
}

/// Creates a new, idle thread with the state that this one had at `at` (absent = now). Completed work is kept. If an old log
/// does not record the application's state of that time, the copy gets the current one.
pub async fn fork(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    at: Option<i64>,
    new_id: Option<ThreadId>,
    key: Option<Idempotent>,
) -> Result<Answered<Thread>> {
    service.runtime.accepting()?;
    once::perform(service, caller, key.as_ref(), copy(service, caller, id, at, new_id, key.as_ref())).await
}

async fn copy(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    at: Option<i64>,
    new_id: Option<ThreadId>,
    key: Option<&Idempotent>,
) -> Result<Thread, CommandError> {
    let row = threads::row(service, caller, id).await?;
    let at = within(&row, at.unwrap_or(row.last_seq), AT)?;
    let new_id = new_id.unwrap_or_else(|| threads::new_id(service));
    threads::check_id(service, &new_id)?;
    let fold = feed::fold_to(service, row.pk, at).await?;
    let mut plan = plan(service, row.pk, &fold).await?;
    plan.edited = edited_items(service, row.pk, &plan).await?;
    // What this thread still asks about was called before `at`, or elsewhere; likewise what it asked about at `at`.
    let mut later = digests_of_head(&row.head);
    let since = if at < row.last_seq { later_calls::place_gone_back_to(service, &row, at).await? } else { None };
    later.extend(later_calls::after(service, &row, since.unwrap_or(at), &plan).await?);
    let (items, title) = (item_counts(&plan), title_at(service, &row, at, &plan).await?);
    let from = ForkedFrom { thread_id: id.clone(), seq: at };
    let event = Event::Person(PersonEvent::Forked {
        from: from.clone(),
        state: Box::new(plan),
        messages: conversation(service, row.pk, &fold).await?,
        superseded: HashSet::new(),
        agent_state: match fold.agent_state() {
            Some(writes) => state_with_payloads(service, row.pk, writes).await?,
            None => threads::agent_state(service, caller, id).await?,
        },
        summary: match fold.summary() {
            Some(summary) => {
                let text = service.with_payloads(row.pk, summary.text.clone()).await?;
                Some(Box::new(Summary { text, ..summary.clone() }))
            }
            None => None,
        },
        shapers: shapers_of_copy(service, caller, &row, &fold, at).await?,
        later,
    });
    let writers = threads::prompt_writers(service, &row).await?;
    check_still_within(service, row.pk, at, AT).await?;
    let new = threads::new_thread(service, caller, new_id, row.core);
    let profile = ThreadProfile { forked_from: Some(from), title, ..row.profile };
    let new_thread = Thread { items, ..threads::fresh(&new, &profile) };
    let extras = CommitExtras {
        idempotency: key.cloned().map(|key| stored_response(caller, key, &new_thread)),
        rows: writers.iter().map(|writer| threads::row_of(writer, new.created_at)).collect(),
        create: Some((new, profile)),
        ..CommitExtras::audited(caller.name.clone(), "fork", serde_json::json!({ "from": id, "at": at }))
    };
    let decided = service.runtime.decide(service.runtime.new_pk(), event, extras).await?;
    Ok(Thread { last_seq: decided.last_seq, ..new_thread })
}

/// The thread's state as of an observation, as clients read it.
pub(crate) async fn state_at(service: &Service, row: &ThreadRow, seq: i64) -> Result<Value> {
    let seq = within(row, seq, "?at")?;
    let mut view = service.with_payloads(row.pk, feed::fold_to(service, row.pk, seq).await?.view()).await?;
    check_still_within(service, row.pk, seq, "?at").await?;
    view["threadId"] = row.thread_id.as_str().into();
    view["minSeq"] = row.min_seq.into();
    Ok(view)
}

/// The names of those who shaped the unfinished work of the copy: the caller, whoever shaped the run that was active then,
/// and whoever edited the plan since. The run that began after `at` took over the names of those editors.
async fn shapers_of_copy(
    service: &Service,
    caller: &Caller,
    row: &ThreadRow,
    fold: &Fold,
    at: i64,
) -> Result<Vec<String>> {
    let ask = ObservationAsk { after: at, limit: 1, types: vec![ObservationType::RunStarted], ..Default::default() };
    let after = service.reads.observations(row.pk, &ask).await?.into_iter().map(|began| began.run_id);
    let current = fold.view()["runId"].as_str().map(RunId::from);
    let last = || fold.messages().iter().rev().find_map(|message| message.run_id.clone());
    let runs = current.or_else(last).into_iter().chain(after);
    let wanted: Vec<_> = runs.map(|run| (row.pk, RowKind::Run, run.to_string())).collect();
    let mut names = vec![caller.name.clone()];
    names.extend(shapers::of_next_run(&row.head));
    let found = service.reads.rows_by_id(&wanted).await?;
    names.extend(found.iter().filter_map(|(_, row)| legible::<Run>(row)).flat_map(|run| run.requested_by));
    Ok(names)
}

/// The items of the plan that a person edited, by now, each with the planVersion of the last edit.
async fn edited_items(service: &Service, pk: ThreadPk, plan: &ShownPlan) -> Result<BTreeMap<ItemId, i64>> {
    let wanted: Vec<_> = plan.todo_list.iter().map(|item| (pk, RowKind::Item, item.id.to_string())).collect();
    let rows = if wanted.is_empty() { Vec::new() } else { service.reads.rows_by_id(&wanted).await? };
    Ok(shapers::edited_items(rows.iter().map(|(_, row)| row)))
}

/// The plan of that time, with its payloads.
async fn plan(service: &Service, pk: ThreadPk, fold: &Fold) -> Result<ShownPlan> {
    Ok(plan_of(&service.with_payloads(pk, fold.view()).await?)?)
}

/// The plan in the view of a fold.
pub(crate) fn plan_of(view: &Value) -> store::Result<ShownPlan> {
    ShownPlan::of(view).map_err(|error| store::Error::Damaged(format!("the plan in the log: {error}")))
}

/// The progress of the copy. Items that were not finished begin again, so they count only in the total.
fn item_counts(plan: &ShownPlan) -> ItemCounts {
    let mut items = ItemCounts { total: plan.todo_list.len() as u64, ..ItemCounts::default() };
    for item in &plan.todo_list {
        match item.status {
            ItemStatus::Completed => items.done += 1,
            ItemStatus::Failed => items.failed += 1,
            ItemStatus::Cancelled => items.cancelled += 1,
            ItemStatus::Pending | ItemStatus::InProgress | ItemStatus::Waiting => {}
        }
    }
    items
}

/// The title of the copy: the current one, unless the agent set it after `at`; then the title of that time.
async fn title_at(service: &Service, row: &ThreadRow, at: i64, plan: &ShownPlan) -> Result<Option<String>> {
    let then = Some(&plan.title).filter(|title| !title.is_empty()).cloned();
    let Some(title) = row.profile.title.as_ref().filter(|title| then.as_ref() != Some(*title)) else { return Ok(then) };
    let limit = service.config.limits.page;
    let ask = ObservationAsk { after: at, limit, types: vec![ObservationType::Title], ..Default::default() };
    let mut log = Observations::from(&*service.reads, row.pk, ask);
    while let Some(given) = log.next().await? {
        if given.content["title"] == title.as_str() {
            return Ok(then);
        }
    }
    Ok(Some(title.clone()))
}

/// The application's state, with its payloads.
async fn state_with_payloads(service: &Service, pk: ThreadPk, mut writes: StateWrites) -> Result<AgentState> {
    for write in &mut writes.writes {
        let (StateWrite::Whole(value) | StateWrite::Patch(value)) = write;
        *value = service.with_payloads(pk, value.take()).await?;
    }
    Ok(writes.state())
}

/// The messages that the fold has seen. The log holds each of them in full.
async fn conversation(service: &Service, pk: ThreadPk, fold: &Fold) -> Result<Vec<ConversationMessage>> {
    let mut messages = Vec::with_capacity(fold.messages().len());
    let mut bytes = 0;
    for recorded in fold.messages() {
        let content = service.with_payloads(pk, recorded.content.clone()).await?;
        let metadata = threads::metadata_with_payloads(service, pk, recorded.metadata.clone()).await?;
        let whole = RecordedMessage { content, metadata, ..recorded.clone() }.whole();
        let message = whole.ok_or_else(|| damaged(&recorded.message_id))?;
        bytes += message.approximate_bytes();
        if bytes > MAX_CONVERSATION_BYTES {
            let how = "must be an earlier place: the conversation up to there has more than 64 MiB";
            return Err(Fault::new(Code::Invalid, format!("`at` {how}, which no copy can have.")).at(AT, how));
        }
        messages.push(message);
    }
    Ok(messages)
}

fn damaged(message: &MessageId) -> Fault {
    store::Error::Damaged(format!("the text of the message {message} in the log")).into()
}

/// Checks that the log of this thread still reaches back to `seq`, and returns it. 0 is the thread before its first
/// observation. `pointer` names the request's parameter in the fault.
pub(crate) fn within(row: &ThreadRow, seq: i64, pointer: &str) -> Result<i64> {
    if seq < row.min_seq - 1 {
        let detail = format!(
            "The history begins at {0}; what was before was deleted because of its age. Read from {0} on; messages and \
             the state as it is now are all there.",
            row.min_seq
        );
        return Err(Fault::new(Code::HistoryCompacted, detail).with("minSeq", row.min_seq));
    }
    if seq > row.last_seq {
        let detail = format!("The last observation is {}.", row.last_seq);
        return Err(Fault::new(Code::Invalid, detail.clone()).at(pointer, detail));
    }
    Ok(seq)
}

/// Refuses what was just read of a thread up to `seq` if the thread was deleted meanwhile, or its log shortened beyond `seq`:
/// entries and payloads that are deleted are missing without an error.
async fn check_still_within(service: &Service, pk: ThreadPk, seq: i64, pointer: &str) -> Result<()> {
    let row = service.store.thread_by_pk(pk).await?.ok_or_else(|| Fault::not_found("thread"))?;
    within(&row, seq, pointer).map(drop)
}

fn stored_response(caller: &Caller, key: Idempotent, thread: &Thread) -> IdempotencyRowFn {
    let (tenant, thread) = (caller.tenant, thread.clone());
    Box::new(move |decided, now| {
        let thread = Thread { last_seq: decided.last_seq, ..thread.clone() };
        key.row(tenant, now, threads::answer(&thread))
    })
}
