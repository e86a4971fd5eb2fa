//! How many runs of a tenant may be active, and what happens to further ones.

use std::sync::Arc;

use pes::config::{Config, ConfiguredKey};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::saturation::direct;
use crate::support::app::App;
use crate::support::http::{Ask, soon};
use crate::support::postgres::Database;
use crate::support::store::{fresh_store, store_on};
use crate::support::wire::{Step, Wire, says};

const ONE: &str = "key-a-0123456789abcdef";
const TWO: &str = "key-b-0123456789abcdef";
const OPS: &str = "key-o-0123456789abcdef";

/// A limit of one active run per tenant.
fn one_each(url: String) -> impl FnOnce(&mut Config) {
    move |config| {
        let key = |text: &str| text.parse::<ConfiguredKey>().unwrap();
        config.auth.keys = vec![
            key(&format!("one:admin:{ONE}")),
            key(&format!("two:admin:{TWO}")),
            key(&format!("ops:operator:{OPS}")),
        ];
        config.limits.tenant.running_runs = Some(1);
        // No run starts because of the sweeper's regular check.
        config.runtime.lease_ms = 3_600_000;
        config.models.openai.base_url = Some(url);
    }
}

async fn accepted(app: &App, key: &str, thread: &str) -> String {
    let said = app.ask("POST", &format!("/threads/{thread}/process")).key(key).json(&json!({ "query": "hi" }));
    said.send().await.expect(202)["runUrl"].as_str().unwrap().to_owned()
}

async fn read(app: &App, key: &str, path: &str) -> Value {
    app.ask("GET", path).key(key).send().await.expect(200)
}

async fn ended(app: &App, key: &str, run: &str) -> Value {
    let run = read(app, key, &format!("{run}?wait=30")).await;
    assert_eq!(run["status"], "completed", "{run:#}");
    run
}

/// A model whose first reply waits for the test, and this many others.
async fn gated(others: usize) -> (Wire, Arc<Notify>) {
    let gate = Arc::new(Notify::new());
    let first = [vec![Step::Until(gate.clone())], direct()].concat();
    (Wire::serve([vec![first], vec![direct(); others]].concat()).await, gate)
}

#[tokio::test]
async fn runs_beyond_them_wait_and_begin_in_turn_while_other_tenants_go_on() {
    let (mut wire, gate) = gated(3).await;
    let app = App::with(one_each(wire.url())).await;
    let first = accepted(&app, ONE, "t1").await;
    wire.request().await;
    let (second, third) = (accepted(&app, ONE, "t2").await, accepted(&app, ONE, "t3").await);
    for waits in [&second, &third] {
        let run = read(&app, ONE, waits).await;
        assert_eq!((&run["status"], &run["reason"]), (&json!("queued"), &json!("tenant_busy")), "{run:#}");
    }
    assert_eq!(read(&app, ONE, "/threads/t2").await["status"], "waiting");
    assert_eq!(read(&app, ONE, "/threads/t1").await["status"], "running");
    ended(&app, TWO, &accepted(&app, TWO, "t1").await).await;
    assert_eq!(read(&app, ONE, &second).await["status"], "queued");

    gate.notify_one();
    let (first, second) = (ended(&app, ONE, &first).await, ended(&app, ONE, &second).await);
    let third = ended(&app, ONE, &third).await;
    let at = |run: &Value, when: &str| run[when].as_i64().unwrap();
    assert!(at(&second, "startedAt") >= at(&first, "finishedAt"), "{first:#} {second:#}");
    assert!(at(&third, "startedAt") >= at(&second, "finishedAt"), "{second:#} {third:#}");
    assert_eq!(third["reason"], Value::Null);
}

#[tokio::test]
async fn where_too_many_wait_another_is_refused_and_leaves_nothing() {
    let (mut wire, gate) = gated(1).await;
    let set = one_each(wire.url());
    let app = App::with(|config| {
        set(config);
        config.limits.tenant.queued_runs = 1;
    })
    .await;
    accepted(&app, ONE, "t1").await;
    wire.request().await;
    let second = accepted(&app, ONE, "t2").await;
    let ask = |thread: &str| {
        app.ask("POST", &format!("/threads/{thread}/process")).key(ONE).json(&json!({ "query": "hi" })).send()
    };
    let refused = ask("t3").await;
    assert_eq!(refused.header("retry-after"), Some("1"));
    let problem = refused.problem("queue_full");
    assert!(problem["detail"].as_str().unwrap().contains("At most 1 threads of this tenant"), "{problem}");
    app.ask("GET", "/threads/t3").key(ONE).send().await.problem("not_found");
    gate.notify_one();
    ended(&app, ONE, &second).await;
}

