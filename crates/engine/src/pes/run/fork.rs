//! A thread begins as a copy of another: settled items are kept, others begin anew. Their calls are kept, too, so that
//! nothing is done twice unasked.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::domain::facts::{IntentBody, PlanBody, StateUpdateBody, Summary, TitleBody};
use crate::domain::ids::{CallId, MessageId};
use crate::domain::message::ConversationMessage;
use crate::domain::plan::{ItemStatus, TodoItem};
use crate::domain::settings::RunSettings;
use crate::domain::thread::{AgentState, ForkedFrom};
use crate::domain::tool::{
    COPIED, CallCode, CallRecord, CallStatus, ToolCall, ToolClass, ToolError, ToolResult, ToolStatus,
};
use crate::history::{ShownPlan, view};
use crate::pes::run::{message, summary};
use crate::pes::state::{Definition, Item, Progress, rows};
use crate::pes::tx::{self, EventOutcome, HandlerResult, Tx};
use crate::pes::work::agent_state;

/// The messages of another thread.
pub(crate) struct CopiedConversation {
    pub messages: Vec<ConversationMessage>,
    /// Those of them that are kept, but are not part of the conversation.
    pub superseded: HashSet<MessageId>,
    /// The summary of the oldest of them.
    pub summary: Option<Summary>,
}

/// Fills an empty thread with the plan, the messages and the application's state of another.
pub(crate) fn begin(
    tx: &mut Tx<'_>,
    from: &ForkedFrom,
    state: ShownPlan,
    mut conversation: CopiedConversation,
    agent: AgentState,
    shapers: &[String],
) -> HandlerResult {
    let ShownPlan { intent, title, plan, plan_version, todo_list, held_back, edited, .. } = state;
    tx.title = Some(title.clone()).filter(|title| !title.is_empty());
    (tx.state.head.intent, tx.state.head.title) = (intent, title);
    // A core without plans has no text.
    let plan = if plan.is_string() { plan } else { Value::String(String::new()) };
    tx.state.head.plan = tx.store("plan", plan);
    tx.state.head.plan_version = plan_version;
    let summary = conversation.summary.take().and_then(|summary| copy_summary(tx, summary, &conversation));
    copy_messages(tx, from, conversation);
    record_heading(tx);
    let items = todo_list.into_iter().enumerate().map(|(at, todo)| {
        let is_marked = edited.get(&todo.id).is_some_and(|version| keeps_mark(&todo, *version, plan_version));
        let edited = is_marked.then_some(plan_version);
        let copied = copy_item(tx, at as i64, todo, &held_back);
        Item { def: Definition { edited, ..copied.def }, ..copied }
    });
    let items: Vec<Item> = items.collect();
    if items.iter().any(Item::may_be_done_as_shaped) {
        tx::add_names(&mut tx.state.head.shapers, shapers);
    }
    for item in &items {
        tx.mark_definition_changed(&item.def.id);
    }
    tx.state.list.rebuild(|list| *list = items);
    record_whole_plan(tx, "Plan copied");
    if agent != AgentState::default() {
        agent_state::copy(tx, agent);
    }
    if let Some((summary, covered_bytes)) = summary {
        summary::set_summary(tx, summary, covered_bytes);
    }
    Ok(EventOutcome::Applied)
}

/// Stores and records the messages of the conversation so far; the first observation names the thread that they come
/// from. Superseded messages are only stored.
fn copy_messages(tx: &mut Tx<'_>, from: &ForkedFrom, conversation: CopiedConversation) {
    let mut forked_from = Some(from.clone());
    for mut message in conversation.messages {
        message.thread_id = tx.state.thread_id.clone();
        if conversation.superseded.contains(&message.message_id) {
            let ord = tx.next_ord();
            tx.written.put(rows::superseded_message(ord, &message));
            continue;
        }
        let message = Some(message::store(tx, &message));
        let update = tx.state_update(vec!["messages".to_owned()]);
        tx.record(None, "State changed", StateUpdateBody { message, forked_from: forked_from.take(), ..update });
    }
    if forked_from.is_some() {
        tx.record(None, "State changed", StateUpdateBody { forked_from, ..tx.state_update(Vec::new()) });
    }
}

/// The copy's summary of its oldest messages, and the size of those messages in bytes.
fn copy_summary(tx: &mut Tx<'_>, summary: Summary, conversation: &CopiedConversation) -> Option<(Summary, u64)> {
    let CopiedConversation { messages, superseded, .. } = conversation;
    let end = messages.iter().position(|message| message.message_id == summary.upto)?;
    let covered = messages[..=end].iter().filter(|message| !superseded.contains(&message.message_id));
    let covered_bytes = covered.map(|message| message.content.len() as u64).sum();
    let text = tx.store("summary", summary.text);
    Some((Summary { text, ..summary }, covered_bytes))
}

/// Whether an item of this version of the plan keeps the mark of a person's edit. What is settled keeps it always: the names
/// of its editors count if it is done again. What is not would be done because of the mark, so its edit must be part of it.
pub(crate) fn keeps_mark(todo: &TodoItem, edited: i64, plan_version: i64) -> bool {
    todo.status.is_settled() || edited <= plan_version
}

fn copy_item(tx: &mut Tx<'_>, ord: i64, todo: TodoItem, held_back: &[CallId]) -> Item {
    let keeps = todo.status.is_settled();
    let calls = copy_calls(tx, &todo, held_back);
    let result =
        todo.result.clone().filter(|_| keeps).map(|result| tx.store(format!("item-{}.result", todo.id), result));
    item_of(ord, TodoItem { result, ..todo }, calls, tx.state.head.plan_version)
}

