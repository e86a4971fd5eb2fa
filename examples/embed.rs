//! PES inside another program: a custom tool, a SQLite store in a folder, and a query that the tool answers.
//!
//! `cargo run --example embed`

use std::sync::Arc;

use async_trait::async_trait;
use pes::domain::run::AgentFinalResponse;
use pes::domain::tool::{ToolClass, ToolError, ToolSpec};
use pes::service::threads;
use pes::tool::{Tool, ToolContext, ToolOutput};
use pes::{AgentProps, Config, Instance};
use serde_json::{Value, json};

/// Any type can be a tool: it describes its input, and does the work.
struct Weather;

#[async_trait]
impl Tool for Weather {
    fn spec(&self) -> Arc<ToolSpec> {
        let input = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
        Arc::new(ToolSpec::new("weather", "The weather in a city.", ToolClass::Read, input).with_timeout_ms(5_000))
    }

    async fn call(&self, arguments: Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::new(json!({ "city": arguments["city"], "sky": "clear" })))
    }
}

/// The script of the demo model; a real model needs none.
const SCRIPT: &str = r#"
[[reply]]
when = { phase = "planning" }
json = { title = "Weather", intent = "Know the weather", plan = "Look it up.", todoList = [
    { id = "look", description = "Look up the weather", stepType = "tool", requiredTools = ["weather"] },
] }

[[reply]]
when = { phase = "execution", iteration = 1 }
calls = [{ tool = "weather", arguments = { city = "Oslo" } }]

[[reply]]
when = { phase = "execution" }
text = "The sky over Oslo: {{tool_result/output/sky}}."

[[reply]]
when = { phase = "synthesis" }
text = "You need no umbrella."
"#;

/// Runs a query about the weather; the plan's only step calls the tool above.
pub async fn ask() -> Result<AgentFinalResponse, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("script.toml");
    std::fs::write(&script, SCRIPT)?;
    let mut config = Config::default();
    config.store.data_dir = folder.path().join("data");
    config.models.demo.pace_ms = 0;
    config.models.demo.script = Some(script);
    let instance = Instance::build(config).tool(Arc::new(Weather)).open().await?;
    let answer = instance.process(AgentProps::new("my-thread", "Do I need an umbrella in Oslo?")).await?;
    let state = threads::state(instance.service(), instance.caller(), &"my-thread".into(), None).await?;
    assert_eq!(state["todoList"][0]["toolResults"][0]["output"], json!({ "city": "Oslo", "sky": "clear" }));
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
