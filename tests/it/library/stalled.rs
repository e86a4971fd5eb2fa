//! A run that goes on for long does not look stalled; one that hangs does. The test advances the clock.

use std::sync::Arc;

use async_trait::async_trait;
use pes::domain::tool::{ToolError, ToolSpec};
use pes::runtime::clock::{Clock as _, Manual};
use pes::service::figures;
use pes::tool::{Tool, ToolContext, ToolOutput};
use pes::{AgentProps, Instance};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::support::clocked::{MINUTE, TODAY};
use crate::support::demo;
use crate::support::http::soon;
use crate::support::store::fresh_store;
use crate::support::tool::spec;

/// Four items, one after the other.
const SCRIPT: &str = r#"
[[reply]]
when = { phase = "planning" }
json = { title = "T", intent = "I", plan = "P", todoList = [
    { id = "one", description = "First", stepType = "tool" },
    { id = "two", description = "Second", stepType = "tool", dependencies = ["one"] },
    { id = "three", description = "Third", stepType = "tool", dependencies = ["two"] },
    { id = "four", description = "Fourth", stepType = "tool", dependencies = ["three"] },
] }

[[reply]]
when = { item = "four", phase = "execution" }
calls = [{ tool = "wait", arguments = { "forEver" = true } }]

[[reply]]
when = { phase = "execution", iteration = 1 }
calls = [{ tool = "wait", arguments = { "forEver" = false } }]

[[reply]]
when = { phase = "execution" }
text = "It took long."
"#;

/// Takes ten minutes of the clock, or never returns and says that it was called.
struct Waits {
    clock: Arc<Manual>,
    hangs: mpsc::UnboundedSender<()>,
}

#[async_trait]
impl Tool for Waits {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::new(spec("wait"))
    }

    async fn call(&self, arguments: Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        if arguments["forEver"] == true {
            self.hangs.send(()).expect("the test waits for it");
            std::future::pending::<()>().await;
        }
        self.clock.advance(10 * MINUTE);
        Ok(ToolOutput::new("done"))
    }
}

#[tokio::test]
async fn only_a_run_that_is_not_committed_for_long_makes_no_progress() {
    let clock = Arc::new(Manual::at(TODAY));
    let mut config = demo::scripted(SCRIPT);
    // Longer than the whole test by its clock.
    config.runtime.lease_ms = 24 * 60 * MINUTE;
    let (hangs, mut hung) = mpsc::unbounded_channel();
    let tool = Arc::new(Waits { clock: clock.clone(), hangs });
    let built = Instance::build(config).store(fresh_store().await).clock(clock.clone()).tool(tool);
    let instance = Arc::new(built.open().await.unwrap());
    let asking = instance.clone();
    let asked = tokio::spawn(async move { asking.process(AgentProps::new("t", "hello")).await.map(drop) });
    soon(hung.recv()).await.expect("the last item calls it");

    // Its last commit started the call that hangs, half an hour after the run began.
    clock.advance(40 * MINUTE);
    let figures = figures::read(instance.service()).await.expect("the store answers");
    let since = figures.threads.running_since.expect("it runs");
    assert_eq!((since - TODAY, clock.now() - since), (30 * MINUTE, 40 * MINUTE));
    asked.abort();
}
