//! Errors in OpenAI's format, and which of them its clients retry.

use serde_json::{Value, json};

use super::{CHAT, chat, said, with};
use crate::support::app::App;
use crate::support::http::{Said, soon};
use crate::support::store::Moody;

/// The error of a response that must not be retried.
fn error(answer: &Said, status: u16, code: &str, param: Option<&str>) -> Value {
    let error = answer.expect(status)["error"].clone();
    assert_eq!((error["code"].as_str(), error["param"].as_str()), (Some(code), param), "{error:#}");
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()) && error["type"].is_string());
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("x-should-retry"), Some("false"));
    assert!(answer.header("x-request-id").is_some_and(|id| id.len() == 32));
    error
}

#[tokio::test]
async fn what_cannot_be_honoured_is_refused_by_its_name() {
    let app = App::start().await;
    let function = json!({ "type": "function", "function": { "name": "f" } });
    for (more, code, param) in [
        (json!({ "model": "gpt-5" }), "model_not_found", "model"),
        (json!({ "n": 2 }), "unsupported", "n"),
        (json!({ "logprobs": true }), "unsupported", "logprobs"),
        (json!({ "modalities": ["text", "audio"] }), "unsupported", "modalities"),
        (json!({ "functions": [] }), "unsupported", "functions"),
        (json!({ "response_format": { "type": "grammar" } }), "unsupported", "response_format"),
        (json!({ "response_format": { "type": "json_schema" } }), "invalid", "response_format.json_schema.schema"),
        (
            json!({ "response_format": { "type": "json_schema", "json_schema": { "schema": { "type": "cat" } } } }),
            "invalid",
            "response_format",
        ),
        (json!({ "tools": [{ "type": "custom", "custom": { "name": "f" } }] }), "unsupported", "tools[0]"),
        (json!({ "tools": [function], "tool_choice": "required" }), "unsupported", "tool_choice"),
        (json!({ "tools": [function, function] }), "invalid", "tools[1].function.name"),
        (json!({ "tools": [{ "type": "function", "function": {} }] }), "invalid", "tools[0].function.name"),
        (json!({ "temperature": 9 }), "invalid", "temperature"),
        (json!({ "top_p": "much" }), "invalid", "top_p"),
        (json!({ "presence_penalty": 3 }), "invalid", "presence_penalty"),
        (json!({ "max_tokens": 0 }), "invalid", "max_completion_tokens"),
        (json!({ "stop": 1 }), "invalid", "stop"),
        (json!({ "messages": 1 }), "invalid", "messages"),
        (json!({ "messages": [] }), "invalid", "messages"),
        (json!({ "messages": [{ "role": "user", "content": " " }] }), "invalid", "messages"),
        (json!({ "messages": [{ "role": "king", "content": "" }] }), "invalid", "messages[0].role"),
        (json!({ "messages": [{ "role": "tool", "content": "" }] }), "invalid", "messages[0].tool_call_id"),
        (json!({ "messages": [{ "role": "tool", "tool_call_id": "x", "content": "" }] }), "invalid", "messages"),
        (
            json!({ "messages": [{ "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "image_url" }] }] }),
            "unsupported_content",
            "messages[0].content[1]",
        ),
        (json!({ "metadata": { "pes_thread": "a b" } }), "invalid", "metadata.pes_thread"),
        (json!({ "user": "a\nb" }), "invalid", "user"),
    ] {
        let answer = chat(&app, &with(said("hello"), more)).send().await;
        let status = if code == "model_not_found" { 404 } else { 400 };
        error(&answer, status, code, Some(param));
    }
    assert_eq!(app.get("/threads").await.expect(200)["items"], json!([]), "nothing was begun");
}

/// Its parameters have other names than those of a chat completion and of this server.
#[tokio::test]
async fn a_response_that_is_refused_names_its_own_parameters() {
    let app = App::start().await;
    let function = json!({ "type": "function", "name": "f" });
    let label = json!({ "type": "mcp", "server_label": "other" });
    for (more, code, param, says) in [
        (json!({ "max_output_tokens": 0 }), "invalid", "max_output_tokens", "`max_output_tokens`: must be a whole"),
        (json!({ "reasoning": { "effort": "x" } }), "invalid", "reasoning.effort", "`reasoning.effort`: must be none"),
        (json!({ "temperature": 9 }), "invalid", "temperature", "`temperature`: must be a number from 0 to 2"),
        (json!({ "tools": [function, function] }), "invalid", "tools[1].name", ""),
        (json!({ "tools": [label] }), "unsupported", "tools[0].server_label", "Only the label `pes`"),
        (json!({ "tool_choice": "required" }), "unsupported", "tool_choice", "or in a response as `text.format`."),
        (json!({ "conversation": 5 }), "invalid", "conversation", "It must be an id"),
        (
            json!({ "conversation": "c", "previous_response_id": "resp_run_1_1" }),
            "invalid",
            "previous_response_id",
            "not both",
        ),
    ] {
        let body = with(json!({ "model": "pes", "input": "hello" }), more);
        let answer = app.ask("POST", "/v1/responses").json(&body).send().await;
        let told = error(&answer, 400, code, Some(param))["message"].as_str().unwrap().to_owned();
        assert!(told.contains(says) && !told.contains("llmParams"), "{told}");
    }
    let named = chat(&app, &said("hello")).header("x-pes-thread", "a b").send().await;
    error(&named, 400, "invalid", Some("x-pes-thread"));
    assert_eq!(app.get("/threads").await.expect(200)["items"], json!([]), "nothing was begun");
}

#[tokio::test]
async fn what_front_ends_add_is_let_pass() {
    let app = App::start().await;
    let more = json!({
        "store": false, "service_tier": "auto", "prompt_cache_key": "k", "prediction": null, "verbosity": "low", "n": 1,
        "parallel_tool_calls": true, "web_search_options": {}, "logit_bias": {}, "session_id": "s", "chat_id": "c",
        "features": { "web_search": false }, "frequency_penalty": 0, "stream_options": null, "tools": null, "seed": 7,
        "temperature": 0.2, "top_p": 1, "stop": null, "response_format": { "type": "text" }, "tool_choice": "auto",
        "logprobs": false, "modalities": ["text"],
    });
    let answer = chat(&app, &with(said("hello"), more)).send().await.expect(200);
    assert_eq!(answer["choices"][0]["message"]["content"], "Hello there.");
}

#[tokio::test]
async fn a_request_that_is_none_is_refused_in_the_same_shape() {
    let app = App::start().await;
    error(&app.ask("POST", CHAT).typed("application/json", "{").send().await, 400, "malformed", None);
    error(&app.ask("POST", CHAT).typed("text/plain", "{}").send().await, 415, "unsupported_media_type", None);
    for (path, says) in [("embeddings", "embeddings"), ("completions", "/v1/chat/completions"), ("files", "see /docs")]
    {
        let told = error(&app.post(&format!("/v1/{path}"), json!({})).await, 404, "not_found", None);
        assert!(told["message"].as_str().unwrap().contains(says), "{told}");
    }
    let refused = app.get(CHAT).await;
    error(&refused, 405, "method_not_allowed", None);
    assert_eq!(refused.header("allow"), Some("POST"));
    let hot = chat(&app, &with(said("hello"), json!({ "temperature": 9 }))).send().await;
    let told = error(&hot, 400, "invalid", Some("temperature"))["message"].as_str().unwrap().to_owned();
    assert!(told.contains("a number from 0 to 2"), "{told}");
    error(&app.get("/v1/models?x=1").await, 400, "invalid", Some("x"));
    let keyed = App::with_keys().await;
    let refused = keyed.post(CHAT, said("hello")).await;
    error(&refused, 401, "invalid_api_key", None);
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    let reader = keyed.key("reader-0123456789abcdef0123456789");
    assert_eq!(error(&reader.post(CHAT, said("hello")).await, 403, "forbidden", None)["type"], "permission_error");
    reader.get("/v1/models").await.expect(200);
}

#[tokio::test]
async fn a_run_that_fails_is_an_error_whole_and_in_chunks() {
    let app = App::start().await;
    let failed = chat(&app, &said("fail")).header("x-pes-thread", "t").send().await;
    let whole = error(&failed, 400, "task_refused", None);
    assert_eq!(whole["type"], "server_error");
    let run = app.get("/threads/t/runs").await.expect(200)["items"][0]["runId"].clone();
    assert_eq!((failed.header("x-pes-thread"), failed.header("x-pes-run")), (Some("t"), run.as_str()));
    let streamed = super::streamed(&app, said("fail")).await;
    let last = streamed.chunks.last().unwrap();
    assert_eq!((last["error"]["code"].as_str(), streamed.finish()), (Some("task_refused"), None), "{last:#}");
    assert!(streamed.is_done);
}

/// Clients of other makers retry conflicts, and would begin anew what somebody stopped.
#[tokio::test]
async fn a_run_that_somebody_cancels_is_an_error_that_no_client_retries() {
    let app = App::start().await;
    let of_response = json!({ "model": "pes", "input": "hang", "conversation": "b" });
    for (thread, path, body) in [("a", CHAT, said("hang")), ("b", "/v1/responses", of_response)] {
        app.post("/threads", json!({ "threadId": thread })).await.expect(201);
        let begun = app.ask("GET", &format!("/threads/{thread}/events?types=RUN_STARTED&tokens=false"));
        let mut begun = begun.header("accept", "text/event-stream").events().await;
        let waiting = app.ask("POST", path).header("x-pes-thread", thread).json(&body);
        let waiting = tokio::spawn(async move { waiting.send().await });
        while soon(begun.next()).await.expect("it begins").event != "observation" {}
        app.post(&format!("/threads/{thread}/cancel"), json!({})).await.expect(202);
        error(&soon(waiting).await.unwrap(), 400, "run_cancelled", None);
    }
}

fn output(id: &str) -> Value {
    json!({ "type": "function_call_output", "call_id": id, "output": "1" })
}

fn approval(id: &str) -> Value {
    json!({ "type": "mcp_approval_response", "approval_request_id": id, "approve": true })
}

fn reference(id: &str) -> Value {
    json!({ "type": "item_reference", "id": id })
}

/// Ids in the format of questions' ids, of no question.
fn invented(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("sus_0199c82d-aa6a-7004-8b47-{at:012x}")).collect()
}

#[tokio::test]
async fn few_of_the_questions_that_a_client_invents_are_looked_for() {
    let store = Moody::fresh().await;
    let app = App::of(store.clone(), |_| {}).await;
    let called = |ids: &[String]| {
        let user = json!({ "role": "user", "content": "hello" });
        let results = ids.iter().map(|id| json!({ "role": "tool", "tool_call_id": id, "content": "1" }));
        json!({ "messages": std::iter::once(user).chain(results).collect::<Vec<_>>() })
    };
    let items = |ids: &[String], item: fn(&str) -> Value| {
        let hello = json!({ "role": "user", "content": "hello" });
        json!({ "model": "pes", "input": ids.iter().map(|id| item(id)).chain([hello]).collect::<Vec<_>>() })
    };
    let (many, others) = (invented(1_000), (0..1_000).map(|at| format!("call_{at}")).collect::<Vec<_>>());
    let respond = async |body: Value| app.ask("POST", "/v1/responses").json(&body).send().await;
    store.calls("find_row");
    for (ids, most) in [(&many, 64), (&others, 0)] {
        error(&chat(&app, &with(said("hello"), called(ids))).send().await, 400, "invalid", Some("messages"));
        assert_eq!(store.calls("find_row"), most);
        for item in [output as fn(&str) -> Value, approval] {
            error(&respond(items(ids, item)).await, 409, "already_resolved", Some("input"));
            assert_eq!(store.calls("find_row"), most);
        }
        // The conversation that it names does not exist, so a thread is created.
        respond(items(ids, reference)).await.expect(200);
        assert!(store.calls("find_row") < most + 40);
    }
    let more = invented(1_001);
    let refused = chat(&app, &with(said("hello"), called(&more))).send().await;
    assert!(error(&refused, 400, "invalid", Some("messages"))["message"].as_str().unwrap().contains("1000"));
    for item in [output as fn(&str) -> Value, approval] {
        let refused = error(&respond(items(&more, item)).await, 400, "invalid", Some("input"));
        assert!(refused["message"].as_str().unwrap().contains("1000"), "{refused:#}");
    }
}
