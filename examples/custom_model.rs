//! A model implementation outside the crate. Planning, tools, retries and the log work as for any other model.
//!
//! `cargo run --example custom_model`

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use pes::domain::fault::{Code, Fault};
use pes::domain::model::{Delta, ModelFailure, ModelRequest, Phase, StopReason};
use pes::provider::{Catalog, ChatModel, DeltaStream, ModelInfo};
use pes::{AgentProps, Config, Instance};
use serde_json::{Map, Value, json};

const PROVIDER: &str = "mine";
const MODEL: &str = "echo-1";

/// Plans one step, and echoes the request. A real one would send `request.messages` to a provider.
struct Echo;

#[async_trait]
impl ChatModel for Echo {
    async fn call(&self, request: ModelRequest) -> Result<DeltaStream, ModelFailure> {
        let query = request.context.query;
        let text = match request.phase {
            Phase::Planning => json!({
                "title": "Echo", "intent": query, "plan": "Say it again.",
                "todoList": [{ "id": "echo", "description": "Say it again", "stepType": "reasoning" }],
            })
            .to_string(),
            Phase::Execution => format!("It was said: {query}"),
            Phase::Synthesis => format!("You said “{query}”."),
        };
        // Parts of the reply, streamed to all subscribers of the thread.
        Ok(stream::iter([Ok(Delta::Text(text)), Ok(Delta::Stop(StopReason::EndTurn))]).boxed())
    }

    fn admit(&self, model: &str, _: &Map<String, Value>) -> Result<(), Fault> {
        if model == MODEL { Ok(()) } else { Err(Fault::new(Code::Invalid, format!("There is only {MODEL}."))) }
    }
}

/// The models that the server may choose from.
struct Models;

impl Catalog for Models {
    fn model(&self, provider: &str) -> Result<Arc<dyn ChatModel>, Fault> {
        match provider {
            PROVIDER => Ok(Arc::new(Echo)),
            _ => Err(Fault::new(Code::Invalid, format!("There is only {PROVIDER}."))),
        }
    }

    fn list(&self) -> Vec<ModelInfo> {
        Vec::new()
    }

    fn default_model(&self) -> (String, String) {
        (PROVIDER.to_owned(), MODEL.to_owned())
    }
}

/// Runs a query with our model; the store is a file in a temporary folder.
pub async fn answer(question: &str) -> Result<String, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let mut config = Config::default();
    config.store.data_dir = folder.path().to_owned();
    let instance = Instance::build(config).models(Arc::new(Models)).open().await?;
    let answered = instance.process(AgentProps::new("my-thread", question)).await;
    instance.close().await;
    Ok(answered?.response.content)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{}", answer("Is anybody there?").await?);
    Ok(())
}
