//! Spans of runs that wait for a person in the middle of other work: where an activation ends, and that nothing is lost
//! there. The tests advance the clock.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use pes::domain::hitl::Suspension;
use pes::domain::observation::{Observation, ObservationType};
use pes::domain::tool::{ToolError, ToolSpec};
use pes::runtime::clock::Manual;
use pes::service::feed::{self, FeedAsk};
use pes::service::if_match::IfMatch;
use pes::service::plan::{self, PlanPatch};
use pes::service::{runs, suspensions};
use pes::tool::{Tool, ToolContext, ToolOutput};
use pes::{AgentProps, Instance};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use crate::support::clocked::TODAY;
use crate::support::collector::Collector;
use crate::support::demo;
use crate::support::http::{soon, until};
use crate::support::otlp::Span;
use crate::support::tool::spec;

/// Two items that need not wait for each other, and one that waits for both. The second makes two calls.
const SCRIPT: &str = r#"
[[reply]]
when = { query = "both", phase = "planning" }
json = { title = "T", intent = "I", plan = "P", todoList = [
    { id = "mail", description = "Send it", stepType = "tool" },
    { id = "work", description = "Work", stepType = "tool" },
    { id = "later", description = "Look back", stepType = "reasoning", dependencies = ["mail", "work"] },
] }

[[reply]]
when = { query = "work", phase = "planning" }
json = { title = "T", intent = "I", plan = "P", todoList = [
    { id = "work", description = "Work", stepType = "tool" },
] }

[[reply]]
when = { item = "mail", phase = "execution", iteration = 1 }
calls = [{ tool = "demo_send_email", arguments = { to = "a@example.com", subject = "S", body = "B" } }]

[[reply]]
when = { item = "work", phase = "execution", iteration = 1 }
calls = [{ tool = "work", arguments = { nth = 1 } }]

[[reply]]
when = { item = "work", phase = "execution", iteration = 2 }
calls = [{ tool = "work", arguments = { nth = 2 } }]

[[reply]]
when = { phase = "execution" }
text = "It is done."

[[reply]]
when = { phase = "synthesis" }
text = "That was it."
"#;

/// Says that it was called, and takes a second of the clock once the test permits.
struct Works {
    clock: Arc<Manual>,
    began: mpsc::UnboundedSender<()>,
    permits: Arc<Semaphore>,
}

#[async_trait]
impl Tool for Works {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::new(spec("work"))
    }

    async fn call(&self, _: Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        self.began.send(()).expect("the test listens");
        self.permits.acquire().await.expect("nobody closes it").forget();
        self.clock.advance(1_000);
        Ok(ToolOutput::new("done"))
    }
}

struct Scene {
    instance: Instance,
    clock: Arc<Manual>,
    began: mpsc::UnboundedReceiver<()>,
    permits: Arc<Semaphore>,
    collector: Collector,
    spans: Vec<Span>,
    _folder: tempfile::TempDir,
}

impl Scene {
    async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let collector = Collector::start(&[]).await;
        let mut config = demo::scripted(SCRIPT);
        config.store.data_dir = folder.path().join("data");
        config.telemetry.endpoint = Some(collector.endpoint());
        let (clock, permits) = (Arc::new(Manual::at(TODAY)), Arc::new(Semaphore::new(0)));
        let (sender, began) = mpsc::unbounded_channel();
        let tool = Works { clock: clock.clone(), began: sender, permits: permits.clone() };
        let instance = Instance::build(config).clock(clock.clone()).tool(Arc::new(tool)).open().await.unwrap();
        Self { instance, clock, began, permits, collector, spans: Vec::new(), _folder: folder }
    }

    async fn questions(&self) -> Vec<Suspension> {
        suspensions::open_on(self.instance.service(), self.instance.caller(), &"t".into()).await.unwrap()
    }

    /// Sends the query, does this as soon as the tool works, and waits until the run waits for a person.
    async fn suspend(&mut self, query: &str, options: Value, meanwhile: impl AsyncFnOnce(&Instance)) {
        let options = serde_json::from_value(options).unwrap();
        let asked = self.instance.process(AgentProps { options, ..AgentProps::new("t", query) });
        let (began, permits, instance) = (&mut self.began, &self.permits, &self.instance);
        let meanwhile = async {
            began.recv().await.expect("the tool is there");
            meanwhile(instance).await;
            permits.add_permits(2);
        };
        let (asked, ()) = soon(async { tokio::join!(asked, meanwhile) }).await;
        assert_eq!(asked.unwrap_err().code.as_str(), "suspended");
    }

    async fn answer(&self, value: Value) {
        // Nobody answers at once.
        self.clock.advance(3_600_000);
        let mut answer = value;
        answer["suspensionId"] = json!(self.questions().await[0].suspension_id);
        soon(self.instance.resume("t", serde_json::from_value(answer).unwrap())).await.unwrap();
    }

    /// Waits for this many activations, and compares everything that the collector got with the log so far.
    async fn is_told(&mut self, activations: usize) {
        while self.activations().len() < activations {
            self.spans.extend(self.collector.spans().await);
        }
        let (service, caller) = (self.instance.service(), self.instance.caller());
        let log = feed::page(service, caller, &"t".into(), FeedAsk::default(), 1_000).await.unwrap().items;
        is_whole(&self.spans, &log);
        assert_eq!(self.activations().len(), activations, "{:#?}", self.spans);
    }

    fn activations(&self) -> Vec<&Span> {
        self.spans.iter().filter(|span| span.name == "invoke_agent pes").collect()
    }

    async fn close(self) {
        self.instance.close().await;
        assert_eq!(self.collector.waiting(), 0);
    }
}

