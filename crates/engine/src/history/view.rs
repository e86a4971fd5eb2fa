//! `PESAgentStateData` and its parts: what clients see of the state, with payload references.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::domain::facts::ItemMembers;
use crate::domain::hitl::Suspension;
use crate::domain::plan::{ItemStatus, StepOutputEntry, StepType, TodoItem};
use crate::domain::state::{A2aWait, PendingA2ATasks};
use crate::domain::to_value;
use crate::domain::tool::{CallRecord, ToolCall, ToolResult};
use crate::history::ShownPlan;
use crate::pes::state::{Item, State, TurnContent, run};

/// The item without its calls.
pub(crate) fn todo_item(item: &Item) -> TodoItem {
    let (def, progress) = (&item.def, &item.progress);
    TodoItem {
        status: progress.status,
        dependencies: def.dependencies.clone(),
        step_type: def.step_type,
        required_tools: def.required_tools.clone(),
        expected_outcome: def.expected_outcome.clone(),
        tool_validation_mode: def.tool_validation_mode,
        result: progress.result.clone(),
        validation_status: progress.validation,
        updated_timestamp: progress.updated,
        run_id: progress.run.clone(),
        reason: progress.reason.clone(),
        redone: progress.redone,
        ..TodoItem::new(def.id.clone(), def.description.clone(), def.created)
    }
}

pub(crate) fn whole_item(state: &State, item: &Item) -> TodoItem {
    TodoItem {
        tool_calls: tool_calls(state, item),
        actual_tool_calls: actual_calls(state, item),
        tool_results: tool_results(state, item),
        ..todo_item(item)
    }
}

fn records<'a>(state: &'a State, item: &'a Item) -> impl Iterator<Item = &'a CallRecord> {
    item.calls.iter().filter_map(|id| state.calls.get(id)).map(|call| &call.record)
}

fn tool_calls(state: &State, item: &Item) -> Vec<ToolCall> {
    records(state, item).map(|record| tool_call(record, &record.arguments)).collect()
}

/// The calls that were started, with the arguments that ran.
fn actual_calls(state: &State, item: &Item) -> Vec<ToolCall> {
    let started = records(state, item).filter(|record| record.epoch.is_some());
    started.map(|record| tool_call(record, record.modified_arguments.as_ref().unwrap_or(&record.arguments))).collect()
}

fn tool_call(record: &CallRecord, arguments: &Value) -> ToolCall {
    ToolCall::new(record.call_id.clone(), record.tool_name.clone(), arguments.clone())
}

pub(crate) fn tool_results(state: &State, item: &Item) -> Vec<ToolResult> {
    records(state, item).filter_map(|record| record.result.clone()).collect()
}

pub(crate) fn step_output(state: &State, item: &Item) -> StepOutputEntry {
    StepOutputEntry {
        step_id: item.def.id.clone(),
        description: item.def.description.clone(),
        step_type: item.def.step_type.unwrap_or(StepType::Reasoning),
        status: item.progress.status,
        completed_at: (item.progress.status == ItemStatus::Completed).then_some(item.progress.updated),
        raw_result: item.progress.result.clone(),
        tool_results: tool_results(state, item),
        summary: None,
        other: Map::new(),
    }
}

/// The members that a change of its status records: those of a settled item include its calls and its result.
pub(crate) fn changed_members(state: &State, item: &Item) -> ItemMembers {
    let progress = &item.progress;
    let bare = ItemMembers {
        status: progress.status,
        updated_timestamp: progress.updated,
        run_id: progress.run.clone(),
        reason: progress.reason.clone(),
        result: None,
        tool_calls: Vec::new(),
        actual_tool_calls: Vec::new(),
        tool_results: Vec::new(),
        validation_status: None,
        other: Map::new(),
    };
    if !progress.status.is_settled() {
        return bare;
    }
    ItemMembers {
        result: progress.result.clone(),
        tool_calls: tool_calls(state, item),
        actual_tool_calls: actual_calls(state, item),
        tool_results: tool_results(state, item),
        validation_status: progress.validation,
        ..bare
    }
}

/// The plan part of the view.
pub(crate) fn plan(state: &State) -> ShownPlan {
    let settled = state.list.iter().filter(|item| item.progress.status.is_settled());
    ShownPlan {
        intent: state.head.intent.clone(),
        title: state.head.title.clone(),
        plan: if state.head.plan.is_null() { json!("") } else { state.head.plan.clone() },
        plan_version: state.head.plan_version,
        todo_list: state.list.iter().map(|item| whole_item(state, item)).collect(),
        step_outputs: settled.map(|item| (item.def.id.clone(), step_output(state, item))).collect(),
        last_seq: state.last_seq,
        run_id: state.run.as_ref().map(|run| run.run_id.clone()),
        held_back: Vec::new(),
        edited: BTreeMap::new(),
    }
}

