//! Prompts: pure functions from the engine's state to the messages of one model call.
//!
//! The first line of every system prompt names the phase. Text written by people, tools or models is shown unchanged;
//! what is data and not instruction is put between markers with a nonce that occurs nowhere between them, so that no
//! text can close a block. A call always comes before its results, and every call has exactly one.

mod conversation;
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
pub use execution::{converse, enforcement, is_enforcement, opening, step};
pub(crate) use fit::can_be_shorter;
pub use parts::{PartKind, PromptPart, parts};
pub use planning::{plan, refine};
pub use repair::repair;
pub(crate) use results::{as_text, level, most_of_tools, most_others};
pub use schema::plan_schema;
pub use summary::summary;
pub use synthesis::synthesis;

/// What the prompts of a run have in common.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pub settings: &'a RunSettings,
    /// The seed of the markers' nonce: the run's id will do.
    pub seed: &'a str,
}

/// The conversation before the query.
#[derive(Clone, Copy, Debug, Default)]
pub struct History<'a> {
    /// The summary of the messages before these.
    pub summary: Option<&'a str>,
    /// Oldest first, without the messages of this run and of queued runs.
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
    /// The list in execution order, with its current status. Only id, description, status, step type, tools, outcome,
    /// dependencies and reason are shown.
    pub items: &'a [TodoItem],
    /// Sentences that the planner must see: changes of its own that were dropped, or why it is asked to re-plan.
    pub notes: &'a [String],
}

/// One step of one item.
#[derive(Clone, Copy, Debug)]
pub struct StepPrompt<'a> {
    pub frame: Frame<'a>,
    pub item: &'a TodoItem,
    /// Settled items, in list order; dependencies are shown first and whole, with the outputs of their tools.
    pub results: &'a [StepResult],
    /// How many more results there are that the step does not depend on.
    pub left_out: usize,
    /// Shown with their schemas; empty for a reasoning step.
    pub tools: &'a [Arc<ToolSpec>],
    /// The earlier turns of this item, oldest first, including calls and results of the item's earlier attempts.
    pub turns: &'a [Turn],
    /// Longer results in these turns are shortened, in characters.
    pub most_of_own: usize,
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
    /// The summary of the messages before these.
    pub so_far: Option<&'a str>,
    pub messages: &'a [ConversationMessage],
    /// Longer messages are shortened, in characters.
    pub most: usize,
}

/// A reply that could not be used, and why.
#[derive(Clone, Copy, Debug)]
pub struct RepairPrompt<'a> {
    pub reply: &'a str,
    /// A sentence, as in `parse::ParseFault`.
    pub fault: &'a str,
}

/// The result of an item.
#[derive(Clone, Debug, PartialEq)]
pub struct StepResult {
    pub item_id: String,
    pub description: String,
    pub status: ItemStatus,
    pub reason: Option<String>,
    pub result: Option<Value>,
    pub tool_results: Vec<ToolResult>,
    pub is_dependency: bool,
    /// Dependencies that were begun again since this item used their results.
    pub outdated: Vec<String>,
}

/// A turn of an item's loop.
#[derive(Clone, Debug, PartialEq)]
pub enum Turn {
    /// What the model wrote and called, under the ids that are shown to the provider.
    Model { content: String, calls: Vec<PromptCall>, replay: Option<Value> },
    /// The result of the call with that id.
    Returned { id: String, result: Box<ToolResult> },
    /// A message of the engine: an enforcement, a repair, a person's decision.
    Engine(String),
}
