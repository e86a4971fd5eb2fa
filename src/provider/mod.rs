//! Models: one trait, and one wire per kind of provider. Nothing here is sent again: only the engine retries, as a new
//! attempt.

mod anthropic;
mod catalog;
mod check;
mod client;
pub mod demo;
mod endpoint;
mod frame;
pub mod gate;
mod gemini;
mod http;
mod key;
mod known;
mod lines;
mod ollama;
mod openai;
mod opening;
mod params;
mod reading;
mod recorded;
mod replay;
mod retry;
mod size;
mod think;
mod tool_schema;
mod turns;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};

use crate::domain::fault::Fault;
use crate::domain::model::{Delta, ModelFailure, ModelRequest};
use crate::domain::settings::ModelChoice;

pub use catalog::{Models, demo_script};
pub use check::{CheckStatus, CheckedModel, ModelCheck, check};
pub use recorded::recorded;

/// The stream of a reply. Dropping it aborts the call. The last item is `Delta::Stop` or an error; readers treat a
/// stream without either as `FailureKind::Incomplete`.
pub type DeltaStream = BoxStream<'static, Result<Delta, ModelFailure>>;

/// A provider's client. One of a program's own reaches an instance by a [`Catalog`] of its own.
#[async_trait]
pub trait ChatModel: Send + Sync {
    /// Sends the request once, without retries. Errors before the first byte and in the middle of the stream are
    /// classified alike.
    async fn call(&self, request: ModelRequest) -> Result<DeltaStream, ModelFailure>;
    /// Checks whether such requests can be made. Called when a run is accepted, so that no run starts with invalid
    /// parameters.
    fn admit(&self, model: &str, params: &serde_json::Map<String, serde_json::Value>) -> Result<(), Fault>;
    /// A problem that the operator should know although calls are made.
    fn warning(&self) -> Option<String> {
        None
    }
    /// Whether it runs on a server of the operator's own, which may have to load it before it answers.
    fn is_local(&self) -> bool {
        false
    }
}

/// A configured model, as `GET /models` lists it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelInfo {
    /// The name by which settings choose it.
    pub provider: String,
    /// The model as its provider names it.
    pub model: String,
    /// Runs that choose none use it.
    pub is_default: bool,
    /// Where the provider is called; absent: at its usual address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// How much it reads and writes in one call.
    #[serde(flatten)]
    pub facts: ModelFacts,
    /// How its provider does; the demo model has no gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<gate::Health>,
    /// Example prompts, for the demo model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<String>,
    /// Whether it answers, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<ModelCheck>,
}

/// How much a model reads and writes in one call, in tokens; `None` = unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelFacts {
    /// Prompt and reply together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The longest reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
}

/// The models that this server can call, by provider name.
pub trait Catalog: Send + Sync {
    /// The provider's client. The fault names the field and lists what is configured.
    fn model(&self, provider: &str) -> Result<Arc<dyn ChatModel>, Fault>;
    /// The same with the tenant's own key, if it has one.
    fn model_of(&self, _tenant: &str, provider: &str) -> Result<Arc<dyn ChatModel>, Fault> {
        self.model(provider)
    }
    /// All models that settings can choose, for `GET /models`.
    fn list(&self) -> Vec<ModelInfo>;
    /// Provider and model of runs that choose none.
    fn default_model(&self) -> (String, String);
    /// What such runs try next, in order, if the default model fails.
    fn fallbacks(&self) -> Vec<ModelChoice> {
        Vec::new()
    }
    /// The facts of a model: from the configuration, else derived from its name.
    fn facts(&self, _provider: &str, model: &str) -> ModelFacts {
        known::facts(model)
    }
}
