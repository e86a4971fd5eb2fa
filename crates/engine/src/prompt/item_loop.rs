//! An item's loop as the turns of a prompt: the model's replies, the tools that it called, and their results.

use std::collections::BTreeSet;

use serde_json::{Map, json};

use crate::domain::ids::CallId;
use crate::domain::payload::{self, Payloads};
use crate::domain::prompt::PromptCall;
use crate::domain::tool::{CallRecord, ToolResult, ToolStatus};
use crate::pes::state::{Item, State, TurnContent};
use crate::prompt::{Turn, render};

/// The turns of the item's loop, preceded by the calls of its earlier attempts.
pub(crate) fn turns(state: &State, item: &Item, payloads: &Payloads) -> Vec<Turn> {
    let first = item.progress.work.as_ref().map_or(0, |work| work.first_ord);
    let shown: BTreeSet<&CallId> = item.turns.iter().flat_map(|turn| calls_of(&turn.content)).collect();
    let earlier = item.calls.iter().filter_map(|id| state.calls.get(id));
    let mut turns = Vec::new();
    for call in earlier.filter(|call| call.ord < first && !shown.contains(&call.record.call_id)) {
        turns.push(Turn::Model {
            content: String::new(),
            calls: vec![prompt_call(&call.record, payloads)],
            replay: None,
        });
        turns.push(result_turn(&call.record, payloads));
    }
    for turn in &item.turns {
        match &turn.content {
            TurnContent::Engine { text } => turns.push(Turn::Engine(text.clone())),
            TurnContent::Patch { .. } => {}
            TurnContent::Model { text, calls, replay } => {
                let records: Vec<&CallRecord> =
                    calls.iter().filter_map(|id| Some(&state.calls.get(id)?.record)).collect();
                turns.push(Turn::Model {
                    content: render::text_of(text, payloads),
                    calls: records.iter().map(|record| prompt_call(record, payloads)).collect(),
                    replay: replay.clone().map(|replay| payload::inline(replay, payloads)),
                });
                turns.extend(records.iter().map(|record| result_turn(record, payloads)));
            }
        }
    }
    turns
}

fn calls_of(content: &TurnContent) -> &[CallId] {
    match content {
        TurnContent::Model { calls, .. } => calls,
        TurnContent::Engine { .. } | TurnContent::Patch { .. } => &[],
    }
}

fn shown_id(record: &CallRecord) -> String {
    record.provider_call_id.clone().unwrap_or_else(|| record.call_id.to_string())
}

fn prompt_call(record: &CallRecord, payloads: &Payloads) -> PromptCall {
    PromptCall {
        id: shown_id(record),
        name: record.tool_name.clone(),
        arguments: payload::inline(record.arguments.clone(), payloads),
    }
}

/// The result of a call. Every call has one in the prompt; if a person edited the arguments, the result says which ones
/// ran.
fn result_turn(record: &CallRecord, payloads: &Payloads) -> Turn {
    let result = record.result.clone().map(|result| render::inlined(result, payloads));
    let mut result = result.unwrap_or_else(|| ToolResult {
        call_id: record.call_id.clone(),
        tool_name: record.tool_name.clone(),
        status: ToolStatus::Skipped,
        output: None,
        error: None,
        metadata: None,
        duration_ms: 0,
        executed: None,
        other: Map::new(),
    });
    if let Some(edited) = &record.modified_arguments {
        let edited = payload::inline(edited.clone(), payloads);
        let mut metadata = result.metadata.take().unwrap_or_else(|| json!({}));
        if let Some(map) = metadata.as_object_mut() {
            map.insert("editedArguments".into(), edited);
        }
        result.metadata = Some(metadata);
    }
    Turn::Returned { id: shown_id(record), result: Box::new(result) }
}
