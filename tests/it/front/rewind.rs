//! `after` of `POST /threads/{thread}/process`: a thread goes back to an earlier message.

use futures_util::future::join;
use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::store::{Mood, Moody, fresh_store};

async fn items(app: &App, path: &str) -> Vec<Value> {
    app.get(path).await.expect(200)["items"].as_array().unwrap().clone()
}

async fn said(app: &App, thread: &str) -> Vec<Value> {
    items(app, &format!("/threads/{thread}/messages?limit=100")).await
}

async fn go_back(app: &App, query: &str, after: &Value) -> Value {
    let body = json!({ "query": query, "after": after });
    app.ask("POST", "/threads/t1/process").header("prefer", "wait=30").json(&body).send().await.expect(200)
}

fn contents(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["content"].as_str().unwrap()).collect()
}

/// Messages, contexts and copies leave out superseded messages; runs and log keep them.
#[tokio::test]
async fn what_was_said_after_the_place_counts_no_more() {
    let app = App::start().await;
    for query in ["count", "hello", "hello"] {
        app.finish("t1", query).await;
    }
    let before = said(&app, "t1").await;
    go_back(&app, "hello", &before[1]["messageId"]).await;
    let after = said(&app, "t1").await;
    assert_eq!((after.len(), &after[..2]), (4, &before[..2]));
    let page = app.get("/threads/t1/messages?limit=3").await.expect(200);
    let cursor = page["nextCursor"].as_str().expect("a page of three is full");
    assert_eq!(items(&app, &format!("/threads/t1/messages?limit=3&cursor={cursor}")).await, after[3..]);

    let updates = items(&app, "/threads/t1/events?types=STATE_UPDATE").await;
    let gone: Vec<&Value> = before[2..].iter().map(|message| &message["messageId"]).collect();
    assert_eq!(updates.last().unwrap()["content"]["superseded"], json!(gone));
    let runs = items(&app, "/threads/t1/runs").await;
    assert_eq!(runs.len(), 4);
    let run = app.get(&format!("/runs/{}", runs[1]["runId"].as_str().unwrap())).await.expect(200);
    assert_eq!(run["result"]["response"]["messageId"], before[3]["messageId"], "its answer is there: {run:#}");

    let copy = app.post("/threads/t1/fork", json!({ "threadId": "t2" })).await.expect(201);
    assert_eq!(contents(&said(&app, "t2").await), contents(&after), "{copy:#}");
}

/// And the state folded from the log equals that of the thread.
#[tokio::test]
async fn the_plan_is_that_of_then() {
    let app = App::with(|config| config.models.demo.script = None).await;
    let prompts = items(&app, "/models").await[0]["prompts"].clone();
    let (first, third) = (prompts[0].as_str().unwrap(), prompts[2].as_str().unwrap());
    app.finish("t1", first).await;
    let then = app.get("/threads/t1/state").await.expect(200);
    let place = said(&app, "t1").await[1]["messageId"].clone();
    app.finish("t1", third).await;
    assert_ne!(app.get("/threads/t1/state").await.expect(200)["todoList"], then["todoList"]);
    go_back(&app, third, &place).await;
    let plans = items(&app, "/threads/t1/events?types=PLAN").await;
    let told = plans.iter().find(|told| told["runId"] == "").expect("the plan is told");
    assert_eq!(told["content"]["todoList"], then["todoList"]);
    for key in ["plan", "todoList", "stepOutputs"] {
        let at = app.get(&format!("/threads/t1/state?at={}", told["seq"])).await.expect(200);
        assert_eq!(at[key], then[key], "{key}");
    }
    let call = &then["todoList"][0]["toolCalls"][0]["callId"];
    let call = app.get(&format!("/threads/t1/tool-calls/{}", call.as_str().unwrap())).await.expect(200);
    assert_eq!(call["status"], "done", "{call:#}");
    let now = app.get("/threads/t1/state").await.expect(200);
    let at = app.get(&format!("/threads/t1/state?at={}", now["lastSeq"])).await.expect(200);
    assert_eq!((&at["todoList"], &at["stepOutputs"]), (&now["todoList"], &now["stepOutputs"]));

    go_back(&app, first, &json!("start")).await;
    assert_eq!(said(&app, "t1").await.len(), 2);
}