fn put(app: &App, tenant: &str, limits: &Value) -> Ask {
    app.ask("PUT", &format!("/limits/runs?tenant={tenant}")).key(OPS).json(limits)
}

#[tokio::test]
async fn the_operator_gives_a_tenant_more_and_what_waits_begins_at_once() {
    let (mut wire, gate) = gated(2).await;
    let app = App::with(one_each(wire.url())).await;
    let first = accepted(&app, ONE, "t1").await;
    wire.request().await;
    let second = accepted(&app, ONE, "t2").await;
    let runs = json!({ "running": 1, "runningMost": 1, "queued": 1, "queuedMost": 1000 });
    assert_eq!(read(&app, ONE, "/limits").await["runs"], runs);
    let now = put(&app, "one", &json!({ "runningRuns": 2, "queuedRuns": 7 })).send().await.expect(200);
    assert_eq!(now, json!({ "runningRuns": 2, "queuedRuns": 7 }));
    ended(&app, ONE, &second).await;
    assert_eq!(read(&app, ONE, &first).await["status"], "running");
    let of_others = json!({ "running": 0, "runningMost": 1, "queued": 0, "queuedMost": 1000 });
    assert_eq!(read(&app, TWO, "/limits").await["runs"], of_others);
    // A missing member is reset to the settings.
    let now = put(&app, "one", &json!({})).send().await.expect(200);
    assert_eq!(now, json!({ "runningRuns": 1, "queuedRuns": 1000 }));
    let third = accepted(&app, ONE, "t3").await;
    assert_eq!(read(&app, ONE, &third).await["reason"], "tenant_busy");
    gate.notify_one();
    ended(&app, ONE, &first).await;
    ended(&app, ONE, &third).await;
}

/// Also runs started before there was a limit.
#[tokio::test]
async fn the_operator_limits_one_tenant_where_the_settings_limit_none() {
    let (mut wire, gate) = gated(2).await;
    let set = one_each(wire.url());
    let app = App::with(|config| {
        set(config);
        config.limits.tenant.running_runs = None;
    })
    .await;
    let first = accepted(&app, ONE, "t1").await;
    wire.request().await;
    let now = put(&app, "one", &json!({ "runningRuns": 1, "queuedRuns": 1 })).send().await.expect(200);
    assert_eq!(now, json!({ "runningRuns": 1, "queuedRuns": 1 }));
    let second = accepted(&app, ONE, "t2").await;
    assert_eq!(read(&app, ONE, &second).await["reason"], "tenant_busy");
    let refused = app.ask("POST", "/threads/t3/process").key(ONE).json(&json!({ "query": "hi" })).send().await;
    refused.problem("queue_full");
    assert_eq!(read(&app, TWO, "/limits").await["runs"], json!({ "running": 0, "queued": 0, "queuedMost": 1000 }));
    ended(&app, TWO, &accepted(&app, TWO, "t1").await).await;
    gate.notify_one();
    ended(&app, ONE, &first).await;
    ended(&app, ONE, &second).await;
}

#[tokio::test]
async fn what_is_no_limit_of_runs_is_refused() {
    let app = App::with(one_each("http://127.0.0.1:1".to_owned())).await;
    let problem = put(&app, "one", &json!({ "runningRuns": 0 })).send().await.problem("invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/runningRuns", "{problem:#}");
    put(&app, "one", &json!({ "running": 1 })).send().await.problem("invalid");
    put(&app, "nobody", &json!({})).send().await.problem("not_found");
    let own = app.ask("PUT", "/limits/runs").key(ONE).json(&json!({ "runningRuns": 2 }));
    own.send().await.problem("forbidden");
    assert_eq!(read(&app, ONE, "/limits").await["runs"]["runningMost"], 1);
}

