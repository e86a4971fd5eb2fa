//! Everything that the engine may ask of the world. An effect holds ids only; its input is rendered when it is
//! performed.

use crate::domain::ids::{CallId, StreamId, TaskId};

/// What the holder of the thread's lease must do once a step is committed. It holds ids only: what is sent is
/// rendered from the state then.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// Ask the model; answered by a `ModelEvent`. The stream id is new for each attempt.
    CallModel {
        /// The attempt's stream.
        stream: StreamId,
        /// From 1; the answer names it.
        attempt: u32,
    },
    /// Run a tool; answered by a `ToolEvent`.
    CallTool {
        /// The call to make.
        call: CallId,
        /// From 1; the answer names it.
        attempt: u32,
    },
    /// Send a task to another agent; answered, like the two below, by a `PeerEvent`. If it may have been sent before,
    /// that is checked first.
    Delegate {
        /// The task to send.
        task: TaskId,
        /// The number of the action; the answer names it.
        attempt: u32,
    },
    /// Ask the agent for the task's state.
    AskPeer {
        /// The task to ask about.
        task: TaskId,
        /// The number of the action; the answer names it.
        attempt: u32,
    },
    /// Tell the agent to stop.
    CancelPeer {
        /// The task to stop.
        task: TaskId,
        /// The number of the action; the answer names it.
        attempt: u32,
    },
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
