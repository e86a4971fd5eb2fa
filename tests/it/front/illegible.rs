//! A tenant's document that is damaged in the database is left out, and reported.

use std::sync::Arc;

use pes::config::Synchronous;
use pes::domain::ids::{TenantPk, ThreadPk};
use pes::store::documents::{Document, DocumentKind, Expected};
use pes::store::sqlite::Sqlite;
use pes::store::{AuditRow, Store};
use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::metrics::value;

/// As somebody with access to the database does.
async fn put(store: &dyn Store, tenant: TenantPk, kind: DocumentKind, body: Value) {
    let audit = AuditRow {
        tenant,
        thread: ThreadPk::NONE,
        thread_id: None,
        at: 1,
        actor: "nobody".to_owned(),
        action: "put document".to_owned(),
        detail: json!({}),
    };
    let document = Document { tenant, kind, id: "broken".to_owned(), version: 0, updated_at: 1, body: Some(body) };
    store.write_document(document, Expected::Any, audit, None).await.unwrap().expect("it is written");
}

#[tokio::test]
async fn what_is_stored_and_cannot_be_read_is_listed_counted_and_can_be_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap());
    let tenant = store.tenant("default", 1).await.unwrap();
    let damaged = [
        (DocumentKind::Webhook, json!({ "url": "no url", "events": [], "secrets": [] })),
        (DocumentKind::HttpTool, json!({ "name": 7 })),
        (DocumentKind::Agent, json!({ "card": "no url", "token": null, "dedupes": false, "timeout_ms": null })),
        (DocumentKind::Schedule, json!({ "spec": { "id": 7 } })),
        (DocumentKind::McpServer, json!({ "name": 7, "url": "http://127.0.0.1:1/" })),
    ];
    for (kind, body) in damaged {
        put(&*store, tenant, kind, body).await;
    }
    // Before a server reads them: the metrics are of the whole process.
    let before = App::start().await.get("/metrics").await.text();
    let app = App::of(store, |_| {}).await;
    for (list, id, why, kind) in [
        ("/webhooks", "webhookId", "storedError", "webhook"),
        ("/http-tools", "name", "storedError", "http_tool"),
        ("/agents", "id", "storedError", "agent"),
        ("/schedules", "id", "storedError", "schedule"),
        ("/mcp-servers", "name", "reason", "mcp_server"),
    ] {
        let listed = app.get(list).await.expect(200);
        let shown = listed["items"].as_array().unwrap().iter().find(|one| one[id] == "broken");
        let shown = shown.unwrap_or_else(|| panic!("{listed}"));
        let said = shown[why].as_str().unwrap_or_else(|| panic!("{shown}"));
        assert!(said.starts_with("what is stored of it cannot be read: "), "{said}");
        let path = format!("{list}/broken");
        assert_eq!(&app.get(&path).await.expect(200), shown);
        let metrics = app.get("/metrics").await.text();
        let counted = format!("pes_documents_illegible_total{{kind=\"{kind}\"}}");
        let [was, is] = [&before, &metrics].map(|text| value(text, &counted));
        assert!(is > was, "{counted}: {was}, then {is}");
        app.ask("DELETE", &path).send().await.expect(204);
        assert_eq!(app.get(&path).await.status, 404);
    }
}
