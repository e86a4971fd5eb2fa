//! Settings of threads and runs: what clients may say (`ThreadConfig`, `CallOptions`) and what a run resolved to.

mod resolved;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::fault::{Code, Fault};
use super::hitl::ExpiryPolicy;
use super::prompt::{Persona, SystemPrompt};
use super::tool::ClientTool;
use super::{Millis, words};

pub use resolved::{RunOptions, RunSettings};

/// The longest time that may be configured for any wait: ten years.
pub const MAX_WAIT_MS: Millis = 10 * 365 * 86_400_000;

/// A thread's `config`. Everything is optional; precedence is call > thread > server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ThreadConfig {
    /// The model, and the parameters for its adapter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<ProviderConfig>,
    /// Names or globs; absent = all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled_tools: Option<Vec<String>>,
    /// By tool name or glob.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_policy: BTreeMap<String, PolicyAction>,
    /// Newest n messages; 0 = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_limit: Option<u32>,
    /// The thread's layer of the system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<SystemPrompt>,
    /// Merged over the server's persona, member by member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persona: Option<Persona>,
    /// Settings of the execution; absent ones are the server's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_config: Option<ExecutionOverrides>,
    /// Which tools may change the application state; absent: as on the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_saving_strategy: Option<StateSavingStrategy>,
    /// The name of the core that decides; absent: as on the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_core: Option<String>,
}

/// `options` of `process`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CallOptions {
    /// Another model for this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<ProviderConfig>,
    /// Parameters of the model, from the closed list of docs/MODELS.md.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm_params: Option<Map<String, Value>>,
    /// Like `llmParams`, and with precedence over them, for the call that writes the answer only; in a core without a
    /// synthesis that may be any call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synthesis_params: Option<Map<String, Value>>,
    /// The answer must be JSON that fits this JSON Schema. A run without such an answer fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<Value>,
    /// The call's layer of the system prompt, composed with those of thread and server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<SystemPrompt>,
    /// Merged over the persona of thread and server, member by member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persona: Option<Persona>,
    /// Settings of the execution; absent ones are the thread's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_config: Option<ExecutionOverrides>,
    /// What the run may use at most; absent: there is no limit but the server's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Tools that the caller executes itself: a call becomes a suspension of kind `client_tool`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub client_tools: Vec<ClientTool>,
}

/// Which model answers, and what it is told besides the prompt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ProviderConfig {
    /// A provider that the server has; absent: that of the next layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_name: Option<String>,
    /// The provider's name of the model; absent: that of the next layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// Parameters of the model; `llmParams` of a call win over them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter_options: Option<Map<String, Value>>,
    /// Tried in order when the model above does not answer. With a model and without fallbacks there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallbacks: Option<Vec<ModelChoice>>,
}

/// A model, by the name of its provider and its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelChoice {
    /// As the server's configuration names it.
    pub provider_name: String,
    /// As the provider names it.
    pub model_id: String,
}

// In order of strictness: policies compare them.
words! {
    /// What happens to a call that a rule is about; the order is that of strictness.
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[derive(PartialOrd, Ord)]
    pub enum PolicyAction {
        /// It runs without a question.
        Auto = "auto",
        /// A person is asked first.
        Ask = "ask",
        /// It becomes an error for the model.
        Deny = "deny",
    }
}

/// Which tools may change the application state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum StateSavingStrategy {
    /// Every tool whose result has a patch.
    #[default]
    Implicit,
    /// Only `set_agent_state`; patches of other tools are dropped.
    Explicit,
}

/// How a run goes on when a todo item has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum OnItemFailure {
    /// With the items that do not depend on it.
    #[default]
    Continue,
    /// The planner is asked to plan around it, once per run; after a further failure the run continues.
    Replan,
    /// No other item begins, and the answer is written.
    Stop,
}

/// What happens when a run's budget is spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum OnBudget {
    /// The run ends with the results so far.
    #[default]
    Stop,
    /// A person may extend it.
    Ask,
}

/// Whether a person is asked before a plan runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum PlanReview {
    /// Nobody is asked.
    #[default]
    Off,
    /// Only if it may call a tool about which the policy asks, or one that is external or irreversible.
    Risky,
    /// Before every plan.
    Always,
}

