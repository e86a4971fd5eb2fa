//! A migration runs beside servers that commit.

use pes::store::Store as _;
use pes::store::postgres::Postgres;
use sqlx::{Connection, Executor};

use super::{process, waiting};
use crate::store::migrations;
use crate::support::http::soon;
use crate::support::postgres::Database;

/// A migration that waits for a lock blocks everybody after it: so it waits briefly, and tries again.
#[tokio::test]
async fn a_lock_in_the_way_of_a_start_is_waited_for_a_little_at_a_time() {
    let database = Database::fresh().await;
    process(&database).await.close().await;
    let (mut blocker, mut watcher) = (database.connect().await, database.connect().await);
    let mut lock = blocker.begin().await.unwrap();
    lock.execute("LOCK TABLE _sqlx_migrations IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let url = database.url();
    let opening = tokio::spawn(async move { Postgres::open(&url.into(), 1).await });
    let waits_twice = async {
        for _ in 0..2 {
            while waiting(&mut watcher).await == 0 {}
            while waiting(&mut watcher).await > 0 {}
        }
    };
    soon(waits_twice).await;
    assert!(!opening.is_finished(), "it tries again");
    lock.rollback().await.unwrap();
    soon(opening).await.unwrap().unwrap();
}

/// A commit of another process that waits for the migration while the migration waits for it: PostgreSQL ends one of them.
#[tokio::test]
async fn a_migration_that_a_deadlock_ended_begins_again() {
    let database = Database::fresh().await;
    let (mut watcher, mut other) = (migrations::postgres_at(9, &database).await, database.connect().await);
    // So it is the migration that looks for the deadlock, and is ended.
    other.execute("SET deadlock_timeout = '1h'").await.unwrap();
    let mut lock = other.begin().await.unwrap();
    lock.execute("LOCK TABLE documents IN ROW EXCLUSIVE MODE").await.unwrap();
    let url = database.url();
    let opening = tokio::spawn(async move { Postgres::open(&url.into(), 1).await });
    // The tenth migration has changed `document_revision` and waits for `documents`.
    soon(async { while waiting(&mut watcher).await == 0 {} }).await;
    soon(lock.execute("LOCK TABLE document_revision IN ROW EXCLUSIVE MODE")).await.unwrap();
    lock.rollback().await.unwrap();
    soon(opening).await.unwrap().unwrap();
}
