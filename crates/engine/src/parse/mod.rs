//! Parses what a model wrote into typed drafts. Tolerant and bounded: every text gives a draft, or a fault that says
//! what to repair, in time linear in its length; nothing panics, nothing is made up.
//!
//! Drafts hold what the model wrote, field by field; the engine decides how much of it is accepted.

mod artifacts;
mod call;
mod field;
mod find;
mod item;
mod json;
mod plan;
mod step;
mod synthesis;
pub mod tags;
mod text;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::plan::{ItemStatus, StepType, ToolValidationMode};

pub use find::embedded;
pub(crate) use item::clean_id;
pub use plan::plan;
pub use step::step;
pub use synthesis::synthesis;

/// The fault of a reply that was cut off at its maximum length.
pub const TOO_LONG: &str = "It was cut off at the greatest length that a reply may have.";

/// Why a reply cannot be used: a sentence for the model that is asked to repair it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseFault(pub String);

/// A plan, or a refinement of one, as the model wrote it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanDraft {
    pub title: Option<String>,
    pub intent: Option<String>,
    pub plan: Option<String>,
    /// With an empty list: the final answer.
    pub answer: Option<String>,
    /// With an empty list: why the task is refused.
    pub refuse: Option<String>,
    /// Ids are trimmed, single-line, and unique; empty if the model gave none.
    pub items: Vec<ItemDraft>,
    /// The reply had tool calls and no list: `items` is one tool item, and these are its first step.
    pub calls: Vec<CallDraft>,
}

/// A todo item as the model wrote it; an absent field does not change the existing one. Stored while a patch waits for
/// the calls of its step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ItemDraft {
    pub id: String,
    pub description: Option<String>,
    pub step_type: Option<StepType>,
    pub required_tools: Option<Vec<String>>,
    pub expected_outcome: Option<String>,
    pub dependencies: Option<Vec<String>>,
    pub status: Option<ItemStatus>,
    pub tool_validation_mode: Option<ToolValidationMode>,
    /// A completed item is to be done again; read in refinements only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub redo: bool,
}

/// A tool call that the model wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct CallDraft {
    /// The provider's own id, for native calls.
    pub provider_id: Option<String>,
    /// The tool as the model named it: there may be no such tool.
    pub name: String,
    /// `Err` says why the arguments cannot be read; such a call never starts.
    pub arguments: Result<Value, String>,
}

/// What the model wants done after an item's step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Continue,
    Wait,
    CompleteItem,
    UpdatePlan,
}

impl CallDraft {
    /// A call that no model wrote.
    pub fn new(name: impl Into<String>, arguments: Value) -> Self {
        Self { provider_id: None, name: name.into(), arguments: Ok(arguments) }
    }
}

/// One step of an item.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepDraft {
    /// The text besides its calls, or the item's result.
    pub content: String,
    pub thoughts: Option<String>,
    pub calls: Vec<CallDraft>,
    pub decision: Option<Decision>,
    pub updated_plan: Option<PlanPatchDraft>,
}

/// `updatedPlan`: a patch by id; items that it does not name stay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanPatchDraft {
    pub intent: Option<String>,
    pub plan: Option<String>,
    pub items: Vec<ItemDraft>,
}

/// The final answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SynthesisDraft {
    /// Markdown, without any of our tags. Empty: the model wrote nothing.
    pub content: String,
    /// `{sources?, suggestions?, artifacts?, artifactNotes?}` and any other members that the model wrote.
    pub ui_metadata: Option<Value>,
}

impl StepDraft {
    /// Nothing was written, called or decided: the reply must be repaired and is never a result. Only saying that the
    /// item is complete is no result either.
    pub fn is_empty(&self) -> bool {
        let continues = match self.decision {
            Some(Decision::Continue | Decision::Wait | Decision::UpdatePlan) => true,
            Some(Decision::CompleteItem) | None => false,
        };
        self.content.trim().is_empty() && self.calls.is_empty() && self.updated_plan.is_none() && !continues
    }
}
