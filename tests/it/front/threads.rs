//! `/threads`

use pes::domain::ids::ThreadPk;
use pes::domain::thread::ThreadProfile;
use pes::runtime::clock::{Clock, System};
use pes::store::{NewThread, Store};
use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::store::fresh_store;

#[tokio::test]
async fn a_thread_is_created_once() {
    let app = App::start().await;
    let body = json!({ "threadId": "t1", "config": { "historyLimit": 3 }, "metadata": { "team": "red" } });
    let said = app.post("/threads", body.clone()).await;
    let thread = said.expect(201);
    assert_eq!(said.header("location").unwrap(), format!("http://{}/threads/t1", app.address));
    assert_eq!(thread["status"], "idle");
    assert_eq!(thread["config"], json!({ "historyLimit": 3 }));
    assert_eq!(app.post("/threads", body).await.expect(200), thread, "the same again");
    app.post("/threads", json!({ "threadId": "t1" })).await.problem("thread_exists");
    assert_eq!(app.get("/threads/t1").await.expect(200), thread);
}

#[tokio::test]
async fn a_title_that_the_agent_gave_makes_no_other_thread() {
    let app = App::start().await;
    let body = json!({ "threadId": "t1", "metadata": { "team": "red" } });
    app.post("/threads", body.clone()).await.expect(201);
    app.finish("t1", "count").await;
    assert_eq!(app.post("/threads", body).await.expect(200)["title"], "Count");
    app.post("/threads", json!({ "threadId": "t1", "title": "Other" })).await.problem("thread_exists");
}

#[tokio::test]
async fn a_thread_without_an_id_gets_one() {
    let app = App::start().await;
    let thread = app.post("/threads", json!({})).await.expect(201);
    let id = thread["threadId"].as_str().unwrap();
    assert!(id.starts_with("thr_"));
    app.get(&format!("/threads/{id}")).await.expect(200);
}

