//! A sealed text that somebody moves to another place in the database cannot be opened there.

use std::sync::Arc;

use pes::config::{ConfiguredKey, Synchronous};
use pes::domain::ids::{TenantPk, ThreadPk};
use pes::store::documents::{Document, DocumentKind, Expected};
use pes::store::sqlite::Sqlite;
use pes::store::{AuditRow, Store};
use rstest::rstest;
use serde_json::{Value, json};

use super::OLD;
use crate::support::app::App;
use crate::support::postgres::Database;
use crate::support::store::store_on;
use crate::support::wire::{Wire, answer};

const KEYS: [&str; 2] = ["key-a-0123456789abcdef0123456789", "key-b-0123456789abcdef0123456789"];

async fn app(store: Arc<dyn Store>, wire: &Wire) -> App {
    let address = wire.address.to_string();
    let key = |text: String| text.parse::<ConfiguredKey>().expect("a key");
    App::of(store, |config| {
        config.egress.allow.push(address);
        config.outbox.backoff_ms = vec![1; 3];
        config.auth.sealing_key = Some(OLD.to_owned().into());
        config.auth.keys = vec![key(format!("one:admin:{}", KEYS[0])), key(format!("two:admin:{}", KEYS[1]))];
    })
    .await
}

fn tool(wire: &Wire, name: &str) -> Value {
    json!({ "name": name, "description": "Finds an order.", "secret": format!("secret of {name}"),
        "url": format!("http://{}/", wire.address), "inputSchema": { "type": "object" } })
}

async fn stored(store: &dyn Store, tenant: TenantPk, id: &str) -> Document {
    store.document(tenant, DocumentKind::HttpTool, id).await.unwrap().expect("it is stored")
}

/// As somebody with access to the database does.
async fn rewrite(store: &dyn Store, document: Document, secret: Value) {
    let mut body = document.body.clone().unwrap();
    body["secret"] = secret;
    let audit = AuditRow {
        tenant: document.tenant,
        thread: ThreadPk::NONE,
        thread_id: None,
        at: 1,
        actor: "nobody".to_owned(),
        action: "put document".to_owned(),
        detail: json!({}),
    };
    let moved = Document { body: Some(body), ..document };
    store.write_document(moved, Expected::Any, audit, None).await.unwrap().expect("it is written");
}

#[rstest]
#[tokio::test]
async fn a_secret_of_another_tenant_or_another_tool_signs_nothing(#[values(false, true)] is_shared: bool) {
    let (folder, database) = (tempfile::tempdir().unwrap(), Database::fresh().await);
    let store: Arc<dyn Store> = if is_shared {
        store_on(&database).await
    } else {
        Arc::new(Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap())
    };
    let wire = Wire::serve((0..9).map(|_| answer("200 OK", "", "{}")).collect()).await;
    let [a, b] = KEYS;
    let first = app(store.clone(), &wire).await.key(a);
    first.post("/http-tools", tool(&wire, "find_order")).await.expect(201);
    first.post("/http-tools", tool(&wire, "other")).await.expect(201);
    let first = first.key(b);
    first.post("/http-tools", tool(&wire, "find_order")).await.expect(201);
    first.stopped().await;

    let (one, two) = (store.tenant("one", 1).await.unwrap(), store.tenant("two", 1).await.unwrap());
    let of_one = stored(&*store, one, "find_order").await;
    let other = stored(&*store, one, "other").await.body.unwrap()["secret"].clone();
    let moved = of_one.body.as_ref().unwrap()["secret"].clone();
    rewrite(&*store, stored(&*store, two, "find_order").await, moved).await;
    rewrite(&*store, of_one, other).await;

    let mut second = app(store.clone(), &wire).await;
    for key in KEYS {
        second = second.key(key);
        let shown = second.get("/http-tools/find_order").await.expect(200);
        assert!(shown["secretError"].as_str().unwrap().contains("sealed for something else"), "{shown:#}");
        second.finish("t", "order").await;
    }
    assert_eq!(second.key(a).get("/http-tools/other").await.expect(200)["secretError"], Value::Null);
    assert_eq!(wire.connections(), 0, "a call went out under a secret that is not its tool's");
}
