//! LiteLLM's proxy speaks our wires: it answers by itself or translates for an upstream behind it. `scripts/test
//! --peers` installs and starts it, and passes its address and the address at which it expects its upstream.

use std::sync::Arc;

use pes::config;
use pes::config::env::Variables;
use pes::domain::model::{FailureKind, ModelRequest, StopReason};
use pes::domain::prompt::{PromptCall, PromptMessage};
use pes::domain::tool::ToolSpec;
use pes::provider::{Catalog, ChatModel, Models};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::exchange::reply;
use super::{ask_for, request};
use crate::support::tool::spec;
use crate::support::wire::{Step, Wire, end, event, event_stream};

/// One at a time: the tests share the port behind the proxy.
static TURN: Mutex<()> = Mutex::const_new(());

struct Peer {
    url: String,
    behind: String,
}

impl Peer {
    fn find() -> Self {
        let variables = Variables::of_process();
        let get =
            |name: &str| variables.get(name).unwrap_or_else(|| panic!("{name} is not set: run scripts/test --peers"));
        Self { url: get("LITELLM_URL").to_owned(), behind: get("LITELLM_BEHIND").to_owned() }
    }

    fn model(&self, provider: &str, key: &str) -> Arc<dyn ChatModel> {
        let mut models = config::Models::default();
        let key = Some(key.to_owned().into());
        match provider {
            "openai" => (models.openai.base_url, models.openai.api_key) = (Some(format!("{}/v1", self.url)), key),
            _ => (models.anthropic.base_url, models.anthropic.api_key) = (Some(self.url.clone()), key),
        }
        Models::new(&models).unwrap().model(provider).unwrap()
    }
}

#[rstest]
#[ignore = "needs LiteLLM: scripts/test --peers"]
#[tokio::test]
async fn litellm_streams_text(#[values("openai", "anthropic")] provider: &str) {
    let model = Peer::find().model(provider, "sk-peer");
    let asked = ModelRequest { model: "says-hello".into(), ..request() };
    let (said, ended) = ask_for(&model, asked).await;
    assert_eq!(ended, Ok(()));
    let said = reply(said);
    assert_eq!(
        (&said["text"], &said["stop"]),
        (&json!("Hello from the other side: 1 < 2, Grüezi."), &json!("end_turn"))
    );
    assert!(said["usage"]["outputTokens"].as_u64().is_some_and(|tokens| tokens > 0), "{said:#}");
}

#[rstest]
#[ignore = "needs LiteLLM: scripts/test --peers"]
#[tokio::test]
async fn litellm_refuses_a_wrong_key(#[values("openai", "anthropic")] provider: &str) {
    let model = Peer::find().model(provider, "sk-not-the-one");
    let asked = ModelRequest { model: "says-hello".into(), ..request() };
    let failure = ask_for(&model, asked).await.1.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Refused, "{}", failure.message);
    assert!(!failure.message.contains("sk-not-the-one"), "{}", failure.message);
}

/// Two calls arrive in pieces, one after the other (LiteLLM's translation mixes up interleaved calls). Their results
/// are sent back, and the upstream model receives both.
#[rstest]
#[ignore = "needs LiteLLM: scripts/test --peers"]
#[tokio::test]
async fn litellm_carries_a_tool_loop(#[values("openai", "anthropic")] provider: &str) {
    let _turn = TURN.lock().await;
    let peer = Peer::find();
    let text = include_bytes!("../../cassettes/openai/openai_text.sse");
    let text = vec![event_stream(), Step::Chunk(text.to_vec()), end()];
    let mut behind = Wire::at(&peer.behind, vec![calls(), text]).await;
    let model = peer.model(provider, "sk-peer");
    let begun =
        ModelRequest { model: "has-tools".into(), tools: vec![tool("calculator"), tool("current_time")], ..request() };
    let (said, ended) = ask_for(&model, begun.clone()).await;
    assert_eq!(ended, Ok(()), "{said:?}");
    let said = reply(said);
    let called: Vec<(&str, Value)> = said["calls"].as_array().unwrap().iter().map(called).collect();
    let expected =
        [("calculator", json!({"expression": "1 + 1"})), ("current_time", json!({"timezone": "Europe/Zürich"}))];
    assert_eq!((called.as_slice(), &said["stop"]), (&expected[..], &json!(StopReason::ToolUse)));
    assert_eq!(behind.request().await.body["tools"].as_array().map(Vec::len), Some(2));

    let (ended, heard) = (ask_for(&model, went_on(begun, &said)).await.1, behind.request().await.body);
    assert_eq!(ended, Ok(()));
    let roles: Vec<&str> = heard["messages"].as_array().unwrap().iter().filter_map(|it| it["role"].as_str()).collect();
    assert!(roles.ends_with(&["assistant", "tool", "tool"]), "{heard:#}");
    behind.close().await;
}

