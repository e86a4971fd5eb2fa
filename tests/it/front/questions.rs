//! `GET /suspensions`: the subject of each question, who may answer it, and questions already closed.

use pes::config::ConfiguredKey;
use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::http::Ask;

const BOSS: &str = "boss-0123456789abcdef0123456789ab";
const ASKER: &str = "asker-0123456789abcdef0123456789a";
const OTHER: &str = "other-0123456789abcdef0123456789a";
const READER: &str = "reader-0123456789abcdef012345678";

async fn office() -> App {
    App::with(|config| {
        let key = |scopes: &str, key: &str| {
            let name = key.split('-').next().unwrap_or_default();
            format!("one/{name}:{scopes}:{key}").parse::<ConfiguredKey>().unwrap()
        };
        let both = "read+run+approve";
        config.auth.keys = vec![key("admin", BOSS), key(both, ASKER), key(both, OTHER), key("read", READER)];
    })
    .await
}

async fn rule(app: &App, rule: Value) {
    let ask = ask(app, BOSS, "PUT", "/policy").header("if-match", "*");
    ask.json(&json!({ "rules": [rule] })).send().await.expect(200);
}

/// With this key, whatever the app's own is.
fn ask(app: &App, key: &str, method: &str, path: &str) -> Ask {
    Ask::new(app.address, method, path).key(key)
}

