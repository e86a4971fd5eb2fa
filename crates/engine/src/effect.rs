//! Everything that the engine may ask of the world. An effect holds ids only; its input is rendered when it is
//! performed.

use crate::domain::ids::{CallId, StreamId, TaskId};

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// Ask the model; answered by a `ModelEvent`. The stream id is new for each attempt.
    CallModel { stream: StreamId, attempt: u32 },
    /// Run a tool; answered by a `ToolEvent`.
    CallTool { call: CallId, attempt: u32 },
    /// Send a task to another agent; answered, like the two below, by a `PeerEvent`. If it may have been sent before,
    /// that is checked first.
    Delegate { task: TaskId, attempt: u32 },
    /// Ask the agent for the task's state.
    AskPeer { task: TaskId, attempt: u32 },
    /// Tell the agent to stop.
    CancelPeer { task: TaskId, attempt: u32 },
}

impl Effect {
    /// Runs independently of the thread's runs and delays none of them: its task may belong to a run that ended long
    /// ago.
    pub fn is_background(&self) -> bool {
        match self {
            Effect::AskPeer { .. } | Effect::CancelPeer { .. } => true,
            Effect::CallModel { .. } | Effect::CallTool { .. } | Effect::Delegate { .. } => false,
        }
    }
}
