//! A tool that reports when it is called and when it is dropped, and the agents that call it.

use std::sync::{Arc, Condvar, Mutex};

use async_trait::async_trait;
use pes::domain::hitl::{FeedbackSchema, InputType, Question};
use pes::domain::ids::RunId;
use pes::domain::observation::ObservationType;
use pes::domain::tool::{ToolError, ToolSpec};
use pes::live::EncodedKind;
use pes::service::feed::{self, After, FeedAsk};
use pes::service::once::Answered;
use pes::service::runs::{self, ProcessAsk};
use pes::store::Store;
use pes::tool::{Tool, ToolContext, ToolOutput};
use pes::{Builder, Config, Instance};
use serde_json::Value;
use tokio::sync::watch;

use crate::support::demo;
use crate::support::http::soon;
use crate::support::tool::spec;

/// The query is a verb that says what the run's one step does:
///
/// - `call`: calls the tool, which returns at once;
/// - `late`: the tool returns after a while;
/// - `hang`: the tool never returns;
/// - `wait`: the tool returns when it is released;
/// - `block`: the same, and the tool does not even yield;
/// - `inquire`: the tool asks a person during the call;
/// - `ask`: asks a person, and calls no tool;
/// - `twice`: as `ask`, and then asks once more;
/// - `talk`: calls nothing;
/// - `retry`: as `call`, planned at the second attempt;
/// - `both hang`, `both inquire`: the step `asks` asks a person, and the step `calls` beside it calls the tool.
///
/// The first reply whose `when` matches is used, so replies for one verb precede those for all.
const SCRIPT: &str = r#"
[[reply]]
when = { phase = "planning", query = "retry", attempt = 1 }
fail = { kind = "retry", retry_after_ms = 200 }

[[reply]]
when = { phase = "planning", query = "talk" }
delay_ms = 700
json = { title = "T", intent = "I", plan = "P", todoList = [{ id = "one", description = "Talk", stepType = "reasoning" }] }

[[reply]]
when = { phase = "planning", query = "/^both /" }
json = { title = "T", intent = "I", plan = "P", todoList = [
    { id = "asks", description = "Ask", stepType = "tool", toolValidationMode = "advisory" },
    { id = "calls", description = "Try it", stepType = "tool", toolValidationMode = "advisory" },
] }

[[reply]]
when = { phase = "execution", iteration = 1, query = "/^both /", item = "asks" }
calls = [{ tool = "ask_user", arguments = { question = "Well?" } }]

[[reply]]
when = { phase = "refinement", query = "hang" }
json = { title = "T", intent = "I", plan = "P", todoList = [
    { id = "two", description = "Try it again", stepType = "tool", toolValidationMode = "advisory" },
] }

[[reply]]
when = { phase = "refinement", query = "ask" }
json = { title = "T", intent = "I", plan = "P", todoList = [
    { id = "two", description = "Ask", stepType = "tool", toolValidationMode = "advisory" },
] }

[[reply]]
when = { phase = "planning" }
json = { title = "T", intent = "I", plan = "P", todoList = [
    { id = "one", description = "Try it", stepType = "tool", toolValidationMode = "advisory" },
] }

[[reply]]
when = { phase = "execution", iteration = 1, query = "ask" }
calls = [{ tool = "ask_user", arguments = { question = "Well?" } }]

[[reply]]
when = { phase = "execution", iteration = 1, query = "twice" }
calls = [{ tool = "ask_user", arguments = { question = "Well?" } }]

[[reply]]
when = { phase = "execution", iteration = 2, query = "twice" }
calls = [{ tool = "ask_user", arguments = { question = "Really?" } }]

[[reply]]
when = { phase = "execution", iteration = 1, query = "talk" }
text = "Talked."

[[reply]]
when = { phase = "execution", iteration = 1 }
delay_ms = 100
calls = [{ tool = "probe", arguments = { how = "{{query}}" } }]

[[reply]]
when = { phase = "execution" }
delay_ms = 100
text = "Done: {{tool_result}}"

[[reply]]
when = { phase = "synthesis" }
text = "That was it."
"#;

/// How many calls there were, and how many of these have ended in any way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub begun: usize,
    pub over: usize,
}

