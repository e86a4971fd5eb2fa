//! Removing a tenant: its callers are refused, and what it had is deleted.

use std::sync::Arc;

use pes::config::{Config, ConfiguredKey};
use pes::domain::ids::ThreadPk;
use pes::domain::tenant::{REMOVAL_ID, TenantRemoval};
use pes::store::documents::{Document, DocumentKind, Expected};
use pes::store::{AuditRow, Store};
use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::http::{Ask, until};
use crate::support::postgres::Database;
use crate::support::store::{fresh_store, store_on};

const ANN: &str = "key-a-0123456789abcdef0123456789";
const BEA: &str = "key-b-0123456789abcdef0123456789";
const OPS: &str = "key-o-0123456789abcdef0123456789";

fn keys(config: &mut Config) {
    let keys = [format!("one/ann:admin:{ANN}"), format!("two/bea:admin:{BEA}"), format!("ops/ops:operator:{OPS}")];
    config.auth.keys = keys.iter().map(|text| text.parse::<ConfiguredKey>().expect("a key")).collect();
}

async fn get(app: &App, key: &str, path: &str) -> Value {
    app.ask("GET", path).key(key).send().await.expect(200)
}

/// Waits until the tenant has no thread.
async fn emptied(app: &App, tenant: &str) {
    let path = format!("/tenants/{tenant}");
    until("the removed tenant has no threads", async || get(app, OPS, &path).await.get("lastUsedAt").is_none()).await;
}

/// A run that has ended and one that waits for a person.
async fn two_threads(app: &App, key: &str) {
    let gated = get(app, key, "/models").await["items"][0]["prompts"][1].clone();
    for (thread, query, status) in [("ended", json!("hello"), "status"), ("waits", gated, "suspensions")] {
        let ask = app.ask("POST", &format!("/threads/{thread}/process")).key(key).header("prefer", "wait=30");
        let said = ask.json(&json!({ "query": query })).send().await.json();
        assert!(said.get(status).is_some() || said["metadata"].get(status).is_some(), "{said:#}");
    }
}

