//! `/v1/responses`: whole and streamed, fetched again, cancelled, answered, continued.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::with;
use crate::support::app::App;
use crate::support::http::{Event, soon};
use crate::support::store::{Mood, Moody};

const RESPONSES: &str = "/v1/responses";

fn input(input: impl Into<Value>) -> Value {
    json!({ "model": "pes", "input": input.into() })
}

async fn respond(app: &App, body: &Value) -> Value {
    app.ask("POST", RESPONSES).json(body).send().await.expect(200)
}

/// The events of a new response, to its end; checks what holds for all of them.
async fn streamed(app: &App, body: Value) -> Vec<Event> {
    checked(app.ask("POST", RESPONSES).json(&with(body, json!({ "stream": true }))).events().await.all().await)
}

async fn again(app: &App, id: &str, query: &str) -> Vec<Event> {
    app.ask("GET", &format!("{RESPONSES}/{id}?stream=true{query}")).events().await.all().await
}

fn checked(events: Vec<Event>) -> Vec<Event> {
    for (at, event) in events.iter().enumerate() {
        assert_eq!(
            (event.event.as_str(), &event.data["sequence_number"]),
            (event.data["type"].as_str().unwrap(), &json!(at))
        );
    }
    let last = events.last().expect("events");
    assert!(
        ["response.completed", "response.incomplete", "response.failed"].contains(&last.event.as_str()),
        "{last:?}"
    );
    events
}

fn of_kind<'e>(events: &'e [Event], kind: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event.event == kind).map(|event| &event.data).collect()
}

fn text(response: &Value) -> String {
    let items = response["output"].as_array().unwrap().iter().filter(|item| item["type"] == "message");
    items.filter_map(|item| item["content"][0]["text"].as_str()).collect()
}

#[tokio::test]
async fn a_response_comes_whole_and_can_be_had_again() {
    let app = App::start().await;
    // Large members are stored apart.
    let instructions = "Be short. ".repeat(200);
    let sent = json!({
        "metadata": { "k": "v" }, "instructions": instructions, "max_output_tokens": 500, "tool_choice": "none",
        "reasoning": { "effort": "low" },
    });
    let response = respond(&app, &with(input("count"), sent.clone())).await;
    assert_eq!((response["object"].as_str(), response["status"].as_str()), (Some("response"), Some("completed")));
    let kinds: Vec<&str> =
        response["output"].as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["reasoning", "mcp_call", "message"], "{response:#}");
    let call = &response["output"][1];
    assert_eq!(
        (call["name"].as_str(), call["arguments"].as_str()),
        (Some("calculator"), Some("{\"expression\":\"2 + 2\"}"))
    );
    assert_eq!(text(&response), "Two and two are four.");
    assert_eq!((&response["metadata"]["k"], &response["instructions"]), (&json!("v"), &json!(instructions)));
    for name in ["max_output_tokens", "tool_choice"] {
        assert_eq!(response[name], sent[name]);
    }
    assert_eq!(response["reasoning"], json!({ "effort": "low", "summary": null }));
    assert!(response["usage"]["input_tokens_details"]["cache_write_tokens"].is_u64());
    let id = response["id"].as_str().unwrap();
    assert_eq!(app.get(&format!("{RESPONSES}/{id}")).await.expect(200), response);
    let items = app.get(&format!("{RESPONSES}/{id}/input_items")).await.expect(200);
    assert_eq!(items["data"][0]["content"][0]["text"], "count");
    app.get(&format!("{RESPONSES}/resp_run_1_1")).await.expect(404);
    app.get(&format!("{RESPONSES}/nothing")).await.expect(404);
    let unknown = app.get(&format!("{RESPONSES}/resp_run_1_1/input_items")).await.expect(404);
    assert_eq!(unknown["error"]["message"], "There is no such response; check the id.");
    let deleted = app.ask("DELETE", &format!("{RESPONSES}/{id}")).send().await.expect(400);
    assert_eq!(deleted["error"]["code"], "unsupported");
}

