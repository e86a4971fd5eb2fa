//! The wires over a real socket, against a server that delays, stalls, cuts and corrupts its replies.

mod check;
mod exchange;
mod failures;
mod faults;
mod gate;
mod loops;
mod mistakes;
mod peer;
mod replies;
mod secrets;
mod speech;
mod tls;

use std::sync::Arc;

use futures_util::StreamExt;
use pes::config;
use pes::domain::model::{CallContext, Delta, ModelFailure, ModelRequest, Phase};
use pes::domain::prompt::PromptMessage;
use pes::provider::{Catalog, ChatModel, Models};
use serde_json::{Map, json};

use crate::support::wire::{Step, Wire};

/// The key that no text may contain.
const KEY: &str = "sk-secret";

/// The provider `openai` at that address.
fn openai(wire: &Wire, change: impl FnOnce(&mut config::Models)) -> Arc<dyn ChatModel> {
    let mut models = config::Models::default();
    models.openai.base_url = Some(wire.url());
    models.openai.api_key = Some(KEY.to_owned().into());
    change(&mut models);
    Models::new(&models).unwrap().model("openai").unwrap()
}

fn request() -> ModelRequest {
    ModelRequest {
        provider: "openai".into(),
        model: "some-model".into(),
        phase: Phase::Synthesis,
        messages: vec![
            PromptMessage::System { content: "Phase: synthesis\nYou answer.".into() },
            PromptMessage::User { content: "How much?".into() },
        ],
        tools: Vec::new(),
        response_schema: None,
        params: Map::new(),
        trace_id: "trace".into(),
        trace: Default::default(),
        context: CallContext::default(),
    }
}

/// The text, and the outcome.
async fn ask(model: &Arc<dyn ChatModel>) -> (Vec<Delta>, Result<(), ModelFailure>) {
    ask_for(model, request()).await
}

async fn ask_for(model: &Arc<dyn ChatModel>, request: ModelRequest) -> (Vec<Delta>, Result<(), ModelFailure>) {
    let mut stream = match model.call(request).await {
        Ok(stream) => stream,
        Err(failure) => return (Vec::new(), Err(failure)),
    };
    let mut said = Vec::new();
    while let Some(delta) = stream.next().await {
        match delta {
            Ok(delta) => said.push(delta),
            Err(failure) => return (said, Err(failure)),
        }
    }
    (said, Ok(()))
}

fn text_chunk(text: &str) -> Step {
    crate::support::wire::event(json!({"choices": [{"index": 0, "delta": {"content": text}}]}))
}

fn stop_chunk() -> Step {
    crate::support::wire::event(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
}
