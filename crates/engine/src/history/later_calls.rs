//! Calls that a thread made after the place to which it goes back, or at which it is copied. The conversation and the plan
//! of that place do not know of them, and their effects remain.

use serde::Deserialize;
use serde_json::Value;

use crate::domain::digest;
use crate::domain::ids::CallId;
use crate::domain::plan::TodoItem;
use crate::domain::tool::{CallRecord, Executed, ToolCall, ToolClass, ToolError, ToolResult};
use crate::history::ShownPlan;
use crate::pes::state::calls;

/// How many of them are remembered: they are part of a thread's head.
pub const MAX_LATER_CALLS: usize = 256;

/// Hexadecimal digits of a digest that are kept.
const DIGITS: usize = 32;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Stored {
    later: Vec<String>,
}

/// The digests of the calls that a thread asks about itself; empty if the head's core stores none.
pub fn digests_of_head(head: &str) -> Vec<String> {
    serde_json::from_str::<Stored>(head).unwrap_or_default().later
}

/// The calls up to the place that whoever continues there knows: those of the plan as of then.
pub fn known_calls(plan: &ShownPlan) -> Vec<CallId> {
    if has_plan(plan) { calls_of(plan) } else { Vec::new() }
}

/// The calls up to the place that nothing tells of there: those of a run without a plan that had not ended.
pub fn forgotten_calls(plan: &ShownPlan) -> Vec<CallId> {
    if plan.run_id.is_some() && !has_plan(plan) { calls_of(plan) } else { Vec::new() }
}

/// The digests of those of them that may have had an effect, by what the plan shows, whose values must be whole.
pub fn digests_of_forgotten_calls(plan: &ShownPlan) -> Vec<String> {
    let forgotten = forgotten_calls(plan);
    let may_take_effect = |item: &TodoItem, call: &ToolCall| {
        let result = item.tool_results.iter().find(|result| result.call_id == call.call_id);
        may_take_effect_by_log(result) && (result.is_some() || !plan.held_back.contains(&call.call_id))
    };
    let calls = plan.todo_list.iter().flat_map(|item| item.tool_calls.iter().map(move |call| (item, call)));
    calls
        .filter(|(item, call)| forgotten.contains(&call.call_id) && may_take_effect(item, call))
        .map(|(_, call)| short_digest(&call.tool_name, &call.arguments))
        .collect()
}

/// A run without a plan has an item of its own, which replaces that of the run before; of that one only the answer tells.
fn has_plan(plan: &ShownPlan) -> bool {
    plan.plan_version > 0
}

/// The calls of the plan's items.
pub fn calls_of(plan: &ShownPlan) -> Vec<CallId> {
    plan.todo_list.iter().flat_map(|item| &item.tool_calls).map(|call| call.call_id.clone()).collect()
}

/// Whether a call had an effect that lasts, or may have one. A call under way counts.
pub fn may_take_effect(record: &CallRecord) -> bool {
    let is_under_way = record.result.is_none() && record.epoch.is_some();
    let is_safe = record.idempotent || record.class == Some(ToolClass::Read);
    calls::may_have_effect(record) || is_under_way && !is_safe
}

/// The same of a call of which there is only what the log tells. Without a result it may have been under way.
pub fn may_take_effect_by_log(result: Option<&ToolResult>) -> bool {
    result.is_none_or(|result| result.error.as_ref().is_none_or(ToolError::is_open_ended))
}

/// What a call that a person approved is known by.
pub fn short_digest_of(executed: &Executed) -> String {
    shortened(&executed.digest).to_owned()
}

/// Whether this text may be what a call is known by.
pub fn is_short_digest(text: &str) -> bool {
    text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What such a call is known by; the arguments must be whole.
pub fn short_digest(tool: &str, arguments: &Value) -> String {
    shortened(&digest::of_call(tool, arguments)).to_owned()
}

/// The part of a call's whole digest that is kept.
pub(crate) fn shortened(digest: &str) -> &str {
    digest.get(..DIGITS).unwrap_or(digest)
}
