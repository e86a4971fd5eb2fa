use serde_json::json;

use super::*;
use crate::config::Synchronous;
use crate::domain::ids::ThreadPk;
use crate::store::sqlite::Sqlite;
use crate::store::{AuditRow, ChainStore as _};

/// Also where they had waited for long, and the tenant leaves no line any more.
#[tokio::test]
async fn once_all_lines_are_chained_nobody_hurries_for_them() {
    const TENANT: TenantPk = TenantPk(1);
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    let (actor, action) = ("eve".to_owned(), "retention".to_owned());
    let line =
        AuditRow { tenant: TENANT, thread: ThreadPk::NONE, thread_id: None, at: 0, actor, action, detail: json!({}) };
    store.add_line(line).await.unwrap();
    while store.chores().hurry() == 1 {
        store.chores().overdue(("audit", TENANT), MAY_WAIT, 1);
    }
    chain(&store, None, 2 * MAY_WAIT).await.unwrap();
    assert_eq!(store.chain_end(TENANT).await.unwrap().n, 1);
    assert_eq!(store.chores().hurry(), 1);
}
