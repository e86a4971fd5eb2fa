//! Each migration adds one audit line in its own transaction.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use pes::config::Synchronous;
use pes::store::postgres::Postgres;
use pes::store::sqlite::Sqlite;
use pes::store::{PageAsk, Store};
use serde_json::{Value, json};
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, Executor, PgConnection, SqlStr, SqliteConnection};

use crate::support::postgres::Database;

const TENANTS: &str = "INSERT INTO tenants (name, created_at) VALUES ('default', 1), ('other', 1)";

/// The schema of the first release.
fn first(sql: &'static str) -> Migrator {
    let first = Migration::new(1, Cow::Borrowed("schema"), MigrationType::Simple, SqlStr::from_static(sql), false);
    Migrator::with_migrations(vec![first])
}

pub async fn sqlite(folder: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(folder.join("pes.db")).create_if_missing(true);
    let mut connection = options.connect().await.unwrap();
    let sql = include_str!("../../../migrations/sqlite/0001_schema.sql");
    first(sql).run(&mut connection).await.unwrap();
    connection.execute(TENANTS).await.unwrap();
    connection
}

/// A database with the migrations up to this one, and two tenants.
pub async fn postgres_at(version: i64, database: &Database) -> PgConnection {
    let mut connection = database.connect().await;
    let migrator = Migrator::new(folder("postgres")).await.unwrap();
    migrator.run_direct(Some(version), &mut connection, false).await.unwrap();
    connection.execute(TENANTS).await.unwrap();
    connection
}

fn folder(database: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations").join(database)
}

/// How many migrations a database has.
pub fn newest(database: &str) -> i64 {
    std::fs::read_dir(folder(database)).unwrap().count() as i64
}

/// The audit lines of each tenant, the oldest first.
async fn told(store: &dyn Store) -> Vec<Vec<Value>> {
    let mut all = Vec::new();
    for name in ["default", "other"] {
        let tenant = store.tenant(name, 1).await.unwrap();
        let page = PageAsk { limit: 100, cursor: None };
        let mut lines = store.audit_of_tenant(tenant, &page).await.unwrap().items;
        lines.reverse();
        assert!(lines.iter().all(|line| line.actor == "server" && line.action == "migrate"), "{lines:?}");
        assert!(lines.is_sorted_by_key(|line| line.at) && lines[0].at > 1_700_000_000_000, "{lines:?}");
        all.push(lines.into_iter().map(|line| line.detail).collect());
    }
    all
}

/// From the first schema to this one.
fn each_up_to(last: i64) -> Vec<Vec<Value>> {
    let line = |to: i64| json!({ "from": to - 1, "to": to, "program": env!("CARGO_PKG_VERSION") });
    vec![(2..=last).map(line).collect(); 2]
}

#[tokio::test]
async fn each_migration_is_told_once_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    sqlite(folder.path()).await.close().await.unwrap();
    for _ in 0..2 {
        let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
        assert_eq!(told(&store).await, each_up_to(newest("sqlite")));
        store.close().await;
    }
}

#[tokio::test]
async fn each_migration_is_told_once_on_postgresql() {
    let database = Database::fresh().await;
    postgres_at(1, &database).await.close().await.unwrap();
    for _ in 0..2 {
        let store = Postgres::open(&database.url().into(), 2).await.unwrap();
        assert_eq!(told(&store).await, each_up_to(newest("postgres")));
        store.close().await;
    }
}

/// A session of a person that an older version began, and one of a key.
const SESSIONS: &str = "INSERT INTO sessions (hash, key_hash, expires_at)
    VALUES ('person', '', 9), ('key', 'hash of a key', 9)";

/// Which of them are left.
async fn left(store: &dyn Store) -> [bool; 2] {
    let is_there = async |hash| store.session(hash).await.unwrap().is_some();
    [is_there("person").await, is_there("key").await]
}

/// Nothing would find them to end them.
#[tokio::test]
async fn sessions_that_do_not_name_their_person_are_ended_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = sqlite(folder.path()).await;
    connection.execute(SESSIONS).await.unwrap();
    connection.close().await.unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    assert_eq!(left(&store).await, [false, true]);
    store.close().await;
}

#[tokio::test]
async fn sessions_that_do_not_name_their_person_are_ended_on_postgresql() {
    let database = Database::fresh().await;
    let mut connection = postgres_at(16, &database).await;
    connection.execute(SESSIONS).await.unwrap();
    connection.close().await.unwrap();
    let store = Postgres::open(&database.url().into(), 2).await.unwrap();
    assert_eq!(left(&store).await, [false, true]);
    store.close().await;
}

/// Each migration has its audit line, and no line is without its migration.
#[tokio::test]
async fn a_migration_that_fails_is_not_told_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let mut connection = sqlite(folder.path()).await;
    connection.execute("CREATE TABLE schedule_state (in_the_way INTEGER)").await.unwrap();
    Sqlite::open(folder.path(), Synchronous::Normal).await.err().expect("its name is taken");
    connection.execute("DROP TABLE schedule_state").await.unwrap();
    assert_eq!(lines(&mut connection).await, 2 * 3, "the second to the fourth");
    // If the line cannot be written, the migration is not made.
    connection
        .execute("CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT raise(abort, 'full'); END")
        .await
        .unwrap();
    Sqlite::open(folder.path(), Synchronous::Normal).await.err().expect("nobody would be told");
    let there: Option<i64> = sqlx::query_scalar("SELECT 1 FROM sqlite_schema WHERE name = 'schedule_state'")
        .fetch_optional(&mut connection)
        .await
        .unwrap();
    assert_eq!(there, None);
    connection.execute("DROP TRIGGER full").await.unwrap();
    connection.close().await.unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    assert_eq!(told(&store).await, each_up_to(newest("sqlite")));
    store.close().await;
}

/// The newest migration of a database.
pub const NEWEST: &str = "SELECT max(version) FROM _sqlx_migrations";

async fn lines(connection: &mut SqliteConnection) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM audit").fetch_one(connection).await.unwrap()
}

#[tokio::test]
async fn a_database_that_is_made_tells_of_no_migration() {
    let folder = tempfile::tempdir().unwrap();
    let store: Box<dyn Store> = Box::new(Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap());
    let tenant = store.tenant("default", 1).await.unwrap();
    assert_eq!(store.audit_of_tenant(tenant, &PageAsk { limit: 1, cursor: None }).await.unwrap().items, []);
    store.close().await;
}
