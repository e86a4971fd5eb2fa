//! Webhooks: configured over REST or in the settings, delivered at least once, signed with every secret.

use std::sync::Arc;

use pes::config::{Config, Webhook};
use pes::domain::webhook::WebhookEvent;
use pes::store::Commit;
use pes::store::outbox::{DeliveryStatus, NewDelivery, OutboxReads as _, TargetKind};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::store::bed::{Bed, page};
use crate::support::app::App;
use crate::support::http::{soon, until};
use crate::support::store::{Mood, Moody, fresh_store};
use crate::support::wire::{Step, Wire, answer};

const EVENTS: [&str; 4] = ["run.finished", "run.failed", "suspension.requested", "suspension.resolved"];

fn ok() -> Vec<Step> {
    answer("204 No Content", "", "")
}

/// Loopback is allowed, and retries follow at once.
async fn app(wire: &Wire, change: impl FnOnce(&mut Config)) -> App {
    let address = wire.address.to_string();
    App::with(|config| {
        config.egress.allow.push(address);
        config.outbox.backoff_ms = vec![1; 3];
        change(config);
    })
    .await
}

async fn hook(app: &App, wire: &Wire, secrets: &[&str]) -> String {
    let spec = json!({ "url": format!("http://{}/hook", wire.address), "events": EVENTS, "secrets": secrets });
    app.post("/webhooks", spec).await.expect(201)["webhookId"].as_str().unwrap().to_owned()
}

