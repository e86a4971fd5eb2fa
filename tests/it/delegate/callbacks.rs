//! Reports are authenticated per task and idempotent, and late ones change nothing.

use futures_util::future::join_all;
use pes::config::ConfiguredKey;
use rstest::rstest;
use serde_json::{Value, json};

use super::peer::{Dialect, Peer};
use super::stage::CALLER;
use super::{app, delegated, ended, knows, results};
use crate::support::app::App;
use crate::support::http::{Ask, soon};
use crate::support::process::{Place, Server};
use crate::support::store::{Mood, Moody};

#[tokio::test]
async fn a_hundred_reports_at_once_are_taken_and_count_once() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = app(&peer, 3_600_000).await;
    let (run, _) = delegated(&app, "t").await;
    peer.says("COMPLETED");
    let said = join_all((0..100).map(|_| peer.reports(0))).await;
    assert!(said.iter().all(|said| said.status == 202), "{:?}", said.iter().map(|it| it.status).collect::<Vec<_>>());
    assert_eq!(ended(&app, &run).await["status"], "completed");
    assert_eq!(results(&app, "t").await.len(), 1);
}

#[tokio::test]
async fn whoever_does_not_know_the_secret_of_the_task_finds_nothing() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = app(&peer, 3_600_000).await;
    let (_, task) = delegated(&app, "t").await;
    delegated(&app, "u").await;
    let ((_, _, token), (_, _, others)) = (peer.push(0), peer.push(1));
    peer.says("COMPLETED");
    let asked = peer.told().asked;
    let report = async |task: &str, header: &str, value: &str| {
        let ask = Ask::new(app.address, "POST", &format!("/a2a/callbacks/{task}")).header(header, value);
        ask.json(&json!({ "task": { "id": "their-1" } })).send().await
    };
    let mut refusals = Vec::new();
    for (id, value) in [(task.as_str(), "wrong"), (&task, &others), ("task_unknown", &token), (&task, "")] {
        let mut refusal = report(id, "x-a2a-notification-token", value).await.problem("not_found");
        ["instance", "traceId"].iter().for_each(|key| drop(refusal.as_object_mut().unwrap().remove(*key)));
        refusals.push(refusal);
    }
    let without = Ask::new(app.address, "POST", &format!("/a2a/callbacks/{task}")).json(&json!({})).send().await;
    without.problem("not_found");
    assert!(refusals.windows(2).all(|pair| pair[0] == pair[1]), "{refusals:#?}");
    assert_eq!(peer.told().asked, asked, "nobody was asked because of that");
    let bearer = report(&task, "authorization", &format!("Bearer {token}")).await;
    assert_eq!(bearer.status, 202);
    peer.until(|told| told.asked > asked).await;
}

#[rstest]
#[case::too_large(format!("{{\"x\": \"{}\"}}", "x".repeat(1 << 20)))]
#[case::no_json("{".to_owned())]
#[case::nothing(String::new())]
#[tokio::test]
async fn a_report_that_cannot_be_read_is_a_reason_to_ask_too(#[case] body: String) {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = app(&peer, 3_600_000).await;
    delegated(&app, "t").await;
    let (_, path, token) = peer.push(0);
    let asked = peer.told().asked;
    let report = Ask::new(app.address, "POST", &path).header("x-a2a-notification-token", &token);
    assert_eq!(report.typed("application/json", &body).send().await.status, 202);
    peer.until(|told| told.asked > asked).await;
}

/// Whoever works on a report is held for ever.
#[tokio::test]
async fn a_report_that_names_another_task_than_the_agent_did_costs_no_work() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let place = Place::sqlite(CALLER);
    place.configure(&format!(
        "delegation = {{ poll_ms = 50, poll_most_ms = 50 }}\n[[agents]]\nid = \"helper\"\ncard = \"{}\"\n",
        peer.card()
    ));
    let mut server = Server::start(&place, Some("callback.verified")).await;
    server.address.ask("POST", "/threads/t/process").json(&json!({ "query": "delegate" })).send().await.expect(202);
    peer.until(|told| told.asked > 0).await;
    let (_, path, token) = peer.push(0);
    let report = |id: &str| {
        let ask = server.address.ask("POST", &path).header("x-a2a-notification-token", &token);
        ask.json(&json!({ "task": { "id": id } })).send()
    };
    let (invented, theirs) = (report("another"), report("their-1"));
    tokio::select! {
        said = invented => assert_eq!(said.status, 202),
        () = server.reached() => panic!("it was worked on"),
    }
    tokio::select! {
        _ = theirs => panic!("it is held before it answers"),
        () = server.reached() => {}
    }
    server.kill().await;
}