#[tokio::test]
async fn a_place_is_a_message_of_the_conversation() {
    let app = App::start().await;
    app.finish("t1", "hello").await;
    let first = said(&app, "t1").await;
    go_back(&app, "hello", &json!("start")).await;
    let gone = first[0]["messageId"].as_str().unwrap();
    for (thread, after) in [("t1", "msg_none"), ("t1", ""), ("t1", gone), ("new", "msg_none")] {
        let body = json!({ "query": "hello", "after": after });
        let refused = app.post(&format!("/threads/{thread}/process"), body).await.problem("invalid");
        assert_eq!(refused["errors"][0]["pointer"], "/after", "{after}");
    }
    app.get("/threads/new").await.problem("not_found");
    let body = json!({ "query": "hello", "after": "start" });
    app.post("/threads/new/process", body).await.expect(202);
}

#[tokio::test]
async fn a_thread_with_a_run_goes_back_only_where_that_is_wanted() {
    let app = App::start().await;
    app.finish("t1", "hello").await;
    app.suspend("t1", "send").await;
    let place = said(&app, "t1").await[1]["messageId"].clone();
    for on_busy in ["enqueue", "steer", "reject"] {
        let body = json!({ "query": "hello", "after": place, "onBusy": on_busy });
        app.post("/threads/t1/process", body).await.problem("thread_busy");
    }
    assert_eq!(app.get("/threads/t1").await.expect(200)["status"], "suspended");
    let body = json!({ "query": "hello", "after": place, "onBusy": "interrupt" });
    app.ask("POST", "/threads/t1/process").header("prefer", "wait=30").json(&body).send().await.expect(200);
    let runs = items(&app, "/threads/t1/runs").await;
    let stands: Vec<&Value> = runs.iter().map(|run| &run["status"]).collect();
    assert_eq!(stands, ["completed", "cancelled", "completed"]);
    assert_eq!(said(&app, "t1").await.len(), 4);
}

#[tokio::test]
async fn a_query_that_is_refused_cancels_nothing() {
    let app = App::start().await;
    app.finish("t1", "hello").await;
    app.suspend("t1", "send").await;
    let place = said(&app, "t1").await[1]["messageId"].clone();
    let wrong = [
        json!({ "query": "hello", "after": "msg_none", "onBusy": "interrupt" }),
        json!({ "query": "hello", "after": place, "onBusy": "interrupt",
            "options": { "providerConfig": { "providerName": "demo", "modelId": "typo" } } }),
    ];
    for body in wrong {
        let refused = app.post("/threads/t1/process", body).await;
        assert!((400..500).contains(&refused.status), "{}", refused.status);
    }
    let runs = items(&app, "/threads/t1/runs").await;
    let stands: Vec<&Value> = runs.iter().map(|run| &run["status"]).collect();
    assert_eq!(stands, ["completed", "suspended"]);
}

/// The message of a queued run is none of the conversation, and the cancel of the run takes it back.
#[tokio::test]
async fn a_thread_does_not_go_back_to_a_message_that_is_queued() {
    let app = App::start().await;
    app.suspend("t1", "send").await;
    app.post("/threads/t1/process", json!({ "query": "hello" })).await.expect(202);
    let queued = said(&app, "t1").await.pop().unwrap();
    assert_eq!(queued["content"], "hello");
    let body = json!({ "query": "count", "after": queued["messageId"], "onBusy": "interrupt" });
    let refused = app.post("/threads/t1/process", body).await.problem("invalid");
    assert_eq!(refused["errors"][0]["pointer"], "/after");
    let runs = items(&app, "/threads/t1/runs").await;
    let stands: Vec<&Value> = runs.iter().map(|run| &run["status"]).collect();
    assert_eq!(stands, ["suspended", "queued"], "nothing is cancelled");
}

