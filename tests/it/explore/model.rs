//! A model whose replies follow from the seed and the request. Only the number in the arguments of a call is new each
//! time: it names the decision to make the call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use pes::domain::fault::Fault;
use pes::domain::model::{Delta, FailureKind, ModelFailure, ModelRequest, Phase, StopReason, Usage};
use pes::provider::{Catalog, ChatModel, DeltaStream, ModelInfo};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::dice::hash;
use super::tools::KINDS;

/// How the calls of the model turn out.
const WAYS: [&str; 12] = ["ok", "ok", "ok", "ok", "ok", "hold", "hold", "hold", "hold", "fail", "fail", "lost"];

pub struct Scripted {
    seed: u64,
    decisions: AtomicU64,
    /// How often it was called.
    pub calls: watch::Sender<usize>,
}

/// One reply.
enum Reply {
    Text(String),
    Calls(Vec<(&'static str, &'static str)>),
    Fails(FailureKind),
}

impl Scripted {
    pub fn of(seed: u64) -> Arc<Self> {
        Arc::new(Self { seed, decisions: AtomicU64::new(1), calls: watch::channel(0).0 })
    }

    fn reply(&self, request: &ModelRequest) -> Reply {
        let context = &request.context;
        let item = context.item_id.clone().unwrap_or_default();
        let dice = |salt: &str, of: u64| {
            let call = (&context.query, &item, context.iteration, context.attempt, request.phase);
            hash((self.seed, call, salt)) % of
        };
        if dice("fails", 24) == 0 {
            return Reply::Fails(
                [FailureKind::Broken, FailureKind::Refused, FailureKind::Retry][dice("kind", 3) as usize],
            );
        }
        match request.phase {
            Phase::Planning => match dice("plan", 20) {
                0 => Reply::Text("I do not plan.".to_owned()),
                1 => Reply::Text(r#"{"answer": "at once", "todoList": []}"#.to_owned()),
                2 => Reply::Text(r#"{"title": "T", "todoList": [{"id": "i0", "descr"#.to_owned()),
                3 => Reply::Calls(vec![("read", "ok"), ("write", "ok")]),
                _ => Reply::Text(plan(1 + dice("items", 4), &dice).to_string()),
            },
            Phase::Synthesis if dice("empty", 12) == 0 => Reply::Text(String::new()),
            Phase::Synthesis => Reply::Text("the answer".to_owned()),
            Phase::Execution if context.iteration <= 1 => match dice("step", 12) {
                0 => Reply::Text("nothing to do".to_owned()),
                1 => Reply::Text(" ".to_owned()),
                2 => Reply::Text(json!({ "content": "changed", "updatedPlan": plan(3, &dice) }).to_string()),
                _ => self.calls_of(&item, &dice),
            },
            Phase::Execution => match dice("step", 12) {
                0..=1 => self.calls_of(&item, &dice),
                2 => Reply::Text(r#"{"content": "hm", "nextStepDecision": "continue"}"#.to_owned()),
                _ => Reply::Text(format!("result of {item}")),
            },
        }
    }

    /// An item calls the same tool each time that it begins.
    fn calls_of(&self, item: &str, dice: &impl Fn(&str, u64) -> u64) -> Reply {
        let way = |salt: &str| WAYS[dice(salt, WAYS.len() as u64) as usize];
        let mut calls = vec![(tool_of(self.seed, item), way("way"))];
        if dice("second", 3) == 0 {
            calls.push((KINDS[dice("tool", KINDS.len() as u64) as usize].name, way("second way")));
        }
        Reply::Calls(calls)
    }
}

fn tool_of(seed: u64, item: &str) -> &'static str {
    KINDS[(hash((seed, item)) % KINDS.len() as u64) as usize].name
}

/// Plans of a thread have the same few ids, so that later ones change the items of earlier ones.
fn plan(items: u64, dice: &impl Fn(&str, u64) -> u64) -> Value {
    let list = (0..items).map(|at| {
        let of = |what: &str, n: u64| dice(&format!("{what} {at}"), n);
        let mut item = json!({ "id": format!("i{at}"), "description": format!("do {at}"), "redo": of("redo", 6) == 0 });
        if of("depends", 3) == 0 {
            item["dependencies"] = json!([format!("i{}", of("on", items + 1))]);
        }
        if of("requires", 5) == 0 {
            item["requiredTools"] = json!([KINDS[of("tool", KINDS.len() as u64) as usize].name]);
        }
        if of("status", 8) == 0 {
            item["status"] = ["pending", "completed", "cancelled"][of("which", 3) as usize].into();
        }
        item
    });
    json!({ "title": "T", "intent": "I", "plan": "P", "todoList": list.collect::<Vec<_>>() })
}

#[async_trait]
impl ChatModel for Scripted {
    async fn call(&self, request: ModelRequest) -> Result<DeltaStream, ModelFailure> {
        self.calls.send_modify(|calls| *calls += 1);
        let (said, stop) = match self.reply(&request) {
            Reply::Fails(kind) => return Err(ModelFailure::new(kind, "as the seed wants it")),
            Reply::Text(text) => (vec![Delta::Text(text)], StopReason::EndTurn),
            Reply::Calls(calls) => {
                let calls = calls.into_iter().enumerate().map(|(at, (tool, way))| {
                    let n = self.decisions.fetch_add(1, Ordering::SeqCst);
                    Delta::ToolCall {
                        index: at as u32,
                        id: Some(format!("own-{n}")),
                        name: Some(tool.to_owned()),
                        arguments: json!({ "n": n, "way": way }).to_string(),
                    }
                });
                (calls.collect(), StopReason::ToolUse)
            }
        };
        let used = Delta::Usage(Usage { input_tokens: 7, output_tokens: 3, ..Usage::default() });
        Ok(stream::iter(said.into_iter().chain([used, Delta::Stop(stop)]).map(Ok)).boxed())
    }

    fn admit(&self, _: &str, _: &Map<String, Value>) -> Result<(), Fault> {
        Ok(())
    }
}

/// The only model.
pub struct Only(pub Arc<Scripted>);

impl Catalog for Only {
    fn model(&self, _: &str) -> Result<Arc<dyn ChatModel>, Fault> {
        Ok(self.0.clone())
    }
    fn list(&self) -> Vec<ModelInfo> {
        Vec::new()
    }
    fn default_model(&self) -> (String, String) {
        ("scripted".to_owned(), "only".to_owned())
    }
}