#[tokio::test]
async fn events_are_the_same_live_and_again_from_any_of_them_on() {
    let app = App::with(|config| config.models.demo.pace_ms = 2).await;
    let live = streamed(&app, input("count")).await;
    assert_eq!((live[0].event.as_str(), live[1].event.as_str()), ("response.created", "response.in_progress"));
    let whole = &of_kind(&live, "response.completed")[0]["response"];
    let deltas: String =
        of_kind(&live, "response.output_text.delta").iter().map(|delta| delta["delta"].as_str().unwrap()).collect();
    assert_eq!((deltas.as_str(), text(whole)), ("Two and two are four.", deltas.clone()));
    let id = whole["id"].as_str().unwrap();
    assert_eq!(again(&app, id, "").await, live);
    for at in 0..live.len() {
        assert_eq!(again(&app, id, &format!("&starting_after={at}")).await, live[at + 1..]);
    }
    assert_eq!(app.get(&format!("{RESPONSES}/{id}")).await.expect(200), *whole);
}

#[tokio::test]
async fn a_turn_goes_on_from_the_response_that_it_names() {
    let app = App::start().await;
    let first = respond(&app, &input("hello")).await;
    let more = |id: &Value| with(input("count"), json!({ "previous_response_id": id }));
    let second = respond(&app, &more(&first["id"])).await;
    assert_eq!(second["metadata"]["pes_thread"], first["metadata"]["pes_thread"]);
    assert_eq!(second["previous_response_id"], first["id"]);
    // Another turn after the first one is another conversation: the continued one does not change.
    let other = respond(&app, &more(&first["id"])).await;
    assert_ne!(other["metadata"]["pes_thread"], first["metadata"]["pes_thread"]);
    let said = async |response: &Value| {
        let thread = response["metadata"]["pes_thread"].as_str().unwrap();
        app.get(&format!("/threads/{thread}/messages")).await.expect(200)["items"].as_array().unwrap().len()
    };
    assert_eq!((said(&second).await, said(&other).await), (4, 4));
    // All items are sent back, as frameworks do: their ids identify the conversation.
    let message = second["output"].as_array().unwrap().last().unwrap().clone();
    let items = json!([{ "role": "user", "content": "count" }, message, { "role": "user", "content": "hello" }]);
    let third = respond(&app, &input(items)).await;
    assert_eq!(third["metadata"]["pes_thread"], first["metadata"]["pes_thread"]);
    let unknown = app.post(RESPONSES, more(&json!("resp_run_x_1"))).await.expect(400);
    assert_eq!(unknown["error"]["code"], "previous_response_not_found");
    let named = respond(&app, &with(input("hello"), json!({ "conversation": "mine" }))).await;
    assert_eq!((&named["conversation"], &named["metadata"]["pes_thread"]), (&json!({ "id": "mine" }), &json!("mine")));
    // Some clients continue a conversation instead of the response, if the response has one.
    assert_eq!(third.get("conversation"), Some(&Value::Null));
}

/// All of them look at the thread before the first one continues it.
#[tokio::test]
async fn turns_that_go_on_from_one_response_at_once_do_not_mix() {
    let store = Moody::fresh().await;
    let app = App::of(store.clone(), |_| {}).await;
    let first = respond(&app, &input("hello")).await;
    store.set("outlines", Mood::Hangs);
    let more = with(input("count"), json!({ "previous_response_id": first["id"] }));
    let all = (0..4).map(|_| tokio::spawn(app.ask("POST", RESPONSES).json(&more).send()));
    let all: Vec<_> = all.collect();
    soon(store.holds_many("outlines", 4)).await;
    store.set("outlines", Mood::Well);
    let mut threads = BTreeSet::new();
    for answer in all {
        let response = answer.await.unwrap().expect(200);
        let thread = response["metadata"]["pes_thread"].as_str().unwrap().to_owned();
        let said = app.get(&format!("/threads/{thread}/messages")).await.expect(200);
        let said = said["items"].as_array().unwrap().iter().map(|it| it["content"].clone()).collect::<Value>();
        assert_eq!(said, json!(["hello", "Hello there.", "count", "Two and two are four."]));
        threads.insert(thread);
    }
    assert_eq!(threads.len(), 4);
    assert!(threads.contains(first["metadata"]["pes_thread"].as_str().unwrap()));
}

