//! Values nested too deeply to be read back are refused at the entry and reported to the model; nothing else is
//! affected.

use std::sync::Arc;

use async_trait::async_trait;
use pes::domain::tool::{ToolError, ToolSpec};
use pes::service::feed::{self, FeedAsk};
use pes::tool::{Tool, ToolContext, ToolOutput};
use pes::{AgentProps, Instance};
use serde_json::{Value, json};

use super::{calls, one_item};
use crate::support::app::App;
use crate::support::demo;
use crate::support::store::fresh_store;
use crate::support::tool::spec;
use pes::domain::depth::MOST_DEPTH;
use pes::service::threads;

/// A depth that serde_json still reads, and that is too deep once a row wraps it.
const LEVELS: usize = 120;

fn deep(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!([inner]))
}

/// Returns deeply nested values, in its output or in its patch of the state.
struct Deep;

#[async_trait]
impl Tool for Deep {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::new(spec("deep"))
    }
    async fn call(&self, arguments: Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        let nested = |part: &str| arguments["in"] == part;
        Ok(ToolOutput {
            output: if nested("output") { deep(LEVELS) } else { json!("shallow") },
            metadata: nested("metadata").then(|| json!({ "deep": deep(LEVELS) })),
            state_patch: nested("state").then(|| json!({ "deep": deep(LEVELS) })),
        })
    }
}

/// The outcome of each call of a run with this script, read from the log and again from a fork.
async fn ends(script: &str) -> Vec<String> {
    let built = Instance::build(demo::scripted(script)).store(fresh_store().await).tool(Arc::new(Deep));
    let instance = built.open().await.unwrap();
    instance.process(AgentProps::new("t", "go")).await.unwrap();
    let (service, caller) = (instance.service(), instance.caller());
    threads::state(service, caller, &"t".into(), None).await.unwrap();
    let log = feed::page(service, caller, &"t".into(), FeedAsk::default(), 200).await.unwrap();
    let told = log.items.iter().filter(|seen| seen.kind.as_str() == "TOOL_EXECUTION");
    let codes = told.map(|seen| seen.content["error"]["code"].as_str().unwrap_or("success").to_owned()).collect();
    instance.close().await;
    codes
}

#[tokio::test]
async fn a_tool_brings_nothing_that_cannot_be_read_again() {
    for part in ["output", "metadata", "state"] {
        let call = calls(&[("deep", &format!("{{ in = \"{part}\" }}"))]);
        assert_eq!(ends(&one_item(&[&call])).await, ["output_too_deep"], "{part}");
    }
    assert_eq!(ends(&one_item(&[&calls(&[("deep", "{ in = \"nothing\" }")])])).await, ["success"]);
}

#[tokio::test]
async fn a_model_calls_with_nothing_that_cannot_be_read_again() {
    let nested = |levels: usize| format!("{{ a = {}{} }}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(ends(&one_item(&[&calls(&[("deep", &nested(63))])])).await, ["success"]);
    assert_eq!(ends(&one_item(&[&calls(&[("deep", &nested(64))])])).await, ["invalid_arguments"]);
}

/// The results of a client's own functions come as text.
#[tokio::test]
async fn a_client_answers_with_nothing_that_cannot_be_read_again() {
    let app = App::start().await;
    let function = json!({ "name": "get_location", "parameters": { "type": "object" } });
    let user = json!({ "role": "user", "content": "locate" });
    let tools = json!([{ "type": "function", "function": function }]);
    let chat = async |messages: &[Value]| {
        let body = json!({ "model": "pes", "messages": messages, "tools": tools });
        app.ask("POST", "/v1/chat/completions").json(&body).send().await
    };
    let asked = chat(std::slice::from_ref(&user)).await;
    let thread = asked.header("x-pes-thread").unwrap().to_owned();
    let message = asked.expect(200)["choices"][0]["message"].clone();
    let [first, second] = &message["tool_calls"].as_array().unwrap()[..] else { panic!("{message:#}") };
    let result =
        |call: &Value, content: String| json!({ "role": "tool", "tool_call_id": call["id"], "content": content });
    let text = deep(LEVELS).to_string();
    let results = [result(first, text.clone()), result(second, deep(MOST_DEPTH).to_string())];
    chat(&[&[user, message.clone()], &results[..]].concat()).await.expect(200);
    let log = app.observed(&thread, "TOOL_EXECUTION").await;
    let outputs: Vec<&Value> = log.iter().map(|it| &it["content"]["output"]).collect();
    assert_eq!(outputs, [&json!(text), &deep(MOST_DEPTH)]);
}
