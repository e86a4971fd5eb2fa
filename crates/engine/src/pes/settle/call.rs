//! A tool call ends, once: with its result, or without having been carried out.

use serde_json::{Map, Value};

use crate::domain::actor::ServerActor;
use crate::domain::hitl::Decision;
use crate::domain::ids::CallId;
use crate::domain::tool::{CallCode, CallStatus, Executed, ToolClass, ToolError, ToolOutcome, ToolResult, ToolStatus};
use crate::pes::settle::{suspension, task};
use crate::pes::state::text;
use crate::pes::tx::Tx;

/// The longest error message of a tool that is kept.
const MAX_ERROR_CHARS: usize = 4000;
/// The longest reason for doubt that is kept with a call.
const MAX_LOST_CHARS: usize = 1_000;

/// The result of a call.
#[derive(Debug)]
pub(crate) enum CallResult {
    Success(Value),
    Error(ToolError),
    /// It was not carried out, and need not be.
    Skipped(ToolError),
}

impl CallResult {
    pub(crate) fn skipped(why: impl Into<String>) -> Self {
        Self::Skipped(ToolError::new(CallCode::Skipped, why))
    }

    fn status(&self) -> ToolStatus {
        match self {
            CallResult::Success(_) => ToolStatus::Success,
            CallResult::Error(_) => ToolStatus::Error,
            CallResult::Skipped(_) => ToolStatus::Skipped,
        }
    }
}

impl From<Result<Value, ToolError>> for CallResult {
    fn from(result: Result<Value, ToolError>) -> Self {
        result.map_or_else(CallResult::Error, CallResult::Success)
    }
}

/// The end of a call.
#[derive(Debug)]
pub(crate) struct CallEnd {
    result: CallResult,
    metadata: Option<Value>,
    duration_ms: i64,
    /// What the tool was called with, if it was.
    executed: Option<Executed>,
}

impl CallEnd {
    pub(crate) fn error(error: ToolError) -> Self {
        CallResult::Error(error).into()
    }

    /// The call took this long.
    pub(crate) fn after(self, duration_ms: i64) -> Self {
        Self { duration_ms, ..self }
    }
}

/// The end of a call that did not run: it took no time.
impl From<CallResult> for CallEnd {
    fn from(result: CallResult) -> Self {
        Self { result, metadata: None, duration_ms: 0, executed: None }
    }
}

/// The end of a call that ran. Its patch of the application's state is not part of it.
impl From<ToolOutcome> for CallEnd {
    fn from(outcome: ToolOutcome) -> Self {
        let ToolOutcome { result, metadata, state_patch: _, duration_ms, executed } = outcome;
        Self { result: result.into(), metadata, duration_ms, executed }
    }
}

/// Ends a call, once: its result is recorded and never changes. A refusal by a person or a policy does not count as an
/// error of the tool.
pub(crate) fn end(tx: &mut Tx<'_>, id: &CallId, end: CallEnd) {
    let CallEnd { result, metadata, duration_ms, executed } = end;
    let status = result.status();
    suspension::withdraw_question_of_call(tx, id, "the call ended");
    let Some(call) = tx.state.calls.get(id) else { return };
    let (tool_name, item) = (call.record.tool_name.clone(), call.record.item_id.clone());
    let (mut policy, earlier) = (None, call.record.policy.clone());
    let (output, fault) = match result {
        CallResult::Success(output) => {
            task::complete(tx, id);
            (Some(tx.store(format!("{id}.output"), output)), None)
        }
        CallResult::Error(mut fault) | CallResult::Skipped(mut fault) => {
            policy = fault.ruling.take().map(|ruling| *ruling);
            task::cancel_open(tx, id, &fault.message);
            (None, Some(ToolError { message: text::cut(&fault.message, MAX_ERROR_CHARS), ..fault }))
        }
    };
    let policy = policy.or(earlier);
    let is_error = status == ToolStatus::Error && !fault.as_ref().is_some_and(ToolError::is_refusal);
    let metadata = metadata.map(|metadata| tx.store(format!("{id}.metadata"), metadata));
    let (call_id, other) = (id.clone(), Map::new());
    let result =
        ToolResult { call_id, tool_name, status, output, error: fault, metadata, duration_ms, executed, other };
    tx.record_tool_execution(item.as_ref(), &result, policy.as_ref());
    tx.set_call_status(id, CallStatus::Done);
    tx.change_call(id, |call| (call.record.result, call.record.policy) = (Some(result), policy));
    let counters = &mut tx.active().counters;
    counters.tool_calls += u32::from(status != ToolStatus::Skipped);
    counters.tool_errors += u32::from(is_error);
}

/// Keeps why an attempt of the call may have had its effect, if it does more than read. The first reason stays.
pub(crate) fn mark_lost(tx: &mut Tx<'_>, id: &CallId, why: &str) {
    tx.change_call(id, |call| {
        if call.record.class != Some(ToolClass::Read) {
            call.record.lost.get_or_insert_with(|| text::cut(why, MAX_LOST_CHARS));
        }
    });
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
        let age = task::age(tx, id);
        return end(tx, id, CallEnd::error(ToolError::new(CallCode::Cancelled, message)).after(age));
    }
    if may_have_started {
        let message = format!("{why} while it ran; whether it had its effect is not known");
        end(tx, id, CallEnd::error(ToolError::new(CallCode::Unknown, message)));
    } else {
        end(tx, id, CallResult::skipped(why).into());
    }
}