/// Pages of the log that contain only the ends of other runs are no reason to stop or to read them again.
#[tokio::test]
async fn a_turn_goes_on_from_a_response_that_began_before_many_other_runs_ended() {
    let app = App::with(|config| config.limits.queued_runs = 200).await;
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    for _ in 0..=200 {
        app.post("/threads/t1/process", json!({ "query": "hang", "onBusy": "enqueue" })).await.expect(202);
    }
    app.post("/threads/t1/cancel", json!({})).await.expect(202);
    let last = respond(&app, &with(input("hello"), json!({ "conversation": "t1" }))).await;
    let queued = app.get("/threads/t1/events?types=STATE_UPDATE&limit=200").await.expect(200);
    let start = queued["items"][199]["seq"].as_i64().unwrap();
    let log = app.get(&format!("/threads/t1/events?after={start}&limit=200")).await.expect(200);
    assert!(log["items"].as_array().unwrap().iter().all(|it| it["type"] == "RUN_FINISHED"), "{log:#}");
    let (run, _) = last["id"].as_str().unwrap().rsplit_once('_').unwrap();
    let more = with(input("count"), json!({ "previous_response_id": format!("{run}_{start}") }));
    assert_eq!(soon(respond(&app, &more)).await["metadata"]["pes_thread"], "t1");
}

/// The answers to everything that the response asks.
fn answers(response: &Value) -> Value {
    let answer = |item: &Value| match item["type"].as_str() {
        Some("function_call") => {
            Some(json!({ "type": "function_call_output", "call_id": item["call_id"], "output": "Rome" }))
        }
        Some("mcp_approval_request") => {
            Some(json!({ "type": "mcp_approval_response", "approval_request_id": item["id"], "approve": true }))
        }
        _ => None,
    };
    response["output"].as_array().unwrap().iter().filter_map(answer).collect()
}

/// A response is a part of its run, and the run's later parts are other responses.
#[tokio::test]
async fn a_turn_after_a_response_that_was_answered_since_is_a_copy_as_of_its_end() {
    let app = App::start().await;
    let after = |first: &Value, body: Value| with(body, json!({ "previous_response_id": first["id"] }));
    let said = async |response: &Value| {
        let thread = response["metadata"]["pes_thread"].as_str().unwrap();
        let messages = app.get(&format!("/threads/{thread}/messages")).await.expect(200);
        messages["items"].as_array().unwrap().iter().map(|it| it["content"].clone()).collect::<Vec<_>>()
    };
    let mail = with(locate(), json!({ "input": "send" }));
    // A function's result, an approval, and a text.
    for (asks, last) in
        [(locate(), "You are here."), (mail.clone(), "The mail is dealt with."), (input("ask"), "You were asked.")]
    {
        let first = respond(&app, &asks).await;
        let reply = if last == "You were asked." { json!("blue") } else { answers(&first) };
        let second = respond(&app, &after(&first, with(asks.clone(), json!({ "input": reply })))).await;
        assert_eq!(text(&second), last);
        let other = respond(&app, &after(&first, input("hello"))).await;
        assert_ne!(other["metadata"]["pes_thread"], first["metadata"]["pes_thread"], "{last}");
        assert_eq!(said(&other).await[..2], [asks["input"].clone(), json!("hello")]);
        let next = respond(&app, &after(&second, input("hello"))).await;
        assert_eq!(next["metadata"]["pes_thread"], first["metadata"]["pes_thread"], "{last}");
        assert!(said(&next).await.contains(&json!(last)));
    }
    // What somebody approved elsewhere is part of the conversation: its client was told of no other response.
    let first = respond(&app, &mail).await;
    let thread = first["metadata"]["pes_thread"].as_str().unwrap();
    let open = app.get("/suspensions").await.expect(200)["items"][0]["suspensionId"].clone();
    let resume = app.ask("POST", &format!("/threads/{thread}/resume")).header("prefer", "wait=30");
    resume.json(&json!({ "suspensionId": open, "approved": true })).send().await.expect(200);
    let next = respond(&app, &after(&first, input("hello"))).await;
    assert_eq!(next["metadata"]["pes_thread"], first["metadata"]["pes_thread"]);
    assert_eq!(said(&next).await[..3], [json!("send"), json!("The mail is dealt with."), json!("hello")]);
}

fn locate() -> Value {
    let parameters = json!({ "type": "object", "properties": { "precision": { "enum": ["city", "street"] } } });
    let function =
        json!({ "type": "function", "name": "get_location", "description": "Where.", "parameters": parameters });
    with(input("locate"), json!({ "tools": [function, { "type": "mcp", "server_label": "pes", "server_url": "x" }] }))
}

