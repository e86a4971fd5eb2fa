//! `Idempotency-Key`

use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::http::{Said, in_no_time, soon};

async fn post(app: &App, key: &str, body: &str) -> Said {
    let ask = app.ask("POST", "/threads/t1/process").header("idempotency-key", key);
    ask.typed("application/json", body).send().await
}

async fn runs(app: &App) -> usize {
    how_many(app, "/threads/t1/runs").await
}

#[tokio::test]
async fn the_same_again_is_answered_again_and_done_once() {
    let app = App::start().await;
    let first = post(&app, "k1", r#"{"query":"hello","userId":"u"}"#).await;
    assert_eq!(first.header("idempotency-replayed"), None);
    let second = post(&app, "k1", r#"{ "userId": "u", "query": "hello" }"#).await;
    assert_eq!(second.header("idempotency-replayed"), Some("true"));
    assert_eq!(first.expect(202), second.expect(202), "spelling is no difference");
    post(&app, "k1", r#"{"query":"count"}"#).await.problem("idempotency_mismatch");
    assert_eq!(runs(&app).await, 1);
}

#[tokio::test]
async fn a_repeat_that_waits_gets_the_result() {
    let app = App::start().await;
    let receipt = post(&app, "k1", r#"{"query":"hello"}"#).await.expect(202);
    let again = app.ask("POST", "/threads/t1/process").header("idempotency-key", "k1").header("prefer", "wait=20");
    let said = again.json(&json!({ "query": "hello" })).send().await;
    assert_eq!(said.header("idempotency-replayed"), Some("true"));
    assert_eq!(said.expect(200)["metadata"]["runId"], receipt["runId"]);
    let events = app.ask("POST", "/threads/t1/process").header("idempotency-key", "k1");
    let events = events.header("accept", "text/event-stream").json(&json!({ "query": "hello" })).events().await;
    let events = events.all().await;
    let [.., finished, run] = events.as_slice() else { panic!("{events:#?}") };
    assert_eq!((&finished.data["type"], &run.data["status"]), (&json!("RUN_FINISHED"), &json!("completed")));
}

/// However long it takes until each had its turn, none is told to come back later.
#[tokio::test]
async fn many_at_once_are_one() {
    let app = App::start().await;
    let all = futures_util::future::join_all((0..20).map(|_| post(&app, "k1", r#"{"query":"hello"}"#)));
    let all = in_no_time(all).await;
    let ids: Vec<Value> = all.iter().map(|said| said.expect(202)["runId"].clone()).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(all.iter().filter(|said| said.header("idempotency-replayed").is_none()).count(), 1);
    assert_eq!(runs(&app).await, 1);
}

#[tokio::test]
async fn a_key_counts_on_its_own_path_and_on_both_transports() {
    let app = App::start().await;
    let receipt = post(&app, "k1", r#"{"query":"hello"}"#).await.expect(202);
    let mut socket = app.socket("/threads/t1/events").await;
    socket.say(json!({ "op": "process", "id": "1", "idempotencyKey": "k1", "query": "hello" })).await;
    let ack = socket.answer("1").await;
    assert_eq!((&ack["data"]["runId"], &ack["data"]["replayed"]), (&receipt["runId"], &json!(true)), "{ack:#}");
    let other = app.ask("POST", "/threads/t2/process").header("idempotency-key", "k1");
    let other = other.json(&json!({ "query": "hello" })).send().await;
    assert_ne!(other.expect(202)["runId"], receipt["runId"]);
}

/// Clients write the `:` of an id as it is, or as `%3A`.
#[tokio::test]
async fn a_key_counts_for_a_thread_however_its_id_is_spelled() {
    let app = App::start().await;
    let mut runs = Vec::new();
    for path in ["/threads/a%3Ab/process", "/threads/a:b/process"] {
        let ask = app.ask("POST", path).header("idempotency-key", "k1").json(&json!({ "query": "hello" }));
        runs.push(ask.send().await.expect(202)["runId"].clone());
    }
    let mut socket = app.socket("/threads/a%3Ab/events").await;
    socket.say(json!({ "op": "process", "id": "1", "idempotencyKey": "k1", "query": "hello" })).await;
    runs.push(socket.answer("1").await["data"]["runId"].clone());
    assert!(runs.iter().all(|run| run.is_string() && *run == runs[0]), "{runs:?}");
}

/// Sends a request twice under one key, checks that both responses are the same bytes, and returns the response.
async fn twice(app: &App, path: &str, body: Value, status: u16) -> Value {
    let call = || app.ask("POST", path).header("idempotency-key", "key").json(&body).send();
    let (first, second) = (call().await, call().await);
    assert_eq!((first.status, second.status), (status, status), "{path}: {}", second.text());
    let replayed = [&first, &second].map(|said| said.header("idempotency-replayed"));
    assert_eq!(replayed, [None, Some("true")], "{path}");
    assert_eq!(second.text(), first.text(), "{path}");
    serde_json::from_str(&second.text()).unwrap_or_default()
}

async fn how_many(app: &App, path: &str) -> usize {
    app.get(path).await.expect(200)["items"].as_array().unwrap().len()
}

#[tokio::test]
async fn every_call_that_creates_or_decides_takes_one() {
    let app = App::start().await;
    twice(&app, "/threads", json!({ "title": "x" }), 201).await;
    let suspension = app.suspend("t1", "send").await;
    twice(&app, "/threads/t1/pause", json!({}), 202).await;
    let answer = json!({ "suspensionId": suspension["suspensionId"], "approved": true });
    twice(&app, "/threads/t1/resume", answer, 202).await;
    twice(&app, "/threads/t1/fork", json!({}), 201).await;
    app.post("/threads/t2/process", json!({ "query": "hang" })).await.expect(202);
    let cancelled = twice(&app, "/threads/t2/cancel", json!({}), 202).await;
    assert_eq!(cancelled["runIds"].as_array().unwrap().len(), 1, "{cancelled:#}");
    let run = app.post("/threads/t3/process", json!({ "query": "hang" })).await.expect(202)["runId"].clone();
    let cancelled = twice(&app, &format!("/runs/{}/cancel", run.as_str().unwrap()), json!({}), 202).await;
    assert_eq!(cancelled["runIds"], json!([run]));
}

#[tokio::test]
async fn so_does_what_makes_agents_and_schedules_and_sends_again() {
    let app = App::with(|config| {
        // Nothing listens there, and a delivery is given up after one attempt.
        config.egress.allow.push("127.0.0.1:1".to_owned());
        config.outbox.backoff_ms = Vec::new();
    })
    .await;
    let schedule = json!({ "id": "nightly", "cron": "30 2 * * *", "query": "hello" });
    twice(&app, "/schedules", schedule, 201).await;
    twice(&app, "/schedules/nightly/trigger", json!({}), 202).await;
    twice(&app, "/agents", json!({ "id": "helper", "card": "http://127.0.0.1:1/card" }), 201).await;
    for path in ["/schedules", "/schedules/nightly/runs", "/agents"] {
        assert_eq!(how_many(&app, path).await, 1, "{path}");
    }
    app.post("/webhooks", json!({ "url": "http://127.0.0.1:1/", "events": ["run.finished"] })).await.expect(201);
    app.finish("t1", "hello").await;
    let given_up = soon(async {
        loop {
            let dead = app.get("/deliveries?status=dead").await.expect(200)["items"][0]["deliveryId"].clone();
            match dead.as_str() {
                Some(id) => return id.to_owned(),
                None => tokio::task::yield_now().await,
            }
        }
    });
    twice(&app, &format!("/webhooks/deliveries/{}/replay", given_up.await), json!({}), 202).await;
}

#[tokio::test]
async fn a_key_has_a_form() {
    let app = App::start().await;
    for key in ["a b", &"k".repeat(256), "ü"] {
        post(&app, key, r#"{"query":"hello"}"#).await.problem("malformed");
    }
    let two = app.ask("POST", "/threads").header("idempotency-key", "a").header("idempotency-key", "b");
    two.json(&json!({})).send().await.problem("malformed");
}

#[tokio::test]
async fn what_a_tenant_configures_is_made_once_and_its_secret_is_shown_again() {
    let app = App::start().await;
    let schema = json!({ "type": "object" });
    let tool = json!({ "name": "t1", "description": "T", "url": "https://example.com/t", "inputSchema": schema });
    let server = json!({ "name": "s1", "url": "https://example.com/mcp", "enabled": false });
    let hook = json!({ "url": "https://example.com/hook", "events": ["run.finished"] });
    for (path, body, secret) in
        [("/webhooks", hook, true), ("/http-tools", tool, true), ("/mcp-servers", server, false)]
    {
        let post = || app.ask("POST", path).header("idempotency-key", "k1").json(&body).send();
        let (first, second) = (post().await, post().await);
        assert_eq!((first.header("idempotency-replayed"), second.header("idempotency-replayed")), (None, Some("true")));
        assert_eq!(first.header("location"), second.header("location"));
        let made = first.expect(201);
        assert_eq!(made, second.expect(201), "{path}");
        assert_eq!(made["secret"].is_string(), secret, "{path}");
        assert_eq!(app.get(path).await.expect(200)["items"].as_array().unwrap().len(), 1, "{path}");
        let mut other = body.clone();
        other["url"] = json!("https://example.com/other");
        let other = app.ask("POST", path).header("idempotency-key", "k1").json(&other).send().await;
        other.problem("idempotency_mismatch");
    }
}

#[tokio::test]
async fn an_agent_is_changed_once_and_the_same_answer_is_given_again() {
    let app = App::with(|config| {
        config.egress.allow.push("127.0.0.1:1".to_owned());
        config.auth.sealing_key = Some("a key for secrets".to_owned().into());
    })
    .await;
    let spec = json!({ "id": "helper", "card": "http://127.0.0.1:1/card" });
    app.post("/agents", spec.clone()).await.expect(201);
    let mut replaced = spec.clone();
    replaced["timeoutMs"] = json!(5_000);
    for (method, body, other) in [
        ("PUT", replaced, json!({ "id": "helper", "card": "http://127.0.0.1:1/other" })),
        ("PATCH", json!({ "dedupes": true }), json!({ "dedupes": false })),
    ] {
        // A client that retries a lost request sends its `If-Match`, too.
        let tag = app.get("/agents/helper").await.header("etag").unwrap().to_owned();
        let send = |body: &Value| {
            let ask = app.ask(method, "/agents/helper").header("idempotency-key", "k1").header("if-match", &tag);
            ask.json(body).send()
        };
        let first = send(&body).await;
        let now = app.get("/agents/helper").await.header("etag").unwrap().to_owned();
        let again = send(&body).await;
        assert_eq!((first.header("idempotency-replayed"), first.header("etag")), (None, Some(now.as_str())));
        assert_eq!((again.header("idempotency-replayed"), again.header("etag")), (Some("true"), None), "{method}");
        assert_eq!(first.expect(200), again.expect(200), "{method}");
        assert_eq!(app.get("/agents/helper").await.header("etag"), Some(now.as_str()), "it was done once");
        send(&other).await.problem("idempotency_mismatch");
    }
    assert_eq!(app.get("/audit").await.expect(200)["items"].as_array().unwrap().len(), 3, "made, replaced, changed");
}

/// Why a POST needs no key.
const KEYLESS: [(&str, &str); 16] = [
    ("/a2a", "the protocol has its own: a message has an id"),
    ("/a2a/callbacks/{task}", "a report is a reason to ask, and twice is once"),
    ("/agui", "the protocol has its own: a run has an id"),
    ("/agui/connect", "nothing is changed"),
    ("/imports", "a second thread of the same id is refused"),
    ("/keys", "a key whose answer was lost is revoked, and another made"),
    ("/keys/{key}/rotate", "one whose answer was lost is rotated again, without an overlap"),
    ("/mcp", "tools that begin something take one among their arguments"),
    ("/mcp-servers/{name}/tools/{tool}/approve", "twice is once, and `hash` says what is approved"),
    ("/policy/dry-run", "nothing is changed"),
    ("/session", "a session whose answer was lost is over in time, and another begun"),
    ("/tasks/{task}/cancel", "twice is once"),
    ("/tenants/{tenant}/reopen", "twice is once"),
    ("/threads/{thread}/plan/forecast", "nothing is changed"),
    ("/threads/{thread}/release", "a second one is refused"),
    ("/v1/responses/{response}/cancel", "twice is once"),
];

#[tokio::test]
async fn every_post_that_creates_or_decides_takes_a_key() {
    let app = App::start().await;
    let document = app.get("/openapi.json").await.expect(200);
    let posts = document["paths"].as_object().unwrap().iter().filter(|(_, item)| item.get("post").is_some());
    let takes_key = |item: &Value| {
        let params = item["post"]["parameters"].as_array().cloned().unwrap_or_default();
        params.iter().any(|param| param["name"] == "Idempotency-Key")
    };
    let mut keyless: Vec<&str> = posts.filter(|(_, item)| !takes_key(item)).map(|(path, _)| path.as_str()).collect();
    keyless.sort_unstable();
    assert_eq!(keyless, KEYLESS.map(|(path, _)| path), "say why, or take a key");
}

/// A later retry refers to the state of the first request, not to the current one.
#[tokio::test]
async fn a_decision_that_changed_nothing_is_not_made_anew() {
    let app = App::start().await;
    let decide = async |verb: &str| {
        let path = format!("/threads/t1/{verb}");
        app.ask("POST", &path).header("idempotency-key", "key").json(&json!({})).send().await
    };
    app.finish("t1", "hello").await;
    let first = decide("cancel").await.expect(200);
    let run = app.post("/threads/t1/process", json!({ "query": "hang" })).await.expect(202)["runId"].clone();
    let run = format!("/runs/{}", run.as_str().unwrap());
    let again = decide("cancel").await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!((again.expect(200), app.get(&run).await.expect(200)["status"].clone()), (first, json!("running")));

    app.post("/threads/t1/pause", json!({})).await.expect(202);
    let first = decide("pause").await.expect(202);
    let again = decide("pause").await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.expect(202), first);
}
