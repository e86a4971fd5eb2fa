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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<SystemPrompt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persona: Option<Persona>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_config: Option<ExecutionOverrides>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_saving_strategy: Option<StateSavingStrategy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_core: Option<String>,
}

/// `options` of `process`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CallOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<ProviderConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm_params: Option<Map<String, Value>>,
    /// Like `llmParams`, and with precedence over them, for the call that writes the answer only; in a core without a
    /// synthesis that may be any call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synthesis_params: Option<Map<String, Value>>,
    /// The answer must be JSON that fits this JSON Schema. A run without such an answer fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<SystemPrompt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persona: Option<Persona>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_config: Option<ExecutionOverrides>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Tools that the caller executes itself: a call becomes a suspension of kind `client_tool`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub client_tools: Vec<ClientTool>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ProviderConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
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
    pub provider_name: String,
    pub model_id: String,
}

// In order of strictness: policies compare them.
words! {
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[derive(PartialOrd, Ord)]
    pub enum PolicyAction {
        Auto = "auto",
        Ask = "ask",
        Deny = "deny",
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum StateSavingStrategy {
    #[default]
    Implicit,
    Explicit,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum OnItemFailure {
    #[default]
    Continue,
    Replan,
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
    #[default]
    Off,
    /// Only if it may call a tool about which the policy asks, or one that is external or irreversible.
    Risky,
    Always,
}

/// `executionConfig` as written; absent fields fall through to the next layer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ExecutionOverrides {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taef_max_retries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_result_max_length: Option<u32>,
    #[serde(rename = "enableA2ADelegation", skip_serializing_if = "Option::is_none")]
    pub enable_a2a_delegation: Option<bool>,
    /// How long a delegated task may take; absent = a week.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegation_timeout_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel_items: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_item_failure: Option<OnItemFailure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_budget: Option<OnBudget>,
    /// Whether a person is asked before a plan, or a changed one, runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_review: Option<PlanReview>,
    /// How long a question to a person stays open; absent = without limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspension_timeout_ms: Option<i64>,
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
    pub max_iterations: u32,
    pub taef_max_retries: u32,
    pub tool_result_max_length: u32,
    #[serde(rename = "enableA2ADelegation")]
    pub enable_a2a_delegation: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegation_timeout_ms: Option<i64>,
    pub max_parallel_items: u32,
    #[serde(skip_serializing_if = "is_true")]
    pub parallel_reads: bool,
    pub on_item_failure: OnItemFailure,
    #[serde(skip_serializing_if = "crate::domain::is_default")]
    pub on_budget: OnBudget,
    #[serde(skip_serializing_if = "crate::domain::is_default")]
    pub plan_review: PlanReview,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspension_timeout_ms: Option<i64>,
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

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Budget {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_llm_calls: Option<u32>,
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
