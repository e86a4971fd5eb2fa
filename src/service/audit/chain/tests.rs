use std::sync::atomic::Ordering;

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::config::Synchronous;
use crate::domain::ids::ThreadPk;
use crate::store::sqlite::Sqlite;
use crate::store::{AuditRow, ChainReads as _, ChainStore as _};

const TENANT: TenantPk = TenantPk(1);

async fn store() -> (TempDir, Sqlite) {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    (folder, store)
}

async fn add_line(store: &Sqlite) {
    let (actor, action) = ("eve".to_owned(), "retention".to_owned());
    let line =
        AuditRow { tenant: TENANT, thread: ThreadPk::NONE, thread_id: None, at: 0, actor, action, detail: json!({}) };
    store.add_line(line).await.unwrap();
}

/// Also lines that have waited long, and whose tenant adds no more.
#[tokio::test]
async fn once_all_lines_are_chained_nobody_hurries_for_them() {
    let (_folder, store) = store().await;
    add_line(&store).await;
    while store.chores().hurry() == 1 {
        store.chores().overdue(("audit", TENANT), MAX_CHAIN_LAG, 1);
    }
    chain(&store, None, 2 * MAX_CHAIN_LAG).await.unwrap();
    assert_eq!(store.chain_end(TENANT).await.unwrap().n, 1);
    assert_eq!(store.chores().hurry(), 1);
}

#[tokio::test]
async fn lines_that_somebody_waits_for_are_no_chore() {
    let (_folder, store) = store().await;
    for is_chore in [false, true] {
        add_line(&store).await;
        let chainer = Chainer { store: &store, key: None, begun: 1, service: None, is_chore };
        chainer.of_tenant(TENANT).await.unwrap();
        assert_eq!(store.chores().held_us.load(Ordering::Relaxed) > 0, is_chore);
    }
    assert_eq!(store.chain_end(TENANT).await.unwrap().n, 2);
}
