//! A whole run on each wire: what the vendor expects back within a tool loop survives plan, state and prompt unchanged.

use std::path::Path;

use pes::config::{Config, Provider};
use serde_json::{Value, json};

use super::speech::Speech;
use crate::support::app::App;
use crate::support::wire::{Request, Step, Wire, end};

/// A run of four calls: the plan, a reply of this cassette, the item's answer, the synthesis. Returns the third
/// request.
async fn third(speech: &Speech, cassette: &str, options: Value, change: impl FnOnce(&mut Config, &Wire)) -> Request {
    let item = json!({"id": "a", "description": "Compute", "stepType": "tool", "requiredTools": ["calculator"]});
    let plan = json!({"title": "t", "intent": "i", "plan": "p", "todoList": [item]}).to_string();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cassettes").join(cassette);
    let recorded = vec![Step::Chunk(std::fs::read(path).unwrap())];
    let steps = [speech.whole(&plan), recorded, speech.whole("71.40"), speech.whole("It is 71.40.")];
    let steps = steps.into_iter().map(|steps| [vec![speech.head()], steps, vec![end()]].concat());
    let mut wire = Wire::serve(steps.collect()).await;
    let app = App::with(|config| change(config, &wire)).await;
    let ask = app.ask("POST", "/threads/t/process").header("prefer", "wait=30");
    let said = ask.json(&json!({"query": "12% of 595?", "options": options})).send().await.expect(200);
    assert_eq!(said["response"]["content"], "It is 71.40.", "{said:#}");
    wire.request().await;
    wire.request().await;
    wire.request().await
}

#[tokio::test]
async fn signed_thinking_comes_back_before_its_call() {
    let options = json!({"llmParams": {"reasoningEffort": "low"}});
    let asked = third(Speech::of("anthropic"), "anthropic/thinking_tools.sse", options, |config, wire| {
        config.models.anthropic.base_url = Some(format!("http://{}", wire.address));
    })
    .await;
    let messages = asked.body["messages"].as_array().unwrap();
    let [.., reply, result] = messages.as_slice() else { panic!("{messages:?}") };
    let kinds: Vec<&str> = reply["content"].as_array().unwrap().iter().filter_map(|it| it["type"].as_str()).collect();
    assert_eq!(kinds, ["thinking", "redacted_thinking", "tool_use"]);
    assert_eq!(reply["content"][0]["signature"], "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds");
    assert_eq!(reply["content"][2]["id"], result["content"][0]["tool_use_id"]);
    assert_eq!(asked.body["thinking"]["type"], "enabled");
}

#[tokio::test]
async fn thought_signatures_come_back_with_their_call() {
    let asked = third(Speech::of("gemini"), "gemini/tools_signed.sse", json!({}), |config, wire| {
        config.models.gemini.base_url = Some(format!("http://{}/v1beta", wire.address));
    })
    .await;
    let contents = asked.body["contents"].as_array().unwrap();
    let [.., reply, results] = contents.as_slice() else { panic!("{contents:?}") };
    let [first, second] = reply["parts"].as_array().unwrap().as_slice() else { panic!("{reply:#}") };
    assert_eq!((&first["thoughtSignature"], second.get("thoughtSignature")), (&json!("c2lnQg=="), None));
    assert_eq!(results["parts"][1]["functionResponse"]["name"], "current_time");
}

#[tokio::test]
async fn reasoning_comes_back_where_a_dialect_wants_it() {
    let asked = third(Speech::of("openai"), "openai/deepseek_tools.sse", json!({}), |config, wire| {
        let (base_url, model) = (Some(wire.url()), Some("deepseek-chat".to_owned()));
        config.models.providers.insert("deepseek".to_owned(), Provider { base_url, model, ..Provider::default() });
    })
    .await;
    let messages = asked.body["messages"].as_array().unwrap();
    let [.., reply, result] = messages.as_slice() else { panic!("{messages:?}") };
    assert_eq!(reply["reasoning_content"], "I need the tool.");
    assert_eq!(reply["tool_calls"][0]["id"], result["tool_call_id"]);
}

/// The caller's trace contains every model call, each under a span of its own, with the caller's sampling decision.
#[tokio::test]
async fn every_call_of_a_model_tells_of_its_callers_trace() {
    let (speech, trace) = (Speech::of("openai"), "4bf92f3577b34da6a3ce929d0e0e4736");
    let item = json!({"id": "a", "description": "Say it", "stepType": "reasoning"});
    let plan = json!({"title": "t", "intent": "i", "plan": "p", "todoList": [item]}).to_string();
    let replies = [plan.as_str(), "Said.", "It is said."]
        .map(|text| [vec![speech.head()], speech.whole(text), vec![end()]].concat());
    let mut wire = Wire::serve(replies.to_vec()).await;
    let app = App::with(|config| config.models.openai.base_url = Some(wire.url())).await;
    let ask =
        app.ask("POST", "/threads/t/process").header("prefer", "wait=30").header("tracestate", "congo=t61rcWkgMzE");
    let ask = ask.header("traceparent", &format!("00-{trace}-00f067aa0ba902b7-00"));
    ask.json(&json!({"query": "say it"})).send().await.expect(200);
    let mut spans = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let request = wire.request().await;
        let parent = request.header("traceparent").unwrap().to_owned();
        assert!(parent.starts_with(&format!("00-{trace}-")) && parent.ends_with("-00"), "{parent}");
        assert_eq!(request.header("tracestate"), Some("congo=t61rcWkgMzE"));
        spans.insert(parent);
    }
    assert_eq!(spans.len(), 3);
}