#[tokio::test]
async fn functions_and_approvals_are_answered_and_the_run_goes_on() {
    let app = App::start().await;
    let live = streamed(&app, locate()).await;
    let first = of_kind(&live, "response.completed")[0]["response"].clone();
    let output = first["output"].as_array().unwrap();
    let kinds: Vec<&str> = output.iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["reasoning", "function_call", "mcp_approval_request", "function_call"]);
    let answered = json!([
        { "type": "function_call_output", "call_id": output[1]["call_id"], "output": "Rome" },
        { "type": "mcp_approval_response", "approval_request_id": output[2]["id"], "approve": true },
        { "type": "function_call_output", "call_id": output[3]["call_id"], "output": "\"Hill\"" },
    ]);
    let body = with(locate(), json!({ "input": answered, "previous_response_id": first["id"] }));
    let second_live = streamed(&app, body.clone()).await;
    let second = of_kind(&second_live, "response.completed")[0]["response"].clone();
    assert_eq!(text(&second), "You are here.");
    let kinds: Vec<&str> = second["output"].as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["mcp_call", "message"], "the client knows its own calls: {second:#}");
    // Both stay unchanged.
    for (response, live) in [(&first, &live), (&second, &second_live)] {
        let id = response["id"].as_str().unwrap();
        assert_eq!(app.get(&format!("{RESPONSES}/{id}")).await.expect(200), *response);
        assert_eq!(again(&app, id, "").await, *live);
    }
    let twice = app.post(RESPONSES, body).await;
    assert_eq!((twice.status, twice.header("x-should-retry")), (409, Some("false")), "{}", twice.text());
}

#[tokio::test]
async fn a_key_that_may_not_approve_answers_no_approval_and_nothing_beside_it() {
    let key = "writer-0123456789abcdef0123456789";
    let app = App::with(|config| config.auth.keys = vec![format!("default/writer:read+run:{key}").parse().unwrap()]);
    let app = app.await.key(key);
    let first = respond(&app, &locate()).await;
    let open = async || app.get("/suspensions").await.expect(200)["items"].as_array().unwrap().clone();
    let answer = |open: &Value| match open["kind"].as_str() {
        Some("approval") => {
            json!({ "type": "mcp_approval_response", "approval_request_id": open["suspensionId"], "approve": true })
        }
        _ => json!({ "type": "function_call_output", "call_id": open["suspensionId"], "output": "Rome" }),
    };
    let answers: Vec<Value> = open().await.iter().map(answer).collect();
    let body = with(locate(), json!({ "input": answers, "previous_response_id": first["id"] }));
    assert_eq!(app.post(RESPONSES, body).await.expect(403)["error"]["code"], "forbidden");
    assert_eq!(open().await.len(), 3);
}

/// An accepted answer has resumed the run, and its client is told so.
#[tokio::test]
async fn of_two_approvals_one_is_taken_and_the_other_is_asked_for_again() {
    let (boss, asker) = ("boss-0123456789abcdef0123456789ab", "asker-0123456789abcdef0123456789a");
    let app = App::with(|config| {
        let keys = [format!("one/boss:admin:{boss}"), format!("one/asker:read+run+approve:{asker}")];
        config.auth.keys = keys.iter().map(|key| key.parse().unwrap()).collect();
    })
    .await;
    let when = json!([{ "pointer": "/to", "op": "eq", "value": "b@example.com" }]);
    let rules = json!({ "rules": [{ "tool": "demo_*", "action": "ask", "fourEyes": true, "when": when }] });
    app.ask("PUT", "/policy").key(boss).json(&rules).send().await.expect(200);
    let app = app.key(asker);
    let tools = json!({ "tools": [{ "type": "mcp", "server_label": "pes", "server_url": "x" }] });
    let asked = |response: &Value| {
        let output = response["output"].as_array().unwrap().iter();
        output.filter(|item| item["type"] == "mcp_approval_request").cloned().collect::<Vec<_>>()
    };
    let first = respond(&app, &with(input("two mails"), tools.clone())).await;
    let both = asked(&first);
    let approve =
        |it: &Value| json!({ "type": "mcp_approval_response", "approval_request_id": it["id"], "approve": true });
    let answers: Vec<Value> = both.iter().map(approve).collect();
    assert_eq!(answers.len(), 2, "{first:#}");
    let body = with(with(input(answers), tools), json!({ "previous_response_id": first["id"] }));
    let second = respond(&app, &body).await;
    let left: Vec<Value> = asked(&second).iter().map(|it| it["id"].clone()).collect();
    assert_eq!(left, [both[1]["id"].clone()], "{second:#}");
    let thread = first["metadata"]["pes_thread"].as_str().unwrap();
    let log = app.observed(thread, "AGENT_RESUMED").await;
    assert_eq!(log.len(), 1, "{log:#?}");
}

