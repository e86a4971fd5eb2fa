//! Who did what beside deciding is told, too: one line for each act.

use std::sync::Arc;

use pes::Instance;
use pes::config::{Config, Synchronous};
use pes::store::Store;
use pes::store::sqlite::Sqlite;
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

#[tokio::test]
async fn a_restored_database_says_so_to_each_tenant() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap());
    let tenants = [store.tenant("default", 1).await.unwrap(), store.tenant("other", 1).await.unwrap()];
    store.mark_restored(4_711).await.unwrap();
    let instance = Instance::build(Config::default()).store(store.clone()).open().await.unwrap();
    for tenant in tenants {
        let page = pes::store::PageAsk { limit: 10, cursor: None };
        let lines = store.audit_of_tenant(tenant, &page).await.unwrap().items;
        assert_eq!((lines.len(), lines[0].action.as_str(), &lines[0].detail["asOf"]), (1, "restore", &json!(4_711)));
    }
    instance.close().await;
}
