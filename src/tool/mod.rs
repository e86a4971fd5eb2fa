//! Tools: what an agent can call.
//!
//! A tool is a type that implements [`Tool`]; tools that change, or differ by tenant, come from a [`ToolSource`]. The
//! registry knows all of them. A [`Toolset`] holds the tools of one tenant and judges every call before it starts.

#[cfg(not(feature = "internals"))]
pub(crate) mod answer;
#[cfg(feature = "internals")]
pub mod answer;
#[cfg(not(feature = "internals"))]
pub(crate) mod builtin;
#[cfg(feature = "internals")]
pub mod builtin;
mod entry;
#[cfg(not(feature = "internals"))]
pub(crate) mod http;
#[cfg(feature = "internals")]
pub mod http;
mod http_errors;
#[cfg(not(feature = "internals"))]
pub(crate) mod http_source;
#[cfg(feature = "internals")]
pub mod http_source;
#[cfg(not(feature = "internals"))]
pub(crate) mod policy;
#[cfg(feature = "internals")]
pub mod policy;
#[cfg(not(feature = "internals"))]
pub(crate) mod registry;
#[cfg(feature = "internals")]
pub mod registry;
#[cfg(not(feature = "internals"))]
pub(crate) mod schema;
#[cfg(feature = "internals")]
pub mod schema;
#[cfg(not(feature = "internals"))]
pub(crate) mod toolset;
#[cfg(feature = "internals")]
pub mod toolset;

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::domain::Millis;
use crate::domain::depth::{MOST_DEPTH, exceeds};
use crate::domain::hitl::{Question, Reply, RiskLevel};
use crate::domain::ids::{CallId, ItemId, RunId, TenantPk, ThreadId};
use crate::domain::thread::AgentState;
use crate::domain::tool::{CallCode, ToolClass, ToolError, ToolSpec};
use crate::domain::trace::CallTrace;

pub(crate) use http_errors::is_outcome_unknown;
#[cfg(not(feature = "internals"))]
pub(crate) use registry::Registry;
#[cfg(feature = "internals")]
pub use registry::Registry;
pub use toolset::Toolset;

/// The context of a call, besides its arguments.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// The tenant that owns the thread.
    pub tenant: TenantPk,
    /// The thread whose run calls.
    pub thread_id: ThreadId,
    /// The run that calls.
    pub run_id: RunId,
    /// The todo item whose step calls.
    pub item_id: Option<ItemId>,
    /// The call, as observations name it.
    pub call_id: CallId,
    /// The caller's own id of its user, if it gave one.
    pub user_id: Option<String>,
    /// The trace headers to send with the call.
    pub trace: CallTrace,
    /// The same for every attempt of this call. Pass it on to services that support idempotency keys.
    pub idempotency_key: String,
    /// The thread's application state when the call started.
    pub agent_state: AgentState,
    /// The system's time when the call began.
    pub now: Millis,
    /// Asks a person while the tool runs.
    pub people: Arc<dyn People>,
}

/// Lets a running tool ask a person.
#[async_trait]
pub trait People: Send + Sync + std::fmt::Debug {
    /// Asks and waits without a limit; the tool's timeout is paused meanwhile. The question is stored before anybody
    /// sees it, but the call waits only in this process: if the process ends, the call and its question are lost. A
    /// question that is asked while an earlier one of the call is open is declined at once. `Err`: asking is not
    /// possible.
    async fn ask(&self, question: Question) -> Result<Reply, ToolError>;

    /// Withdraws the last question, after the future of [`ask`](Self::ask) was dropped: nobody waits for its answer.
    async fn withdraw(&self) {}
}

/// Cancels every question.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

#[async_trait]
impl People for Nobody {
    async fn ask(&self, _: Question) -> Result<Reply, ToolError> {
        Ok(Reply::Cancelled)
    }
}

/// The result of a tool call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// What the model reads, checked against the tool's `output_schema`.
    pub output: Value,
    /// E.g. `{"sources": […]}`.
    pub metadata: Option<Value>,
    /// A merge patch of the application state, committed with the result.
    pub state_patch: Option<Value>,
}

