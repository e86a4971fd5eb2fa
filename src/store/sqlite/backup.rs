//! Backs up the database while it is in use, and restores a backup.

use std::fs::{self, File, OpenOptions};
use std::path::Path;

use async_trait::async_trait;
use rusqlite::{Connection, OpenFlags, Transaction, params};
use serde_json::Value;

use super::fault::{is_damaged, unwritten, why_not_used};
use super::lock::FolderLock;
use super::open::{self, BUSY_TIMEOUT, database_of, unusable};
use super::{Sqlite, damage, private, schedules, schema};
use crate::config::Synchronous;
use crate::domain::Millis;
use crate::domain::ids::ThreadPk;
use crate::store::{BackupStore, HeldCounts, RestoreHold, Result};

const UNFINISHED: &str =
    "SELECT DISTINCT pk FROM thread_rows WHERE kind = 1 AND keep = 1 AND pk > ?1 ORDER BY pk LIMIT ?2";

const HOLD: &str = "
UPDATE deliveries SET status = 'dead', due_at = NULL, said = ?1, finished_at = ?2
WHERE due_at IS NOT NULL AND created_at <= ?3";

/// Not before any pending delivery: deliveries that are created later are those of the start, which [`HOLD`] leaves.
const MARK: &str = "
INSERT INTO restored (as_of)
SELECT max(?1, coalesce((SELECT max(created_at) FROM deliveries WHERE due_at IS NOT NULL), ?1))";

const FORGET: &str = "DELETE FROM restored RETURNING as_of";

/// Adds a line to the audit of every tenant.
const ADD_LINES: &str = "
INSERT INTO audit (pk, tenant, at, thread_id, actor, action, detail)
SELECT 0, pk, ?1, NULL, ?2, ?3, ?4 FROM tenants ORDER BY pk";

/// An action on the whole database, for the audit of each tenant.
pub struct DatabaseAction<'a> {
    pub by: &'a str,
    pub at: Millis,
    pub detail: Value,
}

impl DatabaseAction<'_> {
    fn record(&self, connection: &Connection, action: &str) -> rusqlite::Result<()> {
        connection.execute(ADD_LINES, params![self.at, self.by, action, self.detail.to_string()]).map(drop)
    }
}

/// Records the backup in the audit, then copies the database of this folder into a new file. Servers continue to read and
/// write in the meantime. The copy is synced when this returns. `Unusable` if the folder has no database, or a damaged one.
pub async fn back_up(folder: &Path, synchronous: Synchronous, to: &Path, act: &DatabaseAction<'_>) -> Result<()> {
    Sqlite::check_exists(folder)?;
    open::check_beside(folder, synchronous)?;
    let path = database_of(folder);
    schema::check_version(&path).await?;
    let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // Checkpoints are left to the server that holds the folder.
    let quiet = connection.pragma_update(None, "wal_autocheckpoint", 0);
    quiet.and_then(|()| act.record(&connection, "backup")).map_err(|error| unusable(&path, why_not_used(&error)))?;
    // The file is private from its creation on.
    private::file(to).map_err(|error| unusable(to, error))?;
    let name = to.to_str().ok_or_else(|| unusable(to, "its name is not UTF-8"))?;
    connection.execute("VACUUM INTO ?1", [name]).map_err(|error| {
        // What cannot be read is the database, not its copy.
        if is_damaged(&error) { unusable(&path, why_not_used(&error)) } else { unusable(to, error) }
    })?;
    File::open(to).and_then(|file| file.sync_all()).map_err(|error| unusable(to, error))
}

/// What happens to the unfinished runs of a restored database.
pub enum RestoreMode<'a> {
    /// The next start holds them, and records the time of the backup.
    Held { as_of: Millis },
    /// They are resumed.
    Resumed(DatabaseAction<'a>),
}

