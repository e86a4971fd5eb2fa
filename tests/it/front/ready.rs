//! When the server is ready, and what an acknowledgement guarantees.

use pes::app;
use pes::config::{Config, Synchronous};
use pes::domain::ids::TenantPk;
use pes::domain::thread::ThreadStatus;
use serde_json::json;

use crate::support::app::App;
use crate::support::demo;
use crate::support::http::{soon, until};
use crate::support::metrics::value;
use crate::support::process::{Place, Server};
use crate::support::store::{Mood, Moody, fresh_store};

/// The labels of `pes_ready`.
const CHECKS: [&str; 3] = ["draining", "store", "lease"];

#[tokio::test]
async fn a_server_whose_store_takes_nothing_is_not_ready_until_it_does() {
    let store = Moody::fresh().await;
    store.set("ping", Mood::Fails);
    let app = App::of(store.clone(), |_| {}).await;
    let problem = app.get("/readyz").await.problem("store_unavailable");
    assert_eq!(problem["failing"], json!(["store: the store is not available: it was told to fail"]));
    let checks = |text: &str| CHECKS.map(|check| value(text, &format!("pes_ready{{check=\"{check}\"}}")));
    assert_eq!(checks(&app.get("/metrics").await.text()), [1.0, 0.0, 1.0]);
    store.set("ping", Mood::Well);
    until("it is ready", async || app.get("/readyz").await.status == 200).await;
    assert_eq!(checks(&app.get("/metrics").await.text()), [1.0, 1.0, 1.0]);
}

/// A name belongs to one process: the second takes the lease of the first, which does not get it back.
#[tokio::test]
async fn a_process_whose_name_another_took_says_so() {
    let place = Place::postgres(demo::SCRIPT).await.with_one_name("same");
    let (first, second) = (Server::start(&place, None).await, Server::start(&place, None).await);
    let failing = json!([
        "lease: it has ended and could not be renewed yet: Another process is registered as `same`: give each process a \
         PES_REPLICA of its own, or none."
    ]);
    // For a moment the lease has ended, and was not asked for again.
    let is_refused = async || {
        let ready = first.address.ask("GET", "/readyz").send().await;
        ready.status == 503 && ready.problem("store_unavailable")["failing"] == failing
    };
    until("it is told why", is_refused).await;
    let text = first.address.ask("GET", "/metrics").send().await.text();
    let checks = CHECKS.map(|check| value(&text, &format!("pes_ready{{check=\"{check}\"}}")));
    assert_eq!(checks, [1.0, 1.0, 0.0]);
    second.address.ask("GET", "/readyz").send().await.expect(200);
    first.kill().await;
    second.kill().await;
}

/// The look for keys at an open server would wait for the store, too.
#[tokio::test]
async fn a_store_that_does_not_answer_keeps_no_probe_waiting() {
    let store = Moody::fresh().await;
    let app = App::of(store.clone(), |_| {}).await;
    store.set("has_keys", Mood::Hangs);
    soon(app.get("/healthz")).await.expect(200);
    soon(app.get("/readyz")).await.expect(200);
    store.set("ping", Mood::Hangs);
    // The check of the last second is still shared.
    until("it is not ready", async || app.get("/readyz").await.status != 200).await;
    let problem = app.get("/readyz").await.problem("store_unavailable");
    assert_eq!(problem["failing"], json!(["store: it does not answer in time"]));
}

/// A request asks twice whether there are keys: before the checks of its headers, and when its caller is looked for.
#[tokio::test]
async fn a_request_waits_once_for_a_store_that_does_not_answer() {
    let store = Moody::fresh().await;
    let app = App::of(store.clone(), |_| {}).await;
    store.set("has_keys", Mood::FailsNext);
    soon(app.get("/threads")).await.problem("store_unavailable");
}

/// Concurrent requests share one slow check.
#[tokio::test]
async fn whoever_asks_meanwhile_gets_the_same_answer() {
    let store = Moody::fresh().await;
    store.set("ping", Mood::HangsOnce);
    let app = App::of(store, |_| {}).await;
    let asked = futures_util::future::join_all((0..20).map(|_| app.get("/readyz"))).await;
    for said in asked {
        assert_eq!(said.problem("store_unavailable")["failing"], json!(["store: it does not answer in time"]));
    }
}

#[tokio::test]
async fn what_an_acknowledgement_is_worth_is_said() {
    let durability = async |app: App| app.get("/readyz").await.expect(200)["durability"].clone();
    let with = async |synchronous| durability(App::with(|config| config.store.synchronous = synchronous).await).await;
    assert_eq!(with(Synchronous::Full).await, json!({ "status": "full" }));
    let weak = with(Synchronous::Normal).await;
    assert_eq!(weak["status"], "degraded");
    assert!(weak["detail"].as_str().is_some_and(|why| why.contains("store.synchronous is normal")), "{weak}");
}

#[tokio::test]
async fn a_store_that_fails_at_the_start_is_no_fault_of_the_configuration() {
    let store = Moody::fresh().await;
    store.set("register", Mood::Fails);
    match app::App::with_store(store, Config::default()).await.err() {
        Some(app::Error::Store(error)) => assert!(error.to_string().contains("told to fail"), "{error}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_people_read_does_not_hold_up_a_run() {
    let inner = fresh_store().await;
    let (store, readers) = Moody::apart(inner.clone());
    readers.set("*", Mood::Hangs);
    let app = App::of(store, |_| {}).await;
    let (listing, looking) = (app.ask("GET", "/threads?q=x"), app.ask("GET", "/threads/t1/state"));
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    let (listing, looking) = (tokio::spawn(listing.send()), tokio::spawn(looking.send()));
    soon(readers.holds("threads")).await;
    soon(readers.holds("load")).await;
    app.post("/threads/t1/process", json!({ "query": "hello" })).await.expect(202);
    let is_over = async || {
        let thread = inner.thread(TenantPk(1), &"t1".into()).await.unwrap().expect("it was created");
        thread.last_seq > 0 && thread.status == ThreadStatus::Idle
    };
    until("the run is over", is_over).await;
    readers.set("*", Mood::Well);
    listing.await.unwrap().expect(200);
    looking.await.unwrap().expect(200);
}
