//! Tools: what runs when the agent acts.
//!
//! A tool is one type that implements [`Tool`]. The [`Registry`] knows where they come from; a [`Toolset`] is what it has
//! for one tenant, and judges every call before it may start.

pub mod answer;
pub mod builtin;
pub mod http;
pub mod http_source;
mod outward;
pub mod policy;
pub mod registry;
pub mod schema;
pub mod toolset;

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::domain::Millis;
use crate::domain::depth::{MOST_DEPTH, exceeds};
use crate::domain::hitl::{FeedbackSchema, Question, Reply, RiskLevel};
use crate::domain::ids::{CallId, ItemId, RunId, TenantPk, ThreadId};
use crate::domain::thread::AgentState;
use crate::domain::tool::{ToolClass, ToolError, ToolSpec};
use crate::domain::trace::CallTrace;

pub use registry::Registry;
pub use toolset::Toolset;

/// What a tool is called with besides its arguments.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// Whose thread it is.
    pub tenant: TenantPk,
    pub thread_id: ThreadId,
    pub run_id: RunId,
    pub item_id: Option<ItemId>,
    pub call_id: CallId,
    pub user_id: Option<String>,
    /// The trace headers of the call.
    pub trace: CallTrace,
    /// The same for every attempt of this call: pass it on where the other side knows such keys.
    pub idempotency_key: String,
    /// The thread's application state as it was when the call started.
    pub agent_state: AgentState,
    /// What the system's clock showed as the call began.
    pub now: Millis,
    /// Whom the tool may ask while it works.
    pub people: Arc<dyn People>,
}

/// The way of a running tool to a person.
#[async_trait]
pub trait People: Send + Sync + std::fmt::Debug {
    /// Asks, and waits as long as it takes; the time that the tool may take stands still. The question is stored before
    /// anybody sees it, but the call waits in this process only: if that ends, the call is lost with its question. What is
    /// asked while the call's last question is open is declined at once. `Err`: nobody can be asked so.
    async fn ask(&self, question: Question) -> Result<Reply, ToolError>;
}

/// Nobody is there.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

#[async_trait]
impl People for Nobody {
    async fn ask(&self, _: Question) -> Result<Reply, ToolError> {
        Ok(Reply::Cancelled)
    }
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

impl ToolOutput {
    fn check_bounds(&self, most: usize) -> Result<(), ToolError> {
        let parts = [Some(&self.output), self.metadata.as_ref(), self.state_patch.as_ref()];
        if parts.into_iter().flatten().any(|part| exceeds(part, MOST_DEPTH)) {
            let message = format!("Objects and arrays in the tool's output nest deeper than {MOST_DEPTH}.");
            return Err(ToolError::new("output_too_deep", message));
        }
        let size: usize = parts.into_iter().flatten().map(|part| part.to_string().len()).sum();
        if size <= most {
            return Ok(());
        }
        let message = format!("The tool's output has {size} bytes; at most {most} are kept.");
        Err(ToolError::new("output_too_large", message))
    }
}

/// A tool. The model sees its error; a panic or a time-out becomes one.
#[async_trait]
pub trait Tool: Send + Sync {
    fn spec(&self) -> Arc<ToolSpec>;

    /// What this very call does, where that depends on its arguments.
    fn nature(&self, arguments: &Value) -> Nature {
        let _ = arguments;
        let spec = self.spec();
        Nature { class: spec.class, idempotent: spec.idempotent }
    }

    /// What policy does with it unless a rule says otherwise: `Some` = a person must approve. A forecast, which knows no
    /// arguments, asks with an empty object.
    fn approval(&self, arguments: &Value) -> Option<Approval> {
        let _ = arguments;
        None
    }

    /// `Some`: this call is a question; a person's answer is its result, and `call` is never reached.
    fn question(&self, arguments: &Value) -> Option<(String, FeedbackSchema)> {
        let _ = arguments;
        None
    }

    /// `Some`: all that this call needs is its arguments and the time, and working it out is quick. It is answered within
    /// the decision that would start it; `call` must come to the same, for calls that a person approved and for large
    /// arguments.
    fn at_once(&self, arguments: &Value, now: Millis) -> Option<Result<ToolOutput, ToolError>> {
        let _ = (arguments, now);
        None
    }

    /// Runs once per attempt. Dropping the future aborts it.
    async fn call(&self, arguments: Value, context: ToolContext) -> Result<ToolOutput, ToolError>;
}

/// Tools that differ by tenant, or come and go while the server runs: MCP servers, HTTP tools.
pub trait ToolSource: Send + Sync {
    /// Changes whenever [`tools`](Self::tools) answers differently for this tenant. Asked before every decision: as cheap
    /// as reading a number.
    fn generation(&self, tenant: TenantPk) -> u64;

    /// The tools of a tenant as of now, without IO. An unchanged tool is the same `Arc` again.
    fn tools(&self, tenant: TenantPk) -> Arc<[Arc<dyn Tool>]>;
}

/// What a call may do, and whether it may be repeated after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nature {
    pub class: ToolClass,
    pub idempotent: bool,
}

/// Why a tool wants a person's yes.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval {
    pub message: String,
    pub risk: Option<RiskLevel>,
}

/// The error of a tool that panicked.
pub fn broke(panic: &(dyn Any + Send)) -> ToolError {
    let text = panic.downcast_ref::<&str>().copied();
    let words = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it panicked");
    ToolError::new("panicked", format!("The tool broke: {words}"))
}
