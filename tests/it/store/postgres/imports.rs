//! Concurrent imports of one id, and an import whose client has disconnected.

use std::sync::Arc;

use pes::domain::ids::ThreadPk;
use pes::store::{Committed, NewImport, Store as _, ThreadReads as _, TransferStore as _};
use sqlx::{Connection, Executor};

use super::{PK, creation, process, waiting};
use crate::support::http::soon;
use crate::support::postgres::Database;

fn import() -> NewImport {
    NewImport { commit: creation(), log: Vec::new(), min_seq: 1, last_seq: 0, base: Some("{}".to_owned()) }
}

/// Dropped after the thread was written and before the rest: nothing is stored, and its connection writes no more.
#[tokio::test]
async fn an_import_that_is_dropped_half_way_stores_nothing() {
    let database = Database::fresh().await;
    let store = Arc::new(process(&database).await);
    let (mut blocker, mut watcher) = (database.connect().await, database.connect().await);
    let mut lock = blocker.begin().await.unwrap();
    lock.execute("LOCK TABLE bases IN SHARE MODE").await.unwrap();
    let importing = tokio::spawn({
        let store = store.clone();
        async move { store.import_thread(import()).await }
    });
    soon(async { while waiting(&mut watcher).await == 0 {} }).await;
    importing.abort();
    assert!(importing.await.unwrap_err().is_cancelled());
    lock.rollback().await.unwrap();
    // The next import does not conflict with it.
    assert_eq!(soon(store.import_thread(import())).await.unwrap(), Committed::Done);
    store.close().await;
    let store = process(&database).await;
    assert_eq!(store.thread_by_pk(PK).await.unwrap().unwrap().fence.version, 1);
}

/// The second waits for the first, and then fails because the id is taken.
#[tokio::test]
async fn of_two_imports_of_one_id_at_once_the_second_is_told_that_it_is_taken() {
    let database = Database::fresh().await;
    let (first, second) = (Arc::new(process(&database).await), Arc::new(process(&database).await));
    let (mut blocker, mut watcher) = (database.connect().await, database.connect().await);
    let mut lock = blocker.begin().await.unwrap();
    lock.execute("LOCK TABLE bases IN SHARE MODE").await.unwrap();
    let mut importing = Vec::new();
    for (nth, store) in [(1, first), (2, second)] {
        let mut import = import();
        import.commit.pk = ThreadPk(PK.0 + nth);
        importing.push(tokio::spawn(async move { store.import_thread(import).await.unwrap() }));
        // The first waits for the table, the second for the first.
        soon(async { while waiting(&mut watcher).await < nth {} }).await;
    }
    lock.rollback().await.unwrap();
    let mut outcomes = Vec::new();
    for importing in importing {
        outcomes.push(soon(importing).await.unwrap());
    }
    assert_eq!(outcomes, [Committed::Done, Committed::Exists]);
}