#[tokio::test]
async fn one_that_waits_for_a_person_leaves_room_and_goes_on_at_once() {
    let items = json!([{ "id": "a", "description": "Do it", "stepType": "reasoning" }]);
    let plan = json!({ "title": "t", "intent": "i", "plan": "p", "todoList": items }).to_string();
    let stalls = vec![Step::Stall(Arc::new(Notify::new()))];
    let mut wire = Wire::serve(vec![says(&plan), stalls, says("It is done."), says("All is done.")]).await;
    let app = App::with(one_each(wire.url())).await.key(ONE);
    let ask = app.ask("POST", "/threads/t1/process").header("prefer", "wait=30");
    let reviewed = json!({ "query": "hi", "options": { "executionConfig": { "planReview": "always" } } });
    let asked = ask.json(&reviewed).send().await.expect(202);
    assert_eq!(asked["status"], "suspended", "{asked:#}");
    wire.request().await;
    accepted(&app, ONE, "t2").await;
    wire.request().await;
    let third = accepted(&app, ONE, "t3").await;
    let answer = json!({ "suspensionId": asked["suspensions"][0]["suspensionId"], "approved": true });
    app.post("/threads/t1/resume", answer).await.expect(202);
    ended(&app, ONE, asked["runUrl"].as_str().unwrap()).await;
    assert_eq!(read(&app, ONE, &third).await["reason"], "tenant_busy");
}

#[tokio::test]
async fn one_that_waits_is_cancelled_and_its_thread_can_be_deleted() {
    let (mut wire, _gate) = gated(0).await;
    let app = App::with(one_each(wire.url())).await.key(ONE);
    accepted(&app, ONE, "t1").await;
    wire.request().await;
    let (second, third) = (accepted(&app, ONE, "t2").await, accepted(&app, ONE, "t3").await);
    app.post(&format!("{second}/cancel"), json!({})).await.expect(202);
    assert_eq!(read(&app, ONE, &second).await["status"], "cancelled");
    assert_eq!(read(&app, ONE, "/threads/t2").await["status"], "idle");
    assert_eq!(app.ask("DELETE", "/threads/t3").send().await.status, 204);
    app.get(&third).await.problem("not_found");
}

/// Also where the next process has no such limit.
#[tokio::test]
async fn the_next_process_begins_what_waited() {
    for is_bound in [true, false] {
        let (mut wire, _gate) = gated(2).await;
        let store = fresh_store().await;
        let set = one_each(wire.url());
        let app = App::of(store.clone(), |config| {
            set(config);
            // Its stop does not wait long for the first reply, which never comes.
            config.runtime.drain_ms = 2_600;
        })
        .await;
        accepted(&app, ONE, "t1").await;
        wire.request().await;
        let second = accepted(&app, ONE, "t2").await;
        app.stopped().await;
        let set = one_each(wire.url());
        let next = App::of(store, |config| {
            set(config);
            config.limits.tenant.running_runs = is_bound.then_some(1);
        })
        .await;
        soon(ended(&next, ONE, &second)).await;
    }
}

/// Runs of another process take no place here, even when this one changes their thread.
#[tokio::test]
async fn each_process_counts_its_own() {
    let (mut wire, gate) = gated(2).await;
    let database = Database::fresh().await;
    let mut apps = Vec::new();
    for _ in 0..2 {
        let store = store_on(&database).await;
        let set = one_each(wire.url());
        let stays = App::of(store, |config| {
            set(config);
            config.runtime.idle_ms = 3_600_000;
        });
        apps.push(stays.await);
    }
    let [one, other] = &apps[..] else { unreachable!("two were pushed") };
    let first = accepted(one, ONE, "t1").await;
    wire.request().await;
    let put = other
        .ask("PUT", "/threads/t1/agent-state")
        .key(ONE)
        .header("if-match", "*")
        .json(&json!({ "data": { "a": 1 } }));
    put.send().await.expect(200);
    assert_eq!(read(one, ONE, &first).await["status"], "running");
    ended(other, ONE, &accepted(other, ONE, "t2").await).await;
    gate.notify_one();
    ended(one, ONE, &first).await;
}