#[tokio::test]
async fn bad_threads_are_refused_at_their_place() {
    let app = App::start().await;
    for (body, pointer) in [
        (json!({ "threadId": "a b" }), "/threadId"),
        (json!({ "threadId": "..." }), "/threadId"),
        (json!({ "threadId": "x".repeat(129) }), "/threadId"),
        (json!({ "config": { "colour": "red" } }), "/config/colour"),
        (json!({ "config": { "toolPolicy": { "x": "perhaps" } } }), "/config/toolPolicy/x"),
        (json!({ "metadata": [] }), "/metadata"),
        (json!({ "nope": 1 }), "/nope"),
    ] {
        let problem = app.post("/threads", body).await.problem("invalid");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem:#}");
    }
    assert_eq!(app.get("/threads").await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn threads_are_listed_a_page_at_a_time() {
    let app = App::start().await;
    for id in ["t1", "t2", "t3"] {
        app.post("/threads", json!({ "threadId": id, "title": format!("About {id}") })).await.expect(201);
    }
    let first = app.get("/threads?limit=2").await.expect(200);
    assert_eq!(first["items"].as_array().unwrap().len(), 2);
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = app.get(&format!("/threads?limit=2&cursor={cursor}")).await.expect(200);
    assert_eq!(second["items"].as_array().unwrap().len(), 1);
    assert_eq!(second.get("nextCursor"), None);
    let found = app.get("/threads?q=ABOUT%20t2&status=idle").await.expect(200);
    assert_eq!(found["items"][0]["threadId"], "t2");
    assert_eq!(app.get("/threads?status=running").await.expect(200)["items"], json!([]));
    for wrong in [
        "limit=0",
        "limit=1001",
        "limit=x",
        "status=asleep",
        "resultStatus=bad",
        "colour=red",
        "limit=1&limit=2",
        "cursor=%20",
    ] {
        let refused = app.get(&format!("/threads?{wrong}")).await.problem("invalid");
        let name = wrong.split('=').next().unwrap();
        assert_eq!(refused["errors"][0]["pointer"], format!("?{name}"), "{refused:#}");
    }
}

#[tokio::test]
async fn a_thread_is_patched_and_erased() {
    let app = App::start().await;
    let refused = app.post("/threads", json!({ "config": { "agentCore": "nope" } })).await.problem("invalid");
    assert_eq!(refused["errors"][0]["pointer"], "/config/agentCore", "{refused:#}");
    app.post("/threads", json!({ "threadId": "t1", "metadata": { "a": 1, "b": 2 } })).await.expect(201);
    let patch = |body: &str| app.ask("PATCH", "/threads/t1").typed("application/merge-patch+json", body);
    let patched = patch(r#"{"title": "New", "metadata": {"a": null}}"#).send().await.expect(200);
    assert_eq!((&patched["title"], &patched["metadata"]), (&json!("New"), &json!({ "b": 2 })));
    for (wrong, pointer) in [
        (r#"{"status": "running"}"#, "/status"),
        (r#"{"a/b~c": 1}"#, "/a~1b~0c"),
        (r#"{"config": {"colour": 1}}"#, "/config/colour"),
        (r#"{"config": []}"#, "/config"),
    ] {
        let problem = patch(wrong).send().await.problem("invalid");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem:#}");
    }
    patch("[]").send().await.problem("invalid");
    app.ask("PATCH", "/threads/t1").typed("text/plain", "{}").send().await.problem("unsupported_media_type");

    let erased = app.ask("DELETE", "/threads/t1").send().await;
    assert_eq!((erased.status, erased.body.len()), (204, 0));
    app.get("/threads/t1").await.problem("not_found");
    app.ask("DELETE", "/threads/t1").send().await.problem("not_found");
}

#[tokio::test]
async fn what_runs_is_erased_too() {
    let app = App::start().await;
    app.post("/threads/t1/process", json!({ "query": "hang" })).await.expect(202);
    app.ask("DELETE", "/threads/t1").send().await.expect(204);
    app.finish("t1", "hello").await;
    let page = app.get("/threads/t1/events").await.expect(200);
    assert_eq!(page["items"][0]["seq"], 1, "a thread of the same id begins anew");
}

#[tokio::test]
async fn whoever_waits_for_a_run_learns_that_its_thread_was_erased() {
    let app = App::start().await;
    let asked = app.ask("POST", "/threads/t1/process").header("accept", "text/event-stream");
    let mut events = asked.json(&json!({ "query": "hang" })).events().await;
    let run = loop {
        let event = events.next().await.unwrap();
        if event.event == "token" {
            break event.data["runId"].as_str().unwrap().to_owned();
        }
    };
    let path = format!("/runs/{run}?wait=60");
    let (waited, _) = tokio::join!(app.get(&path), app.ask("DELETE", "/threads/t1").send());
    waited.problem("not_found");
    events.all().await;
}

#[tokio::test]
async fn a_thread_says_how_far_it_is_what_it_asks_and_what_it_costs() {
    let price = pes::domain::usage::Price { input_per_million: 1.0, output_per_million: 1.0, ..Default::default() };
    let app = App::with(|config| _ = config.prices.insert("demo:*".to_owned(), price)).await;
    let fresh = app.post("/threads", json!({ "threadId": "t0" })).await.expect(201);
    let items = |total: u64, done: u64, running: u64| json!({ "total": total, "done": done, "failed": 0, "cancelled": 0, "running": running, "waiting": 0 });
    assert_eq!(fresh["items"], items(0, 0, 0));
    assert_eq!((&fresh["openQuestions"], fresh.get("lastRun"), fresh.get("costUsd")), (&json!(0), None, None));
    assert_eq!(app.get("/threads/t0").await.expect(200), fresh);
    app.suspend("t1", "send").await;
    app.finish("t2", "count").await;
    let listed = app.get("/threads").await.expect(200);
    let [second, first, _] = listed["items"].as_array().unwrap().as_slice() else { panic!("{listed:#}") };
    assert_eq!((&first["items"], &first["openQuestions"]), (&items(1, 0, 1), &json!(1)));
    assert_eq!((&second["items"], &second["openQuestions"]), (&items(1, 1, 0), &json!(0)));
    let run = app.get("/threads/t2/runs").await.expect(200)["items"][0].clone();
    let last = json!({ "runId": run["runId"], "status": "completed", "resultStatus": "success", "query": "count" });
    assert_eq!(second["lastRun"], last);
    assert!(second["costUsd"].as_f64().unwrap() > 0.0);
    assert_eq!(second["costUsd"], run["costUsd"]);
    let asks = &first["lastRun"];
    assert_eq!((&asks["status"], asks.get("resultStatus")), (&json!("suspended"), None));
    assert_eq!(app.get("/threads/t2").await.expect(200), *second);
}

#[tokio::test]
async fn a_run_tells_the_settings_in_effect() {
    let app = App::start().await;
    let config = json!({ "toolPolicy": { "http_*": "ask" }, "executionConfig": { "maxParallelItems": 3 } });
    app.post("/threads", json!({ "threadId": "t1", "config": config })).await.expect(201);
    let options = json!({ "budget": { "maxTokens": 90_000 }, "executionConfig": { "maxIterations": 2 } });
    let ask = app.ask("POST", "/threads/t1/process").header("prefer", "wait=30");
    ask.json(&json!({ "query": "hello", "options": options })).send().await.expect(200);
    let run = app.get("/threads/t1/runs").await.expect(200)["items"][0]["options"].clone();
    let execution = &run["executionConfig"];
    assert_eq!((&execution["maxIterations"], &execution["maxParallelItems"]), (&json!(2), &json!(3)));
    assert_eq!((&execution["onItemFailure"], &execution["planReview"]), (&json!("continue"), &json!("off")));
    assert_eq!((&run["budget"], &run["toolPolicy"]), (&json!({ "maxTokens": 90_000 }), &json!({ "http_*": "ask" })));
    assert_eq!((&run["providerConfig"]["providerName"], &run["agentCore"]), (&json!("demo"), &json!("pes")));
    assert_eq!(app.observed("t1", "RUN_STARTED").await[0]["content"]["options"], run);
}

#[tokio::test]
async fn what_a_thread_says_of_itself_is_bounded_however_it_grows() {
    let app = App::start().await;
    let (some, more) = ("x".repeat(40_000), json!({ "metadata": { "other": "y".repeat(40_000) } }));
    app.post("/threads", json!({ "threadId": "t1", "metadata": { "one": some } })).await.expect(201);
    let patch =
        |change: &Value| app.ask("PATCH", "/threads/t1").typed("application/merge-patch+json", &change.to_string());
    let refused = patch(&more).send().await.problem("invalid");
    assert!(refused["detail"].as_str().unwrap().contains("65536 bytes"), "{refused:#}");
    patch(&json!({ "metadata": { "one": null } })).send().await.expect(200);
    patch(&more).send().await.expect(200);
    let large = json!({ "threadId": "t2", "metadata": { "one": "x".repeat(70_000) } });
    app.post("/threads", large).await.problem("invalid");
}

/// The thread `t<n>` with metadata of this size, as a server without a bound created it.
async fn create(store: &dyn Store, n: i64, bytes: usize) {
    let new = NewThread {
        tenant: store.tenant("default", 0).await.unwrap(),
        thread_id: format!("t{n}").into(),
        core: "pes".to_owned(),
        created_at: System::default().now(),
        created_by: "ann".to_owned(),
    };
    let metadata = json!({ "one": "x".repeat(bytes) }).as_object().unwrap().clone();
    let profile = ThreadProfile { metadata, ..ThreadProfile::default() };
    store.create_thread(ThreadPk(n), new, profile, Vec::new(), None).await.unwrap();
}

#[tokio::test]
async fn a_page_of_large_threads_has_fewer_of_them_and_goes_on_at_its_cursor() {
    let store = fresh_store().await;
    for n in 1..=6 {
        create(&*store, n, 1 << 20).await;
    }
    let app = App::of(store, |_| {}).await;
    let (mut pages, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = app.get(&format!("/threads?limit=1000{cursor}")).await.expect(200);
        let ids = page["items"].as_array().unwrap().iter().map(|it| it["threadId"].as_str().unwrap().to_owned());
        pages.push(ids.collect::<Vec<_>>());
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(pages, [["t6", "t5", "t4"], ["t3", "t2", "t1"]]);
}

/// There was no limit when it was created.
#[tokio::test]
async fn a_thread_that_is_larger_from_before_is_renamed_made_smaller_and_moved() {
    let store = fresh_store().await;
    create(&*store, 1, 70_000).await;
    let app = App::of(store, |_| {}).await;
    app.finish("t1", "hello").await;
    let patch =
        |change: &Value| app.ask("PATCH", "/threads/t1").typed("application/merge-patch+json", &change.to_string());
    patch(&json!({ "title": "A title as people write them" })).send().await.expect(200);
    patch(&json!({ "title": "x".repeat(2_000) })).send().await.problem("invalid");
    patch(&json!({ "metadata": { "two": "y" } })).send().await.problem("invalid");
    patch(&json!({ "metadata": { "one": "x".repeat(69_000) } })).send().await.expect(200);
    let text = app.get("/threads/t1/export").await.text();
    app.ask("POST", "/imports?threadId=copy").typed("application/x-ndjson", &text).send().await.expect(201);
    assert_eq!(app.get("/threads/copy").await.expect(200)["title"], "A title as people write them");
}