#[tokio::test]
async fn who_declares_no_approvals_is_asked_by_text() {
    let app = App::start().await;
    let response = respond(&app, &input("send")).await;
    assert_eq!(response["output"].as_array().unwrap().last().unwrap()["type"], "message");
    assert!(text(&response).starts_with("Send the e-mail"), "{response:#}");
}

#[tokio::test]
async fn one_in_the_background_is_looked_after_and_cancelled() {
    let app = App::start().await;
    let begun = respond(&app, &with(input("hang"), json!({ "background": true }))).await;
    assert_eq!((begun["status"].as_str(), &begun["background"]), (Some("in_progress"), &json!(true)));
    let id = begun["id"].as_str().unwrap();
    let path = format!("{RESPONSES}/{id}");
    let mut events = app.ask("GET", &format!("{path}?stream=true")).events().await;
    assert_eq!(soon(events.next()).await.unwrap().event, "response.created");
    // A disconnect ends nothing.
    drop(events);
    assert_eq!(app.get(&path).await.expect(200)["status"], "in_progress");
    for _ in 0..2 {
        let cancelled = app.ask("POST", &format!("{path}/cancel")).send().await.expect(200);
        assert_eq!(cancelled["status"], "cancelled");
    }
    assert_eq!(again(&app, id, "").await.last().unwrap().event, "response.incomplete");
    let done = respond(&app, &input("hello")).await;
    let path = format!("{RESPONSES}/{}/cancel", done["id"].as_str().unwrap());
    assert_eq!(app.ask("POST", &path).send().await.expect(200), done);
}

#[tokio::test]
async fn a_run_that_fails_is_a_failed_response() {
    let app = App::start().await;
    let failed = streamed(&app, input("fail")).await.last().unwrap().clone();
    assert_eq!(failed.event, "response.failed");
    let response =
        app.get(&format!("{RESPONSES}/{}", failed.data["response"]["id"].as_str().unwrap())).await.expect(200);
    let error = json!({ "type": "server_error", "code": "server_error", "message": "task_refused: Not mine to do.", "param": null });
    assert_eq!((&response["status"], &response["error"]), (&json!("failed"), &error));
    assert_eq!(response["metadata"]["pes_code"], "task_refused");
    assert_eq!(respond(&app, &with(input("fail"), json!({ "background": true }))).await["background"], true);
    // Whoever waits for the answer gets an error, which no client retries.
    let waited = app.ask("POST", RESPONSES).json(&input("fail")).send().await;
    let error = waited.expect(400)["error"].clone();
    assert_eq!((&error["code"], &error["message"]), (&json!("task_refused"), &json!("Not mine to do.")));
    assert!(waited.header("x-pes-run").is_some_and(|run| run.starts_with("run_")), "{:?}", waited.header("x-pes-run"));
}

#[tokio::test]
async fn what_cannot_be_honoured_is_refused_by_its_name() {
    let app = App::start().await;
    for (more, code, param) in [
        (json!({ "model": "gpt" }), "model_not_found", "model"),
        (json!({ "input": [] }), "invalid", "input"),
        (json!({ "input": 1 }), "invalid", "input"),
        (json!({ "input": [{ "type": "computer_call" }] }), "unsupported_content", "input[0]"),
        (
            json!({ "input": [{ "role": "user", "content": [{ "type": "input_image" }] }] }),
            "unsupported_content",
            "input[0].content[0]",
        ),
        (json!({ "tools": [{ "type": "web_search" }] }), "unsupported", "tools[0]"),
        (json!({ "tools": [{ "type": "mcp", "server_label": "other" }] }), "unsupported", "tools[0].server_label"),
        (json!({ "text": { "format": { "type": "grammar" } } }), "unsupported", "text.format"),
        (json!({ "text": { "format": { "type": "json_schema" } } }), "invalid", "text.format.schema"),
        (
            json!({ "text": { "format": { "type": "json_schema", "schema": { "type": "cat" } } } }),
            "invalid",
            "text.format",
        ),
        (json!({ "conversation": "a b" }), "invalid", "conversation"),
    ] {
        let answer = app.ask("POST", RESPONSES).json(&with(input("hello"), more)).send().await;
        let error = answer.json()["error"].clone();
        assert_eq!((error["code"].as_str(), error["param"].as_str()), (Some(code), Some(param)), "{error:#}");
        assert_eq!(answer.header("x-should-retry"), Some("false"));
    }
    assert_eq!(app.get("/threads").await.expect(200)["items"], json!([]));
}