/// The run that the first request started continues, whatever is sent under its key.
#[tokio::test]
async fn a_query_that_goes_back_and_is_sent_again_cancels_nothing() {
    let app = App::start().await;
    app.finish("t1", "hello").await;
    let place = said(&app, "t1").await[1]["messageId"].clone();
    let sent = async |query: &str| {
        let body = json!({ "query": query, "after": place, "onBusy": "interrupt" });
        let ask = app.ask("POST", "/threads/t1/process").header("idempotency-key", "k").header("prefer", "wait=30");
        ask.json(&body).send().await
    };
    let first = sent("send").await.expect(202);
    assert_eq!(first["status"], "suspended", "{first:#}");
    for _ in 0..3 {
        let again = sent("send").await.expect(202);
        assert_eq!((&again["runId"], &again["status"]), (&first["runId"], &first["status"]));
        sent("hello").await.problem("idempotency_mismatch");
    }
    let answer = json!({ "suspensionId": first["suspensions"][0]["suspensionId"], "approved": true });
    app.ask("POST", "/threads/t1/resume").header("prefer", "wait=30").json(&answer).send().await.expect(200);
    let runs = items(&app, "/threads/t1/runs").await;
    let stands: Vec<&Value> = runs.iter().map(|run| &run["status"]).collect();
    assert_eq!(stands, ["completed", "completed"]);
}

/// Nor is it shown to a model.
#[tokio::test]
async fn a_message_whose_run_was_cancelled_before_it_began_is_no_part_of_the_conversation() {
    let app = App::start().await;
    let asked = app.suspend("t1", "send").await;
    let waits = app.post("/threads/t1/process", json!({ "query": "hello" })).await.expect(202);
    app.post(&format!("{}/cancel", waits["runUrl"].as_str().unwrap()), json!({})).await.expect(202);
    let answer = json!({ "suspensionId": asked["suspensionId"], "approved": true });
    app.ask("POST", "/threads/t1/resume").header("prefer", "wait=30").json(&answer).send().await.expect(200);
    let before = said(&app, "t1").await;
    assert_eq!(contents(&before), ["send", "The mail is dealt with."]);
    go_back(&app, "hello", &before[0]["messageId"]).await;
    assert_eq!(contents(&said(&app, "t1").await)[..2], ["send", "hello"]);
}

#[tokio::test]
async fn a_thread_goes_on_from_a_message_that_was_never_answered() {
    let app = App::start().await;
    for query in ["hang", "hello"] {
        app.post("/threads/t1/process", json!({ "query": query })).await.expect(202);
    }
    app.post("/threads/t1/cancel", json!({})).await.expect(202);
    let before = said(&app, "t1").await;
    assert_eq!(contents(&before), ["hang"]);
    go_back(&app, "hello", &before[0]["messageId"]).await;
    assert_eq!(contents(&said(&app, "t1").await), ["hang", "hello", "Hello there."]);
}

/// Likewise in a copy of the thread as of the place.
#[tokio::test]
async fn a_call_that_was_made_after_the_place_is_asked_about_before_it_is_made_again() {
    let app = App::start().await;
    let rules = json!({ "rules": [{ "tool": "demo_send_email", "action": "auto" }] });
    app.ask("PUT", "/policy").json(&rules).send().await.expect(200);
    app.finish("t1", "hello").await;
    let (place, thread) = (said(&app, "t1").await[1]["messageId"].clone(), app.get("/threads/t1").await.expect(200));
    app.finish("t1", "send").await;
    app.post("/threads/t1/fork", json!({ "threadId": "t2", "at": thread["lastSeq"] })).await.expect(201);
    let copied = app.suspend("t2", "send").await;
    let body = json!({ "query": "send", "after": place });
    let ask = app.ask("POST", "/threads/t1/process").header("prefer", "wait=30");
    let back = ask.json(&body).send().await.expect(202);
    let why = "was called with the same arguments in another continuation of this conversation";
    for asked in [&copied, &back["suspensions"][0]] {
        assert!(asked["message"].as_str().is_some_and(|message| message.contains(why)), "{asked:#}");
    }
    let answer = json!({ "suspensionId": back["suspensions"][0]["suspensionId"], "approved": true });
    app.ask("POST", "/threads/t1/resume").header("prefer", "wait=30").json(&answer).send().await.expect(200);
}

/// The thread `t1` sent a mail, and went back to before that with `hello`. Mails are sent unasked.
async fn app_whose_thread_went_back() -> App {
    let app = App::start().await;
    let rules = json!({ "rules": [{ "tool": "demo_send_email", "action": "auto" }] });
    app.ask("PUT", "/policy").json(&rules).send().await.expect(200);
    app.finish("t1", "hello").await;
    let place = said(&app, "t1").await[1]["messageId"].clone();
    app.finish("t1", "send").await;
    go_back(&app, "hello", &place).await;
    app
}