#[derive(Clone)]
pub struct Probe {
    tally: watch::Sender<Tally>,
    released: watch::Sender<bool>,
    /// The same, for calls that block their thread.
    unblocked: Arc<(Mutex<bool>, Condvar)>,
}

impl Probe {
    pub fn new() -> Self {
        Self { tally: watch::channel(Tally::default()).0, released: watch::channel(false).0, unblocked: Arc::default() }
    }

    pub fn tally(&self) -> Tally {
        *self.tally.borrow()
    }

    pub async fn reaches(&self, is_reached: impl FnMut(&Tally) -> bool) {
        soon(self.tally.subscribe().wait_for(is_reached)).await.expect("the probe is there");
    }

    /// Releases the calls that wait for it.
    pub fn release(&self) {
        self.released.send_replace(true);
        *self.unblocked.0.lock().expect("nobody panics") = true;
        self.unblocked.1.notify_all();
    }

    fn block(&self) {
        let unblocked = self.unblocked.0.lock().expect("nobody panics");
        drop(self.unblocked.1.wait_while(unblocked, |unblocked| !*unblocked).expect("nobody panics"));
    }
}

/// A call; dropping it counts it as ended.
struct Call(watch::Sender<Tally>);

impl Drop for Call {
    fn drop(&mut self) {
        self.0.send_modify(|tally| tally.over += 1);
    }
}

#[async_trait]
impl Tool for Probe {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::new(spec("probe"))
    }

    async fn call(&self, arguments: Value, context: ToolContext) -> Result<ToolOutput, ToolError> {
        self.tally.send_modify(|tally| tally.begun += 1);
        let _call = Call(self.tally.clone());
        match arguments["how"].as_str() {
            Some("hang" | "both hang") => std::future::pending().await,
            Some("wait") => _ = self.released.subscribe().wait_for(|released| *released).await,
            Some("block") => self.block(),
            Some("inquire" | "both inquire") => {
                let output = format!("{:?}", context.people.ask(question()).await?);
                return Ok(ToolOutput::new(output));
            }
            Some("late") => tokio::time::sleep(std::time::Duration::from_secs(2)).await,
            Some(_) | None => {}
        }
        Ok(ToolOutput::new("called"))
    }
}

fn question() -> Question {
    let form = FeedbackSchema {
        input_type: InputType::Text,
        prompt: "Left or right?".to_owned(),
        options: Vec::new(),
        allow_modify_args: false,
        custom_schema: None,
    };
    Question { message: form.prompt.clone(), form }
}

/// The next question on this thread after `seq`, and its seq.
pub async fn asked(instance: &Instance, thread: &str, seq: i64) -> (Value, i64) {
    let types = vec![ObservationType::AgentSuspended];
    let ask = FeedAsk { after: After::Seq(seq), types, tokens: false, until: None, ends_suspended: false };
    let mut feed =
        feed::open(instance.service(), instance.caller(), &thread.into(), ask).await.expect("there is such a thread");
    loop {
        let frame = soon(feed.next()).await.expect("it goes on");
        if let EncodedKind::Observation { seq, .. } = &frame.kind {
            let told: Value = serde_json::from_slice(&frame.data()).expect("JSON");
            return (told["content"].clone(), *seq);
        }
    }
}

/// A separate process on `store`.
pub async fn instance(store: Arc<dyn Store>, probe: &Probe, change: impl FnOnce(&mut Config)) -> Instance {
    equipped(probe, change, |built| built.store(store)).await
}

pub async fn equipped(
    probe: &Probe,
    change: impl FnOnce(&mut Config),
    equip: impl FnOnce(Builder) -> Builder,
) -> Instance {
    let mut config = demo::scripted(SCRIPT);
    change(&mut config);
    equip(Instance::build(config).tool(Arc::new(probe.clone()))).open().await.expect("it opens")
}

/// Sends a query; the run.
pub async fn ask(instance: &Instance, thread: &str, query: &str) -> RunId {
    let ask = ProcessAsk { query: query.to_owned(), ..ProcessAsk::default() };
    let answered = runs::process(instance.service(), instance.caller(), &thread.into(), ask, None).await;
    match answered.expect("it is accepted") {
        Answered::Fresh(receipt) => receipt.run_id,
        Answered::Replayed(_) => panic!("there was no key"),
    }
}