#[tokio::test]
async fn the_callers_of_a_removed_tenant_are_refused_and_what_it_had_is_deleted() {
    let app = App::with(keys).await;
    for key in [ANN, BEA] {
        two_threads(&app, key).await;
    }
    let new = json!({ "tenant": "one", "name": "joe", "scopes": ["read"] });
    let joe = app.ask("POST", "/keys").key(ANN).json(&new).send().await.expect(201);
    let joe = joe["key"].as_str().unwrap();
    let schedule = json!({ "id": "yearly", "query": "hello", "cron": "0 0 1 1 *", "timezone": "Etc/UTC" });
    app.ask("POST", "/schedules").key(ANN).json(&schedule).send().await.expect(201);
    let mut events = app.ask("GET", "/events").key(joe).header("accept", "text/event-stream").events().await;

    let removed = app.ask("DELETE", "/tenants/one").key(OPS).send().await.expect(202);
    assert_eq!((&removed["name"], &removed["removed"]["by"]), (&json!("one"), &json!("ops")), "{removed:#}");
    let refused = app.ask("GET", "/threads").key(ANN).send().await.problem("unauthorized");
    assert!(refused["detail"].as_str().unwrap().contains("The tenant `one` was removed"), "{refused:#}");
    app.ask("GET", "/threads").key(joe).send().await.problem("unauthorized");
    // It ends.
    while events.next().await.is_some() {}
    emptied(&app, "one").await;
    assert_eq!(get(&app, BEA, "/threads").await["items"].as_array().unwrap().len(), 2, "of another tenant");

    // Once more changes nothing.
    let again = app.ask("DELETE", "/tenants/one").key(OPS).send().await.expect(202);
    assert_eq!(again["removed"], removed["removed"]);
    let listed = get(&app, OPS, "/tenants").await;
    let of = |name: &str| listed["items"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap();
    assert_eq!((&of("one")["removed"], of("two").get("removed")), (&removed["removed"], None), "{listed:#}");

    let open = app.ask("POST", "/tenants/one/reopen").key(OPS).send().await.expect(200);
    assert_eq!(open, json!({ "name": "one" }));
    for path in ["/threads", "/schedules", "/suspensions"] {
        assert_eq!(get(&app, ANN, path).await["items"], json!([]), "{path}");
    }
    // What it has anew stays when another tenant is removed.
    app.ask("POST", "/schedules").key(ANN).json(&schedule).send().await.expect(201);
    app.ask("DELETE", "/tenants/two").key(OPS).send().await.expect(202);
    emptied(&app, "two").await;
    assert_eq!(get(&app, ANN, "/schedules").await["items"][0]["id"], "yearly");
    let revoked = app.ask("GET", "/threads").key(joe).send().await.problem("unauthorized");
    assert_eq!(revoked["detail"], "This key is not known, was revoked or has expired.");
    let audit = get(&app, ANN, "/audit?limit=200").await;
    let lines = audit["items"].as_array().unwrap();
    let by = |actor: &str| {
        let by = lines.iter().filter(|line| line["actor"] == actor);
        let mut actions: Vec<&str> = by.map(|line| line["action"].as_str().unwrap()).collect();
        actions.sort_unstable();
        actions
    };
    assert_eq!(by("ops"), ["remove tenant", "reopen tenant"]);
    assert_eq!(by("server"), ["delete document", "delete thread", "delete thread", "revoke key"]);
    assert!(lines.iter().filter(|line| line["actor"] == "ops").all(|line| line["detail"]["actorTenant"] == "ops"));
    for thread in ["ended", "waits"] {
        let lines = get(&app, ANN, &format!("/threads/{thread}/audit")).await;
        assert!(lines["items"].as_array().unwrap().iter().any(|line| line["action"] == "delete thread"), "{lines:#}");
    }
}

#[tokio::test]
async fn only_an_operator_of_another_tenant_removes_one_that_need_not_be_kept() {
    let app = App::with(keys).await;
    two_threads(&app, ANN).await;
    let remove = async |tenant: &str, key: &str| app.ask("DELETE", &format!("/tenants/{tenant}")).key(key).send().await;
    assert_eq!(remove("one", ANN).await.problem("forbidden")["scope"], "operator");
    assert_eq!(app.ask("GET", "/tenants").key(ANN).send().await.problem("forbidden")["scope"], "operator");
    assert!(
        remove("ops", OPS).await.problem("forbidden")["detail"].as_str().unwrap().contains("the tenant of your key")
    );
    remove("three", OPS).await.problem("not_found");

    let hold = json!({ "hold": { "reason": "case 4711" } });
    app.ask("PUT", "/threads/ended/retention").key(ANN).json(&hold).send().await.expect(200);
    let refused = remove("one", OPS).await.problem("on_hold");
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("`ended`") && detail.contains("case 4711"), "{detail}");
    assert_eq!(get(&app, ANN, "/threads").await["items"].as_array().unwrap().len(), 2);
}

/// The removal was stored by a process that deletes nothing any more.
async fn the_next_start_deletes(store: Arc<dyn Store>) {
    let before = App::of(store.clone(), keys).await;
    two_threads(&before, ANN).await;
    let tenant = store.tenant("one", 1).await.unwrap();
    let body = json!(TenantRemoval { by: "ops".to_owned(), at: 1 });
    let (kind, id) = (DocumentKind::Removal, REMOVAL_ID.to_owned());
    let removal = Document { tenant, kind, id, version: 0, updated_at: 1, body: Some(body) };
    let (thread, actor, action, detail) = (ThreadPk::NONE, "ops".to_owned(), "remove tenant".to_owned(), json!({}));
    let audit = AuditRow { tenant, thread, thread_id: None, at: 1, actor, action, detail };
    assert!(store.write_document(removal, Expected::Absent, audit, None).await.unwrap().is_some());
    let app = App::of(store, keys).await;
    app.ask("GET", "/threads").key(ANN).send().await.problem("unauthorized");
    emptied(&app, "one").await;
}

#[tokio::test]
async fn what_a_removed_tenant_had_is_deleted_after_an_interruption() {
    the_next_start_deletes(fresh_store().await).await;
}

#[tokio::test]
async fn what_a_removed_tenant_had_is_deleted_after_an_interruption_on_postgresql() {
    let database = Database::fresh().await;
    the_next_start_deletes(store_on(&database).await).await;
}

#[tokio::test]
async fn a_name_that_an_issuer_chose_may_be_any_text() {
    let store = fresh_store().await;
    store.tenant("bad org/ü", 1).await.unwrap();
    let app = App::of(store, keys).await;
    let shown = Ask::new(app.address, "DELETE", "/tenants/bad%20org%2F%C3%BC").key(OPS).send().await.expect(202);
    assert_eq!(shown["name"], "bad org/ü");
}
