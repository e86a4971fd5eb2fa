//! The results of effects, which are events: which belongs to which effect, and what stands in for a result of a call that
//! failed, or that was refused.

use crate::domain::ids::{StreamId, TaskId};
use crate::domain::model::{FailureKind, ModelFailure};
use crate::domain::task::{PeerFailure, PeerFailureKind};
use crate::domain::tool::{CallCode, ToolError, ToolOutcome};
use crate::engine::effect::Effect;
use crate::engine::event::{Event, ModelEvent, PeerEvent, SystemEvent, ToolEvent};

/// Whether the event is the result of an effect.
pub(in crate::runtime) fn is_result(event: &Event) -> bool {
    matches!(
        event,
        Event::Model(_)
            | Event::Tool(ToolEvent::Returned { .. })
            | Event::Peer(PeerEvent::Reported { .. } | PeerEvent::Failed { .. })
    )
}

/// Whether the event is the result of this attempt of the effect.
pub(in crate::runtime) fn is_result_of(event: &Event, effect: &Effect) -> bool {
    match event {
        Event::Model(
            ModelEvent::Replied { stream, attempt, .. }
            | ModelEvent::Failed { stream, attempt, .. }
            | ModelEvent::Overflowed { stream, attempt, .. },
        ) => matches!(
            effect,
            Effect::CallModel { stream: asked, attempt: current } if stream == asked && attempt == current
        ),
        Event::Tool(ToolEvent::Returned { call, attempt, .. }) => matches!(
            effect,
            Effect::CallTool { call: asked, attempt: current } if call == asked && attempt == current
        ),
        Event::Peer(PeerEvent::Reported { task, attempt, .. } | PeerEvent::Failed { task, attempt, .. }) => matches!(
            effect,
            Effect::Delegate { task: asked, attempt: current }
            | Effect::AskPeer { task: asked, attempt: current }
            | Effect::CancelPeer { task: asked, attempt: current } if task == asked && attempt == current
        ),
        Event::Tool(ToolEvent::Asked { .. } | ToolEvent::Withdrew { .. })
        | Event::Peer(PeerEvent::CalledBack { .. })
        | Event::Asked { .. }
        | Event::Cancel(_)
        | Event::Person(_)
        | Event::System(_) => false,
    }
}

/// Whether the event is a successful result of an effect, which shows that the thread makes progress.
pub(in crate::runtime) fn is_progress(event: &Event) -> bool {
    matches!(
        event,
        Event::Model(ModelEvent::Replied { .. })
            | Event::Tool(ToolEvent::Returned { .. })
            | Event::Peer(PeerEvent::Reported { .. })
    )
}

/// What is committed instead of an event that was refused: a failure in the place of a result. Otherwise the thread is read
/// again, so that the slot of the effect counts as lost and a running call gets a reply to its question.
pub(in crate::runtime) fn instead_of(event: &Event) -> Option<Event> {
    const WHY: &str = "the result of this call cannot be stored";
    match event {
        Event::Model(ModelEvent::Replied { stream, attempt, .. }) => {
            Some(model_failed(stream, *attempt, FailureKind::Broken, WHY))
        }
        Event::Tool(ToolEvent::Returned { call, attempt, outcome }) if outcome.result.is_ok() => {
            // The tool ran, and may have had its effect.
            let outcome = Box::new(tool_failed(CallCode::InvalidOutput, WHY));
            Some(Event::Tool(ToolEvent::Returned { call: call.clone(), attempt: *attempt, outcome }))
        }
        Event::System(SystemEvent::Woke) => None,
        Event::Asked { .. }
        | Event::Cancel(_)
        | Event::Model(_)
        | Event::Tool(_)
        | Event::Peer(_)
        | Event::Person(_)
        | Event::System(_) => Some(Event::System(SystemEvent::Woke)),
    }
}

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

fn model_failed(stream: &StreamId, attempt: u32, kind: FailureKind, message: &str) -> Event {
    let failure = ModelFailure::new(kind, message);
    Event::Model(ModelEvent::Failed { stream: stream.clone(), attempt, failure })
}

/// The result of a model call that this server could not send.
pub(in crate::runtime) fn model_not_sent(stream: &StreamId, attempt: u32, kind: FailureKind, message: &str) -> Event {
    let failure = ModelFailure { is_ours: true, ..ModelFailure::new(kind, message) };
    Event::Model(ModelEvent::Failed { stream: stream.clone(), attempt, failure })
}

pub(super) fn peer_failed(task: &TaskId, attempt: u32, kind: PeerFailureKind, message: impl Into<String>) -> Event {
    let failure = PeerFailure::new(kind, message);
    Event::Peer(PeerEvent::Failed { task: task.clone(), attempt, failure })
}

pub(in crate::runtime) fn tool_failed(code: CallCode, message: impl Into<String>) -> ToolOutcome {
    ToolOutcome::failed(ToolError::new(code, message))
}
