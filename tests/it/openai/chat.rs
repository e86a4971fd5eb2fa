//! `POST /v1/chat/completions`: turns, functions of the client, questions to a person, and disconnects.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{CHAT, Streamed, chat, said, stands, streamed, with};
use crate::support::app::App;
use crate::support::http::soon;

fn named(text: &str, thread: &str) -> Value {
    with(said(text), json!({ "metadata": { "pes_thread": thread } }))
}

/// A thread whose calculations a person approves.
async fn gated(app: &App, thread: &str) {
    let config = json!({ "toolPolicy": { "calculator": "ask" } });
    app.post("/threads", json!({ "threadId": thread, "config": config })).await.expect(201);
}

#[tokio::test]
async fn an_answer_comes_whole() {
    let app = App::start().await;
    let answer = chat(&app, &said("count")).send().await;
    let completion = answer.expect(200);
    let message = &completion["choices"][0]["message"];
    assert_eq!((completion["object"].as_str(), completion["model"].as_str()), (Some("chat.completion"), Some("pes")));
    assert_eq!((&message["role"], &message["content"]), (&json!("assistant"), &json!("Two and two are four.")));
    assert_eq!((&message["refusal"], &completion["choices"][0]["finish_reason"]), (&Value::Null, &json!("stop")));
    let reasoning =
        "Count\n- Add two and two\n▸ Add two and two\n· calculator({\"expression\":\"2 + 2\"})\n✓ Add two and two\n";
    assert_eq!(message["reasoning_content"], reasoning);
    let usage = &completion["usage"];
    let total = usage["prompt_tokens"].as_u64().unwrap() + usage["completion_tokens"].as_u64().unwrap();
    assert!(total > 0 && usage["total_tokens"] == total, "{usage}");
    // The thread's location here.
    let (thread, run) = (answer.header("x-pes-thread").unwrap(), answer.header("x-pes-run").unwrap());
    assert_eq!(completion["id"], format!("chatcmpl-{run}"));
    let found = app.get(&format!("/runs/{run}")).await.expect(200);
    assert_eq!((found["threadId"].as_str(), thread.starts_with("chat-")), (Some(thread), true));
    assert_eq!(found["result"]["metadata"]["status"], "success");
    assert_eq!(found["traceId"].as_str(), answer.header("x-request-id"));
}

#[tokio::test]
async fn chunks_add_up_to_the_stored_answer() {
    let app = App::with(|config| config.models.demo.pace_ms = 5).await;
    let body = with(said("count"), json!({ "stream": true, "stream_options": { "include_usage": true } }));
    // As the SDKs send it: with `Accept` for JSON, whatever is to come.
    let answer = chat(&app, &body).header("accept", "application/json").send().await;
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    let streamed = Streamed::of(&answer);
    assert_eq!(streamed.chunks[0]["choices"][0]["delta"], json!({ "role": "assistant", "content": "" }));
    assert_eq!(streamed.joined("content"), "Two and two are four.");
    assert!(streamed.deltas().filter(|delta| delta["content"].is_string()).count() > 2, "{:#?}", streamed.chunks);
    assert!(streamed.joined("reasoning_content").contains("▸ Add two and two\n"));
    assert_eq!((streamed.finish(), streamed.is_done), (Some("stop"), true));
    let last = streamed.chunks.last().unwrap();
    assert_eq!((&last["choices"], last["usage"]["total_tokens"].is_u64()), (&json!([]), true));
    let without = super::streamed(&app, said("hello")).await;
    assert!(without.chunks.iter().all(|chunk| chunk.get("usage").is_none()));
    assert_eq!(without.joined("content"), "Hello there.");
}

#[tokio::test]
async fn a_named_thread_has_the_truth_about_what_was_said() {
    let app = App::start().await;
    for name in ["x-pes-thread", "x-openwebui-chat-id"] {
        let thread = format!("mine-{}", name.len());
        let first = chat(&app, &said("hello")).header(name, &thread).send().await;
        assert_eq!((first.status, first.header("x-pes-thread")), (200, Some(thread.as_str())));
        let messages = json!([
            { "role": "system", "content": "Be short." },
            { "role": "user", "content": "hello" },
            { "role": "assistant", "content": "<think>x</think>Hello there." },
            { "role": "user", "content": [{ "type": "text", "text": "hello" }] },
        ]);
        let second = with(said(""), json!({ "messages": messages, "user": "ana", "metadata": { "k": "v" } }));
        let second = chat(&app, &second).header(name, &thread).send().await.expect(200);
        assert_eq!(second["choices"][0]["message"]["content"], "Hello there.");
        let said = app.get(&format!("/threads/{thread}/messages")).await.expect(200);
        let texts: Vec<&str> =
            said["items"].as_array().unwrap().iter().map(|message| message["content"].as_str().unwrap()).collect();
        assert_eq!(texts, ["hello", "Hello there.", "hello", "Hello there."]);
        assert_eq!(said["items"][2]["metadata"]["openai"], json!({ "k": "v" }));
    }
}

