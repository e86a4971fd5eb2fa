//! The settings that a run was accepted with, and the part of them that clients see.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    Budget, ExecutionConfig, ExecutionOverrides, ModelChoice, PolicyAction, ProviderConfig, StateSavingStrategy,
};
use crate::domain::prompt::Persona;
use crate::domain::tool::ClientTool;

/// The settings that a run was accepted with; stored with it, so that a restart with another configuration changes
/// nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunSettings {
    /// The name of the core that decides.
    pub core: String,
    /// As the server's configuration names it.
    pub provider: String,
    /// As the provider names it.
    pub model: String,
    /// Asked in order when the model above does not answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<ModelChoice>,
    /// Merged from server, thread and call: read for every call but the one that writes the answer.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub llm_params: Map<String, Value>,
    /// Merged into `llm_params` for the call that writes the answer.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub synthesis_params: Map<String, Value>,
    /// The JSON Schema that the answer must fit; `None`: it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<Value>,
    /// Names or globs; `None` = all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled_tools: Option<Vec<String>>,
    /// By tool name or glob: the thread's own, which only make the rules of the server stricter.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_policy: BTreeMap<String, PolicyAction>,
    /// Newest n messages of the conversation in a prompt; 0 = none.
    pub history_limit: u32,
    /// The guidance composed of server, thread and call, as it is put into prompts.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub system_prompt: String,
    /// Who the agent is.
    pub persona: Persona,
    /// Merged from server, thread and call.
    pub execution: ExecutionConfig,
    /// Which tools may change the application state.
    pub state_saving: StateSavingStrategy,
    /// A person may extend it while the run is under way. `None`: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Tools that the caller executes itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub client_tools: Vec<ClientTool>,
}

/// The settings of a run in effect, merged from server, thread and call: the `options` that clients see. The texts for
/// the model (prompt, persona) and the client tools are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct RunOptions {
    /// The name of the core that decides.
    pub agent_core: String,
    /// The model that was asked first, and its fallbacks.
    pub provider_config: ProviderConfig,
    /// Merged from server, thread and call.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub llm_params: Map<String, Value>,
    /// The parameters of the call that writes the answer.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub synthesis_params: Map<String, Value>,
    /// The JSON Schema that the answer must fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<Value>,
    /// Names or globs; absent = all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled_tools: Option<Vec<String>>,
    /// By tool name or glob: the thread's own, which only make the rules of the server stricter.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_policy: BTreeMap<String, PolicyAction>,
    /// Newest n messages of the conversation in a prompt; 0 = none.
    pub history_limit: u32,
    /// Every member that is not without limit has a value.
    pub execution_config: ExecutionOverrides,
    /// Which tools may change the application state.
    pub state_saving_strategy: StateSavingStrategy,
    /// The current budget: a person may have extended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
}

impl ExecutionConfig {
    /// The same configuration with every member given.
    fn overrides(&self) -> ExecutionOverrides {
        ExecutionOverrides {
            max_iterations: Some(self.max_iterations),
            taef_max_retries: Some(self.taef_max_retries),
            tool_result_max_length: Some(self.tool_result_max_length),
            enable_a2a_delegation: Some(self.enable_a2a_delegation),
            delegation_timeout_ms: self.delegation_timeout_ms,
            max_parallel_items: Some(self.max_parallel_items),
            on_item_failure: Some(self.on_item_failure),
            on_budget: Some(self.on_budget),
            plan_review: Some(self.plan_review),
            suspension_timeout_ms: self.suspension_timeout_ms,
            suspension_expiry: Some(self.suspension_expiry),
            parallel_reads: Some(self.parallel_reads),
        }
    }
}

impl RunSettings {
    /// What clients see of them.
    pub fn options(&self) -> RunOptions {
        RunOptions {
            agent_core: self.core.clone(),
            provider_config: ProviderConfig {
                provider_name: Some(self.provider.clone()),
                model_id: Some(self.model.clone()),
                adapter_options: None,
                fallbacks: Some(self.fallbacks.clone()).filter(|fallbacks| !fallbacks.is_empty()),
            },
            llm_params: self.llm_params.clone(),
            synthesis_params: self.synthesis_params.clone(),
            answer_schema: self.answer_schema.clone(),
            enabled_tools: self.enabled_tools.clone(),
            tool_policy: self.tool_policy.clone(),
            history_limit: self.history_limit,
            execution_config: self.execution.overrides(),
            state_saving_strategy: self.state_saving,
            budget: self.budget.clone(),
        }
    }

    /// The caller's own tool of that name.
    pub fn client_tool(&self, name: &str) -> Option<&ClientTool> {
        self.client_tools.iter().find(|tool| tool.name == name)
    }

    /// Provider and model of the n-th choice: 0 is the first, then the fallbacks in order.
    pub fn choice(&self, n: u32) -> Option<(&str, &str)> {
        match n.checked_sub(1) {
            None => Some((&self.provider, &self.model)),
            Some(at) => self.fallbacks.get(at as usize).map(|it| (it.provider_name.as_str(), it.model_id.as_str())),
        }
    }
}
