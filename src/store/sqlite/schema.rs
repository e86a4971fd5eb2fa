//! The schema of the file: checked and migrated when the folder is opened, forward only.

use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};

use super::fault::{is_read_only, why_not_opened};
use super::open::unusable;
use crate::store::migrations::{self, KNOWN};
use crate::store::{Error, OldSchema, Result};

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

/// Makes the tables of the new database that becomes that of this path. Fails unless all of it is in its file: its log
/// would not be found under the other name.
pub(super) async fn create(path: &Path, options: &SqliteConnectOptions) -> Result<()> {
    let failed = |error: sqlx::Error| unusable(path, why_not_opened(&error));
    let mut connection = options.connect().await.map_err(failed)?;
    let made = make(&mut connection).await;
    connection.close().await.map_err(failed)?;
    if made.map_err(failed)? { Ok(()) } else { Err(unusable(path, "another process reads it while it is made")) }
}

/// `false`: a part of it is only in the log.
async fn make(connection: &mut SqliteConnection) -> std::result::Result<bool, sqlx::Error> {
    migrations::migrator(migrations::SQLITE, NOW).run(&mut *connection).await?;
    let is_busy: i64 = sqlx::query_scalar("PRAGMA wal_checkpoint(TRUNCATE)").fetch_one(connection).await?;
    Ok(is_busy == 0)
}

pub(super) async fn migrate(options: &SqliteConnectOptions) -> std::result::Result<(), sqlx::Error> {
    let mut connection = options.connect().await?;
    migrations::migrator(migrations::SQLITE, NOW).run(&mut connection).await?;
    connection.close().await
}

/// Migrates a copy that no server uses, without a log beside it.
pub(super) async fn migrate_copy(path: &Path) -> Result<()> {
    let options = SqliteConnectOptions::new().filename(path).foreign_keys(false).disable_statement_logging();
    migrate(&options).await.map_err(|error| unusable(path, why_not_opened(&error)))
}