pub(crate) fn view(state: &State) -> Value {
    let shown = plan(state);
    let current = state.list.iter().find(|item| match item.progress.status {
        ItemStatus::InProgress | ItemStatus::Waiting => true,
        ItemStatus::Pending | ItemStatus::Completed | ItemStatus::Failed | ItemStatus::Cancelled => false,
    });
    let suspensions: Vec<Value> = state.suspensions.values().map(|open| suspension(state, open)).collect();
    let waits = open_tasks(state);
    let pending = PendingA2ATasks::of(&waits);
    let mut body = json!({
        "threadId": state.thread_id, "intent": shown.intent, "title": shown.title, "plan": shown.plan,
        "todoList": shown.todo_list, "currentStepId": current.map(|item| &item.def.id), "isPaused": !suspensions.is_empty(),
        "stepOutputs": shown.step_outputs, "suspensions": suspensions, "a2aWaits": waits,
        "planVersion": shown.plan_version, "lastSeq": shown.last_seq,
        "status": run::status_of(state).as_str(),
        "runId": shown.run_id, "phase": state.phase(),
    });
    if let Some(pending) = pending {
        body["pendingA2ATasks"] = to_value(&pending);
    }
    if let Some(oldest) = body["suspensions"].get(0).cloned() {
        body["suspension"] = oldest;
    }
    body
}

/// The unfinished tasks of other agents, oldest first.
fn open_tasks(state: &State) -> Vec<A2aWait> {
    let mut open: Vec<_> = state.tasks.values().filter(|(_, task)| !task.status.is_terminal()).collect();
    open.sort_by_key(|(ord, _)| *ord);
    open.into_iter().map(|(_, task)| A2aWait { task: task.observation_body(), item_id: task.item_id.clone() }).collect()
}

/// The `suspension` of the specification, with the prompt, the iteration so far, and the results of the other calls in
/// its batch.
fn suspension(state: &State, open: &Suspension) -> Value {
    let mut body = to_value(open);
    if let (Some(call), Some(tool)) = (&open.call_id, &open.tool_name) {
        body["toolCall"] = json!({ "callId": call, "toolName": tool, "arguments": open.tool_input });
    }
    let Some(item) = open.item_id.as_ref().and_then(|id| state.item(id)) else { return body };
    let turns = item.turns.iter().flat_map(|turn| iteration_state(state, &turn.content));
    body["iterationState"] = opening_messages(state, item).into_iter().chain(turns).collect();
    let batch = item.progress.work.as_ref().map(|work| work.batch.as_slice()).unwrap_or_default();
    let results = batch.iter().filter_map(|id| state.calls.get(id)?.record.result.as_ref());
    body["partialToolResults"] = results.map(to_value).collect();
    body
}

fn iteration_state(state: &State, content: &TurnContent) -> Vec<Value> {
    match content {
        TurnContent::Patch { .. } => Vec::new(),
        TurnContent::Engine { text } => vec![json!({ "role": "user", "content": text })],
        TurnContent::Model { text, calls, .. } => {
            let calls: Vec<&CallRecord> = calls.iter().filter_map(|id| Some(&state.calls.get(id)?.record)).collect();
            let made: Vec<Value> = calls.iter().map(|record| to_value(&tool_call(record, &record.arguments))).collect();
            let mut messages = vec![json!({ "role": "assistant", "content": text, "toolCalls": made })];
            messages.extend(calls.iter().filter_map(|record| {
                let result = record.result.as_ref()?;
                let content = result.output.clone().unwrap_or_else(|| to_value(&result.error));
                Some(json!({
                    "role": "tool", "name": record.tool_name, "toolCallId": record.call_id, "content": content,
                }))
            }));
            messages
        }
    }
}

/// The beginning of the item's prompt as messages: the system prompt, the results of the items that it depends on, and
/// the task.
fn opening_messages(state: &State, item: &Item) -> Vec<Value> {
    let work = item.progress.work.as_ref();
    let Some((system, task)) = work.and_then(|work| work.system.as_ref().zip(work.task.as_ref())) else {
        return Vec::new();
    };
    let needs = item.def.dependencies.iter().filter_map(|id| state.item(id));
    let context = needs
        .filter(|need| need.progress.status.is_settled())
        .map(|need| json!({ "role": "user", "name": "context", "content": to_value(&step_output(state, need)) }));
    let mut messages = vec![json!({ "role": "system", "content": system })];
    messages.extend(context);
    messages.push(json!({ "role": "user", "content": task }));
    messages
}
