//! Everything that the engine may ask of the world. An effect holds ids only; what it takes is rendered when it is
//! performed.

use crate::domain::ids::{CallId, StreamId, TaskId};

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// Ask the model; answered by a `ModelEvent`. The stream id is new for each attempt.
    CallModel { stream: StreamId, attempt: u32 },
    /// Run a tool; answered by a `ToolEvent`.
    CallTool { call: CallId, attempt: u32 },
    /// Send a task to another agent; answered, like the two below, by a `PeerEvent`. What may have been sent
    /// before is looked into first.
    Delegate { task: TaskId, attempt: u32 },
    /// Ask the agent how a task stands.
    AskPeer { task: TaskId, attempt: u32 },
    /// Tell the agent to stop.
    CancelPeer { task: TaskId, attempt: u32 },
}

impl Effect {
    /// Goes on beside the runs, and holds none of them up: its task may be of one that is over long since.
    pub fn is_aside(&self) -> bool {
        match self {
            Effect::AskPeer { .. } | Effect::CancelPeer { .. } => true,
            Effect::CallModel { .. } | Effect::CallTool { .. } | Effect::Delegate { .. } => false,
        }
    }
}