/// The thread itself asks no more, as a run has completed since.
#[tokio::test]
async fn a_copy_as_of_a_time_when_the_thread_had_gone_back_asks_likewise() {
    let app = app_whose_thread_went_back().await;
    let began = items(&app, "/threads/t1/events?types=RUN_STARTED").await.pop().unwrap();
    app.post("/threads/t1/fork", json!({ "threadId": "t2", "at": began["seq"] })).await.expect(201);
    assert_eq!(app.suspend("t2", "send").await["toolName"], "demo_send_email");
    app.finish("t1", "send").await;
}

#[tokio::test]
async fn a_thread_that_goes_back_to_a_time_when_it_had_gone_back_asks_likewise() {
    let app = app_whose_thread_went_back().await;
    // The query, after which nothing had completed.
    let place = said(&app, "t1").await[2]["messageId"].clone();
    let ask = app.ask("POST", "/threads/t1/process").header("prefer", "wait=30");
    let back = ask.json(&json!({ "query": "send", "after": place })).send().await.expect(202);
    assert_eq!(back["suspensions"][0]["toolName"], "demo_send_email", "{back:#}");
}

/// Nor does a copy amid the run know of the call, and a copy of a thread that still asks does so too.
#[tokio::test]
async fn without_a_plan_a_call_is_asked_about_likewise_where_the_query_is_kept() {
    let script = r#"
        [[reply]]
        when = { query = "mail", iteration = 1 }
        calls = [{ tool = "demo_send_email", arguments = { to = "a@example.com", subject = "s", body = "b" } }]

        [[reply]]
        when = { query = "mail" }
        text = "Sent."
    "#;
    let app = App::scripted(script, |config| config.agent.core = "react".to_owned()).await;
    let rules = json!({ "rules": [{ "tool": "demo_send_email", "action": "auto" }] });
    app.ask("PUT", "/policy").json(&rules).send().await.expect(200);
    app.finish("t1", "mail").await;
    let body = json!({ "query": "mail", "after": said(&app, "t1").await[0]["messageId"] });
    let ask = app.ask("POST", "/threads/t1/process").header("prefer", "wait=30");
    let back = ask.json(&body).send().await.expect(202);
    assert_eq!(back["suspensions"][0]["toolName"], "demo_send_email", "{back:#}");
    app.post("/threads/t1/cancel", json!({})).await.expect(202);
    let called = items(&app, "/threads/t1/events?types=TOOL_EXECUTION").await[0]["seq"].clone();
    for (id, at) in [("amid", called), ("now", app.get("/threads/t1").await.expect(200)["lastSeq"].clone())] {
        app.post("/threads/t1/fork", json!({ "threadId": id, "at": at })).await.expect(201);
        app.suspend(id, "mail").await;
    }
}

/// And not unknown: it is there.
#[tokio::test]
async fn a_thread_that_changes_whenever_it_was_read_is_busy() {
    let store = Moody::fresh().await;
    let app = App::of(store.clone(), |_| {}).await;
    app.finish("t1", "hello").await;
    store.set("messages", Mood::Hangs);
    let changes = async {
        for n in 0..8 {
            store.holds("messages").await;
            let changed = app.ask("PUT", "/threads/t1/agent-state").json(&json!({ "data": n })).send();
            changed.await.expect(200);
            // The call that waits is answered, the next one waits.
            store.set("messages", Mood::HangsNext);
        }
    };
    let back = app.post("/threads/t1/process", json!({ "query": "hello", "after": "start" }));
    let (said, ()) = join(back, changes).await;
    said.problem("thread_busy");
}

#[tokio::test]
async fn the_runs_of_a_long_thread_are_read_at_once() {
    let (store, readers) = Moody::apart(fresh_store().await);
    let app = App::of(store, |_| {}).await;
    for _ in 0..17 {
        app.finish("t1", "hello").await;
    }
    let last = said(&app, "t1").await.pop().unwrap();
    readers.calls("rows_by_id");
    go_back(&app, "hello", &last["messageId"]).await;
    assert_eq!(readers.calls("rows_by_id"), 1);
    assert_eq!(said(&app, "t1").await.len(), 36);
}