async fn listed(app: &App, key: &str, query: &str) -> Vec<Value> {
    let page = ask(app, key, "GET", &format!("/suspensions{query}")).send().await.expect(200);
    page["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_question_says_what_it_is_about_and_what_the_caller_may_answer() {
    let app = office().await;
    rule(&app, json!({ "tool": "demo_*", "action": "ask", "fourEyes": true })).await;
    let app = app.key(ASKER);
    app.suspend("t1", "send").await;
    let shown = listed(&app, OTHER, "").await[0].clone();
    assert_eq!((&shown["threadTitle"], &shown["itemDescription"]), (&json!("Send"), &json!("Send the mail")));
    assert_eq!(shown["askedBy"], json!(["asker"]));
    assert_eq!((&shown["class"], &shown["idempotent"]), (&json!("irreversible"), &json!(false)));
    assert_eq!(shown["inputSchema"]["properties"]["to"]["type"], "string", "{shown:#}");
    for (key, may) in [
        (OTHER, json!({ "approve": true, "reject": true })),
        (ASKER, json!({ "approve": false, "reject": true, "why": "four_eyes" })),
        (READER, json!({ "approve": false, "reject": false, "why": "forbidden" })),
    ] {
        assert_eq!(listed(&app, key, "").await[0]["mayAnswer"], may, "{key}");
    }
    // `mayAnswer` is enforced.
    let answer = |key: &str, approved: bool| {
        let body = json!({ "suspensionId": shown["suspensionId"], "approved": approved });
        ask(&app, key, "POST", "/threads/t1/resume").json(&body).send()
    };
    answer(ASKER, true).await.problem("four_eyes");
    answer(READER, true).await.problem("forbidden");
    answer(ASKER, false).await.expect(202);

    rule(&app, json!({ "tool": "demo_*", "action": "ask", "approvers": ["other"] })).await;
    app.suspend("t2", "send").await;
    let why = json!({ "approve": false, "reject": false, "why": "not_an_approver" });
    assert_eq!(listed(&app, ASKER, "").await[0]["mayAnswer"], why);
    assert_eq!(listed(&app, OTHER, "").await[0]["mayAnswer"]["approve"], true);
    let log = app.observed("t2", "AGENT_SUSPENDED").await;
    let told = &log[0]["content"];
    for member in ["class", "idempotent", "inputSchema"] {
        assert_eq!(told[member], shown[member], "{member}");
    }
    let runs = app.get("/threads/t2/runs").await.expect(200);
    assert_eq!(runs["items"][0]["requestedBy"], json!(["asker"]));
    let messages = app.get("/threads/t2/messages").await.expect(200);
    assert_eq!(messages["items"][0]["requestedBy"], "asker", "{messages:#}");
}

#[tokio::test]
async fn questions_that_are_over_are_found_by_status_thread_and_who_decided() {
    let app = office().await.key(ASKER);
    for thread in ["t1", "t2", "t3"] {
        app.suspend(thread, "send").await;
    }
    let open = listed(&app, BOSS, "").await;
    let answer = async |thread: &str, key: &str| {
        let asked = open.iter().find(|open| open["threadId"] == thread).unwrap();
        let body = json!({ "suspensionId": asked["suspensionId"], "approved": false, "reason": "no" });
        let ask = ask(&app, key, "POST", &format!("/threads/{thread}/resume")).header("prefer", "wait=20");
        ask.json(&body).send().await.expect(200);
    };
    answer("t1", OTHER).await;
    answer("t2", BOSS).await;
    app.post("/threads/t3/cancel", json!({})).await.expect(202);
    let threads = async |query: &str| {
        let found = listed(&app, BOSS, query).await;
        found.iter().map(|one| one["threadId"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(threads("").await, "");
    assert_eq!(threads("?status=resolved").await, "t2 t1");
    assert_eq!(threads("?status=cancelled").await, "t3");
    assert_eq!(threads("?status=all").await, "t3 t2 t1");
    assert_eq!(threads("?decidedBy=other").await, "t1");
    assert_eq!(threads("?status=all&threadId=t2").await, "t2");
    let over = listed(&app, BOSS, "?decidedBy=other").await[0].clone();
    assert_eq!((&over["resolution"]["decision"], over.get("mayAnswer")), (&json!("rejected"), None));
    // A reason tells the model what to do next, so whoever gave it has shaped the run.
    assert_eq!(over["askedBy"], json!(["asker", "other"]));

    let first = app.get("/suspensions?status=all&limit=2").await.expect(200);
    let rest = format!("/suspensions?status=all&limit=2&cursor={}", first["nextCursor"].as_str().unwrap());
    assert_eq!(app.get(&rest).await.expect(200)["items"][0]["threadId"], "t1");
    for wrong in ["status=open", "sort=age", "sort=expiresAt&status=resolved", "sort=expiresAt&decidedBy=boss"] {
        let problem = app.get(&format!("/suspensions?{wrong}")).await.problem("invalid");
        assert!(problem["errors"][0]["pointer"].as_str().unwrap().starts_with('?'), "{problem:#}");
    }
    app.get("/suspensions?threadId=none").await.problem("not_found");
}

#[tokio::test]
async fn questions_and_runs_say_where_people_find_them() {
    let app = App::with(|config| config.server.public_url = Some("https://pes.example/agents/".to_owned())).await;
    let told = app.suspend("t1", "send").await;
    let question = format!("https://pes.example/agents/#/questions/{}", told["suspensionId"].as_str().unwrap());
    assert_eq!(told["url"], question);
    assert_eq!(listed(&app, BOSS, "").await[0]["url"], question);
    let run = app.get("/runs").await.expect(200)["items"][0].clone();
    let place = format!("https://pes.example/agents/#/t/t1?run={}", run["runId"].as_str().unwrap());
    assert_eq!(run["url"], place);
    let mut socket = app.socket("/threads/t1/events").await;
    socket.say(json!({ "op": "cancel", "id": "1" })).await;
    let frame = socket.until(|frame| frame["event"] == "run" && frame["data"]["status"] == "cancelled").await;
    assert_eq!(frame.last().unwrap()["data"]["url"], place);
}

#[tokio::test]
async fn what_expires_next_comes_first() {
    let app = App::start().await;
    for (thread, timeout) in [("t1", json!(9_000_000)), ("t2", Value::Null), ("t3", json!(8_000_000))] {
        let options = match timeout {
            Value::Null => json!({}),
            timeout => json!({ "executionConfig": { "suspensionTimeoutMs": timeout } }),
        };
        let ask = app.ask("POST", &format!("/threads/{thread}/process")).header("prefer", "wait=30");
        ask.json(&json!({ "query": "send", "options": options })).send().await.expect(202);
    }
    let found = listed(&app, BOSS, "?sort=expiresAt").await;
    let threads: Vec<&str> = found.iter().map(|one| one["threadId"].as_str().unwrap()).collect();
    assert_eq!(threads, ["t3", "t1", "t2"]);
}
