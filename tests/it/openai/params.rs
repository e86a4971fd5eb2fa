//! Parameters of the answer, and requests that front ends make for themselves.

use std::sync::Arc;
use std::time::Duration;

use pes::Instance;
use pes::runtime::clock::{Clock, Manual, System};
use pes::service::{retention, runs, threads};
use serde_json::{Value, json};

use super::beside::LOCATES;
use super::{chat, said, with};
use crate::support::app::App;
use crate::support::demo;
use crate::support::http::{soon, until};
use crate::support::store::fresh_store;

/// The settings with which the answer's run was accepted.
async fn options(app: &App, body: &Value) -> Value {
    let answer = chat(app, body).send().await;
    answer.expect(200);
    app.get(&format!("/runs/{}", answer.header("x-pes-run").unwrap())).await.expect(200)["options"].clone()
}

#[tokio::test]
async fn what_bounds_an_answer_bounds_no_plan() {
    let app = App::start().await;
    for name in ["max_tokens", "max_completion_tokens"] {
        let more = json!({
            name: 9, "stop": ["END"], "frequency_penalty": 0.5, "presence_penalty": -1, "temperature": 0.2, "top_p": 0.9,
        });
        let options = options(&app, &with(said("hello"), more)).await;
        assert_eq!(options["llmParams"], json!({ "temperature": 0.2, "topP": 0.9 }));
        let of_answer = json!({ "maxTokens": 9, "stop": ["END"], "frequencyPenalty": 0.5, "presencePenalty": -1 });
        assert_eq!(options["synthesisParams"], of_answer);
    }
    let body = json!({ "model": "pes", "input": "hello", "max_output_tokens": 9 });
    let response = app.ask("POST", "/v1/responses").json(&body).send().await.expect(200);
    let run = app.get(&format!("/runs/{}", response["metadata"]["pes_run"].as_str().unwrap())).await.expect(200);
    assert_eq!(run["options"]["synthesisParams"], json!({ "maxTokens": 9 }));
}

#[tokio::test]
async fn what_the_system_says_in_the_input_of_a_response_is_told_to_the_model() {
    let app = App::start().await;
    let input = json!([
        { "role": "system", "content": "Answer in French." },
        { "role": "developer", "content": [{ "type": "input_text", "text": "Be short." }] },
        { "role": "system", "content": " " },
        { "role": "user", "content": "hello" },
    ]);
    for (instructions, expected) in [
        (Value::Null, "Answer in French.\n\nBe short."),
        (json!("You are Ana."), "You are Ana.\n\nAnswer in French.\n\nBe short."),
    ] {
        let body = json!({ "model": "pes", "input": input, "instructions": instructions });
        let response = app.ask("POST", "/v1/responses").json(&body).send().await.expect(200);
        let thread = response["metadata"]["pes_thread"].as_str().unwrap();
        let calls = app.observed(thread, "LLM_STREAM_START").await;
        let call = calls[0]["content"]["streamId"].as_str().unwrap();
        let prompt = app.get(&format!("/threads/{thread}/streams/{call}")).await.expect(200).to_string();
        assert!(prompt.contains(&json!(expected).to_string().trim_matches('"').to_owned()), "{prompt}");
    }
}

#[tokio::test]
async fn nothing_stays_of_what_a_front_end_asks_for_itself_and_does_not_wait_for() {
    let app = App::start().await;
    let task = chat(&app, &with(said("for ever"), json!({ "stream": true }))).header("x-pes-task", "tags");
    let mut stream = task.events().await;
    soon(stream.next()).await.expect("it has begun");
    let threads = async || app.get("/threads").await.expect(200)["items"].as_array().unwrap().clone();
    assert_eq!(threads().await.len(), 1);
    drop(stream);
    until("none is left", async || threads().await.is_empty()).await;
}

