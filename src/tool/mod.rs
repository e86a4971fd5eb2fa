//! Tools: what runs when the agent acts.
//!
//! A tool is one type that implements [`Tool`]; the [`Registry`] holds them all and judges every call before it may start.

pub mod answer;
pub mod args;
pub mod builtin;
pub mod policy;
pub mod registry;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::domain::hitl::{FeedbackSchema, RiskLevel};
use crate::domain::ids::{CallId, ItemId, RunId, ThreadId};
use crate::domain::thread::AgentState;
use crate::domain::tool::{ToolError, ToolSpec};

pub use registry::Registry;

/// What a tool is called with besides its arguments.
#[derive(Clone, Debug)]
pub struct ToolContext {
    pub thread_id: ThreadId,
    pub run_id: RunId,
    pub item_id: Option<ItemId>,
    pub call_id: CallId,
    pub user_id: Option<String>,
    pub trace_id: String,
    /// The same for every attempt of this call: pass it on where the other side knows such keys.
    pub idempotency_key: String,
    /// The thread's application state as it was when the call started.
    pub agent_state: AgentState,
    /// When the call began, for tools that tell the time.
    pub now: crate::domain::Millis,
}

/// What a tool brings back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    pub output: Value,
    /// E.g. `{"sources": […]}`.
    pub metadata: Option<Value>,
    /// A merge patch of the application state, committed with the result.
    pub state_patch: Option<Value>,
}

/// A tool. An error is told to the model; a panic or a time-out becomes one.
#[async_trait]
pub trait Tool: Send + Sync {
    fn spec(&self) -> Arc<ToolSpec>;

    /// What policy does with it unless a rule says otherwise: `Some` = a person must approve.
    fn approval(&self, arguments: &Value) -> Option<Approval> {
        let _ = arguments;
        None
    }

    /// `Some`: this call is a question; a person's answer is its result, and `call` is never reached.
    fn question(&self, arguments: &Value) -> Option<(String, FeedbackSchema)> {
        let _ = arguments;
        None
    }

    /// Runs once per attempt. Dropping the future aborts it.
    async fn call(&self, arguments: Value, context: ToolContext) -> Result<ToolOutput, ToolError>;
}

/// Why a tool wants a person's yes.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval {
    pub message: String,
    pub risk: Option<RiskLevel>,
}
