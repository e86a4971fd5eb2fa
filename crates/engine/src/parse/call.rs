//! Tool calls: native ones, and those written as JSON text.

use serde_json::{Map, Value};

use super::CallDraft;
use super::field::{self, Object};
use super::find::FoundJson;
use super::json::Tail;
use crate::domain::depth::{MOST_DEPTH, exceeds};
use crate::domain::model::{ModelReply, RawToolCall};

const CALLS: [&str; 3] = ["toolCalls", "tool_calls", "calls"];
const NAME: [&str; 4] = ["toolName", "tool_name", "name", "tool"];
const ARGUMENTS: [&str; 5] = ["arguments", "parameters", "args", "input", "toolInput"];
/// The brackets around a call's own arguments: the call, its list and the reply.
const AROUND_A_CALL: usize = 3;

/// Native calls. Nothing is guessed: the model is told about arguments that are not JSON, and a call that the end of
/// the reply cut off has none.
pub(super) fn native(reply: &ModelReply) -> Vec<CallDraft> {
    let draft = |call: &RawToolCall| CallDraft {
        provider_id: call.id.clone(),
        name: call.name.trim().to_owned(),
        arguments: arguments(&call.arguments),
    };
    let mut calls: Vec<CallDraft> = reply.tool_calls.iter().map(draft).collect();
    // A closed object is complete, wherever the reply ended.
    let is_closed = |call: &RawToolCall| serde_json::from_str::<Object>(&call.arguments).is_ok();
    if reply.is_cut() && !reply.tool_calls.last().is_some_and(is_closed) {
        mark_cut_off(&mut calls);
    }
    calls
}

fn mark_cut_off(calls: &mut [CallDraft]) {
    if let Some(last) = calls.last_mut() {
        last.arguments = Err("The reply ended inside this call; write it again, whole.".to_owned());
    }
}

fn arguments(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let value = serde_json::from_str(text).map_err(|error| format!("The arguments are not valid JSON: {error}."))?;
    if exceeds(&value, MOST_DEPTH) {
        Err(format!("Objects and arrays in the arguments nest deeper than {MOST_DEPTH}."))
    } else {
        Ok(value)
    }
}

/// The calls in a JSON value of the reply, in order; a call that the end of the reply cut off has no arguments.
pub(super) fn written(found: &FoundJson) -> Vec<CallDraft> {
    let mut calls = match &found.value {
        Value::Array(list) => {
            // A list with anything but calls in it is data.
            let calls: Vec<CallDraft> = list.iter().filter_map(bare).collect();
            if calls.len() == list.len() { calls } else { Vec::new() }
        }
        Value::Object(object) => match field::any(object, &CALLS) {
            Some(Value::Array(list)) => list.iter().filter_map(listed).collect(),
            Some(single) => listed(single).into_iter().collect(),
            None => bare(&found.value).into_iter().collect(),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    if is_call_cut(found) {
        mark_cut_off(&mut calls);
    }
    calls
}

fn is_call_cut(found: &FoundJson) -> bool {
    let is_in_calls = match &found.value {
        Value::Object(object) => field::any(object, &CALLS).is_none() || field::is_last(object, &CALLS),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => true,
    };
    match found.tail {
        Tail::Whole => false,
        Tail::Torn => is_in_calls,
        Tail::Unclosed(open) => is_in_calls && open >= AROUND_A_CALL,
    }
}

/// An element of a list of calls.
fn listed(value: &Value) -> Option<CallDraft> {
    let object = value.as_object()?;
    // The shape of the OpenAI wire: `{"type": "function", "function": {…}}`.
    let call = object.get("function").and_then(Value::as_object).unwrap_or(object);
    Some(CallDraft {
        provider_id: None,
        name: field::text(call, &NAME).map(|name| name.trim().to_owned())?,
        arguments: match field::any(call, &ARGUMENTS) {
            Some(Value::String(text)) => arguments(text),
            Some(value) => Ok(value.clone()),
            None => Ok(Value::Object(Map::new())),
        },
    })
}

/// A call outside of a list must have no other members: an object with other members is data.
fn bare(value: &Value) -> Option<CallDraft> {
    let object = value.as_object()?;
    let is_call = |object: &Object| {
        let known = |key: &String| NAME.contains(&key.as_str()) || ARGUMENTS.contains(&key.as_str());
        field::any(object, &NAME).is_some()
            && ARGUMENTS.iter().any(|name| object.contains_key(*name))
            && object.keys().all(|key| known(key) || key == "id" || key == "type")
    };
    is_call(object).then(|| listed(value)).flatten()
}
