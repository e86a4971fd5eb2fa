//! What one tenant has that cannot be read stops no background task: schedules and audits of others go on.

use std::sync::Arc;

use pes::Instance;
use pes::auth::AuditKey;
use pes::config::Synchronous;
use pes::domain::caller::Caller;
use pes::domain::ids::{TenantPk, ThreadPk};
use pes::runtime::clock::Manual;
use pes::service::audit::{chain, sign_ends};
use pes::service::resources::{self, Schedules};
use pes::service::schedules;
use pes::store::sqlite::Sqlite;
use pes::store::{AuditRow, ChainReads as _, KeyAdded, KeyRow, KeyStore as _};
use serde_json::json;
use sqlx::{Connection as _, SqliteConnection};
use tempfile::TempDir;

use crate::support::clocked::{MINUTE, TODAY};
use crate::support::demo;
use crate::support::http::soon;

async fn open(folder: &TempDir) -> Arc<Sqlite> {
    Arc::new(Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap())
}

async fn damage(folder: &TempDir, sql: &'static str) {
    let url = format!("sqlite://{}", folder.path().join("pes.db").display());
    let mut other = SqliteConnection::connect(&url).await.unwrap();
    assert_eq!(sqlx::query(sql).execute(&mut other).await.unwrap().rows_affected(), 1);
    other.close().await.unwrap();
}

/// Stores a key, with a line in the audit of its tenant.
async fn add_key(store: &Sqlite, tenant: TenantPk, tenant_name: &str, name: &str) {
    let key = KeyRow {
        key_id: format!("id of {name}"),
        tenant,
        tenant_name: tenant_name.to_owned(),
        name: name.to_owned(),
        hash: format!("hash of {name}"),
        scopes: "read run".to_owned(),
        created_at: TODAY,
        revoked_at: None,
        expires_at: None,
        used_at: None,
        former_hash: None,
        former_until: None,
    };
    let (actor, action) = ("boss".to_owned(), "make key".to_owned());
    let thread = ThreadPk::NONE;
    let audit = AuditRow { tenant, thread, thread_id: None, at: TODAY, actor, action, detail: json!({}) };
    assert_eq!(store.add_key(key, usize::MAX, audit).await.unwrap(), KeyAdded::Stored);
}

/// Two schedules are due, each written by a key of its own; something of one cannot be read.
#[rstest::rstest]
#[case::schedule("UPDATE schedule_state SET said = CAST(x'ff' AS TEXT) WHERE id = 'hurt'")]
#[case::key("UPDATE api_keys SET key_id = CAST(x'ff' AS TEXT) WHERE name = 'hurt'")]
#[tokio::test]
async fn what_cannot_be_read_of_a_schedule_delays_no_other(#[case] sql: &'static str) {
    let folder = tempfile::tempdir().unwrap();
    let (store, clock) = (open(&folder).await, Arc::new(Manual::at(TODAY)));
    let mut config = demo::at_once();
    // Longer than the whole test by its clock.
    config.runtime.lease_ms = 60 * MINUTE;
    let instance = Instance::build(config).store(store.clone()).clock(clock.clone()).open().await.unwrap();
    let (service, caller) = (instance.service(), instance.caller());
    for id in ["hurt", "well"] {
        add_key(&store, caller.tenant, &caller.tenant_name, id).await;
        let writer = Caller { name: id.to_owned(), ..caller.clone() };
        let spec = serde_json::from_value(json!({ "id": id, "everyMs": MINUTE, "query": "hello" })).unwrap();
        resources::create::<Schedules>(service, &writer, spec, None).await.unwrap();
    }
    damage(&folder, sql).await;
    clock.advance(MINUTE);
    soon(schedules::fire_due(service)).await.unwrap();
    let mut runs = Vec::new();
    for id in ["hurt", "well"] {
        runs.push(schedules::runs_of(service, caller, id, 9).await.unwrap().len());
    }
    assert_eq!(runs, [0, 1]);
}

/// Two tenants, each with a line in its audit.
async fn hurt_and_well(store: &Sqlite) -> [TenantPk; 2] {
    let mut tenants = [TenantPk::NONE; 2];
    for (tenant, name) in tenants.iter_mut().zip(["hurt", "well"]) {
        *tenant = store.tenant(name, TODAY).await.unwrap();
        add_key(store, *tenant, name, name).await;
    }
    tenants
}

#[tokio::test]
async fn a_line_that_cannot_be_read_leaves_the_audits_of_others_chained() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let tenants = hurt_and_well(&store).await;
    damage(&folder, "UPDATE audit SET actor = CAST(x'ff' AS TEXT) WHERE tenant = (SELECT min(pk) FROM tenants)").await;
    chain(&*store, None, TODAY).await.unwrap();
    let mut chained = Vec::new();
    for tenant in tenants {
        chained.push(store.chain_end(tenant).await.unwrap().n);
    }
    assert_eq!(chained, [0, 1]);
}

#[tokio::test]
async fn an_end_that_cannot_be_read_leaves_those_of_others_signed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let [_, well] = hurt_and_well(&store).await;
    chain(&*store, None, TODAY).await.unwrap();
    let of_the_first =
        "UPDATE audit_checkpoints SET hash = CAST(x'ff' AS TEXT) WHERE tenant = (SELECT min(pk) FROM tenants)";
    damage(&folder, of_the_first).await;
    let key = AuditKey::of(&"0123456789abcdef".repeat(4).into()).unwrap();
    assert!(sign_ends(&*store, &key, TODAY).await.unwrap());
    assert!(store.chain_end(well).await.unwrap().jws.is_some());
    assert!(!sign_ends(&*store, &key, TODAY).await.unwrap(), "all that can be read are signed");
}
