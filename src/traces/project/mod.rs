//! The spans of a run are a pure function of its log. So no span is lost with a process, recovery makes no span twice, and
//! every process that projects the same log gets the same spans.
//!
//! A run is divided into *activations*. An activation begins when the run starts or resumes, and ends when the run waits for
//! a person or has ended. Each is a span that links to the one before, so no span is open while a run waits for days. Where
//! an activation ends is no part of the log: the range to export says it ([`LogRange`](super::LogRange)). [`projection`]
//! has the activations, the plan and the items, [`calls`] the spans of calls to models, tools and other agents.

mod calls;
mod projection;
#[cfg(test)]
mod tests;

use super::span::SpanId;
use crate::domain::facts::{Fact, PlanSource};
use crate::domain::hitl::ExpiryPolicy;
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::plan::ItemStatus;

pub(super) use projection::Projection;

/// The run whose log is projected.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) thread: ThreadId,
    pub(super) run: RunId,
    pub(super) trace_id: String,
    /// The caller's span.
    pub(super) parent: Option<SpanId>,
    /// Spans contain texts of people, models and tools.
    pub(super) with_content: bool,
}

/// Whether the fact is no work of its run: an edit of the plan, a reminder, or a report of an agent that still works. It
/// begins no activation.
pub fn is_no_work(fact: &Fact) -> bool {
    match fact {
        Fact::PlanUpdate(body) => body.source == PlanSource::User,
        Fact::ItemStatusChange(body) => body.status != ItemStatus::InProgress,
        Fact::SuspensionTimeout(body) => body.policy == ExpiryPolicy::Remind,
        Fact::A2aTask(task) => !task.status.is_terminal(),
        Fact::StateUpdate(_) => true,
        Fact::RunStarted(_)
        | Fact::Intent(_)
        | Fact::Title(_)
        | Fact::Plan(_)
        | Fact::LlmStreamStart(_)
        | Fact::LlmStreamMetadata(_)
        | Fact::LlmStreamEnd(_)
        | Fact::LlmStreamError(_)
        | Fact::Thoughts(_)
        | Fact::ToolCall(_)
        | Fact::ToolExecution(_)
        | Fact::AgentSuspended(_)
        | Fact::AgentResumed(_)
        | Fact::Synthesis(_)
        | Fact::FinalResponse(_)
        | Fact::Error(_)
        | Fact::RunFinished(_) => false,
    }
}

/// Whether spans to export may contain texts of this fact, if spans contain texts. `is_exported`: the spans that ended with it
/// were exported before.
pub fn needs_texts(fact: &Fact, is_exported: bool) -> bool {
    match fact {
        // Every activation has the query, and a call that goes on its arguments.
        Fact::RunStarted(_) | Fact::ToolCall(_) => true,
        Fact::LlmStreamEnd(_) | Fact::ToolExecution(_) => !is_exported,
        Fact::Intent(_)
        | Fact::Title(_)
        | Fact::Plan(_)
        | Fact::PlanUpdate(_)
        | Fact::ItemStatusChange(_)
        | Fact::LlmStreamStart(_)
        | Fact::LlmStreamMetadata(_)
        | Fact::LlmStreamError(_)
        | Fact::Thoughts(_)
        | Fact::A2aTask(_)
        | Fact::AgentSuspended(_)
        | Fact::AgentResumed(_)
        | Fact::SuspensionTimeout(_)
        | Fact::StateUpdate(_)
        | Fact::Synthesis(_)
        | Fact::FinalResponse(_)
        | Fact::Error(_)
        | Fact::RunFinished(_) => false,
    }
}