/// An item from a list of another time: settled as it was, or pending. Its result must be in stored form.
pub(crate) fn item_of(ord: i64, todo: TodoItem, calls: Vec<CallId>, version: i64) -> Item {
    let keeps = todo.status.is_settled();
    let def = Definition {
        id: todo.id,
        description: todo.description,
        dependencies: todo.dependencies,
        step_type: todo.step_type,
        required_tools: todo.required_tools,
        expected_outcome: todo.expected_outcome,
        tool_validation_mode: todo.tool_validation_mode,
        created: todo.created_timestamp,
        since: version,
        edited: None,
    };
    let progress = Progress {
        status: if keeps { todo.status } else { ItemStatus::Pending },
        reason: todo.reason.filter(|_| keeps),
        result: todo.result.filter(|_| keeps),
        validation: todo.validation_status.filter(|_| keeps),
        updated: todo.updated_timestamp,
        run: todo.run_id.filter(|_| keeps),
        redone: todo.redone,
        ..Progress::default()
    };
    Item { ord, def, progress, calls, turns: Vec::new() }
}

/// Copies the calls of an item, with their results: later steps and people see them as before. A call without a result
/// may have had its effect, unless it was held back or only reads.
fn copy_calls(tx: &mut Tx<'_>, todo: &TodoItem, held_back: &[CallId]) -> Vec<CallId> {
    let is_settled = todo.status.is_settled();
    let mut ids = Vec::with_capacity(todo.tool_calls.len());
    for called in &todo.tool_calls {
        let id = &called.call_id;
        let declared = tx.world.tools.declared(&RunSettings::default(), &called.tool_name);
        let only_reads = declared.is_some_and(|spec| spec.class == ToolClass::Read);
        let is_undone = is_settled || only_reads || held_back.contains(id);
        let known = todo.tool_results.iter().find(|result| result.call_id == *id).cloned();
        let Some(result) = known.or_else(|| (!is_undone).then(|| unknown_result(called))) else { continue };
        let ran = if is_settled {
            todo.actual_tool_calls.iter().find(|ran| ran.call_id == *id)
        } else {
            // The log does not hold which ones were started.
            Some(called).filter(|_| result.error.as_ref().is_none_or(ToolError::is_open_ended))
        };
        let class = only_reads.then_some(ToolClass::Read);
        ids.push(copy_call(tx, todo, called, ran, class, result));
    }
    ids
}

/// The result of a call that had none when the thread was copied.
fn unknown_result(called: &ToolCall) -> ToolResult {
    let why = "the thread was copied while it ran; whether it had its effect is not known";
    ToolResult {
        call_id: called.call_id.clone(),
        tool_name: called.tool_name.clone(),
        status: ToolStatus::Error,
        output: None,
        error: Some(ToolError::new(CallCode::Unknown, why)),
        metadata: None,
        duration_ms: 0,
        executed: None,
        other: Map::new(),
    }
}

fn copy_call(
    tx: &mut Tx<'_>,
    todo: &TodoItem,
    called: &ToolCall,
    ran: Option<&ToolCall>,
    class: Option<ToolClass>,
    result: ToolResult,
) -> CallId {
    let id = called.call_id.clone();
    let arguments = tx.store(format!("call-{id}.arguments"), called.arguments.clone());
    let edited = ran.filter(|ran| ran.arguments != called.arguments);
    let edited = edited.map(|ran| tx.store(format!("call-{id}.modified"), ran.arguments.clone()));
    let output = result.output.clone().map(|output| tx.store(format!("call-{id}.output"), output));
    let record = CallRecord {
        call_id: id.clone(),
        tool_name: called.tool_name.clone(),
        arguments,
        modified_arguments: edited,
        edited_by: Vec::new(),
        run_id: todo.run_id.clone().unwrap_or_else(|| "".into()),
        item_id: Some(todo.id.clone()),
        iteration: 1,
        attempt: 1,
        status: CallStatus::Done,
        provider_call_id: None,
        idempotent: false,
        class,
        // The policy decision is kept with the call of the other thread.
        policy: None,
        digest: None,
        delegation: None,
        epoch: ran.map(|_| COPIED),
        retrying: None,
        lost: None,
        asked: None,
        result: Some(ToolResult { output, ..result }),
        created_at: todo.updated_timestamp,
        updated_at: todo.updated_timestamp,
    };
    tx.add_call(record);
    id
}

/// Records intent and title before the list, in the order of a planner's reply.
fn record_heading(tx: &mut Tx<'_>) {
    let (intent, title) = (tx.state.head.intent.clone(), tx.state.head.title.clone());
    if !intent.is_empty() {
        tx.record(None, "Intent", IntentBody { intent });
    }
    if !title.is_empty() {
        tx.record(None, title.clone(), TitleBody { title });
    }
}

/// Records the base of a history: the whole list, and the results of its settled items.
pub(super) fn record_whole_plan(tx: &mut Tx<'_>, title: &str) {
    let ShownPlan { plan, plan_version, todo_list, step_outputs, .. } = view::plan(tx.state);
    let body = PlanBody {
        plan,
        plan_version,
        raw_output: "".into(),
        changes: None,
        todo_list: Some(todo_list),
        step_outputs: Some(step_outputs),
    };
    tx.record(None, title, body);
}