/// A task as it is stored, with the time at which its agent is asked next. A report that was taken moves it to now, before
/// the report is answered.
async fn stored(app: &App, task: &str) -> Value {
    let shown = app.get(&format!("/tasks/{task}")).await.expect(200);
    assert!(shown["nextAskAt"].is_number(), "{shown:#}");
    shown
}

/// It counts as a report that names none.
#[tokio::test]
async fn an_id_that_is_too_long_for_one_names_no_task() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = app(&peer, 3_600_000).await;
    let (run, task) = delegated(&app, "t").await;
    let (_, path, token) = peer.push(0);
    let report = async |id: String| {
        let ask = Ask::new(app.address, "POST", &path).header("x-a2a-notification-token", &token);
        assert_eq!(ask.json(&json!({ "task": { "id": id } })).send().await.status, 202);
    };
    let waits = stored(&app, &task).await;
    report("x".repeat(1_024)).await;
    assert_eq!(stored(&app, &task).await, waits, "it names another task");
    peer.says("COMPLETED");
    report("x".repeat(1_025)).await;
    assert_eq!(ended(&app, &run).await["status"], "completed");
    assert_eq!(peer.told().asked, 1);
}

#[tokio::test]
async fn a_report_is_no_more_than_a_reason_to_ask() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let app = app(&peer, 3_600_000).await;
    let (run, task) = delegated(&app, "t").await;
    let (_, path, token) = peer.push(0);
    let waits = stored(&app, &task).await;
    let of_another = Ask::new(app.address, "POST", &path).header("x-a2a-notification-token", &token);
    assert_eq!(of_another.json(&json!({ "task": { "id": "another" } })).send().await.status, 202);
    assert_eq!(stored(&app, &task).await, waits, "a task that this is not");
    let forged = json!({ "task": { "id": "their-1", "status": { "state": "TASK_STATE_COMPLETED" } } });
    let ask = Ask::new(app.address, "POST", &path).header("x-a2a-notification-token", &token);
    assert_eq!(ask.json(&forged).send().await.status, 202);
    peer.until(|told| told.asked == 1).await;
    assert_eq!(app.get(&format!("/tasks/{task}")).await.expect(200)["status"], "working");
    peer.says("COMPLETED");
    assert_eq!(peer.reports(0).await.status, 202);
    assert_eq!(ended(&app, &run).await["status"], "completed");
    assert_eq!(peer.told().asked, 2, "once for each report of this task");
}

#[tokio::test]
async fn a_report_on_a_busy_thread_is_answered_at_once_and_taken_when_it_can_be() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let store = Moody::fresh().await;
    let app = App::of(store.clone(), |config| {
        knows(config, peer.card(), 3_600_000);
        config.auth.sealing_key = Some("a key for secrets".to_owned().into());
    })
    .await;
    let (run, _) = delegated(&app, "t").await;
    store.set("commit", Mood::Hangs);
    let put = app.ask("PUT", "/threads/t/agent-state").json(&json!({ "data": { "n": 1 } }));
    let put = tokio::spawn(put.send());
    soon(store.holds("commit")).await;
    peer.says("COMPLETED");
    for said in join_all((0..20).map(|_| peer.reports(0))).await {
        assert_eq!(said.status, 202);
    }
    assert!(!put.is_finished() && peer.told().asked == 0, "the thread is still busy");
    store.set("commit", Mood::Well);
    put.await.unwrap().expect(200);
    assert_eq!(ended(&app, &run).await["status"], "completed");
    assert_eq!(results(&app, "t").await.len(), 1);
}

#[tokio::test]
async fn the_secret_of_another_tenants_task_opens_nothing() {
    let peer = Peer::start(Dialect::JsonRpc1).await;
    let key = |text: &str| text.parse::<ConfiguredKey>().expect("a key");
    let app = App::with(|config| {
        knows(config, peer.card(), 3_600_000);
        config.auth.sealing_key = Some("a key for secrets".to_owned().into());
        config.auth.keys =
            vec![key("one:admin:key-a-0123456789abcdef0123456789"), key("two:admin:key-b-0123456789abcdef0123456789")];
    })
    .await
    .key("key-a-0123456789abcdef0123456789");
    let (_, mine) = delegated(&app, "t").await;
    let app = app.key("key-b-0123456789abcdef0123456789");
    let (_, theirs) = delegated(&app, "t").await;
    let (address, path, token) = peer.push(0);
    let report = async |path: &str, token: &str| {
        let ask = Ask::new(address, "POST", path).header("x-a2a-notification-token", token);
        ask.json(&json!({ "task": { "id": "their-1" } })).send().await
    };
    assert!(path.ends_with(&mine));
    report(&path.replace(&mine, &theirs), &token).await.problem("not_found");
    app.get(&format!("/tasks/{mine}")).await.problem("not_found");
    app.ask("POST", &format!("/tasks/{mine}/cancel")).send().await.problem("not_found");
    assert_eq!(report(&path, &token).await.status, 202);
}
