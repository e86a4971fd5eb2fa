//! Common mistakes in handling model replies, each tested over a real socket through the whole server.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::wire::{Step, Wire, end, event, event_stream};

fn chunk(delta: Value, reason: Value) -> Step {
    event(json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}))
}

fn usage() -> Step {
    event(json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}))
}

/// A reply in these pieces.
fn says(pieces: &[&str]) -> Vec<Step> {
    let pieces = pieces.iter().map(|piece| chunk(json!({"content": piece}), Value::Null));
    let ending = [chunk(json!({}), json!("stop")), usage(), end()];
    [event_stream()].into_iter().chain(pieces).chain(ending).collect()
}

fn plan() -> String {
    let item = json!({"id": "a", "description": "Compute", "stepType": "tool", "requiredTools": ["calculator"]});
    json!({"title": "t", "intent": "i", "plan": "p", "todoList": [item]}).to_string()
}

fn calls(expressions: &[&str]) -> Vec<Step> {
    calls_named(expressions, |index| format!("c{index}"))
}

fn calls_named(expressions: &[&str], id: impl Fn(usize) -> String) -> Vec<Step> {
    let call = |(index, expression): (usize, &&str)| {
        let function = json!({"name": "calculator", "arguments": json!({"expression": expression}).to_string()});
        chunk(json!({"tool_calls": [{"index": index, "id": id(index), "function": function}]}), Value::Null)
    };
    let calls = expressions.iter().enumerate().map(call);
    let ending = [chunk(json!({}), json!("tool_calls")), usage(), end()];
    [event_stream()].into_iter().chain(calls).chain(ending).collect()
}

/// A server whose model gives these replies, one a call.
async fn start(replies: Vec<Vec<Step>>) -> (App, Wire) {
    let wire = Wire::serve(replies).await;
    let url = wire.url();
    (App::with(|config| config.models.openai.base_url = Some(url)).await, wire)
}

/// The run's answer, and the text of each kind of token in its last stream.
async fn heard(app: &App) -> (Value, BTreeMap<String, String>) {
    let ask = app.ask("POST", "/threads/t/process").header("accept", "text/event-stream");
    let events = ask.json(&json!({"query": "how much?"})).events().await.all().await;
    let (mut said, mut answer) = (BTreeMap::<String, String>::new(), Value::Null);
    for event in events {
        let data = event.data;
        if event.event == "token" {
            let kind = data["tokenType"].as_str().unwrap().to_owned();
            said.entry(kind).or_default().push_str(data["data"].as_str().unwrap());
        } else if data["type"] == "FINAL_RESPONSE" {
            answer = data["content"]["message"]["content"].clone();
        }
    }
    (answer, said)
}

#[tokio::test]
async fn no_text_is_lost_before_an_angle_bracket_nor_taken_for_thinking() {
    let (before, after) = (["1 < 2, and <b>bold</b> <", "think>so 3 < 4"], ["</thi", "nk> so 5 < 6 <"]);
    let steps = [says(&[&plan()]), calls(&["1"]), says(&["done"]), says(&[before, after].concat())];
    let (app, _wire) = start(steps.into()).await;
    let (answer, said) = heard(&app).await;
    assert_eq!(answer, "1 < 2, and <b>bold</b>  so 5 < 6 <");
    assert_eq!(said["SYNTHESIS_LLM_RESPONSE"], answer.as_str().unwrap());
    assert_eq!(said["SYNTHESIS_LLM_THINKING"], "so 3 < 4");
}

#[tokio::test]
async fn thinking_that_is_never_closed_is_no_answer() {
    let steps = [says(&[&plan()]), calls(&["1"]), says(&["done"]), says(&["It is 1.", "<think>or is it"])];
    let (app, _wire) = start(steps.into()).await;
    let (answer, said) = heard(&app).await;
    assert_eq!((answer.as_str(), said["SYNTHESIS_LLM_THINKING"].as_str()), (Some("It is 1."), "or is it"));
}

/// Some servers repeat in every piece all text so far, or the whole text at the end.
#[tokio::test]
async fn no_text_is_doubled() {
    let so_far = |piece: &str, so_far: &str, reason: Value| {
        let (delta, message) = (json!({"content": piece}), json!({"role": "assistant", "content": so_far}));
        event(json!({"choices": [{"index": 0, "delta": delta, "message": message, "finish_reason": reason}]}))
    };
    let whole = event(json!({"choices": [{"index": 0, "message": {"content": "It is 1."}, "finish_reason": "stop"}]}));
    let pieces = [so_far("It is", "It is", Value::Null), so_far(" 1.", "It is 1.", Value::Null)];
    for ending in [so_far("", "It is 1.", json!("stop")), whole] {
        let answer = [vec![event_stream()], pieces.to_vec(), vec![ending, end()]].concat();
        let steps = [says(&[&plan()]), calls(&["1"]), says(&["done"]), answer];
        let (app, _wire) = start(steps.into()).await;
        let (answer, said) = heard(&app).await;
        assert_eq!((answer.as_str(), said["SYNTHESIS_LLM_RESPONSE"].as_str()), (Some("It is 1."), "It is 1."));
    }
}

