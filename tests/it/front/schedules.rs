//! Schedules over HTTP.

use pes::config::{ConfiguredKey, Provider};
use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::store::fresh_store;

fn nightly() -> Value {
    json!({ "id": "nightly", "cron": "30 2 * * *", "timezone": "Europe/Berlin", "query": "send" })
}

#[tokio::test]
async fn a_schedule_is_made_shown_changed_and_removed() {
    let app = App::start().await;
    let made = app.post("/schedules", nightly()).await;
    assert!(made.header("location").unwrap().ends_with("/schedules/nightly"));
    let made = made.expect(201);
    assert_eq!(
        (&made["overlap"], &made["catchUpMs"], &made["paused"]),
        (&json!("skip"), &json!(3_600_000), &json!(false))
    );
    app.post("/schedules", nightly()).await.problem("schedule_exists");
    let shown = app.get("/schedules/nightly").await;
    let tag = shown.header("etag").unwrap().to_owned();
    let shown = shown.expect(200);
    let next = app.get("/schedules/nightly/next?n=2").await.expect(200);
    assert_eq!(next["items"].as_array().unwrap().len(), 2);
    assert_eq!(next["items"][0]["due"], shown["standing"]["nextDue"]);
    assert!(next["items"][0]["local"].as_str().unwrap().contains("T02:30:00+0"), "{next}");
    let pause = json!({ "paused": true });
    let patch = app.ask("PATCH", "/schedules/nightly").header("if-match", &tag).json(&pause).send().await;
    assert_eq!(patch.expect(200)["paused"], true);
    let stale = app.ask("PUT", "/schedules/nightly").header("if-match", &tag).json(&nightly()).send().await;
    stale.problem("precondition_failed");
    let shown = app.get("/schedules/nightly").await.expect(200);
    assert_eq!(shown["standing"]["nextDue"], Value::Null);
    assert_eq!(app.get("/schedules/nightly/next").await.expect(200)["items"], json!([]));
    assert_eq!(app.get("/schedules").await.expect(200)["items"][0]["id"], "nightly");
    app.ask("DELETE", "/schedules/nightly").send().await.expect(204);
    app.get("/schedules/nightly").await.problem("not_found");
    app.get("/schedules/nightly/next").await.problem("not_found");
    app.post("/schedules/nightly/trigger", json!({})).await.problem("not_found");
}

/// Its times have no run any more, which the alert PesSchedulesLate reports until somebody stops it.
#[tokio::test]
async fn a_schedule_whose_model_is_gone_can_be_paused() {
    let store = fresh_store().await;
    let app = App::of(store.clone(), |config| {
        let provider = Provider { base_url: Some("http://127.0.0.1:1/v1".to_owned()), ..Provider::default() };
        config.models.providers.insert("gone".to_owned(), provider);
    })
    .await;
    let mut spec = nightly();
    spec["options"] = json!({ "providerConfig": { "providerName": "gone", "modelId": "m" } });
    app.post("/schedules", spec.clone()).await.expect(201);
    app.stopped().await;

    let app = App::of(store, |_| {}).await;
    let patch = async |change: Value| app.ask("PATCH", "/schedules/nightly").json(&change).send().await;
    assert_eq!(patch(json!({ "paused": true })).await.expect(200)["paused"], true);
    let pointer = |problem: Value| problem["errors"][0]["pointer"].clone();
    let provider = "/options/providerConfig/providerName";
    assert_eq!(pointer(patch(json!({ "paused": false })).await.problem("invalid")), provider);
    assert_eq!(pointer(patch(json!({ "query": "hello" })).await.problem("invalid")), provider);
    spec["paused"] = true.into();
    let mut shown = app.get("/schedules/nightly").await.expect(200);
    shown.as_object_mut().unwrap().retain(|name, _| spec.get(name).is_some());
    assert_eq!(shown, spec);
}

#[tokio::test]
async fn what_cannot_be_is_refused_where_it_stands() {
    let app = App::with(|config| config.limits.documents = 1).await;
    for (change, pointer) in [
        (json!({ "cron": "61 * * * *" }), "/cron"),
        (json!({ "everyMs": 60_000 }), "/cron"),
        (json!({ "timezone": "Europe/Atlantis" }), "/timezone"),
        (json!({ "id": "a b" }), "/id"),
        (json!({ "cron": null, "at": 1 }), "/at"),
        (json!({ "cron": null, "at": "2026-12-01T08:00:00Z" }), "/at"),
        (json!({ "thread": { "mode": "fixed", "id": "a b" } }), "/thread/id"),
        (
            json!({ "options": { "providerConfig": { "providerName": "nobody" } } }),
            "/options/providerConfig/providerName",
        ),
        (json!({ "options": { "budget": { "maxLlmCalls": 0 } } }), "/options/budget/maxLlmCalls"),
        (json!({ "backfill": true }), "/backfill"),
    ] {
        let mut spec = nightly();
        json_patch::merge(&mut spec, &change);
        let problem = app.post("/schedules", spec).await.problem("invalid");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem:#}");
        let says_how = problem["errors"][0]["detail"].as_str().unwrap().contains("milliseconds since 1970");
        assert_eq!(says_how, change["at"].is_string(), "{problem:#}");
    }
    for wrong in ["n=0", "n=101", "n=x"] {
        app.post("/schedules", nightly()).await;
        app.get(&format!("/schedules/nightly/next?{wrong}")).await.problem("invalid");
    }
    let mut second = nightly();
    second["id"] = json!("second");
    app.post("/schedules", second).await.problem("too_many_documents");
}

