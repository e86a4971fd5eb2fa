//! The order in which what a removed tenant has is deleted.

use pes::domain::ids::{TenantPk, ThreadPk};
use pes::domain::spend::CAPS_ID;
use pes::domain::tenant::{REMOVAL_ID, TenantRemoval};
use pes::service::tenants::{Progress, sweep};
use pes::store::documents::{Document, DocumentKind, Expected};
use pes::store::{AuditRow, Store};
use serde_json::{Value, json};

use crate::support::clocked::Clocked;
use crate::support::http::{soon, until};
use crate::support::store::{Mood, Moody};

async fn put(store: &dyn Store, tenant: TenantPk, kind: DocumentKind, id: &str, body: Value) {
    let document = Document { tenant, kind, id: id.to_owned(), version: 0, updated_at: 1, body: Some(body) };
    let (thread, actor, action, detail) = (ThreadPk::NONE, "ops".to_owned(), "put".to_owned(), json!({}));
    let audit = AuditRow { tenant, thread, thread_id: None, at: 1, actor, action, detail };
    assert!(store.write_document(document, Expected::Absent, audit, None).await.unwrap().is_some());
}

#[tokio::test]
async fn what_runs_of_a_removed_tenant_must_obey_is_deleted_after_its_threads() {
    let moody = Moody::fresh().await;
    let clocked = Clocked::on(moody.clone(), |_| {}).await;
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

    // The server sweeps by itself too, as soon as it sees the removal.
    moody.set("delete_thread", Mood::Fails);
    let removal = json!(TenantRemoval { by: "ops".to_owned(), at: 1 });
    put(store, tenant, DocumentKind::Removal, REMOVAL_ID, removal).await;
    assert_eq!(sweep(service).await.unwrap(), Progress::Left);
    for thread in ["ended", "waits"] {
        assert!(clocked.is_there(thread).await, "{thread}");
    }
    assert!(has_caps().await);

    moody.set("delete_thread", Mood::Well);
    while sweep(service).await.unwrap() != Progress::NothingFound {}
    for thread in ["ended", "waits"] {
        assert!(!clocked.is_there(thread).await, "{thread}");
    }
    assert!(!has_caps().await);
    clocked.instance.close().await;
}

/// A removal stays, so there are ever more of them.
#[tokio::test]
async fn what_is_gone_of_removed_tenants_is_not_looked_for_at_each_other_removal() {
    let moody = Moody::fresh().await;
    let clocked = Clocked::on(moody.clone(), |_| {}).await;
    let store = &*clocked.store;
    let removal = || json!(TenantRemoval { by: "ops".to_owned(), at: 1 });
    let (first, other) = (store.tenant("first", 1).await.unwrap(), store.tenant("other", 1).await.unwrap());
    put(store, other, DocumentKind::SpendCaps, CAPS_ID, json!({})).await;
    moody.set("deliveries_of_tenant", Mood::HangsAfter);
    put(store, first, DocumentKind::Removal, REMOVAL_ID, removal()).await;
    soon(moody.holds("deliveries_of_tenant")).await;
    assert_eq!(moody.calls("keys_of"), 1);
    moody.set("deliveries_of_tenant", Mood::Well);

    put(store, other, DocumentKind::Removal, REMOVAL_ID, removal()).await;
    let are_caps_gone = async || {
        let caps = store.document(other, DocumentKind::SpendCaps, CAPS_ID).await.unwrap();
        caps.is_none_or(|caps| caps.body.is_none())
    };
    until("its caps are gone", are_caps_gone).await;
    assert_eq!(moody.calls("keys_of"), 1, "those of the other");
    clocked.instance.close().await;
}
