//! The events of calls that failed.

use crate::domain::ids::{StreamId, TaskId};
use crate::domain::model::{FailureKind, ModelFailure};
use crate::domain::task::{PeerFailure, PeerFailureKind};
use crate::domain::tool::{CallCode, ToolError, ToolOutcome};
use crate::engine::effect::Effect;
use crate::engine::event::{Event, ModelEvent, PeerEvent, ToolEvent};

/// The result of an effect whose code panicked.
pub(super) fn panicked(effect: &Effect) -> Event {
    const WHAT: &str = "the code that performs this broke; see the server's log";
    match effect {
        Effect::CallModel { stream, attempt } => model_failed(stream, *attempt, FailureKind::Broken, WHAT),
        Effect::CallTool { call, attempt } => Event::Tool(ToolEvent::Returned {
            call: call.clone(),
            attempt: *attempt,
            outcome: Box::new(tool_failed(CallCode::Panicked, WHAT)),
        }),
        Effect::Delegate { task, attempt }
        | Effect::AskPeer { task, attempt }
        | Effect::CancelPeer { task, attempt } => peer_failed(task, *attempt, PeerFailureKind::Unknown, WHAT),
    }
}

pub(in crate::runtime) fn model_failed(stream: &StreamId, attempt: u32, kind: FailureKind, message: &str) -> Event {
    let failure = ModelFailure::new(kind, message);
    Event::Model(ModelEvent::Failed { stream: stream.clone(), attempt, failure })
}

/// The result of a model call that this server could not send.
pub(in crate::runtime) fn model_not_sent(stream: &StreamId, attempt: u32, kind: FailureKind, message: &str) -> Event {
    let failure = ModelFailure { is_ours: true, ..ModelFailure::new(kind, message) };
    Event::Model(ModelEvent::Failed { stream: stream.clone(), attempt, failure })
}

pub(in crate::runtime) fn peer_failed(
    task: &TaskId,
    attempt: u32,
    kind: PeerFailureKind,
    message: impl Into<String>,
) -> Event {
    let failure = PeerFailure { kind, message: message.into(), retry_after_ms: None };
    Event::Peer(PeerEvent::Failed { task: task.clone(), attempt, failure })
}

pub(in crate::runtime) fn tool_failed(code: CallCode, message: impl Into<String>) -> ToolOutcome {
    ToolOutcome::failed(ToolError::new(code, message))
}