/// Each patch is as small as a request must be.
#[tokio::test]
async fn a_schedule_does_not_grow_beyond_the_size_of_a_request() {
    let app = App::with(|config| config.limits.body_bytes = 10_000).await;
    app.post("/schedules", nightly()).await.expect(201);
    let patch = |change: Value| app.ask("PATCH", "/schedules/nightly").json(&change).send();
    let long = "x".repeat(6_000);
    patch(json!({ "query": long })).await.expect(200);
    let prompt = json!({ "options": { "systemPrompt": long } });
    let refused = patch(prompt.clone()).await.problem("invalid");
    assert!(refused["detail"].as_str().unwrap().contains("limits.body_bytes"), "{refused:#}");
    patch(json!({ "query": "send" })).await.expect(200);
    patch(prompt).await.expect(200);
}

const BOSS: &str = "boss-0123456789abcdef0123456789ab";
const WRITER: &str = "writer-0123456789abcdef0123456789";
const PAUSER: &str = "pauser-0123456789abcdef0123456789";
const OTHER: &str = "other-0123456789abcdef0123456789a";

/// A server where tools need two people, and a schedule that the writer made and the pauser changed: everybody who has
/// changed any part of it counts as a shaper from then on.
async fn written_by_two(schedule: Value) -> App {
    let key = |text: &str| text.parse::<ConfiguredKey>().unwrap();
    let app = App::with(|config| {
        let named = |name: &str, scopes: &str, secret: &str| key(&format!("one/{name}:{scopes}:{secret}"));
        let both = "read+run+approve";
        config.auth.keys = vec![
            named("boss", "admin", BOSS),
            named("writer", both, WRITER),
            named("pauser", both, PAUSER),
            named("other", both, OTHER),
        ];
    })
    .await
    .key(BOSS);
    let rule = json!({ "rules": [{ "tool": "demo_*", "action": "ask", "fourEyes": true }] });
    app.ask("PUT", "/policy").json(&rule).send().await.expect(200);
    let app = app.key(WRITER);
    app.post("/schedules", schedule).await.expect(201);
    let app = app.key(PAUSER);
    app.ask("PATCH", "/schedules/nightly").json(&json!({ "paused": true })).send().await.expect(200);
    app
}

/// The schedule's run, which waits for a person.
async fn triggered(app: &App) -> Value {
    let run = app.post("/schedules/nightly/trigger", json!({})).await.expect(202);
    let (thread, id) = (run["threadId"].as_str().unwrap(), run["runId"].as_str().unwrap());
    assert_eq!(run["eventsUrl"], format!("http://{}/threads/{thread}/events", app.address));
    assert_eq!(run["runUrl"], format!("http://{}/runs/{id}", app.address));
    let path = format!("/runs/{}?wait=20", run["runId"].as_str().unwrap());
    let waited = app.get(&path).await.expect(200);
    assert_eq!(waited["status"], "suspended", "{waited:#}");
    assert_eq!(waited["requestedBy"], json!(["schedule:nightly", "pauser", "writer"]));
    run
}

#[tokio::test]
async fn who_wrote_a_schedule_may_not_approve_what_it_asks_for() {
    let app = written_by_two(nightly()).await;
    let run = triggered(&app).await;
    let runs = app.get("/schedules/nightly/runs").await.expect(200);
    assert_eq!(runs["items"][0]["runId"], run["runId"]);
    let asked = app.get("/suspensions").await.expect(200)["items"][0].clone();
    let answer = json!({ "suspensionId": asked["suspensionId"], "approved": true });
    let resume = format!("/threads/{}/resume", run["threadId"].as_str().unwrap());
    app.post(&resume, answer.clone()).await.problem("four_eyes");
    let app = app.key(WRITER);
    app.post(&resume, answer.clone()).await.problem("four_eyes");
    let app = app.key(OTHER);
    app.post(&resume, answer).await.expect(202);
}

/// The open items of its plan still count as shaped by them when somebody else resumes it.
#[tokio::test]
async fn who_wrote_a_schedule_answers_for_its_plan_after_the_thread_went_back() {
    let mut schedule = nightly();
    schedule["thread"] = json!({ "mode": "fixed", "id": "t1" });
    let app = written_by_two(schedule).await;
    let run = triggered(&app).await;
    app.post("/threads/t1/cancel", json!({})).await.expect(202);
    app.get(&format!("/runs/{}?wait=20", run["runId"].as_str().unwrap())).await.expect(200);
    let app = app.key(OTHER);
    let place = app.get("/threads/t1/messages").await.expect(200)["items"][0]["messageId"].clone();
    app.finish("t1", "hello").await;
    let back = json!({ "query": "hello", "after": place });
    app.ask("POST", "/threads/t1/process").header("prefer", "wait=30").json(&back).send().await.expect(200);
    let runs = app.get("/threads/t1/runs").await.expect(200)["items"].clone();
    let last =
        runs.as_array().unwrap().iter().find(|run| run["query"] == "hello" && run["requestedBy"][1] != json!(null));
    let names = last.unwrap_or_else(|| panic!("{runs:#}"))["requestedBy"].clone();
    assert_eq!(names, json!(["other", "schedule:nightly", "pauser", "writer"]));
}

#[tokio::test]
async fn a_trigger_with_a_key_asks_once() {
    let app = App::start().await;
    app.post("/schedules", nightly()).await.expect(201);
    let trigger =
        || app.ask("POST", "/schedules/nightly/trigger").header("idempotency-key", "k").json(&json!({})).send();
    let (first, second) = (trigger().await, trigger().await);
    assert_eq!(second.header("idempotency-replayed"), Some("true"));
    assert_eq!(first.expect(202)["runId"], second.expect(202)["runId"]);
    assert_eq!(app.get("/schedules/nightly/runs").await.expect(200)["items"].as_array().unwrap().len(), 1);
}
