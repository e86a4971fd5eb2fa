//! The order in which what a removed tenant has is deleted.

use pes::domain::ids::{TenantPk, ThreadPk};
use pes::domain::spend::CAPS_ID;
use pes::domain::tenant::{REMOVAL_ID, TenantRemoval};
use pes::service::tenants::{Progress, sweep};
use pes::store::documents::{Document, DocumentKind, Expected};
use pes::store::{AuditRow, Store};
use serde_json::{Value, json};

use crate::support::clocked::Clocked;
use crate::support::store::fresh_store;

async fn put(store: &dyn Store, tenant: TenantPk, kind: DocumentKind, id: &str, body: Value) {
    let document = Document { tenant, kind, id: id.to_owned(), version: 0, updated_at: 1, body: Some(body) };
    let (thread, actor, action, detail) = (ThreadPk::NONE, "ops".to_owned(), "put".to_owned(), json!({}));
    let audit = AuditRow { tenant, thread, thread_id: None, at: 1, actor, action, detail };
    assert!(store.write_document(document, Expected::Absent, audit, None).await.unwrap().is_some());
}

#[tokio::test]
async fn what_runs_of_a_removed_tenant_must_obey_is_deleted_after_its_threads() {
    let clocked = Clocked::on(fresh_store().await, |_| {}).await;
    clocked.finish("ended").await;
    clocked.suspend("waits").await;
    let (service, store) = (clocked.instance.service(), &*clocked.store);
    let tenant = clocked.instance.caller().tenant;
    put(store, tenant, DocumentKind::SpendCaps, CAPS_ID, json!({})).await;
    let has_caps = async || {
        let caps = store.document(tenant, DocumentKind::SpendCaps, CAPS_ID).await.unwrap();
        caps.is_some_and(|caps| caps.body.is_some())
    };
    assert_eq!(sweep(service).await.unwrap(), Progress::NothingFound);

    let removal = json!(TenantRemoval { by: "ops".to_owned(), at: 1 });
    put(store, tenant, DocumentKind::Removal, REMOVAL_ID, removal).await;
    assert_eq!(sweep(service).await.unwrap(), Progress::Deleted);
    for thread in ["ended", "waits"] {
        assert!(!clocked.is_there(thread).await, "{thread}");
    }
    assert!(has_caps().await);
    assert_eq!(sweep(service).await.unwrap(), Progress::Deleted);
    assert!(!has_caps().await);
    assert_eq!(sweep(service).await.unwrap(), Progress::NothingFound);
    clocked.instance.close().await;
}