#[tokio::test]
async fn nor_where_the_server_stops_before_it_is_answered() {
    let store = fresh_store().await;
    // The stop does not wait long for the reply, which never ends.
    let app = App::of(store.clone(), |config| config.runtime.drain_ms = 2_600).await;
    chat(&app, &said("hello")).header("x-pes-thread", "mine").send().await.expect(200);
    let task = chat(&app, &with(said("for ever"), json!({ "stream": true }))).header("x-pes-task", "tags");
    let mut stream = task.events().await;
    soon(stream.next()).await.expect("it has begun");
    let runs = app.get("/runs").await.expect(200);
    let run = runs["items"].as_array().unwrap().iter().find(|run| run["threadId"] != "mine").unwrap().clone();
    app.stopped().await;
    drop(stream);
    let clock = Arc::new(Manual::at(System::default().now()));
    let instance = Instance::build(demo::at_once()).store(store).clock(clock.clone()).open().await.unwrap();
    let (service, caller) = (instance.service(), instance.caller());
    let is_there = async |thread: &str| threads::get(service, caller, &thread.into()).await.is_ok();
    // A started run continues, though nobody waits for it any more.
    let ended = runs::wait(service, caller, &run["runId"].as_str().unwrap().into(), Duration::from_secs(30)).await;
    assert!(ended.unwrap().run.status.is_terminal());
    let thread = run["threadId"].as_str().unwrap();
    retention::sweep(service).await.unwrap();
    assert!(is_there(thread).await && is_there("mine").await);
    clock.advance(25 * 3_600_000);
    retention::sweep(service).await.unwrap();
    assert!(!is_there(thread).await && is_there("mine").await);
}

#[tokio::test]
async fn what_a_front_end_asks_for_itself_is_no_part_of_a_conversation() {
    let app = App::start().await;
    chat(&app, &said("hello")).header("x-openwebui-chat-id", "c").send().await.expect(200);
    let title = "### Task:\nWrite a title for\n<chat_history>\nUSER: hello\n</chat_history>";
    let tools = json!([{ "type": "function", "function": { "name": "f" } }]);
    let named =
        |text: &str| chat(&app, &with(said(text), json!({ "tools": tools }))).header("x-openwebui-chat-id", "c");
    for ask in [named(title), named("count").header("x-pes-task", "title_generation")] {
        let answer = ask.send().await;
        assert!(answer.expect(200)["choices"][0]["message"]["content"].is_string());
        assert_ne!(answer.header("x-pes-thread"), Some("c"));
        app.get(&format!("/runs/{}", answer.header("x-pes-run").unwrap())).await.expect(404);
    }
    let streamed = named("hello").header("x-pes-task", "tags").json(&with(said("hello"), json!({ "stream": true })));
    assert!(super::Streamed::of(&streamed.send().await).is_done);
    // As opencode asks for a title.
    let message = |role: &str, text: &str| json!({ "role": role, "content": text });
    let title = json!([
        message("system", "You are a title generator. You output ONLY a thread title."),
        message("user", "Generate a title for this conversation:\n"),
        message("user", "count\n"),
    ]);
    assert!(super::streamed(&app, json!({ "model": "pes", "messages": title })).await.is_done);
    let threads = app.get("/threads").await.expect(200);
    assert_eq!(threads["items"].as_array().unwrap().len(), 1, "{threads:#}");
    let said = app.get("/threads/c/messages").await.expect(200);
    assert_eq!(said["items"].as_array().unwrap().len(), 2);
    // A question about documents starts the same way, and an unfilled header template names no task.
    let about = named("### Task:\nAnswer from\n<context>\nx\n</context>").send().await;
    assert_eq!(about.header("x-pes-thread"), Some("c"));
    let unfilled = named("hello").header("x-pes-task", "{{TASK}}").send().await;
    assert_eq!(unfilled.header("x-pes-thread"), Some("c"));
}

/// As Codex declares those of its sub-agents.
#[tokio::test]
async fn a_function_of_a_namespace_is_called_with_the_namespace() {
    let app = App::scripted(LOCATES, |_| {}).await;
    let function = json!({ "type": "function", "name": "get_location", "parameters": { "type": "object" } });
    let namespace = |tool: &Value| json!({ "type": "namespace", "name": "places", "tools": [tool] });
    let respond = |input: Value, tool: &Value| {
        let body = json!({ "model": "pes", "input": input, "tools": [tool] });
        app.ask("POST", "/v1/responses").json(&body).send()
    };
    for (tool, name) in [(namespace(&function), json!("places")), (function.clone(), Value::Null)] {
        let asked = respond(json!("where"), &tool).await.expect(200);
        let call = asked["output"].as_array().unwrap().iter().find(|item| item["type"] == "function_call").unwrap();
        assert_eq!((&call["name"], &call["namespace"]), (&json!("get_location"), &name));
        let result = json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "Rome" });
        let done = respond(json!([{ "role": "user", "content": "where" }, call, result]), &tool).await.expect(200);
        assert_eq!(done["output"].as_array().unwrap().last().unwrap()["content"][0]["text"], "You are in Rome.");
    }
    let refused = respond(json!("where"), &namespace(&json!({ "type": "web_search" }))).await.expect(400);
    assert_eq!(refused["error"]["param"], "tools[0].tools[0]");
}

