//! How many commits a run takes: results that arrive together are committed together.

use std::sync::Arc;

use async_trait::async_trait;
use pes::domain::tool::{ToolError, ToolSpec};
use pes::tool::{Tool, ToolContext, ToolOutput};
use pes::{AgentProps, Instance};
use serde_json::Value;
use tokio::sync::Barrier;

use crate::support::demo;
use crate::support::store::fresh_store;
use crate::support::tool::spec;

/// A barrier: returns once the expected number of calls runs.
struct Meet(Barrier);

#[async_trait]
impl Tool for Meet {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::new(ToolSpec { timeout_ms: 10_000, ..spec("meet") })
    }

    async fn call(&self, arguments: Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        self.0.wait().await;
        Ok(ToolOutput::new(arguments["who"].clone()))
    }
}

const MEETING: &str = r#"
[[reply]]
when = { phase = "planning" }
json = { title = "Meet", intent = "Meet", plan = "Meet.", todoList = [
    { id = "a", description = "Meet", stepType = "tool", requiredTools = ["meet"] },
] }

[[reply]]
when = { phase = "execution", iteration = 1 }
calls = [
    { tool = "meet", arguments = { who = 1 } },
    { tool = "meet", arguments = { who = 2 } },
    { tool = "meet", arguments = { who = 3 } },
]

[[reply]]
when = { phase = "execution" }
text = "They have met."

[[reply]]
when = { phase = "synthesis" }
text = "They have met."
"#;

/// The number of the thread's commits after a run with this script.
async fn commits(script: &str, tools: Vec<Arc<dyn Tool>>) -> i64 {
    let store = fresh_store().await;
    let builder = Instance::build(demo::scripted(script)).store(store.clone());
    let builder = tools.into_iter().fold(builder, |builder, tool| builder.tool(tool));
    let instance = builder.open().await.unwrap();
    let answer = instance.process(AgentProps::new("t", "Meet")).await.unwrap();
    assert_eq!((answer.metadata.tool_calls, answer.metadata.tool_errors), (3, 0));
    let row = store.thread(instance.caller().tenant, &"t".into()).await.unwrap().unwrap();
    instance.close().await;
    row.fence.version
}

#[tokio::test]
async fn results_that_wait_are_committed_together() {
    let commits = commits(MEETING, vec![Arc::new(Meet(Barrier::new(3)))]).await;
    // The question, the plan, three calls, their results, the item's end, the answer: separate commits of the results
    // would be two more.
    assert!(commits <= 7, "{commits} commits");
}

const SUMS: &str = include_str!("../support/sums.toml");

/// A change that adds a commit to every run fails here before a benchmark shows it.
#[tokio::test]
async fn a_run_of_eight_model_calls_is_nine_commits() {
    assert_eq!(commits(SUMS, Vec::new()).await, 9);
}
