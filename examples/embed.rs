//! PES inside another program: a tool of one's own, a store in memory, and a question.
//!
//! `cargo run --example embed`

use std::sync::Arc;

use async_trait::async_trait;
use pes::domain::run::AgentFinalResponse;
use pes::domain::tool::{ToolClass, ToolError, ToolSpec};
use pes::store::memory::Memory;
use pes::tool::{Tool, ToolContext, ToolOutput};
use pes::{AgentProps, Config, Instance};
use serde_json::{Value, json};

/// Any type can be a tool: it says what it takes, and does it.
struct Weather;

#[async_trait]
impl Tool for Weather {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::new(ToolSpec {
            name: "weather".to_owned(),
            description: "The weather in a city.".to_owned(),
            input_schema: json!({
                "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"],
            }),
            output_schema: None,
            class: ToolClass::Read,
            idempotent: true,
            timeout_ms: 5_000,
            risk_level: None,
        })
    }

    async fn call(&self, arguments: Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput { output: json!({ "city": arguments["city"], "sky": "clear" }), ..ToolOutput::default() })
    }
}

/// Asks the first question that the demo model knows. With `OPENAI_API_KEY` in the configuration any question would do.
pub async fn ask() -> Result<AgentFinalResponse, Box<dyn std::error::Error>> {
    let mut config = Config::default();
    config.models.demo.pace_ms = 0;
    let instance = Instance::build(config).store(Arc::new(Memory::new())).tool(Arc::new(Weather)).open().await?;
    let question = instance.runtime().models()[0].prompts[0].clone();
    let answer = instance.process(AgentProps::new("my-thread", question)).await?;
    instance.close().await;
    Ok(answer)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let answer = ask().await?;
    println!("{}", answer.response.content);
    println!("({} model calls, {} tool calls)", answer.metadata.llm_calls, answer.metadata.tool_calls);
    Ok(())
}
