//! Prompts: pure functions from what the engine knows to the messages of one model call.
//!
//! The first line of every system prompt names the phase. Text that people, tools or models wrote stands verbatim; what
//! is data rather than instruction stands between markers with a nonce that occurs nowhere between them, so no text can
//! close one. A call always stands before its results, and every call has exactly one.

mod data;
mod execution;
mod fit;
mod item_loop;
mod layers;
pub(crate) mod offer;
mod parts;
mod planning;
pub(crate) mod render;
mod repair;
mod results;
mod schema;
mod summarize;
mod summary;
mod synthesis;
mod template;
mod turns;

use std::sync::Arc;

use serde_json::Value;

use crate::domain::message::ConversationMessage;
use crate::domain::plan::{ItemStatus, TodoItem};
use crate::domain::prompt::PromptCall;
use crate::domain::settings::RunSettings;
use crate::domain::tool::{ToolResult, ToolSpec};

pub(crate) use data::shortened;
pub use execution::{converse, enforcement, opening, step};
pub use parts::{PartKind, PromptPart, parts};
pub use planning::{plan, refine};
pub use repair::repair;
pub(crate) use results::{level, most_of_tools, most_others};
pub use schema::plan_schema;
pub use summary::summary;
pub use synthesis::synthesis;

/// What every prompt of a run shares.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pub settings: &'a RunSettings,
    /// The nonce of the markers is derived from it: the run's id will do.
    pub seed: &'a str,
}

/// The conversation before the query.
#[derive(Clone, Copy, Debug, Default)]
pub struct History<'a> {
    /// What stands for the messages before these.
    pub summary: Option<&'a str>,
    /// Oldest first, without the messages of this and of queued runs.
    pub messages: &'a [ConversationMessage],
}

/// A first plan for a query.
#[derive(Clone, Copy, Debug)]
pub struct PlanPrompt<'a> {
    pub frame: Frame<'a>,
    pub query: &'a str,
    pub history: History<'a>,
    /// The thread's enabled tools.
    pub tools: &'a [Arc<ToolSpec>],
}

/// A follow-up query on a thread that has a plan.
#[derive(Clone, Copy, Debug)]
pub struct RefinePrompt<'a> {
    pub frame: Frame<'a>,
    pub query: &'a str,
    pub history: History<'a>,
    pub tools: &'a [Arc<ToolSpec>],
    pub intent: &'a str,
    pub plan: &'a str,
    /// The list, in execution order, as it stands; only id, description, status, step type, tools, outcome,
    /// dependencies and reason are shown.
    pub items: &'a [TodoItem],
    /// Sentences that the planner must know: changes of its own that were dropped, why it is asked to re-plan.
    pub notes: &'a [String],
}

/// One step of one item.
#[derive(Clone, Copy, Debug)]
pub struct StepPrompt<'a> {
    pub frame: Frame<'a>,
    pub item: &'a TodoItem,
    /// Settled items, in list order; dependencies are shown first and whole, with what their tools said.
    pub results: &'a [StepResult],
    /// How many more there are, which it does not depend on.
    pub left_out: usize,
    /// Shown with their schemas; empty for a reasoning step.
    pub tools: &'a [Arc<ToolSpec>],
    /// What happened in this item before, oldest first; a re-armed item's earlier calls and results too.
    pub turns: &'a [Turn],
    pub notes: &'a [String],
    /// No further model call follows for this item.
    pub is_last: bool,
}

/// The final answer.
#[derive(Clone, Copy, Debug)]
pub struct SynthesisPrompt<'a> {
    pub frame: Frame<'a>,
    pub query: &'a str,
    pub history: History<'a>,
    pub intent: &'a str,
    pub plan: &'a str,
    /// Every settled item of the plan, in list order.
    pub results: &'a [StepResult],
}

/// The oldest messages of a conversation, to be summed up.
#[derive(Clone, Copy, Debug)]
pub struct SummaryPrompt<'a> {
    pub frame: Frame<'a>,
    /// What stands for the messages before these.
    pub so_far: Option<&'a str>,
    pub messages: &'a [ConversationMessage],
    /// A longer message is shortened, in characters.
    pub most: usize,
}

/// A reply that could not be used, and why.
#[derive(Clone, Copy, Debug)]
pub struct RepairPrompt<'a> {
    pub reply: &'a str,
    /// A sentence: `parse::ParseFault`.
    pub fault: &'a str,
}

/// What an item came to.
#[derive(Clone, Debug, PartialEq)]
pub struct StepResult {
    pub item_id: String,
    pub description: String,
    pub status: ItemStatus,
    pub reason: Option<String>,
    pub result: Option<Value>,
    pub tool_results: Vec<ToolResult>,
    pub is_dependency: bool,
    /// Items that it depended on and that were begun again since.
    pub outdated: Vec<String>,
}

/// Something that happened in an item's loop.
#[derive(Clone, Debug, PartialEq)]
pub enum Turn {
    /// What the model said and called, under the ids that the provider will see again.
    Model { content: String, calls: Vec<PromptCall>, replay: Option<Value> },
    /// What the call with that id came to.
    Returned { id: String, result: Box<ToolResult> },
    /// A message of the engine: an enforcement, a repair, a person's decision.
    Engine(String),
}
