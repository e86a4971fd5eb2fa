//! Models: one trait, one wire per kind of provider. Nothing here re-sends: only the engine retries, as a new attempt.

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
pub use check::{CheckStatus, ModelCheck, check};
pub use recorded::recorded;

/// What streams from a model. Dropping it aborts the call. The last item is `Delta::Stop` or an error; a stream that
/// ends with neither is `FailureKind::Incomplete` to its reader.
pub type DeltaStream = BoxStream<'static, Result<Delta, ModelFailure>>;

#[async_trait]
pub trait ChatModel: Send + Sync {
    /// Sends the request once; never again by itself. Errors before the first byte and in mid-stream are classified alike.
    async fn call(&self, request: ModelRequest) -> Result<DeltaStream, ModelFailure>;
    /// Whether this request may be made at all; asked when a run is accepted, so that nothing starts on a typo.
    fn admit(&self, model: &str, params: &serde_json::Map<String, serde_json::Value>) -> Result<(), Fault>;
    /// What an operator should know although calls are made, if anything.
    fn trouble(&self) -> Option<String> {
        None
    }
}

/// A configured model, as `GET /models` lists it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelInfo {
    pub provider: String,
    pub model: String,
    pub is_default: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
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

/// How much a model reads and writes in one call, in tokens; `None` = nobody said.
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
    /// The provider's model client; the fault names the field and lists what is configured.
    fn model(&self, provider: &str) -> Result<Arc<dyn ChatModel>, Fault>;
    /// The same with the tenant's own key, where it has one.
    fn model_of(&self, _tenant: &str, provider: &str) -> Result<Arc<dyn ChatModel>, Fault> {
        self.model(provider)
    }
    fn list(&self) -> Vec<ModelInfo>;
    /// Provider and model for runs that name none.
    fn default_model(&self) -> (String, String);
    /// The facts of a model: those that the operator configured, else those that follow from its name.
    fn facts(&self, _provider: &str, model: &str) -> ModelFacts {
        known::facts(model)
    }
    /// What such runs try next, in order, when that one does not answer.
    fn fallbacks(&self) -> Vec<ModelChoice> {
        Vec::new()
    }
}