/// The deliveries, newest first, once this holds for them.
async fn deliveries(app: &App, hook: &str, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let path = format!("/webhooks/{hook}/deliveries");
    soon(async {
        loop {
            let found = app.get(&path).await.expect(200)["items"].as_array().unwrap().clone();
            if holds(&found) {
                return found;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

fn are(status: &str) -> impl Fn(&[Value]) -> bool {
    move |found| !found.is_empty() && found.iter().all(|one| one["status"] == status)
}

/// A receiver that follows its caller would else trace every delivery of runs that are not traced.
#[tokio::test]
async fn a_delivery_says_whether_its_run_is_traced() {
    let mut wire = Wire::serve(vec![ok(), ok()]).await;
    let app = app(&wire, |_| {}).await;
    hook(&app, &wire, &["secret"]).await;
    for flags in ["00", "01"] {
        let parent = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
        let ask = app.ask("POST", &format!("/threads/traced-{flags}/process")).header("traceparent", &parent);
        ask.json(&json!({ "query": "hello" })).send().await.expect(202);
        let request = soon(wire.request()).await;
        assert_eq!(request.body["data"]["traceFlags"], flags, "{}", request.body);
        let sent = request.header("traceparent").unwrap();
        assert!(sent.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && sent.ends_with(flags), "{sent}");
    }
}

#[tokio::test]
async fn a_delivery_says_why_its_run_failed() {
    let mut wire = Wire::serve(vec![ok(), ok()]).await;
    let app = app(&wire, |_| {}).await;
    hook(&app, &wire, &["secret"]).await;
    let expected = [("fail", "run.failed", json!("task_refused")), ("hello", "run.finished", Value::Null)];
    for (query, kind, code) in expected {
        app.finish(query, query).await;
        let told = soon(wire.request()).await.body;
        assert_eq!((&told["type"], &told["data"]["errorCode"]), (&json!(kind), &code), "{told}");
    }
}

#[tokio::test]
async fn what_happens_is_told_once_and_signed() {
    let mut wire = Wire::serve((0..3).map(|_| ok()).collect()).await;
    let app = app(&wire, |_| {}).await;
    let id = hook(&app, &wire, &["old", "new"]).await;
    let suspension = app.suspend("t", "send").await;
    let body = json!({ "suspensionId": suspension["suspensionId"], "approved": true });
    app.ask("POST", "/threads/t/resume").header("prefer", "wait=20").json(&body).send().await.expect(200);
    let mut told = Vec::new();
    for _ in 0..3 {
        let request = wire.request().await;
        assert!(request.is_signed("old") && request.is_signed("new") && !request.is_signed("other"));
        let trace = format!("00-{}-", request.body["data"]["traceId"].as_str().unwrap());
        assert!(request.header("traceparent").is_some_and(|parent| parent.starts_with(&trace)));
        told.push(request.body);
    }
    told.sort_by_key(|body| EVENTS.iter().position(|event| body["type"] == *event));
    let [finished, requested, resolved] = &told[..] else { panic!("{told:#?}") };
    assert_eq!((&finished["type"], &finished["data"]["status"]), (&json!("run.finished"), &json!("completed")));
    assert_eq!(requested["data"]["suspensionId"], suspension["suspensionId"]);
    assert_eq!(
        (&requested["data"]["kind"], &requested["data"]["toolName"]),
        (&json!("approval"), &json!("demo_send_email"))
    );
    let question = format!("http://{}/#/questions/{}", app.address, suspension["suspensionId"].as_str().unwrap());
    assert_eq!(requested["data"]["url"], question);
    let run = format!("http://{}/#/t/t?run={}", app.address, finished["data"]["runId"].as_str().unwrap());
    assert_eq!((&finished["data"]["url"], &resolved["data"]["url"]), (&json!(run), &json!(run)));
    assert_eq!(requested["data"]["toolInput"], Value::Null, "arguments are told to those who may ask for them");
    assert_eq!((&resolved["data"]["decision"], &resolved["data"]["decidedBy"]), (&json!("approved"), &json!("local")));
    let known = deliveries(&app, &id, |found| found.len() == 3 && are("delivered")(found)).await;
    assert_eq!((&known[0]["attempts"], &known[0]["said"]), (&json!(1), &json!("204 No Content")));
    let all = app.get("/deliveries?status=delivered").await.expect(200);
    assert_eq!((&all["items"], &all["items"][0]["webhookId"]), (&json!(known), &json!(id)));
    assert_eq!(app.get("/deliveries?status=dead").await.expect(200)["items"], json!([]));
    let first = app.get("/deliveries?limit=2").await.expect(200);
    let rest = format!("/deliveries?limit=2&cursor={}", first["nextCursor"].as_str().unwrap());
    assert_eq!(app.get(&rest).await.expect(200)["items"], json!([known[2]]));
    app.get("/deliveries?status=lost").await.problem("invalid");
}

#[tokio::test]
async fn a_failed_attempt_is_made_again_under_the_same_id_until_it_is_given_up() {
    let failing = || answer("500 Oops", "", "");
    let mut wire =
        Wire::serve(vec![failing(), vec![Step::Cut], answer("302 Found", "location: /\r\n", ""), failing(), ok()])
            .await;
    let app = app(&wire, |_| {}).await;
    let id = hook(&app, &wire, &["s"]).await;
    app.finish("t", "hello").await;
    let first = wire.request().await;
    let name = first.header("webhook-id").unwrap().to_owned();
    for _ in 0..3 {
        let again = wire.request().await;
        assert_eq!((again.header("webhook-id"), &again.body), (Some(name.as_str()), &first.body));
    }
    let dead = deliveries(&app, &id, are("dead")).await.remove(0);
    assert_eq!((&dead["attempts"], &dead["deliveryId"]), (&json!(4), &json!(name)));
    let replay = |id: &str| app.ask("POST", &format!("/webhooks/deliveries/{id}/replay")).send();
    assert_eq!(replay(&name).await.status, 202);
    assert_eq!(wire.request().await.header("webhook-id"), Some(name.as_str()));
    deliveries(&app, &id, are("delivered")).await;
    replay("dlv_none").await.problem("not_found");
    let audit = app.get("/audit").await.expect(200)["items"].clone();
    let told: Vec<&Value> =
        audit.as_array().unwrap().iter().filter(|line| line["action"] == "replay delivery").collect();
    assert_eq!(told.len(), 1, "{audit:#}");
    assert_eq!((&told[0]["actor"], &told[0]["detail"]), (&json!("local"), &json!({ "deliveryId": name })));
}

/// The receiver is busy when the thread is deleted.
#[tokio::test]
async fn the_end_of_a_run_is_told_although_its_thread_was_deleted() {
    let deleted = Arc::new(Notify::new());
    let busy = [vec![Step::Until(deleted.clone())], answer("503 Busy", "", "")].concat();
    let mut wire = Wire::serve(vec![busy, ok()]).await;
    let app = app(&wire, |_| {}).await;
    let id = hook(&app, &wire, &["s"]).await;
    app.finish("t", "hello").await;
    let first = wire.request().await;
    app.ask("DELETE", "/threads/t").send().await.expect(204);
    deleted.notify_one();
    let again = wire.request().await;
    assert_eq!((again.header("webhook-id"), &again.body), (first.header("webhook-id"), &first.body));
    assert_eq!((&again.body["type"], &again.body["data"]["threadId"]), (&json!("run.finished"), &json!("t")));
    let known = deliveries(&app, &id, are("delivered")).await;
    assert_eq!((known.len(), &known[0]["attempts"]), (1, &json!(2)));
}

/// Its process learns of it within two seconds by itself.
#[tokio::test]
async fn a_webhook_that_another_process_made_a_moment_ago_is_told() {
    let mut wire = Wire::serve(vec![ok()]).await;
    let shared = fresh_store().await;
    let (one, other) = (Moody::over(shared.clone()), Moody::over(shared));
    let address = wire.address.to_string();
    let change = |config: &mut Config| {
        config.egress.allow.push(address.clone());
        config.auth.sealing_key = Some("one that both have".to_owned().into());
    };
    let open = async |store: &Arc<Moody>| App::of(store.clone(), change).await;
    let sends = open(&other).await;
    other.set("documents_since", Mood::Hangs);
    one.set("claim_deliveries", Mood::Hangs);
    let makes = open(&one).await;
    let id = hook(&makes, &wire, &["s"]).await;
    makes.finish("t", "hello").await;
    deliveries(&makes, &id, |found| found.iter().any(|one| one["attempts"] == 1)).await;
    other.set("documents_since", Mood::Well);
    assert_eq!(deliveries(&makes, &id, |found| found[0]["status"] != "pending").await[0]["status"], "delivered");
    assert_eq!(wire.request().await.body["type"], "run.finished");
    sends.stopped().await;
}

#[tokio::test]
async fn whoever_is_gone_is_not_asked_again() {
    let mut wire = Wire::serve(vec![answer("410 Gone", "", "")]).await;
    let app = app(&wire, |_| {}).await;
    let id = hook(&app, &wire, &["s"]).await;
    app.finish("t", "hello").await;
    wire.request().await;
    assert_eq!(deliveries(&app, &id, are("dead")).await[0]["attempts"], 1);
}

#[tokio::test]
async fn a_delivery_under_way_is_no_reason_to_replay_it() {
    let gone = Arc::new(Notify::new());
    let mut wire = Wire::serve(vec![vec![Step::Stall(gone)]]).await;
    let app = app(&wire, |_| {}).await;
    hook(&app, &wire, &["s"]).await;
    app.finish("t", "hello").await;
    let request = wire.request().await;
    let path = format!("/webhooks/deliveries/{}/replay", request.header("webhook-id").unwrap());
    app.ask("POST", &path).send().await.problem("precondition_failed");
}

#[tokio::test]
async fn a_receiver_that_does_not_answer_keeps_no_other_waiting() {
    let gone = Arc::new(Notify::new());
    let hangs = Wire::serve(vec![vec![Step::Stall(gone)]; 200]).await;
    let mut answers = Wire::serve((0..2).map(|_| ok()).collect()).await;
    let app = app(&hangs, |config| {
        config.egress.allow.push(answers.address.to_string());
        config.outbox.attempt_timeout_ms = 600_000;
    })
    .await;
    let silent = hook(&app, &hangs, &["s"]).await;
    for n in 0..40 {
        app.finish(&format!("t-{n}"), "hello").await;
    }
    hook(&app, &answers, &["s"]).await;
    app.finish("t", "hello").await;
    soon(answers.request()).await;
    let path = format!("/webhooks/{silent}/deliveries");
    let unsent = |one: &Value| one["said"].as_str().is_some_and(|said| said.starts_with("nothing was sent: 32 "));
    soon(async {
        for n in 0.. {
            app.finish(&format!("later-{n}"), "hello").await;
            if n > 40 && app.get(&path).await.expect(200)["items"].as_array().unwrap().iter().any(unsent) {
                break;
            }
        }
    })
    .await;
    deliveries(&app, &silent, |found| found.iter().any(|one| unsent(one) && one["status"] == "dead")).await;
    // This many wait, and this many may have been sent before the first of them had waited long.
    assert!(hangs.connections() <= 64, "{} attempts wait for an answer", hangs.connections());
}

#[tokio::test]
async fn a_secret_is_shown_once_kept_sealed_and_can_be_changed() {
    let wire = Wire::serve(Vec::new()).await;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let app = app(&wire, |config| config.store.data_dir = data.clone()).await;
    let spec = json!({ "url": "https://example.com/hook", "events": ["run.failed"] });
    let made = app.post("/webhooks", spec.clone()).await.expect(201);
    let secret = made["secret"].as_str().unwrap();
    assert!(secret.starts_with("whsec_"), "{made:#}");
    let path = format!("/webhooks/{}", made["webhookId"].as_str().unwrap());
    let shown = app.get(&path).await.expect(200);
    assert_eq!((&shown["secret"], &shown["secretCount"]), (&Value::Null, &json!(1)));
    let mut both = spec.clone();
    both["secrets"] = json!(["first-secret", "second-secret"]);
    let put = |body: Value| app.ask("PUT", &path).json(&body).send();
    assert_eq!(put(both).await.expect(200)["secretCount"], 2);
    assert_eq!(put(spec).await.expect(200)["secretCount"], 2, "they stay");
    for file in ["pes.db", "pes.db-wal"] {
        let bytes = std::fs::read(data.join(file)).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(secret) && !text.contains("second-secret"), "{file} holds a secret in clear");
    }
    assert_eq!(app.get("/webhooks").await.expect(200)["items"].as_array().unwrap().len(), 1);
    assert_eq!(app.ask("DELETE", &path).send().await.status, 204);
    app.get(&path).await.problem("not_found");
}

fn with_sealing_key(config: &mut Config) {
    config.auth.sealing_key = Some("a key that is long enough".to_owned().into());
}

/// They are given up when they are due.
#[tokio::test]
async fn a_webhook_is_removed_although_its_deliveries_cannot_be_given_up_yet() {
    let store = Moody::fresh().await;
    let app = App::of(store.clone(), with_sealing_key).await;
    let spec = json!({ "url": "https://example.com/hook", "events": ["run.failed"] });
    let made = app.post("/webhooks", spec).await.expect(201);
    let path = format!("/webhooks/{}", made["webhookId"].as_str().unwrap());
    store.set("abandon_deliveries", Mood::Fails);
    assert_eq!(app.ask("DELETE", &path).send().await.status, 204);
    assert_eq!(store.calls("abandon_deliveries"), 1);
    app.get(&path).await.problem("not_found");
}

/// Also of those that are not given up before the response.
#[tokio::test]
async fn of_a_long_backlog_nothing_is_told_once_its_webhook_is_removed() {
    let store = Moody::fresh().await;
    store.set("claim_deliveries", Mood::Hangs);
    let app = App::of(store.clone(), with_sealing_key).await;
    let spec = json!({ "url": "https://example.com/hook", "events": ["run.failed"] });
    let hook = app.post("/webhooks", spec).await.expect(201)["webhookId"].as_str().unwrap().to_owned();
    let bed = Bed::on(store.clone(), Arc::new(())).await;
    let waiting = |n: usize| NewDelivery {
        id: format!("d{n}").as_str().into(),
        kind: TargetKind::Webhook,
        target: hook.clone(),
        ordering_key: None,
        event: "run.failed".into(),
        body: "{}".into(),
    };
    bed.done(Commit { deliveries: (0..1_100).map(waiting).collect(), ..bed.creating("t") }).await;
    assert_eq!(app.ask("DELETE", &format!("/webhooks/{hook}")).send().await.status, 204);
    let none_is_pending = async || {
        let (kind, status) = (TargetKind::Webhook, Some(DeliveryStatus::Pending));
        store.deliveries_of_tenant(bed.tenant, kind, status, &page(1)).await.unwrap().items.is_empty()
    };
    until("none is pending", none_is_pending).await;
    assert_eq!(store.calls("abandon_deliveries"), 3);
}

#[tokio::test]
async fn what_cannot_be_a_webhook_is_refused() {
    let app = App::start().await;
    let table = [
        (json!({ "url": "http://10.0.0.1/", "events": ["run.failed"] }), "/url"),
        (json!({ "url": "http://127.0.0.1:1/", "events": ["run.failed"] }), "/url"),
        (json!({ "url": "nonsense", "events": ["run.failed"] }), "/url"),
        (json!({ "url": "https://example.com", "events": [] }), "/events"),
        (json!({ "url": "https://example.com", "events": ["run.failed"], "secrets": [] }), "/secrets"),
        (json!({ "url": "https://example.com", "events": ["run.failed"], "secrets": ["whsec_?"] }), "/secrets/0"),
    ];
    for (spec, pointer) in table {
        let problem = app.post("/webhooks", spec).await.problem("invalid");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem:#}");
    }
}

#[tokio::test]
async fn the_operators_webhooks_are_told_too_and_nobody_changes_them() {
    let mut wire = Wire::serve(vec![ok()]).await;
    let origin = format!("http://{}", wire.address);
    let url = format!("{origin}/services/T0/xoxs");
    let app = App::with(|config| {
        config.webhooks.push(Webhook {
            id: "ops".to_owned(),
            url,
            events: vec![WebhookEvent::RunFinished],
            secrets: Vec::new(),
            tenant: None,
        });
    })
    .await;
    let shown = app.get("/webhooks/ops").await.expect(200);
    assert_eq!((&shown["isFixed"], &shown["url"]), (&json!(true), &json!(origin)), "what follows may be a secret");
    app.finish("t", "hello").await;
    let request = wire.request().await;
    assert_eq!(request.body["type"], "run.finished");
    assert!(request.line.starts_with("POST /services/T0/xoxs "), "{}", request.line);
    deliveries(&app, "ops", are("delivered")).await;
    let spec = json!({ "url": "https://example.com/hook", "events": ["run.failed"] });
    app.ask("PUT", "/webhooks/ops").json(&spec).send().await.problem("forbidden");
    app.ask("DELETE", "/webhooks/ops").send().await.problem("forbidden");
    app.ask("DELETE", "/webhooks/none").send().await.problem("not_found");
    assert_eq!(app.get("/webhooks/ops").await.expect(200), shown);
}