impl ToolOutput {
    /// An output without metadata, which leaves the application state as it is.
    pub fn new(output: impl Into<Value>) -> Self {
        Self { output: output.into(), ..Self::default() }
    }

    fn check_bounds(&self, most: usize) -> Result<(), ToolError> {
        let parts = [Some(&self.output), self.metadata.as_ref(), self.state_patch.as_ref()];
        if parts.into_iter().flatten().any(|part| exceeds(part, MOST_DEPTH)) {
            let message = format!("Objects and arrays in the tool's output nest deeper than {MOST_DEPTH}.");
            return Err(ToolError::new(CallCode::OutputTooDeep, message));
        }
        let size: usize = parts.into_iter().flatten().map(|part| part.to_string().len()).sum();
        if size <= most {
            return Ok(());
        }
        let message = format!("The tool's output has {size} bytes; at most {most} are kept.");
        Err(ToolError::new(CallCode::OutputTooLarge, message))
    }
}

/// A tool. The model sees its errors; a panic or a timeout is reported as an error, too.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What the model is told of the tool, and what may be done about its calls. Called often: return a clone of
    /// one that is kept.
    fn spec(&self) -> Arc<ToolSpec>;

    /// The class and idempotency of this call, where they depend on its arguments.
    fn nature(&self, arguments: &Value) -> Nature {
        let _ = arguments;
        let spec = self.spec();
        Nature { class: spec.class, idempotent: spec.idempotent }
    }

    /// `Some`: a person must approve the call unless a policy rule decides. A forecast, which has no arguments yet,
    /// passes an empty object.
    fn approval(&self, arguments: &Value) -> Option<Approval> {
        let _ = arguments;
        None
    }

    /// `Some`: the call is a question to a person. The answer is its result, and `call` is not invoked.
    fn question(&self, arguments: &Value) -> Option<Question> {
        let _ = arguments;
        None
    }

    /// `Some`: the result depends only on arguments and time, and is computed quickly. It is then part of the decision
    /// that would start the call. `call` must give the same result: it is used for calls that a person approved and for
    /// large arguments.
    fn at_once(&self, arguments: &Value, now: Millis) -> Option<Result<ToolOutput, ToolError>> {
        let _ = (arguments, now);
        None
    }

    /// Runs once per attempt. Dropping the future aborts it.
    async fn call(&self, arguments: Value, context: ToolContext) -> Result<ToolOutput, ToolError>;
}

/// Tools that differ by tenant, or change while the server runs: MCP servers, HTTP tools.
pub trait ToolSource: Send + Sync {
    /// Changes whenever [`tools`](Self::tools) would return something else for this tenant. Called before every
    /// decision, so it must be as cheap as reading a number.
    fn generation(&self, tenant: TenantPk) -> u64;

    /// The tenant's current tools, without IO. An unchanged tool is the same `Arc` as before.
    fn tools(&self, tenant: TenantPk) -> Arc<[Arc<dyn Tool>]>;

    /// The tools that the source knows and does not offer to the tenant.
    fn off(&self, tenant: TenantPk) -> Vec<OffTool> {
        let _ = tenant;
        Vec::new()
    }
}

/// Tools that are not offered, and why: a person may change that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffTool {
    /// A name or a glob.
    pub name: String,
    /// Stands behind "It is off: ".
    pub why: String,
}

/// What a call may do, and whether it may be repeated after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nature {
    /// The effect that the call may have.
    pub class: ToolClass,
    /// Whether repeating the call has its effect only once: then it is made again after a crash.
    pub idempotent: bool,
}

/// Why a tool wants approval by a person.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval {
    /// The question, as a sentence for people.
    pub message: String,
    /// Shown to the person who decides.
    pub risk: Option<RiskLevel>,
}

/// The error of a tool that panicked.
pub(crate) fn panic_error(panic: &(dyn Any + Send)) -> ToolError {
    let text = panic.downcast_ref::<&str>().copied();
    let words = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it panicked");
    ToolError::new(CallCode::Panicked, format!("The tool broke: {words}"))
}
