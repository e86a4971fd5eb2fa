//! The audit names who did what, also for deleted threads and keys.

use std::sync::Arc;

use pes::config::{Config, ConfiguredKey, Synchronous};
use pes::service::audit::chain;
use pes::service::audit::verify::{VerifyAsk, parse_checkpoints, verify};
use pes::store::chain::{NO_HASH, link};
use pes::store::sqlite::Sqlite;
use serde_json::{Value, json};

use crate::audit::signed;
use crate::support::app::App;
use crate::support::http::{Said, soon};
use crate::support::postgres::Database;
use crate::support::store::{fresh_store, store_on};
use crate::support::wire::{Wire, answer};

const BOSS: &str = "boss-0123456789abcdef";
const ANN: &str = "ann-0123456789abcdef";
const BOB: &str = "bob-0123456789abcdef";

fn keys(config: &mut Config) {
    let key = |text: String| text.parse::<ConfiguredKey>().expect("a key");
    config.auth.keys = vec![
        key(format!("one/boss:admin:{BOSS}")),
        key(format!("one/ann:run+read:{ANN}")),
        key(format!("one/bob:run+read+approve:{BOB}")),
    ];
}

async fn app() -> App {
    App::with(keys).await
}

async fn delete(app: &App, key: &str) -> Said {
    app.ask("DELETE", "/threads/t").key(key).send().await
}

async fn create(app: &App, key: &str) {
    app.ask("POST", "/threads").key(key).json(&json!({ "threadId": "t" })).send().await.expect(201);
}

