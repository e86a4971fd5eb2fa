//! Acts other than decisions are recorded too, one audit line each.

use std::path::Path;
use std::sync::Arc;

use pes::Instance;
use pes::config::{Config, Synchronous};
use pes::domain::ids::TenantPk;
use pes::store::sqlite::{self, DatabaseAction, RestoreMode, Sqlite};
use pes::store::{PageAsk, Store};
use serde_json::{Value, json};

use crate::support::app::App;

/// The newest first: who, what, and the rest.
async fn lines(app: &App, path: &str) -> Vec<(String, String, Value)> {
    let told = app.get(path).await.expect(200);
    let text = |line: &Value, member: &str| line[member].as_str().unwrap().to_owned();
    let lines = told["items"].as_array().unwrap().iter();
    lines.map(|line| (text(line, "actor"), text(line, "action"), line["detail"].clone())).collect()
}

#[tokio::test]
async fn the_first_use_of_a_key_is_told_and_no_other() {
    let app = App::start().await;
    let new = json!({ "tenant": "default", "name": "ann", "scopes": ["admin"] });
    let made = app.post("/keys", new).await.expect(201);
    let app = app.key(made["key"].as_str().unwrap());
    for _ in 0..2 {
        app.get("/threads").await.expect(200);
    }
    let lines = lines(&app, "/audit").await;
    let told: Vec<(&str, &str)> = lines.iter().map(|(actor, action, _)| (actor.as_str(), action.as_str())).collect();
    assert_eq!(told, [("ann", "use key"), ("local", "make key")]);
    assert_eq!(lines[0].2["keyId"], made["keyId"]);
}

#[tokio::test]
async fn who_exported_a_thread_is_told() {
    let app = App::start().await;
    app.finish("t", "hello").await;
    assert_eq!(app.get("/threads/t/export").await.status, 200);
    let lines = lines(&app, "/audit").await;
    let (actor, action, detail) = &lines[0];
    assert_eq!((actor.as_str(), action.as_str()), ("local", "export thread"));
    assert!(detail["threadId"] == "t" && detail["lastSeq"].as_i64().unwrap() > 0, "{detail}");
}

/// A key that may only read cannot fill the audit, whose lines are kept for years.
#[tokio::test]
async fn the_same_export_again_adds_no_line() {
    let app = App::start().await;
    app.finish("t", "hello").await;
    let exported = async || {
        assert_eq!(app.get("/threads/t/export").await.status, 200);
        let lines = lines(&app, "/audit").await;
        let exports = lines.into_iter().filter(|(_, action, _)| action == "export thread");
        exports.map(|(.., detail)| detail["lastSeq"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    let first = exported().await;
    for _ in 0..3 {
        assert_eq!(exported().await, first);
    }
    app.finish("t", "hello").await;
    let both = exported().await;
    assert!(first.len() == 1 && both.len() == 2 && both[0] > first[0], "{first:?} {both:?}");
}

#[tokio::test]
async fn a_restored_database_says_so_to_each_tenant() {
    let folder = tempfile::tempdir().unwrap();
    let (store, tenants) = two_tenants(folder.path()).await;
    store.mark_restored(4_711).await.unwrap();
    let instance = Instance::build(Config::default()).store(store.clone()).open().await.unwrap();
    for tenant in tenants {
        let lines = told(&*store, tenant).await;
        let [(actor, action, _, detail)] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!((actor.as_str(), action.as_str(), &detail["asOf"]), ("server", "restore", &json!(4_711)));
    }
    instance.close().await;
}

async fn two_tenants(folder: &Path) -> (Arc<dyn Store>, [TenantPk; 2]) {
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(folder, Synchronous::Normal).await.unwrap());
    let tenants = [store.tenant("default", 1).await.unwrap(), store.tenant("other", 1).await.unwrap()];
    (store, tenants)
}

/// The tenant's own lines, the newest first.
async fn told(store: &dyn Store, tenant: TenantPk) -> Vec<(String, String, i64, Value)> {
    let page = PageAsk { limit: 10, cursor: None };
    let lines = store.audit_of_tenant(tenant, &page).await.unwrap().items;
    lines.into_iter().map(|line| (line.actor, line.action, line.at, line.detail)).collect()
}

#[tokio::test]
async fn a_backup_is_told_to_each_tenant_before_anything_is_copied() {
    let folder = tempfile::tempdir().unwrap();
    let (store, tenants) = two_tenants(&folder.path().join("data")).await;
    let detail = json!({ "program": "1.2.3" });
    let act = || DatabaseAction { by: "ann", at: 7, detail: detail.clone() };
    let copy = folder.path().join("copy.db");
    sqlite::back_up(&folder.path().join("data"), Synchronous::Full, &copy, &act()).await.unwrap();
    let line = ("ann".to_owned(), "backup".to_owned(), 7, detail.clone());
    for tenant in tenants {
        assert_eq!(told(&*store, tenant).await, std::slice::from_ref(&line));
    }
    // No backup can be made over an existing file; the attempt is recorded all the same.
    sqlite::back_up(&folder.path().join("data"), Synchronous::Full, &copy, &act()).await.unwrap_err();
    assert_eq!(told(&*store, tenants[0]).await.len(), 2);
    // The copy's audit records that it is a copy.
    let resumed = DatabaseAction { by: "bob", at: 9, detail: json!({ "asOf": 7, "resumed": true }) };
    sqlite::restore(&copy, &folder.path().join("restored"), RestoreMode::Resumed(resumed)).await.unwrap();
    let (restored, tenants) = two_tenants(&folder.path().join("restored")).await;
    for tenant in tenants {
        let restore = ("bob".to_owned(), "restore".to_owned(), 9, json!({ "asOf": 7, "resumed": true }));
        assert_eq!(told(&*restored, tenant).await, [restore, line.clone()]);
    }
}
