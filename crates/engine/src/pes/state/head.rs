//! The head of a thread: the small part that is written with every transition, and the progress of the active run.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::Millis;
use crate::domain::facts::Summary;
use crate::domain::ids::{MessageId, RunId, SuspensionId};
use crate::domain::run::{Counters, RunError};
use crate::domain::usage::Nanos;
use crate::pes::state::model_call::ModelCall;

/// What people added to the budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct BudgetExtension {
    pub tokens: u64,
    pub cost: Nanos,
    pub calls: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
}

/// How a run ends that ends before its plan is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum EarlyEnd {
    /// It was cancelled on request.
    #[default]
    Cancelled,
    /// Its budget is spent.
    OnBudget,
    /// A person rejected its plan.
    Rejected,
    /// Nobody reviewed its plan in time.
    TimedOut,
}

/// The state of the review of the active run's plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Review {
    /// The version that may run: a person approved it, or it needs no approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed: Option<i64>,
    /// The open question.
    #[serde(skip_serializing_if = "Option::is_none", rename = "asked")]
    pub question: Option<ReviewQuestion>,
    #[serde(skip_serializing_if = "crate::domain::is_default")]
    pub sent_back: SentBack,
    /// How often a plan was sent back to the planner.
    #[serde(skip_serializing_if = "crate::domain::is_default")]
    pub rejections: u32,
    /// How many of these came before the last plan that was approved.
    #[serde(skip_serializing_if = "crate::domain::is_default")]
    pub settled_rejections: u32,
}

/// A question about a version of the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReviewQuestion {
    pub suspension: SuspensionId,
    pub version: i64,
}

/// Whether a person wants another plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SentBack {
    #[default]
    No,
    /// The planner's next prompt must say so.
    Due,
    /// The planner was told, and is making another one.
    Told,
}

impl Review {
    /// Whether no plan was approved since the last rejection.
    pub fn is_rejected(&self) -> bool {
        self.rejections > self.settled_rejections
    }
}

/// The part that is written with every transition; nothing in it grows with the plan or the history without a bound.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Head {
    pub version: u32,
    pub phase: RunPhase,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub intent: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Text, or a reference to it.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub plan: Value,
    pub plan_version: i64,
    /// The size of the conversation, in bytes.
    #[serde(skip_serializing_if = "crate::domain::is_default", rename = "said")]
    pub history_bytes: u64,
    /// The summary of the oldest messages, if the conversation was too long for a prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// The last row number that was given out.
    pub ord: i64,
    pub floor: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<Active>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queue: Vec<RunId>,
    #[serde(skip_serializing_if = "std::ops::Not::not", rename = "quarantined")]
    pub is_quarantined: bool,
    /// Who requested or edited the work that the next run finds: edits of an idle plan, and work that the last run left
    /// undone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shapers: Vec<String>,
    /// The digests of calls that were made after the place to which the thread went back, or at which it was copied, until
    /// a person has approved such a call or a run has completed since; their number is bounded.
    #[serde(skip_serializing_if = "Vec::is_empty", rename = "later")]
    pub later_calls: Vec<String>,
}

/// The progress of the active run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Active {
    pub run: RunId,
    /// The number of the run's row.
    pub ord: i64,
    pub counters: Counters,
    /// The open call for planning, refining or synthesizing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelCall>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steers: Vec<Steer>,
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    pub replan: Replan,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<Cancel>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<SuspensionId>,
    /// The open question that asks a person for a larger budget; nothing new begins.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "asked")]
    pub budget_question: Option<SuspensionId>,
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    pub granted: BudgetExtension,
    /// The largest prompt so far with its reply, in tokens.
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    pub largest: u64,
    /// Notes for the planner's next prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Its plan has been made or refined.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", rename = "planned")]
    pub is_planned: bool,
    /// The review of its plan.
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    pub review: Review,
    /// Set by `onItemFailure: stop`: no new item begins.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", rename = "stopped")]
    pub is_stopped: bool,
    /// Why no planner considered a message that arrived during the run.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "unheard")]
    pub unconsidered: Option<RunError>,
    /// New items were left out because the plan was full: the last such error.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "full")]
    pub left_out: Option<RunError>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RunPhase {
    #[default]
    Idle,
    Planning,
    Refining,
    Executing,
    Synthesizing,
}

/// A message that arrived while the run was active and changes its course.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Steer {
    pub message: MessageId,
    /// Text, or a reference to it.
    pub text: Value,
    /// A refinement's prompt has shown it; from then on it is part of the query.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shown: bool,
    /// No refinement that showed it has succeeded yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
    /// How many of those failed.
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    pub failures: u32,
}

/// Whether the planner is asked to plan around a failed item: at most once per run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Replan {
    #[default]
    Unasked,
    Due,
    Done,
}

/// A requested cancel; it completes when no slot is `Running` any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cancel {
    pub by: String,
    pub reason: String,
    /// How the run ends.
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    pub ends: EarlyEnd,
}

impl Steer {
    /// A message that no planner has seen.
    pub fn new(message: MessageId, text: Value) -> Self {
        Self { message, text, shown: false, open: false, failures: 0 }
    }
}

impl Active {
    /// A run that has done nothing yet, with these counters.
    pub fn begin(run: RunId, ord: i64, counters: Counters) -> Self {
        Self {
            run,
            ord,
            counters,
            model: None,
            steers: Vec::new(),
            replan: Replan::Unasked,
            cancel: None,
            pause: None,
            budget_question: None,
            granted: BudgetExtension::default(),
            largest: 0,
            notes: Vec::new(),
            is_planned: false,
            review: Review::default(),
            is_stopped: false,
            unconsidered: None,
            left_out: None,
        }
    }

    /// Whether a pause, or a question about the budget, holds back everything that has not begun.
    pub fn is_held(&self) -> bool {
        self.pause.is_some() || self.budget_question.is_some()
    }
}