fn told(lines: &Value) -> Vec<(&str, &str)> {
    let lines = lines["items"].as_array().unwrap().iter();
    lines.map(|line| (line["actor"].as_str().unwrap(), line["action"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn a_thread_is_erased_by_who_created_it_or_by_an_administrator() {
    let app = app().await;
    create(&app, ANN).await;
    let refused = delete(&app, BOB).await;
    assert_eq!(refused.problem("forbidden")["scope"], "admin");
    app.ask("GET", "/threads/t").key(BOB).send().await.expect(200);
    delete(&app, ANN).await.expect(204);
    create(&app, BOB).await;
    delete(&app, BOSS).await.expect(204);
    assert_eq!(app.ask("GET", "/threads/t").key(BOSS).send().await.status, 404);
}

#[tokio::test]
async fn an_erased_thread_leaves_its_audit_and_who_erased_it() {
    let app = app().await;
    create(&app, ANN).await;
    let state = app.ask("PUT", "/threads/t/agent-state").key(BOB).json(&json!({ "data": { "a": 1 } }));
    state.send().await.expect(200);
    delete(&app, ANN).await.expect(204);

    let lines = app.ask("GET", "/threads/t/audit").key(ANN).send().await.expect(200);
    assert_eq!(told(&lines), [("bob", "put agent state"), ("ann", "delete thread")]);
    assert_eq!(lines["items"][1]["detail"]["threadId"], "t");
    let of_tenant = app.ask("GET", "/audit").key(BOSS).send().await.expect(200);
    assert_eq!(told(&of_tenant), [("ann", "delete thread")]);

    create(&app, BOB).await;
    delete(&app, BOSS).await.expect(204);
    let lines = app.ask("GET", "/threads/t/audit").key(ANN).send().await.expect(200);
    assert_eq!(told(&lines)[1..], [("ann", "delete thread"), ("boss", "delete thread")], "one id, two threads");
    let first = app.ask("GET", "/threads/t/audit?limit=2").key(ANN).send().await.expect(200);
    let rest = format!("/threads/t/audit?limit=2&cursor={}", first["nextCursor"].as_str().unwrap());
    let rest = app.ask("GET", &rest).key(ANN).send().await.expect(200);
    assert_eq!((told(&first), told(&rest)), (told(&lines)[..2].to_vec(), told(&lines)[2..].to_vec()));
    assert_eq!(rest["nextCursor"], Value::Null);
    app.ask("GET", "/threads/never/audit").key(ANN).send().await.problem("not_found");
}

#[tokio::test]
async fn making_and_revoking_a_key_is_told() {
    let app = app().await.key(BOSS);
    let new = json!({ "tenant": "one", "name": "ci", "scopes": ["read"] });
    let issued = app.post("/keys", new.clone()).await.expect(201);
    app.post("/keys", new).await.problem("key_exists");
    let path = format!("/keys/{}", issued["keyId"].as_str().unwrap());
    app.ask("DELETE", &path).send().await.expect(204);
    let lines = app.get("/audit").await.expect(200);
    assert_eq!(told(&lines), [("boss", "revoke key"), ("boss", "make key")]);
    assert_eq!(lines["items"][0]["detail"], json!({ "keyId": issued["keyId"], "name": "ci", "scopes": ["read"] }));
}

#[tokio::test]
async fn whoever_changes_a_thread_stands_in_its_audit() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Full).await.unwrap();
    a_change_is_told(App::of(Arc::new(store), keys).await).await;
}

#[tokio::test]
async fn whoever_changes_a_thread_stands_in_its_audit_on_postgresql() {
    let database = Database::fresh().await;
    let store = store_on(&database).await;
    a_change_is_told(App::of(store, keys).await).await;
}

async fn a_change_is_told(app: App) {
    create(&app, ANN).await;
    let patch = |key: &str, body: Value| app.ask("PATCH", "/threads/t").key(key).json(&body).send();
    patch(ANN, json!({ "title": "Mail", "config": { "toolPolicy": { "mail__*": "deny" } } })).await.expect(200);
    patch(BOB, json!({ "config": { "toolPolicy": { "mail__*": "auto" }, "enabledTools": ["mail__*"] } }))
        .await
        .expect(200);
    patch(ANN, json!({ "title": "Mail" })).await.expect(200);
    patch(ANN, json!({ "config": { "toolPolicy": { "*": "auto" } } })).await.problem("forbidden");
    patch(ANN, json!({ "metadata": { "secret": "word" } })).await.expect(200);
    let lines = app.ask("GET", "/threads/t/audit").key(ANN).send().await.expect(200);
    let told = told(&lines);
    assert_eq!(told, [("ann", "patch thread"), ("bob", "patch thread"), ("ann", "patch thread")], "{lines:#}");
    let details: Vec<_> = lines["items"].as_array().unwrap().iter().map(|line| line["detail"].clone()).collect();
    let denied = json!({ "changed": ["/config/toolPolicy", "/title"], "toolPolicy": { "mail__*": "deny" } });
    let allowed = json!({
        "changed": ["/config/enabledTools", "/config/toolPolicy"], "toolPolicy": { "mail__*": "auto" } });
    assert_eq!(details, [denied, allowed, json!({ "changed": ["/metadata"] })]);
}

/// Rules have no secrets. A URL may be one, and so may the text of a schedule.
#[tokio::test]
async fn the_audit_says_what_of_a_document_was_changed() {
    let store = fresh_store().await;
    let app = App::of(store.clone(), |config| {
        keys(config);
        config.auth.sealing_key = Some("what nobody guesses".into());
    });
    let app = app.await.key(BOSS);
    let tool = |class: &str| {
        json!({ "name": "pay", "description": "Pays.", "inputSchema": { "type": "object" }, "class": class,
            "url": "https://pay.example.com:8443/hook/s3cret?token=s3cret", "secret": "s3cret" })
    };
    app.post("/http-tools", tool("external")).await.expect(201);
    app.ask("PUT", "/http-tools/pay").json(&tool("read")).send().await.expect(200);
    let rule =
        |id: &str, action: &str| json!({ "id": id, "tool": "mail__*", "action": action, "reason": "r".repeat(9_000) });
    let first = json!({ "rules": [rule("a", "ask"), rule("b", "ask")] });
    let second = json!({ "rules": [rule("a", "deny"), rule("c", "ask")] });
    for policy in [&first, &second] {
        app.ask("PUT", "/policy").header("if-match", "*").json(policy).send().await.expect(200);
    }
    let lines = app.get("/audit").await.expect(200);
    assert!(!lines.to_string().contains("s3cret"), "{lines:#}");
    let details: Vec<&Value> = lines["items"].as_array().unwrap().iter().map(|line| &line["detail"]).collect();
    let large = |policy: &Value, rules: Value| {
        let digest = pes::domain::digest::of(policy);
        json!({ "kind": "policy", "id": "rules", "digest": digest, "rules": rules })
    };
    assert_eq!(*details[0], large(&second, json!({ "added": ["c"], "changed": ["a"], "removed": ["b"] })));
    assert_eq!(*details[1], large(&first, json!({ "added": ["a", "b"], "changed": [], "removed": [] })));
    for (detail, class) in details[2..].iter().zip(["read", "external"]) {
        let (kind, url) = ("http_tool", "https://pay.example.com:8443");
        let digest = &detail["digest"];
        assert_eq!(**detail, json!({ "kind": kind, "id": "pay", "digest": digest, "url": url, "class": class }));
        assert_eq!(digest.as_str().map(str::len), Some(64), "{detail:#}");
    }
    assert_ne!(details[2]["digest"], details[3]["digest"]);
    chain(&*store, None, 7).await.unwrap();
    let found = verify(&*store, &VerifyAsk::default()).await.unwrap();
    assert!(found.iter().all(|tenant| tenant.broken.is_none()), "{found:?}");
}

/// A reader of docs/AUDIT.md can recompute it.
#[tokio::test]
async fn the_chain_is_exported_and_can_be_followed() {
    let store = fresh_store().await;
    let key = signed::key();
    let app = App::of(store.clone(), |config| {
        keys(config);
        config.auth.audit_key = Some(signed::KEY.repeat(4).into());
    });
    let app = app.await;
    create(&app, ANN).await;
    for title in ["One", "Two", "Zwölf \u{7f}\n"] {
        app.ask("PATCH", "/threads/t").key(ANN).json(&json!({ "title": title })).send().await.expect(200);
    }
    delete(&app, ANN).await.expect(204);
    chain(&*store, Some(&key), 7).await.unwrap();
    app.ask("GET", "/audit/export").key(ANN).send().await.problem("forbidden");
    let told = app.ask("GET", "/audit/export").key(BOSS).send().await;
    assert_eq!((told.status, told.header("content-type")), (200, Some("application/x-ndjson")));
    let text = told.text();
    let (mut hash, mut n) = (NO_HASH.to_owned(), 0);
    for line in text.lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if let Some(checkpoint) = line.get("checkpoint") {
            assert_eq!(
                (&checkpoint["n"], &checkpoint["hash"], &checkpoint["tenant"]),
                (&json!(n), &json!(hash), &json!("one"))
            );
            continue;
        }
        let members = line.as_object_mut().unwrap();
        assert_eq!(members.remove("n").unwrap(), n + 1);
        hash = link(
            &hash,
            &pes::domain::digest::of(&json!({
            "action": members["action"], "actor": members["actor"], "at": members["at"], "detail": members["detail"],
            "of": members["of"], "threadId": members["threadId"] })),
        );
        assert_eq!(members.remove("hash").unwrap(), hash);
        n += 1;
    }
    assert_eq!(n, 4, "three changes and the end: {text}");
    let kept = parse_checkpoints("export", &text).unwrap();
    let found = verify(&*store, &VerifyAsk { key: Some(&key), kept: &kept, ..VerifyAsk::default() }).await.unwrap();
    assert!(!kept.is_empty() && found.iter().all(|tenant| tenant.broken.is_none()), "{found:?}");
    let rest = app.ask("GET", "/audit/export?after=3").key(BOSS).send().await.text();
    assert!(rest.starts_with("{\"n\":4,"), "{rest}");
    let keys = app.ask("GET", "/audit/keys").key(ANN).send().await.expect(200);
    assert_eq!(keys["keys"][0]["kid"], key.id());
}

#[tokio::test]
async fn a_webhook_is_told_of_checkpoints_so_that_they_are_kept_elsewhere() {
    let mut wire = Wire::serve((0..8).map(|_| answer("204 No Content", "", "")).collect()).await;
    let (store, address) = (fresh_store().await, wire.address.to_string());
    let app = App::of(store.clone(), |config| {
        config.egress.allow.push(address);
        config.auth.audit_key = Some(signed::KEY.repeat(4).into());
        config.auth.sealing_key = Some("what nobody guesses".to_owned().into());
    })
    .await;
    let url = format!("http://{}/hook", wire.address);
    // That adds a line itself.
    app.post("/webhooks", json!({ "url": url, "events": ["audit.checkpoint"] })).await.expect(201);
    let told = soon(wire.request()).await.body;
    assert_eq!((&told["type"], &told["data"]["tenant"]), (&json!("audit.checkpoint"), &json!("default")), "{told}");
    let (key, kept) = (signed::key(), parse_checkpoints("told.json", &told.to_string()).unwrap());
    let ask = VerifyAsk { key: Some(&key), kept: &kept, ..VerifyAsk::default() };
    let found = verify(&*store, &ask).await.unwrap().remove(0);
    assert_eq!(found.broken, None);
    let mut other = kept.clone();
    other[0].hash = NO_HASH.to_owned();
    let found = verify(&*store, &VerifyAsk { kept: &other, ..ask }).await.unwrap().remove(0);
    assert!(found.broken.unwrap().contains("told.json"), "what was rewritten since is named");
}
