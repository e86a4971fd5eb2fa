//! Turns of a conversation, and streams that a client leaves and resumes.

use serde_json::{Value, json};

use super::{Streamed, body, changed, chat, decides, running, shown, told, user};
use crate::support::app::App;
use crate::support::store::Moody;

#[tokio::test]
async fn two_turns_are_one_conversation() {
    let app = App::start().await;
    let answer = chat(&app, &body("t", &[user("count")])).send().await;
    for (name, value) in [
        ("content-type", "text/event-stream"),
        ("x-vercel-ai-ui-message-stream", "v1"),
        ("cache-control", "no-store"),
        ("x-accel-buffering", "no"),
        ("x-pes-thread", "t"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    let first = Streamed::of(&answer);
    first.is_of(&first.run);
    assert_eq!(first.text(), "Two and two are four.");
    let plans: Vec<&Value> = first.all("data-plan").iter().map(|plan| &plan["data"]["todoList"][0]["status"]).collect();
    assert_eq!(plans, ["pending", "in_progress", "completed"]);
    let input = first.one("tool-input-available");
    assert_eq!((&input["toolName"], &input["input"]), (&json!("calculator"), &json!({ "expression": "2 + 2" })));
    assert_eq!((&input["dynamic"], &input["providerExecuted"]), (&json!(true), &json!(true)));
    let output = first.one("tool-output-available");
    assert_eq!((&output["toolCallId"], &output["dynamic"]), (&input["toolCallId"], &json!(true)));
    let finish = first.one("finish");
    assert_eq!((&finish["finishReason"], &finish["messageMetadata"]["status"]), (&json!("stop"), &json!("success")));
    assert!(finish["messageMetadata"]["usage"]["totalTokens"].as_u64().unwrap() > 0);
    let run = app.get(&format!("/runs/{}", first.run)).await.expect(200);
    assert_eq!(run["traceId"].as_str(), answer.header("x-request-id"));

    // The client's account of earlier turns is not trusted.
    let lie = json!({ "id": "x", "role": "assistant", "parts": [{ "type": "text", "text": "Five." }] });
    let second = told(&app, &body("t", &[user("count"), lie, user("hello")])).await;
    assert_eq!((second.text().as_str(), second.run == first.run), ("Hello again.", false));
    let messages = shown(&app, "t").await;
    let ids: Vec<&str> = messages.iter().map(|message| message["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["mine-count", &first.run, "mine-hello", &second.run]);
    let texts = messages[1]["parts"].as_array().unwrap().iter().filter(|part| part["type"] == "text");
    assert_eq!(texts.map(|part| &part["text"]).collect::<Vec<_>>(), ["Two and two are four."]);
    assert_eq!(
        messages[1]["metadata"],
        json!({ "threadId": "t", "runId": first.run, "status": "success",
        "durationMs": finish["messageMetadata"]["durationMs"], "usage": finish["messageMetadata"]["usage"] })
    );
}

#[tokio::test]
async fn a_message_that_is_being_written_is_told_from_its_start() {
    let app = App::start().await;
    assert_eq!(app.get("/api/chat/t/stream").await.status, 204, "a page that begins a chat asks for it, too");
    assert!(shown(&app, "t").await.is_empty());
    app.get("/threads/t").await.problem("not_found");
    told(&app, &body("t", &[user("hello")])).await;
    let nothing = app.get("/api/chat/t/stream").await;
    assert_eq!((nothing.status, nothing.text().as_str()), (204, ""));
    let mut left = chat(&app, &body("t", &[user("hang")])).events().await;
    let start = left.next().await.unwrap().data;
    // A disconnect ends nothing.
    drop(left);
    let mut again = running(&app, "t").await;
    assert_eq!(again.next().await.unwrap().data, start);
    let messages = shown(&app, "t").await;
    assert_eq!(messages.last().unwrap()["role"], "user", "nothing of it can be shown yet");
    app.post("/threads/t/cancel", json!({})).await.expect(202);
    let rest: Vec<Value> = again.all().await.into_iter().map(|event| event.data).collect();
    assert_eq!(
        rest[rest.len() - 2..],
        [json!({ "type": "abort", "reason": "The run was cancelled." }), json!("[DONE]")]
    );
    assert_eq!(app.get("/api/chat/t/stream").await.status, 204);
}

#[tokio::test]
async fn a_message_that_waits_for_its_turn_is_taken_up() {
    let app = App::start().await;
    told(&app, &body("t", &[user("send")])).await;
    let mut sent = body("t", &[user("hello")]);
    sent["pes"] = json!({ "onBusy": "enqueue" });
    let start = chat(&app, &sent).events().await.next().await.unwrap().data;
    let mut again = running(&app, "t").await;
    assert_eq!(again.next().await.unwrap().data, start);
}

/// However long the chat is, a resumed message starts at its own beginning.
#[tokio::test]
async fn what_was_said_before_costs_the_stream_nothing() {
    let store = Moody::fresh().await;
    let app = App::of(store.clone(), |_| {}).await;
    let mut costs = Vec::new();
    for turns in [2, 20] {
        for _ in 0..turns {
            told(&app, &body("t", &[user("count")])).await;
        }
        let mut left = chat(&app, &body("t", &[user("hang")])).events().await;
        let start = left.next().await.unwrap().data;
        store.observations_read();
        let mut again = running(&app, "t").await;
        assert_eq!(again.next().await.unwrap().data, start);
        app.post("/threads/t/cancel", json!({})).await.expect(202);
        again.all().await;
        costs.push(store.observations_read());
    }
    assert_eq!(costs, [1, 1], "only the beginning of its own run is read");
    app.get("/threads/t/events?limit=100").await.expect(200);
    assert!(store.observations_read() >= 100, "what is read is counted");
}

#[tokio::test]
async fn a_run_that_fails_says_why() {
    let app = App::start().await;
    let failed = told(&app, &body("t", &[user("fail")])).await;
    let why = failed.one("error")["errorText"].as_str().unwrap();
    assert!(why.contains("Not mine to do."), "{why}");
    assert_eq!(failed.types().last(), Some(&"error"));
    let last = shown(&app, "t").await.pop().unwrap();
    let said = last["parts"].as_array().unwrap().last().unwrap()["text"].as_str().unwrap().to_owned();
    assert!(said.contains("Not mine to do."), "{last:#}");
    let (status, error) = (&last["metadata"]["status"], &last["metadata"]["error"]);
    assert_eq!((status, &error["code"]), (&json!("failed"), &json!("task_refused")));
    assert!(error["message"].as_str().unwrap().contains("Not mine to do."), "{error}");
}

#[tokio::test]
async fn a_server_that_stops_says_so() {
    let app = App::start().await;
    let mut events = chat(&app, &body("t", &[user("hang")])).events().await;
    events.next().await.unwrap();
    app.stop();
    let rest: Vec<Value> = events.all().await.into_iter().map(|event| event.data).collect();
    let [.., error, done] = &rest[..] else { panic!("{rest:#?}") };
    assert_eq!((&error["type"], done), (&json!("error"), &json!("[DONE]")));
    assert!(error["errorText"].as_str().unwrap().contains("stopping"), "{error}");
}

#[tokio::test]
async fn the_same_key_is_the_same_message() {
    let app = App::start().await;
    let ask = || chat(&app, &body("t", &[user("hello")])).header("idempotency-key", "k");
    let (first, again) = (ask().send().await, ask().send().await);
    let (first, again) = (Streamed::of(&first), Streamed::of(&again));
    again.is_of(&first.run);
    assert_eq!(again.text(), "Hello there.");
    assert_eq!(shown(&app, "t").await.len(), 2);
    let other = chat(&app, &body("t", &[user("count")])).header("idempotency-key", "k").send().await;
    other.problem("idempotency_mismatch");
}

/// The first response was lost: its question is asked again, and its text is sent again.
#[tokio::test]
async fn a_message_that_is_sent_again_is_told_again_although_the_agent_asks_or_was_answered() {
    let app = App::start().await;
    let send = async |key: &str, sent: &Value| {
        let ask = || chat(&app, sent).header("idempotency-key", key).send();
        let (first, again) = (Streamed::of(&ask().await), Streamed::of(&ask().await));
        again.is_of(&first.run);
        (first, again)
    };
    let (asked, again) = send("k1", &body("t", &[user("send")])).await;
    assert_eq!(again.one("tool-approval-request"), asked.one("tool-approval-request"));
    let approved = changed(&app, "t", decides(true)).await;
    let (told, again) = send("k2", &body("t", &[user("send"), approved])).await;
    assert_eq!((again.text(), &again.run), (told.text(), &asked.run));
    // Also if the message that it replaces is gone by then.
    let (hello, _) = send("k3", &body("u", &[user("hello")])).await;
    let (messages, run) = ([user("hello")], &hello.run);
    let other = json!({ "id": "u", "messages": messages, "trigger": "regenerate-message", "messageId": run });
    let (told, again) = send("k4", &other).await;
    assert_eq!((again.text(), told.run == *run), (told.text(), false));
}