/// `executionConfig` as written; absent fields fall through to the next layer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ExecutionOverrides {
    /// Model calls per todo item, from 1; 5 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
    /// How often an item is told to call its required tools; 2 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taef_max_retries: Option<u32>,
    /// Longer results are shortened in prompts, in characters; 60,000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_result_max_length: Option<u32>,
    /// Whether `delegate_to_agent` is offered; `true` by default.
    #[serde(rename = "enableA2ADelegation", skip_serializing_if = "Option::is_none")]
    pub enable_a2a_delegation: Option<bool>,
    /// How long a delegated task may take; absent = a week.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegation_timeout_ms: Option<i64>,
    /// Todo items that work at once, from 1 to 64; 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel_items: Option<u32>,
    /// How the run goes on when an item has failed; `continue` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_item_failure: Option<OnItemFailure>,
    /// What happens when the budget is spent; `stop` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_budget: Option<OnBudget>,
    /// Whether a person is asked before a plan, or a changed one, runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_review: Option<PlanReview>,
    /// How long a question to a person stays open; absent = without limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspension_timeout_ms: Option<i64>,
    /// What happens when nobody answers in time; `deny` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspension_expiry: Option<ExpiryPolicy>,
    /// Whether the calls of one reply run together when all of them only read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_reads: Option<bool>,
}

/// `executionConfig` resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExecutionConfig {
    /// Model calls per todo item, besides those that call for required tools.
    pub max_iterations: u32,
    /// How often an item is told to call its required tools.
    pub taef_max_retries: u32,
    /// Longer results are shortened in prompts, in characters.
    pub tool_result_max_length: u32,
    /// Whether `delegate_to_agent` is offered.
    #[serde(rename = "enableA2ADelegation")]
    pub enable_a2a_delegation: bool,
    /// How long a delegated task may take; `None`: a week.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegation_timeout_ms: Option<i64>,
    /// Todo items that work at once.
    pub max_parallel_items: u32,
    /// Whether the calls of one reply run together when all of them only read.
    #[serde(skip_serializing_if = "is_true")]
    pub parallel_reads: bool,
    /// How the run goes on when an item has failed.
    pub on_item_failure: OnItemFailure,
    /// What happens when the budget is spent.
    #[serde(skip_serializing_if = "crate::domain::is_default")]
    pub on_budget: OnBudget,
    /// Whether a person is asked before a plan runs.
    #[serde(skip_serializing_if = "crate::domain::is_default")]
    pub plan_review: PlanReview,
    /// How long a question stays open if no rule says so; `None`: without limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspension_timeout_ms: Option<i64>,
    /// What happens when nobody answers in time and no rule says so.
    pub suspension_expiry: ExpiryPolicy,
    /// How often a model is called whose replies are unusable: each such reply may have cost money. Calls without a
    /// reply are limited by time only.
    pub max_model_attempts: u32,
}

/// For `skip_serializing_if` of a member that is true by default.
fn is_true(value: &bool) -> bool {
    *value
}

impl Default for ExecutionConfig {
    fn default() -> Self {
        Self {
            max_iterations: 5,
            taef_max_retries: 2,
            tool_result_max_length: 60_000,
            enable_a2a_delegation: true,
            delegation_timeout_ms: None,
            max_parallel_items: 1,
            on_item_failure: OnItemFailure::Continue,
            on_budget: OnBudget::Stop,
            plan_review: PlanReview::Off,
            suspension_timeout_ms: None,
            suspension_expiry: ExpiryPolicy::Deny,
            parallel_reads: true,
            max_model_attempts: 4,
        }
    }
}

/// What a run may use at most. An absent member is no limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Budget {
    /// Input and output tokens of all its model calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// In US dollars; a call whose price is not known counts as free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// Model calls, retries included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_llm_calls: Option<u32>,
    /// Milliseconds from the beginning of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
}

impl Budget {
    /// Checks that every bound leaves room for something; the fault points below `place`.
    pub fn check(&self, place: &str) -> Result<(), Fault> {
        let wrong = [
            ("maxTokens", self.max_tokens == Some(0)),
            ("maxCostUsd", self.max_cost_usd.is_some_and(|usd| !usd.is_finite() || usd <= 0.0 || usd > 1e9)),
            ("maxLlmCalls", self.max_llm_calls == Some(0)),
            ("deadlineMs", self.deadline_ms.is_some_and(|ms| ms <= 0)),
        ];
        match wrong.iter().find(|(_, is_wrong)| *is_wrong) {
            None => Ok(()),
            Some((field, _)) => {
                let fault = Fault::new(Code::Invalid, format!("`{field}` of a budget must be above 0."));
                Err(fault.at(format!("{place}/{field}"), "must be above 0"))
            }
        }
    }
}
