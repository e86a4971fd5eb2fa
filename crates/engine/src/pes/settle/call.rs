//! A tool call ends, once: with its result, or without having been carried out.

use serde_json::{Map, Value};

use crate::domain::actor::ServerActor;
use crate::domain::hitl::Decision;
use crate::domain::ids::CallId;
use crate::domain::tool::{CallStatus, Executed, ToolError, ToolResult, ToolStatus};
use crate::pes::settle::{suspension, task};
use crate::pes::state::{outcome, text};
use crate::pes::tx::Tx;

/// The longest error message of a tool that is kept.
const MAX_ERROR_CHARS: usize = 4000;

/// Ends a call, once: its result is recorded and never changes. A refusal by a person or a policy does not count as an
/// error of the tool.
pub(crate) fn end(
    tx: &mut Tx<'_>,
    id: &CallId,
    status: ToolStatus,
    result: Result<Value, ToolError>,
    metadata: Option<Value>,
    duration_ms: i64,
) {
    end_executed(tx, id, status, result, metadata, duration_ms, None);
}

/// The same for a call whose tool was really called: `executed` says with what.
pub(crate) fn end_executed(
    tx: &mut Tx<'_>,
    id: &CallId,
    status: ToolStatus,
    result: Result<Value, ToolError>,
    metadata: Option<Value>,
    duration_ms: i64,
    executed: Option<Executed>,
) {
    suspension::withdraw_own(tx, id, "the call ended");
    let Some(call) = tx.state.calls.get(id) else { return };
    let (tool_name, item) = (call.record.tool_name.clone(), call.record.item_id.clone());
    let policy = call.record.policy.clone();
    task::end(tx, id, status, result.as_ref().err().map(|fault| fault.message.clone()));
    let (output, fault) = match result {
        Ok(output) => (Some(tx.store(format!("{id}.output"), output)), None),
        Err(fault) => (None, Some(ToolError { message: text::cut(&fault.message, MAX_ERROR_CHARS), ..fault })),
    };
    let is_error = status == ToolStatus::Error && !outcome::is_refusal(fault.as_ref().map(|fault| fault.code.as_str()));
    let metadata = metadata.map(|metadata| tx.store(format!("{id}.metadata"), metadata));
    let (call_id, other) = (id.clone(), Map::new());
    let result =
        ToolResult { call_id, tool_name, status, output, error: fault, metadata, duration_ms, executed, other };
    let now = tx.stamp.now;
    tx.record_tool_execution(item.as_ref(), &result, policy.as_ref());
    tx.change_call(id, |call| {
        call.record.status = CallStatus::Done;
        call.record.result = Some(result);
        call.record.updated_at = now;
    });
    let counters = &mut tx.active().counters;
    counters.tool_calls += u32::from(status != ToolStatus::Skipped);
    counters.tool_errors += u32::from(is_error);
}

/// Ends a call that will not be carried out any more: as skipped if it never started, else as unknown. The caller's own
/// program may have carried out a call that was handed to it, before it answered.
pub(crate) fn end_open(tx: &mut Tx<'_>, id: &CallId, why: &str) {
    let may_have_started = tx.state.may_have_started(id) || tx.state.is_at_client(id);
    if let Some(suspension) = tx.state.suspension_of(id) {
        suspension::close(tx, &suspension, Decision::Cancelled, ServerActor::Engine, Some(why.to_owned()));
    }
    if tx.state.task_of(id).is_some() {
        let message = format!("{why}; the agent is told to stop");
        return end(tx, id, ToolStatus::Error, Err(ToolError::new("cancelled", message)), None, task::age(tx, id));
    }
    if may_have_started {
        let message = format!("{why} while it ran; whether it had its effect is not known");
        end(tx, id, ToolStatus::Error, Err(ToolError::new("unknown", message)), None, 0);
    } else {
        end(tx, id, ToolStatus::Skipped, Err(ToolError::new("skipped", why)), None, 0)
    }
}
