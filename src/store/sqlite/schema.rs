//! Migrations: embedded, applied when the folder is opened, forward only.

use std::borrow::Cow;
use std::path::Path;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, SqlStr};

use super::fault::{is_read_only, why_not_opened};
use super::open::unusable;
use crate::store::{Error, OldSchema, Result, schema_line};

/// One file until the first release; from then on files are appended and never edited.
const MIGRATIONS: [(i64, &str, &str); 17] = [
    (1, "schema", include_str!("../../../migrations/sqlite/0001_schema.sql")),
    (2, "erasure", include_str!("../../../migrations/sqlite/0002_erasure.sql")),
    (3, "retention", include_str!("../../../migrations/sqlite/0003_retention.sql")),
    (4, "backup", include_str!("../../../migrations/sqlite/0004_backup.sql")),
    (5, "schedules", include_str!("../../../migrations/sqlite/0005_schedules.sql")),
    (6, "audit chain", include_str!("../../../migrations/sqlite/0006_audit_chain.sql")),
    (7, "spend", include_str!("../../../migrations/sqlite/0007_spend.sql")),
    (8, "people", include_str!("../../../migrations/sqlite/0008_people.sql")),
    (9, "periods of spend", include_str!("../../../migrations/sqlite/0009_spend_periods.sql")),
    (10, "deleted documents", include_str!("../../../migrations/sqlite/0010_deleted_documents.sql")),
    (11, "cap that was told of", include_str!("../../../migrations/sqlite/0011_told_of.sql")),
    (12, "runs that wait to begin", include_str!("../../../migrations/sqlite/0012_waits_to_begin.sql")),
    (13, "deliveries of tenants", include_str!("../../../migrations/sqlite/0013_deliveries_of_tenants.sql")),
    (14, "deliveries to collectors", include_str!("../../../migrations/sqlite/0014_deliveries_to_collectors.sql")),
    (15, "deliveries by status", include_str!("../../../migrations/sqlite/0015_deliveries_by_status.sql")),
    (16, "runs by standing", include_str!("../../../migrations/sqlite/0016_runs_by_standing.sql")),
    (17, "sessions of a holder", include_str!("../../../migrations/sqlite/0017_sessions_of_holder.sql")),
];

/// The schema that this program needs.
const KNOWN: i64 = MIGRATIONS[MIGRATIONS.len() - 1].0;

/// The current time in the unit of the audit.
const NOW: &str = "CAST(unixepoch('subsec') * 1000 AS INTEGER)";

/// Refuses, without changing it, a file that a newer version has changed so that this one cannot use it, and a file that is
/// not a database of this server.
pub(super) async fn check_version(path: &Path) -> Result<()> {
    match floor(path).await.map_err(|error| unusable(path, why_not_opened(&error)))? {
        Some(least) if least > KNOWN => Err(Error::Unusable(format!(
            "{} needs a program that knows schema {least}, and this version of pes knows schemas up to {KNOWN}; start \
             a newer pes. Nothing was changed.",
            path.display()
        ))),
        Some(_) => Ok(()),
        None => Err(unusable(path, "it holds no data of pes; name another folder with PES_DATA_DIR, or move it away")),
    }
}

/// Refuses a file that is not migrated to the current schema, without changing it.
pub(super) async fn check_up_to_date(path: &Path) -> Result<()> {
    let Some(OldSchema { found, needed }) = old_schema(path).await? else { return Ok(()) };
    let why = format!("it has schema {found}, and this version of pes needs {needed}; start the server on it once");
    Err(unusable(path, why))
}

/// The schema of a file that a start would migrate.
pub(super) async fn old_schema(path: &Path) -> Result<Option<OldSchema>> {
    let found = version(path).await.map_err(|error| unusable(path, why_not_opened(&error)))?;
    Ok((found < KNOWN).then_some(OldSchema { found, needed: KNOWN }))
}

async fn version(path: &Path) -> std::result::Result<i64, sqlx::Error> {
    let mut connection = SqliteConnectOptions::new().filename(path).connect().await?;
    let version = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations").fetch_one(&mut connection).await;
    connection.close().await?;
    version
}

/// The lowest schema version that a program must know; `None`: the file is not a database of this server.
async fn floor(path: &Path) -> std::result::Result<Option<i64>, sqlx::Error> {
    let options = SqliteConnectOptions::new().filename(path);
    match floor_by(options.clone().read_only(true)).await {
        // An interrupted write of a killed process must be rolled back first.
        Err(error) if is_read_only(&error) => floor_by(options).await,
        floor => floor,
    }
}

async fn floor_by(options: SqliteConnectOptions) -> std::result::Result<Option<i64>, sqlx::Error> {
    let mut connection = options.connect().await?;
    let floor = read_floor(&mut connection).await;
    connection.close().await?;
    floor
}

async fn read_floor(connection: &mut SqliteConnection) -> std::result::Result<Option<i64>, sqlx::Error> {
    let tables = sqlx::query_scalar("SELECT count(*) FROM sqlite_schema WHERE name = 'schema_floor'");
    let tables: i64 = tables.fetch_one(&mut *connection).await?;
    if tables == 0 {
        return Ok(None);
    }
    sqlx::query_scalar("SELECT least FROM schema_floor").fetch_one(connection).await
}

pub(super) async fn migrate(options: &SqliteConnectOptions) -> std::result::Result<(), sqlx::Error> {
    let migration = |(version, words, sql): (i64, &'static str, &'static str)| {
        let (words, sql) = (Cow::Borrowed(words), SqlStr::from_static(sql));
        schema_line::with_audit_line(Migration::new(version, words, MigrationType::Simple, sql, false), NOW)
    };
    let mut connection = options.connect().await?;
    let mut migrator = Migrator::with_migrations(MIGRATIONS.into_iter().map(migration).collect());
    // Migrations of newer versions are ignored: the floor permits this version to use the database.
    migrator.set_ignore_missing(true);
    migrator.run(&mut connection).await?;
    connection.close().await
}
