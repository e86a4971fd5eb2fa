//! A tool that breaks fails only its own step. A thread that waits costs nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::support::demo;
use crate::support::store::Moody;
use crate::support::tool::spec;
use async_trait::async_trait;
use pes::domain::run::ResultStatus;
use pes::domain::tool::{ToolError, ToolSpec};
use pes::service::feed::{self, FeedAsk};
use pes::tool::{Tool, ToolContext, ToolOutput};
use pes::{AgentProps, Config, Instance};
use rstest::rstest;
use serde_json::Value;

/// One item that calls `misbehave` as the query says, and continues whatever the result.
const SCRIPT: &str = r#"
[[reply]]
when = { phase = "planning" }
json = { title = "T", intent = "I", plan = "P", todoList = [
    { id = "one", description = "Try it", stepType = "tool", requiredTools = ["misbehave"], toolValidationMode = "advisory" },
] }

[[reply]]
when = { phase = "execution", iteration = 1 }
calls = [{ tool = "misbehave", arguments = { how = "{{query}}" } }]

[[reply]]
when = { phase = "execution" }
text = "It said: {{tool_result}}"

[[reply]]
when = { phase = "synthesis" }
text = "That was it."
"#;

struct Misbehaving;

#[async_trait]
impl Tool for Misbehaving {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::new(ToolSpec { idempotent: false, timeout_ms: 60_000, ..spec("misbehave") })
    }

    async fn call(&self, arguments: Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        match arguments["how"].as_str() {
            Some("hang") => std::future::pending().await,
            Some("panic") => panic!("it was told to"),
            Some("huge") => Ok(ToolOutput::new("x".repeat(2 << 20))),
            how => panic!("what is {how:?}?"),
        }
    }
}

pub async fn instance(script: &str, change: impl FnOnce(&mut Config)) -> Instance {
    let mut config = demo::scripted(script);
    change(&mut config);
    let built = Instance::build(config).store(Moody::fresh().await).tool(Arc::new(Misbehaving));
    built.open().await.unwrap()
}

#[rstest]
#[case("panic", "panicked")]
#[case("hang", "timeout")]
#[case("huge", "output_too_large")]
#[tokio::test(start_paused = true)]
async fn a_tool_that_breaks_fails_its_call_and_the_run_goes_on(#[case] how: &str, #[case] code: &str) {
    let instance = instance(SCRIPT, |_| {}).await;
    let answer = instance.process(AgentProps::new("t", how)).await.unwrap();
    assert_eq!(answer.metadata.status, ResultStatus::Partial, "the tool's last call ended in an error");
    assert_eq!(answer.metadata.tool_errors, 1);
    let (service, caller) = (instance.service(), instance.caller());
    let log = feed::page(service, caller, &"t".into(), FeedAsk::default(), 200).await.unwrap();
    let result = log.items.iter().find(|seen| seen.kind.as_str() == "TOOL_EXECUTION").unwrap();
    assert_eq!(result.content["error"]["code"], code, "{result:#?}");
    instance.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_thread_that_waits_for_a_person_is_out_of_memory_within_a_second() {
    let script = r#"
[[reply]]
when = { phase = "planning" }
json = { title = "T", intent = "I", plan = "P", todoList = [
    { id = "one", description = "Ask", stepType = "tool", requiredTools = ["ask_user"] },
] }

[[reply]]
when = { phase = "execution" }
calls = [{ tool = "ask_user", arguments = { question = "Well?" } }]
"#;
    let instance = instance(script, |_| {}).await;
    let fault = instance.process(AgentProps::new("t", "ask")).await.unwrap_err();
    assert_eq!(fault.code.as_str(), "suspended", "{fault:?}");
    assert_eq!(instance.service().active_threads(), 1);
    tokio::time::sleep(Duration::from_millis(999)).await;
    assert_eq!(instance.service().active_threads(), 0);
    instance.close().await;
}