#[tokio::test]
async fn a_conversation_that_names_no_thread_is_taken_in() {
    let app = App::start().await;
    let messages = json!([
        { "role": "user", "content": "My name is Ana." },
        { "role": "assistant", "content": "Hello Ana.", "tool_calls": [{ "id": "call_x" }] },
        { "role": "tool", "tool_call_id": "call_x", "content": "1" },
        { "role": "assistant", "content": null },
        { "role": "user", "content": "hello" },
    ]);
    let answer = chat(&app, &with(said(""), json!({ "messages": messages }))).send().await;
    assert_eq!(answer.expect(200)["choices"][0]["message"]["content"], "Hello there.");
    let thread = answer.header("x-pes-thread").unwrap();
    let said = app.get(&format!("/threads/{thread}/messages")).await.expect(200);
    let texts: Vec<&str> = said["items"].as_array().unwrap().iter().map(|it| it["content"].as_str().unwrap()).collect();
    assert_eq!(texts, ["My name is Ana.", "Hello Ana.", "hello", "Hello there."]);
}

#[tokio::test]
async fn what_is_asked_is_answered_on_the_same_thread() {
    let app = App::with(|config| config.server.public_url = Some("https://pes.example".to_owned())).await;
    gated(&app, "t").await;
    let asked = chat(&app, &named("count", "t")).send().await.expect(200);
    let question = asked["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    assert!(question.contains("Tool `calculator`:\n\n```json\n{"), "{question}");
    assert!(
        question.contains("Reply `yes` to approve or `no` to reject. Or answer at https://pes.example/#/questions/")
    );
    assert_eq!(asked["choices"][0]["finish_reason"], "stop");
    // An unclear text repeats the question, and nothing runs.
    let again = super::streamed(&app, named("yes, but only one", "t")).await;
    assert_eq!((again.joined("content"), again.finish()), (question, Some("stop")));
    let done = super::streamed(&app, named("Yes.", "t")).await;
    assert_eq!((done.joined("content").as_str(), done.finish()), ("Two and two are four.", Some("stop")));
    let log = app.observed("t", "AGENT_RESUMED,TOOL_EXECUTION,RUN_STARTED").await;
    let kinds: Vec<&str> = log.iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["RUN_STARTED", "AGENT_RESUMED", "TOOL_EXECUTION"]);
    assert!(log[1]["content"]["digest"].is_string(), "it is bound to what was shown: {log:#?}");
}

#[tokio::test]
async fn a_no_may_say_why() {
    let app = App::start().await;
    gated(&app, "t").await;
    super::streamed(&app, named("count", "t")).await;
    let done = super::streamed(&app, named("no, it is too late", "t")).await;
    assert_eq!(done.joined("content"), "Two and two are four.");
    assert_eq!(app.observed("t", "AGENT_RESUMED").await[0]["content"]["reason"], "it is too late");
}

#[tokio::test]
async fn a_key_that_may_not_approve_adds_information_and_decides_nothing() {
    let app = App::with(|config| {
        config.auth.keys =
            ["one/boss:admin:boss-0123456789abcdef0123456789", "one/asker:read+run:asker-0123456789abcdef012345"]
                .map(|key| key.parse().unwrap())
                .to_vec();
    })
    .await
    .key("asker-0123456789abcdef012345");
    gated(&app, "t").await;
    let question = super::streamed(&app, named("count", "t")).await.joined("content");
    assert_eq!(super::streamed(&app, named("yes", "t")).await.joined("content"), question);
    let log = app.observed("t", "AGENT_RESUMED").await;
    assert!(log.is_empty(), "{log:#?}");
    let word = super::streamed(&app, named("ask", "u")).await.joined("content");
    assert!(word.starts_with("Which word?"), "{word}");
    assert_eq!(super::streamed(&app, named("blue", "u")).await.joined("content"), "You were asked.");
    let app = app.key("boss-0123456789abcdef0123456789");
    assert_eq!(super::streamed(&app, named("yes", "t")).await.joined("content"), "Two and two are four.");
}

#[tokio::test]
async fn what_is_grave_is_not_approved_by_a_word() {
    let app = App::start().await;
    let question = super::streamed(&app, named("send", "t")).await.joined("content");
    let how = "Reply `no` to reject it. Approve it in the page of this server, under Questions.";
    assert!(question.ends_with(how), "{question}");
    assert_eq!(super::streamed(&app, named("yes", "t")).await.joined("content"), question);
    super::streamed(&app, named("no, because it is late", "t")).await;
    let resumed = &app.observed("t", "AGENT_RESUMED").await[0]["content"];
    assert_eq!((&resumed["decision"], &resumed["reason"]), (&json!("rejected"), &json!("because it is late")));
}

fn locate() -> Value {
    let parameters = json!({ "type": "object", "properties": { "precision": { "enum": ["city", "street"] } } });
    let function = json!({ "name": "get_location", "description": "Where the user is.", "parameters": parameters });
    with(said("locate"), json!({ "tools": [{ "type": "function", "function": function }] }))
}

/// The calls of an answer, by their arguments.
fn calls(message: &Value) -> Vec<(String, Value)> {
    let calls = message["tool_calls"].as_array().unwrap().iter();
    let call = |call: &Value| {
        let arguments = call["function"]["arguments"].as_str().unwrap();
        (call["id"].as_str().unwrap().to_owned(), serde_json::from_str(arguments).unwrap())
    };
    calls.map(call).collect()
}

/// The suspension ids of the open calls.
async fn open_calls(app: &App) -> Vec<String> {
    let open = app.get("/suspensions").await.expect(200)["items"].as_array().unwrap().clone();
    let calls = open.iter().filter(|open| open["kind"] == "client_tool");
    calls.map(|open| open["suspensionId"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_clients_own_functions_are_called_and_their_results_taken() {
    let app = App::start().await;
    let first = chat(&app, &locate()).send().await;
    let thread = first.header("x-pes-thread").unwrap().to_owned();
    let completion = first.expect(200);
    let message = completion["choices"][0]["message"].clone();
    assert_eq!(completion["choices"][0]["finish_reason"], "tool_calls");
    let asked = calls(&message);
    // Some clients give calls other ids whose ids do not begin like this.
    let open = open_calls(&app).await;
    let ids: BTreeSet<String> = open.iter().map(|id| id.replace("sus_", "call_").replace('-', "")).collect();
    assert_eq!(ids, asked.iter().map(|(id, _)| id.clone()).collect::<BTreeSet<_>>());
    assert_eq!((&asked[0].1, &asked[1].1), (&json!({ "precision": "city" }), &json!({ "precision": "street" })));
    let result = |at: usize, text: &str| json!({ "role": "tool", "tool_call_id": asked[at].0, "content": text });
    let turn = |more: &[Value]| {
        let user = json!({ "role": "user", "content": "locate" });
        let messages = [&[user, message.clone()], more].concat();
        with(locate(), json!({ "messages": messages }))
    };
    let unknown = json!({ "role": "tool", "tool_call_id": "call_1", "content": "Rome" });
    let refused = chat(&app, &turn(&[unknown])).send().await;
    assert_eq!(refused.status, 400);
    let words = "No call of these ids waits for a result here. Send each result under the id that its call had.";
    assert_eq!(refused.json()["error"]["message"], words);
    // Only one is answered: the other is requested again, together with a person's question.
    let answer = chat(&app, &turn(&[result(0, "9400111899223344556677")])).send().await;
    assert_eq!(answer.header("x-pes-thread"), Some(thread.as_str()), "found by the id of the call");
    let second = answer.expect(200)["choices"][0].clone();
    assert_eq!((calls(&second["message"]), &second["finish_reason"]), (vec![asked[1].clone()], &json!("tool_calls")));
    let third = super::streamed(&app, turn(&[result(1, "{\"street\":\"Hill\"}")])).await;
    assert!(third.joined("content").contains("demo_send_email"), "{third:#?}");
    let open = app.get("/suspensions").await.expect(200)["items"][0]["suspensionId"].clone();
    let resume = app.ask("POST", &format!("/threads/{thread}/resume")).header("prefer", "wait=30");
    resume.json(&json!({ "suspensionId": open, "approved": true })).send().await.expect(200);
    let log = app.observed(&thread, "TOOL_EXECUTION").await;
    let outputs: Vec<&Value> = log.iter().map(|it| &it["content"]["output"]).collect();
    // No digit of a number changes.
    let expected = (&json!("9400111899223344556677"), &json!({ "street": "Hill" }));
    assert_eq!((outputs[0], outputs[1]), expected, "{log:#?}");
    let late = chat(&app, &turn(&[result(0, "Oslo")])).send().await;
    assert_eq!((late.status, late.header("x-should-retry")), (409, Some("false")));
}

/// Some clients send calls that were made at once as messages of their own, each with its result behind it.
#[tokio::test]
async fn results_are_found_among_the_calls() {
    let app = App::start().await;
    let first = chat(&app, &locate()).send().await.expect(200);
    let mut messages = vec![json!({ "role": "user", "content": "locate" })];
    for call in first["choices"][0]["message"]["tool_calls"].as_array().unwrap() {
        messages.push(json!({ "role": "assistant", "content": null, "tool_calls": [call] }));
        messages.push(json!({ "role": "tool", "tool_call_id": call["id"], "content": "Rome" }));
    }
    assert_eq!(messages.len(), 5);
    let second = chat(&app, &with(locate(), json!({ "messages": messages }))).send().await.expect(200);
    assert_eq!(second["choices"][0]["finish_reason"], "stop", "no call is asked for again: {second:#}");
}

/// A front end may name a conversation only when it continues.
#[tokio::test]
async fn a_result_is_taken_where_it_was_asked_for_whatever_the_request_calls_its_thread() {
    let app = App::start().await;
    let first = chat(&app, &locate()).send().await;
    let message = first.expect(200)["choices"][0]["message"].clone();
    // As the server showed calls before.
    let ids = open_calls(&app).await;
    let results = ids.into_iter().map(|id| json!({ "role": "tool", "tool_call_id": id, "content": "Rome" }));
    let before = [json!({ "role": "user", "content": "locate" }), message.clone()];
    let messages: Vec<Value> = before.into_iter().chain(results).collect();
    let second = chat(&app, &with(locate(), json!({ "messages": messages })))
        .header("x-pes-thread", "later")
        .header("idempotency-key", "k")
        .send()
        .await;
    let choice = &second.expect(200)["choices"][0];
    assert_eq!(choice["finish_reason"], "stop", "both were taken under the one key: {choice:#}");
    assert_eq!(second.header("x-pes-run"), first.header("x-pes-run"));
    app.get("/threads/later").await.expect(404);
}

#[tokio::test]
async fn functions_that_are_not_to_be_called_are_not_offered() {
    let app = App::start().await;
    let answer = streamed(&app, with(locate(), json!({ "tool_choice": "none" }))).await;
    assert!(answer.deltas().all(|delta| delta.get("tool_calls").is_none()), "{answer:#?}");
}

#[tokio::test]
async fn whoever_asks_anew_is_not_kept_waiting_by_what_nobody_saw() {
    let app = App::start().await;
    let body = with(named("hang", "t"), json!({ "stream": true }));
    let mut first = chat(&app, &body).events().await;
    soon(first.next()).await.expect("it has begun");
    let second = streamed(&app, named("hello", "t")).await;
    assert_eq!(second.joined("content"), "Hello there.");
    let runs = app.get("/threads/t/runs").await.expect(200);
    assert_eq!(runs["items"][0]["status"], "cancelled");
}

#[tokio::test]
async fn hanging_up_ends_a_run_whose_thread_was_not_named() {
    let app = App::with(|config| config.doors.chat_grace_ms = 1).await;
    let begin = async |body: Value| {
        let mut events = chat(&app, &with(body, json!({ "stream": true }))).events().await;
        soon(events.next()).await.expect("it has begun");
    };
    begin(said("hang")).await;
    let threads = app.get("/threads").await.expect(200);
    let thread = threads["items"][0]["threadId"].as_str().unwrap().to_owned();
    stands(&app, &thread, "cancelled").await;
    // A named conversation continues, so that its client finds it again.
    begin(named("hang", "mine")).await;
    begin(said("hang")).await;
    let threads = app.get("/threads").await.expect(200);
    let other = threads["items"].as_array().unwrap().iter().map(|it| it["threadId"].as_str().unwrap());
    let other = other.into_iter().find(|id| *id != thread && *id != "mine").unwrap().to_owned();
    stands(&app, &other, "cancelled").await;
    stands(&app, "mine", "running").await;
}

#[tokio::test]
async fn the_same_key_is_the_same_run() {
    let app = App::start().await;
    let ask = || chat(&app, &with(said("count"), json!({ "stream": true }))).header("idempotency-key", "k1").send();
    let (first, second) = (ask().await, ask().await);
    assert_eq!(first.header("x-pes-run"), second.header("x-pes-run"));
    assert_eq!(Streamed::of(&second).joined("content"), Streamed::of(&first).joined("content"));
    // Clients that send the key as a header of their own have it in every step of a conversation.
    let other = chat(&app, &said("hello")).header("idempotency-key", "k1").send().await;
    assert_eq!(other.expect(200)["choices"][0]["message"]["content"], "Hello there.");
    assert_eq!(app.get("/threads").await.expect(200)["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn another_core_answers_under_its_own_name() {
    let app = App::start().await;
    let answer = chat(&app, &with(said("hello"), json!({ "model": "react@demo:demo-scripted" }))).send().await;
    assert_eq!(answer.expect(200)["model"], "react@demo:demo-scripted");
    let run = app.get(&format!("/runs/{}", answer.header("x-pes-run").unwrap())).await.expect(200);
    let thread = app.get(&format!("/threads/{}", run["threadId"].as_str().unwrap())).await.expect(200);
    assert_eq!(thread["config"]["agentCore"], "react");
}

/// Their libraries retry it, and get the result of the same run.
#[tokio::test]
async fn whoever_waits_for_an_answer_of_a_server_that_stops_is_told_to_ask_again() {
    let of_response = json!({ "model": "pes", "input": "hang", "conversation": "t" });
    for (path, body) in [(CHAT, said("hang")), ("/v1/responses", of_response)] {
        let app = App::start().await;
        app.post("/threads", json!({ "threadId": "t" })).await.expect(201);
        let begun = app.ask("GET", "/threads/t/events?types=RUN_STARTED&tokens=false");
        let mut begun = begun.header("accept", "text/event-stream").events().await;
        let waiting = app.ask("POST", path).header("x-pes-thread", "t").json(&body);
        let waiting = tokio::spawn(async move { waiting.send().await });
        while soon(begun.next()).await.expect("it begins").event != "observation" {}
        app.stop();
        let told = soon(waiting).await.unwrap();
        assert_eq!((told.status, told.header("x-should-retry")), (503, None), "{path}: {}", told.text());
        assert_eq!(told.json()["error"]["code"], "draining");
    }
}

#[tokio::test]
async fn a_response_that_is_streamed_when_the_server_stops_ends_with_an_error_and_counts_no_event_for_it() {
    let app = App::start().await;
    let body = json!({ "model": "pes", "input": "hang", "stream": true });
    let mut events = app.ask("POST", "/v1/responses").json(&body).events().await;
    let mut numbers = vec![soon(events.next()).await.expect("it has begun").data["sequence_number"].as_u64()];
    app.stop();
    let mut last = Value::Null;
    while let Some(event) = soon(events.next()).await {
        numbers.push(event.data["sequence_number"].as_u64());
        last = event.data;
    }
    assert_eq!((&last["type"], &last["code"]), (&json!("error"), &json!("draining")), "{last:#}");
    assert!(numbers[0].is_some() && numbers[numbers.len() - 1] == numbers[numbers.len() - 2], "{numbers:?}");
}

#[tokio::test]
async fn a_server_that_stops_says_so_and_takes_nothing_new() {
    let app = App::start().await;
    let mut events = chat(&app, &with(said("hang"), json!({ "stream": true }))).events().await;
    soon(events.next()).await.expect("it has begun");
    app.stop();
    let mut last = Value::Null;
    while let Some(event) = soon(events.next()).await {
        last = if event.data == "[DONE]" { last } else { event.data };
    }
    assert_eq!(last["error"]["code"], "draining", "{last:#}");
}