/// The schema of Claude's request works with other models: the upstream receives it in its own wire's format.
#[ignore = "needs LiteLLM: scripts/test --peers"]
#[tokio::test]
async fn litellm_carries_a_form() {
    let _turn = TURN.lock().await;
    let peer = Peer::find();
    let text = include_bytes!("../../cassettes/openai/openai_text.sse");
    let mut behind = Wire::at(&peer.behind, vec![vec![event_stream(), Step::Chunk(text.to_vec()), end()]]).await;
    let form = json!({
        "type": "object",
        "properties": {"answer": {"type": ["string", "null"]}},
        "required": ["answer"],
        "additionalProperties": false,
    });
    let asked =
        ModelRequest { model: "claude-sonnet-4-5".into(), response_schema: Some(form.clone().into()), ..request() };
    let (said, ended) = ask_for(&peer.model("anthropic", "sk-peer"), asked).await;
    assert_eq!((ended, &reply(said)["text"]), (Ok(()), &json!("The bill is 595 € (a < b).")));
    let heard = behind.request().await.body;
    assert_eq!(heard["response_format"]["json_schema"]["schema"], form, "{heard:#}");
    assert_eq!(heard.get("tools"), None);
    behind.close().await;
}

fn calls() -> Vec<Step> {
    let chunk = |delta: Value, reason: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        event(
            json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "has-tools", "choices": [choice]}),
        )
    };
    let mut steps = vec![event_stream()];
    for (index, id, name, pieces) in [
        (0, "call_a", "calculator", ["{\"expr", "ession\": \"1 + 1\"}"]),
        (1, "call_b", "current_time", ["{\"timezone\":", " \"Europe/Zürich\"}"]),
    ] {
        let begin = json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}});
        steps.push(chunk(json!({"role": "assistant", "tool_calls": [begin]}), None));
        for piece in pieces {
            steps.push(chunk(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}), None));
        }
    }
    steps.extend([chunk(json!({}), Some("tool_calls")), event("[DONE]"), end()]);
    steps
}

fn called(call: &Value) -> (&str, Value) {
    (call[1].as_str().unwrap(), serde_json::from_str(call[2].as_str().unwrap()).unwrap())
}

fn tool(name: &str) -> Arc<ToolSpec> {
    Arc::new(ToolSpec { input_schema: json!({"type": "object", "properties": {}}), ..spec(name) })
}

fn went_on(mut request: ModelRequest, said: &Value) -> ModelRequest {
    let calls = said["calls"].as_array().unwrap();
    let id = |call: &Value| call[0].as_str().unwrap().to_owned();
    let tool_calls = calls.iter().map(|call| {
        let (name, arguments) = called(call);
        PromptCall { id: id(call), name: name.to_owned(), arguments }
    });
    let tool_calls = tool_calls.collect();
    request.messages.push(PromptMessage::Assistant { content: String::new(), tool_calls, replay: None });
    for call in calls {
        let name = called(call).0.to_owned();
        request.messages.push(PromptMessage::Tool { tool_call_id: id(call), name, content: "2".to_owned() });
    }
    request
}
