//! A migration runs beside servers that commit.

use std::time::{Duration, Instant};

use pes::store::Store as _;
use pes::store::postgres::Postgres;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use super::{process, waiting};
use crate::store::migrations;
use crate::support::http::soon;
use crate::support::postgres::Database;

/// A migration that waits for a lock blocks everybody after it: so it waits for 2 s, and tries again.
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
            let began = Instant::now();
            while waiting(&mut watcher).await > 0 {}
            assert!(began.elapsed() < Duration::from_secs(10), "it waited {:?}", began.elapsed());
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

/// Its locks keep every commit waiting.
#[tokio::test]
async fn a_migration_whose_process_is_gone_is_ended_at_once() {
    let database = Database::fresh().await;
    let mut watcher = migrations::postgres_at(14, &database).await;
    let slow = "CREATE FUNCTION slow() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(3600); END';
        CREATE EVENT TRIGGER slow ON ddl_command_end WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION slow()";
    watcher.execute(slow).await.unwrap();
    let url = database.url();
    let opening = tokio::spawn(async move { Postgres::open(&url.into(), 1).await });
    soon(async { while building(&mut watcher).await == 0 {} }).await;
    let mut early = watcher.begin().await.unwrap();
    let error = early.execute("LOCK TABLE deliveries IN ROW EXCLUSIVE MODE NOWAIT").await.err().unwrap();
    assert_eq!(error.as_database_error().unwrap().code().unwrap(), "55P03", "the migration holds it: {error}");
    early.rollback().await.unwrap();
    opening.abort();
    soon(async { while building(&mut watcher).await > 0 {} }).await;
    let mut commit = watcher.begin().await.unwrap();
    soon(commit.execute("LOCK TABLE deliveries IN ROW EXCLUSIVE MODE")).await.unwrap();
}

/// How many migrations of the store are building an index that takes an hour.
async fn building(watcher: &mut PgConnection) -> i64 {
    let count = "SELECT count(*) FROM pg_stat_activity
        WHERE application_name = 'pes' AND datname = current_database() AND wait_event = 'PgSleep'";
    sqlx::query_scalar(count).fetch_one(watcher).await.unwrap()
}

/// A process whose machine is gone closes no connection: its transaction ends all the same. A timeout of the role would end
/// each attempt to build a large index.
#[tokio::test]
async fn a_migration_is_ended_when_its_process_says_nothing_more_and_not_by_the_timeout_of_its_role() {
    let database = Database::fresh().await;
    let mut watcher = migrations::postgres_at(14, &database).await;
    let name: String = sqlx::query_scalar("SELECT current_database()").fetch_one(&mut watcher).await.unwrap();
    let short = format!("ALTER DATABASE {name} SET statement_timeout = '30s'");
    watcher.execute(AssertSqlSafe(short)).await.unwrap();
    let looks = "CREATE TABLE seen (idle text, looks text, statement text);
        CREATE FUNCTION look() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES
            (current_setting('idle_in_transaction_session_timeout'), current_setting('client_connection_check_interval'),
             current_setting('statement_timeout'));
        END $$;
        CREATE EVENT TRIGGER look ON ddl_command_end WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION look()";
    watcher.execute(looks).await.unwrap();
    process(&database).await.close().await;
    let seen = sqlx::query_as("SELECT DISTINCT idle, looks, statement FROM seen");
    let seen: Vec<(String, String, String)> = seen.fetch_all(&mut watcher).await.unwrap();
    assert_eq!(seen, [("30s".to_owned(), "500ms".to_owned(), "0".to_owned())]);
}