#[tokio::test]
async fn usage_is_the_sum_of_all_calls_and_every_result_follows_its_call() {
    let steps = [says(&[&plan()]), calls(&["1 +", "2"]), calls(&["3"]), says(&["done"]), says(&["It is 3."])];
    let (app, mut wire) = start(steps.into()).await;
    let run = app.finish("t", "how much?").await;
    let summed = &run["metadata"]["llmMetadata"];
    assert_eq!((&summed["inputTokens"], &summed["outputTokens"]), (&json!(50), &json!(25)), "{run:#}");
    let mut results = Vec::new();
    for _ in 0..5 {
        let body = wire.request().await.body;
        let mut open: Vec<Value> = Vec::new();
        results.push(0);
        for message in body["messages"].as_array().unwrap() {
            match message["role"].as_str().unwrap() {
                "tool" => {
                    assert_eq!(Some(&message["tool_call_id"]), open.first(), "in the order of the calls: {body:#}");
                    open.remove(0);
                    *results.last_mut().unwrap() += 1;
                }
                _ => {
                    assert_eq!(open, [] as [Value; 0], "a call without its result: {body:#}");
                    let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
                    open = calls.iter().map(|call| call["id"].clone()).collect();
                }
            }
        }
        assert_eq!(open, [] as [Value; 0]);
    }
    assert_eq!(results, [0, 0, 2, 3, 0], "errors are results, too");
}

/// Some servers stream parallel calls under one id: each call runs and gets its own result.
#[tokio::test]
async fn calls_of_one_id_are_told_apart() {
    let twins = calls_named(&["20 + 1", "30 + 2"], |_| "call_0".to_owned());
    let steps = [says(&[&plan()]), twins, says(&["done"]), says(&["It is 21 and 32."])];
    let (app, mut wire) = start(steps.into()).await;
    app.finish("t", "how much?").await;
    wire.request().await;
    wire.request().await;
    let body = wire.request().await.body;
    let messages = body["messages"].as_array().unwrap();
    let [.., reply, first, second] = messages.as_slice() else { panic!("{body:#}") };
    for (at, (result, brought)) in [(first, "21"), (second, "32")].into_iter().enumerate() {
        assert!(result["content"].as_str().unwrap().contains(brought), "{result}");
        assert_eq!(result["tool_call_id"], reply["tool_calls"][at]["id"]);
    }
    assert_ne!(first["tool_call_id"], second["tool_call_id"], "the second is known by an id of ours");
}

#[tokio::test]
async fn words_of_an_attempt_that_broke_off_are_never_mixed_with_those_of_the_next() {
    let whole = json!({"title": "t", "intent": "i", "plan": "p", "answer": "whole", "todoList": []}).to_string();
    let broken = vec![event_stream(), chunk(json!({"content": "{\"answer\": \"lost"}), Value::Null), Step::Cut];
    let (app, _wire) = start(vec![broken, says(&[&whole])]).await;
    let ask = app.ask("POST", "/threads/t/process").header("accept", "text/event-stream");
    let events = ask.json(&json!({"query": "how much?"})).events().await.all().await;
    let (mut said, mut starts, mut errors) = (BTreeMap::<String, String>::new(), Vec::new(), Vec::new());
    for event in events {
        let data = event.data;
        let stream = |of: &Value| of["streamId"].as_str().unwrap().to_owned();
        match (event.event.as_str(), data["type"].as_str()) {
            ("token", _) => {
                let text = said.entry(stream(&data)).or_default();
                assert_eq!(data["offset"], text.len(), "counted from the beginning of its own stream");
                text.push_str(data["data"].as_str().unwrap());
            }
            (_, Some("LLM_STREAM_START")) => starts.push(stream(&data["content"])),
            (_, Some("LLM_STREAM_ERROR")) => errors.push(data["content"].clone()),
            (_, Some("FINAL_RESPONSE")) => assert_eq!(data["content"]["message"]["content"], "whole"),
            _ => {}
        }
    }
    let ([first, second], [error]) = (&starts[..], &errors[..]) else { panic!("{starts:?} {errors:?}") };
    assert_eq!((said[first].as_str(), &said[second]), ("{\"answer\": \"lost", &whole));
    assert_eq!((&error["streamId"], &error["code"]), (&json!(first), &json!("incomplete")));
}