/// Copies this file into the folder as its database, and migrates the copy. It is marked as restored as of `as_of`; or, if its
/// runs are resumed, gets an audit line (a start that holds the runs writes that line itself). `Unusable` if the file is not a
/// complete database of this server, if the folder has one already, or if a server holds it; then nothing is changed.
pub async fn restore(file: &Path, folder: &Path, how: RestoreMode<'_>) -> Result<()> {
    let pages = check(file)?;
    schema::check_version(file).await?;
    private::folder(folder).map_err(|error| unusable(folder, error))?;
    let _lock = FolderLock::take(folder)?;
    let path = database_of(folder);
    if path.exists() {
        let why = "it is there already; move it and the files beside it away, or name another folder with PES_DATA_DIR";
        return Err(unusable(&path, why));
    }
    damage::check_absent(&path)?;
    let new = path.with_extension("db.new");
    open::remove_unfinished(&new)?;
    let made = prepare(file, &new, pages, &how).await;
    let named = made.and_then(|()| {
        let named = fs::rename(&new, &path).and_then(|()| File::open(folder)?.sync_all());
        named.map_err(|error| unusable(&path, error))
    });
    if named.is_err() {
        // A partial copy is of no use, and the disk may be full.
        let _ = open::remove_unfinished(&new);
    }
    named
}

/// Copies the file, migrates the copy, and writes to it what happens to its runs.
async fn prepare(file: &Path, new: &Path, pages: i64, how: &RestoreMode<'_>) -> Result<()> {
    copy(file, new).map_err(|error| unusable(new, error))?;
    let connection = connect(new, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    if pages_of(&connection, new)? != pages {
        return Err(unusable(new, "it is not what was copied"));
    }
    schema::migrate_copy(new).await?;
    let told = match how {
        RestoreMode::Held { as_of } => connection.execute(MARK, [as_of]).map(drop),
        RestoreMode::Resumed(act) => act.record(&connection, "restore"),
    };
    told.map_err(|error| unusable(new, error))?;
    connection.close().map_err(|(_, error)| unusable(new, error))
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    private::new_file(to)?;
    let mut copy = OpenOptions::new().write(true).truncate(true).open(to)?;
    std::io::copy(&mut File::open(from)?, &mut copy)?;
    copy.sync_all()
}

/// Checks that the file is a complete database, and returns its number of pages.
fn check(file: &Path) -> Result<i64> {
    let connection = connect(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let said: rusqlite::Result<String> = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0));
    match said.map_err(|error| unusable(file, error))?.as_str() {
        "ok" => pages_of(&connection, file),
        damage => Err(unusable(file, damage)),
    }
}

fn pages_of(connection: &Connection, file: &Path) -> Result<i64> {
    connection.query_row("PRAGMA page_count", [], |row| row.get(0)).map_err(|error| unusable(file, error))
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX);
    let connection = connection.map_err(|error| unusable(path, error))?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(|error| unwritten(&error))?;
    Ok(connection)
}

/// Removes the mark of the restore, and returns its time.
fn forget_mark(tx: &Transaction<'_>) -> rusqlite::Result<Option<Millis>> {
    let mut forget = tx.prepare_cached(FORGET)?;
    let marks: Vec<Millis> = forget.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(marks.into_iter().max())
}

#[async_trait]
impl BackupStore for Sqlite {
    async fn restored(&self) -> Result<Option<Millis>> {
        let query = sqlx::query_scalar("SELECT max(as_of) FROM restored");
        query.fetch_one(&self.readers).await.map_err(self.unreadable())
    }

    async fn mark_restored(&self, as_of: Millis) -> Result<()> {
        self.writer.write(move |tx| tx.prepare_cached(MARK)?.execute([as_of])).await.map(drop)
    }

    async fn unfinished_threads(&self, behind: ThreadPk, limit: u32) -> Result<Vec<ThreadPk>> {
        let query = sqlx::query_scalar(UNFINISHED).bind(behind.0).bind(limit);
        let found: Vec<i64> = query.fetch_all(&self.readers).await.map_err(self.unreadable())?;
        Ok(found.into_iter().map(ThreadPk).collect())
    }

    async fn hold_restored(&self, held: RestoreHold) -> Result<Option<HeldCounts>> {
        let hold = move |tx: &Transaction<'_>| {
            let Some(as_of) = forget_mark(tx)? else { return Ok(None) };
            let deliveries = tx.execute(HOLD, params![held.deliveries, held.now, as_of])? as u64;
            let schedules = tx.execute(schedules::HOLD, [&held.schedules])? as u64;
            tx.execute(ADD_LINES, params![held.now, held.actor, held.action, held.detail.to_string()])?;
            Ok(Some(HeldCounts { deliveries, schedules }))
        };
        self.writer.write(hold).await
    }
}
