//! What policy and schema decide about a call before it starts.

use serde_json::Value;

use super::{ToolClass, ToolError};
use crate::domain::hitl::{FeedbackSchema, RiskLevel};
use crate::domain::ids::ThreadId;
use crate::domain::policy::Ruling;
use crate::domain::settings::RunSettings;

/// A call to be judged.
#[derive(Clone, Copy, Debug)]
pub struct Proposal<'a> {
    /// The thread whose rules apply.
    pub thread: &'a ThreadId,
    /// The settings of the run, with its rules about tools.
    pub settings: &'a RunSettings,
    /// The name as the model wrote it.
    pub tool: &'a str,
    /// The arguments with which the call would run.
    pub arguments: &'a Value,
}

/// What policy and schema decide about a call before it may start, and by which rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// What happens to the call.
    pub verdict: Verdict,
    /// `None`: the policy was not consulted, because there is no such tool or the arguments are wrong.
    pub ruling: Option<Ruling>,
}

impl From<Verdict> for Judgement {
    fn from(verdict: Verdict) -> Self {
        Self { verdict, ruling: None }
    }
}

/// What happens to a call that was judged.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It may run now.
    Run {
        /// The effect that this call may have.
        class: ToolClass,
        /// Whether repeating this call has its effect only once.
        idempotent: bool,
    },
    /// A person must approve it first.
    Ask {
        /// The effect that this call may have.
        class: ToolClass,
        /// Whether repeating this call has its effect only once.
        idempotent: bool,
        /// The question, as a sentence for people.
        message: String,
        /// The form of the answer.
        schema: FeedbackSchema,
        /// As the tool declares; `None`: it declares none.
        risk: Option<RiskLevel>,
        /// Once approved, it is delegated to another agent.
        delegates: bool,
    },
    /// It is delegated to another agent, whose output is the result.
    Delegate,
    /// A person's answer is the result.
    Input {
        /// The question, as a sentence for people.
        message: String,
        /// The form of the answer, which becomes the output.
        schema: FeedbackSchema,
    },
    /// It is sent to the caller's own program, whose answer is the result.
    Client,
    /// It becomes an error result and does not start.
    Refuse(ToolError),
}