/// A plan of one item, followed by the answer.
pub const READS: &str = r#"
[[reply]]
when = { phase = "planning" }
json = { title = "T", intent = "I", plan = "P", todoList = [{ id = "a", description = "Read", stepType = "reasoning" }] }

[[reply]]
when = { phase = "execution" }
text = "Read."
"#;

const CITING: &str = r#"
[[reply]]
when = { phase = "synthesis" }
text = """
<mainContent>So it is.</mainContent>
<uiMetadata>{"sources": [{"sourceName": "A book", "url": "https://books.example/a"}, {"url": "javascript:x"}]}</uiMetadata>
"""
"#;

#[tokio::test]
async fn what_an_answer_rests_on_is_cited() {
    let app = App::scripted(&[READS, CITING].concat(), |_| {}).await;
    let cited = json!({ "url": "https://books.example/a", "title": "A book", "start_index": 0, "end_index": 9 });
    let whole = chat(&app, &said("read")).send().await.expect(200);
    let message = &whole["choices"][0]["message"];
    assert_eq!(message["content"], "So it is.");
    assert_eq!(message["annotations"], json!([{ "type": "url_citation", "url_citation": cited }]));
    let streamed = super::streamed(&app, said("read")).await;
    assert_eq!(streamed.joined("content"), "So it is.");
    assert!(streamed.deltas().any(|delta| delta["annotations"] == message["annotations"]), "{streamed:#?}");

    let flat = with(cited, json!({ "type": "url_citation" }));
    let ask = app.ask("POST", "/v1/responses").json(&json!({ "model": "pes", "input": "read", "stream": true }));
    let live = ask.events().await.all().await;
    let added = live.iter().find(|event| event.event == "response.output_text.annotation.added").expect("it is told");
    assert_eq!(added.data["annotation"], flat);
    let response = &live.last().unwrap().data["response"];
    let answer = response["output"].as_array().unwrap().last().unwrap();
    assert_eq!(answer["content"][0]["annotations"], json!([flat]));
    let path = format!("/v1/responses/{}?stream=true", response["id"].as_str().unwrap());
    assert_eq!(app.ask("GET", &path).events().await.all().await, live);
}

/// The answer of this script is cut off.
const CUT: &str = r#"
[[reply]]
when = { phase = "synthesis" }
text = "So it is, and then"
stop = "max_tokens"
"#;

#[tokio::test]
async fn an_answer_that_was_cut_off_says_so() {
    let app = App::scripted(&[READS, CUT].concat(), |_| {}).await;
    let as_long_as_allowed = with(said("read"), json!({ "max_tokens": 5 }));
    let choice = &chat(&app, &as_long_as_allowed).send().await.expect(200)["choices"][0];
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("length"), &json!("So it is, and then"))
    );
    let streamed = super::streamed(&app, as_long_as_allowed).await;
    assert_eq!((streamed.finish(), streamed.joined("content").as_str()), (Some("length"), "So it is, and then"));
    let body = json!({ "model": "pes", "input": "read", "max_output_tokens": 5, "stream": true });
    let last = app.ask("POST", "/v1/responses").json(&body).events().await.all().await.pop().unwrap();
    assert_eq!(last.event, "response.incomplete");
    let response = &last.data["response"];
    assert_eq!(
        (&response["status"], &response["incomplete_details"]["reason"]),
        (&json!("incomplete"), &json!("max_output_tokens"))
    );
    let path = format!("/v1/responses/{}", response["id"].as_str().unwrap());
    assert_eq!(app.get(&path).await.expect(200)["status"], "incomplete");

    let message = json!({ "id": "m1", "role": "user", "parts": [{ "type": "text", "text": "read" }] });
    let pes = json!({ "options": { "synthesisParams": { "maxTokens": 5 } } });
    let body = json!({ "id": "c", "messages": [message], "trigger": "submit-message", "pes": pes });
    let text = app.ask("POST", "/api/chat").json(&body).send().await.text().to_owned();
    assert!(text.contains(r#""finishReason":"length""#), "{text}");
}