/// Asserts that every call of the log is a span, with its own times and tokens, that no span is there twice, and that the
/// parents and the activations before are there.
fn is_whole(spans: &[Span], log: &[Observation]) {
    let ids: BTreeSet<&str> = spans.iter().map(|span| span.id.as_str()).collect();
    assert_eq!(ids.len(), spans.len(), "no span is told twice: {spans:#?}");
    assert!(spans.iter().all(|span| span.parent.is_empty() || ids.contains(span.parent.as_str())), "{spans:#?}");
    assert!(spans.iter().all(|span| span.links.iter().all(|link| ids.contains(link.as_str()))), "{spans:#?}");

    let of = |kind| log.iter().filter(move |seen: &&Observation| seen.kind == kind);
    let sorted = |mut times: Vec<(i64, i64)>| {
        times.sort_unstable();
        times
    };
    let told = |name: &str| {
        let named = spans.iter().filter(|span| span.name.starts_with(name));
        let ms = |nanoseconds: u64| i64::try_from(nanoseconds / 1_000_000).unwrap();
        sorted(named.map(|span| (ms(span.start), ms(span.end))).collect())
    };
    let began = |stream: &Value| {
        of(ObservationType::LlmStreamStart).find(|seen| seen.content["streamId"] == *stream).unwrap().timestamp
    };
    let chats = of(ObservationType::LlmStreamEnd).map(|seen| (began(&seen.content["streamId"]), seen.timestamp));
    assert_eq!(told("chat "), sorted(chats.collect()));
    let tools = of(ObservationType::ToolExecution);
    let tools = tools.map(|seen| (seen.timestamp - seen.content["durationMs"].as_i64().unwrap(), seen.timestamp));
    assert_eq!(told("execute_tool "), sorted(tools.collect()));
    let chats = spans.iter().filter(|span| span.name.starts_with("chat "));
    let tokens: i64 = chats.map(|span| span.attributes["gen_ai.usage.input_tokens"].parse::<i64>().unwrap()).sum();
    let logged = of(ObservationType::LlmStreamMetadata).map(|seen| seen.content["inputTokens"].as_i64().unwrap());
    assert_eq!(tokens, logged.sum::<i64>());
}

async fn is_asked(instance: &Instance) {
    let (service, caller) = (instance.service(), instance.caller());
    let is_open = async || !suspensions::open_on(service, caller, &"t".into()).await.unwrap().is_empty();
    until("it is asked", is_open).await;
}

/// The question of one item does not end the activation in which another one works.
#[rstest]
#[tokio::test]
async fn what_is_done_beside_an_open_question_is_told_whole(#[values(1, 2)] parallel: u32) {
    let mut scene = Scene::open().await;
    let options = json!({ "executionConfig": { "maxParallelItems": parallel } });
    scene.suspend("both", options, is_asked).await;
    scene.is_told(1).await;
    scene.answer(json!({ "approved": true })).await;
    scene.is_told(2).await;
    scene.close().await;
}

/// Nothing more runs, although the item has its result: it is told now, not when the pause is over.
#[tokio::test]
async fn what_was_done_before_a_pause_is_told_when_it_begins() {
    let mut scene = Scene::open().await;
    let pause = async |instance: &Instance| {
        runs::pause(instance.service(), instance.caller(), &"t".into(), None).await.map(drop).unwrap();
    };
    scene.suspend("work", json!({}), pause).await;
    scene.is_told(1).await;
    scene.answer(json!({ "approved": true })).await;
    scene.is_told(2).await;
    scene.close().await;
}

/// The reply that used up the budget asked for another call, which waits for the answer.
#[tokio::test]
async fn what_was_done_before_the_budget_was_spent_is_told_when_it_is_asked_about() {
    let mut scene = Scene::open().await;
    let options = json!({ "budget": { "maxLlmCalls": 3 }, "executionConfig": { "onBudget": "ask" } });
    scene.suspend("work", options, async |_| {}).await;
    assert_eq!(scene.questions().await[0].kind.as_str(), "budget");
    scene.is_told(1).await;
    scene.answer(json!({ "approved": true, "value": { "maxLlmCalls": 100 } })).await;
    scene.is_told(2).await;
    scene.close().await;
}

/// An edit while the run waits is no work of the run.
#[tokio::test]
async fn an_edit_of_the_plan_is_no_activation() {
    let mut scene = Scene::open().await;
    scene.suspend("both", json!({}), is_asked).await;
    scene.is_told(1).await;
    scene.clock.advance(60_000);
    let edit = PlanPatch::MergePatch(json!({ "later": { "description": "Sing of it" } }));
    let (service, caller) = (scene.instance.service(), scene.instance.caller());
    let (_, version) = plan::get(service, caller, &"t".into()).await.unwrap();
    plan::edit(service, caller, &"t".into(), edit, &IfMatch::Versions(vec![version]), None).await.unwrap();
    scene.answer(json!({ "approved": true })).await;
    scene.is_told(2).await;
    let activations = scene.activations();
    let [first, second] = &activations[..] else { panic!("{activations:#?}") };
    assert_eq!(second.start - first.end, (60_000 + 3_600_000) * 1_000_000, "it begins with the answer");
    scene.close().await;
}
