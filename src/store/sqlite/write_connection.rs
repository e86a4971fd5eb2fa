//! The writing connection. It is opened on demand, and closed when its state is unknown.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, Error, OpenFlags, Result, Transaction, TransactionBehavior, ffi};

use super::damage;
use super::fault::{Failure, failure, unavailable, unwritten};
use super::open::{BUSY_TIMEOUT, PRAGMAS};
use super::opened_file::OpenedFile;
use super::remains::Layout;
use crate::config::Synchronous;
use crate::store;

/// The size of the statement cache: more than there are statements, so that each is prepared once.
const CACHED_STATEMENTS: usize = 128;

/// How long emptying the log waits for readers. All writes wait that long, too.
const READERS_TIMEOUT: Duration = Duration::from_millis(50);

pub(super) struct WriteConnection {
    path: PathBuf,
    synchronous: Synchronous,
    /// The database file of the connection.
    file: Arc<File>,
    /// The database file and the lock file.
    opened: Vec<OpenedFile>,
    /// The write-ahead log of the connection, which SQLite leaves where it is until the last connection is closed.
    log: Option<OpenedFile>,
    /// One of them was not in place when it was last looked at.
    is_misplaced: bool,
    /// When that was seen last, nothing was only in a log that is missing.
    has_copied: bool,
    /// `None` after a failure that leaves its state unknown. The next write opens it again.
    connection: Option<Connection>,
}

impl WriteConnection {
    /// Opens the database of this path, which is this file. Every write checks that these files are in place.
    pub fn open(path: PathBuf, file: Arc<File>, opened: Vec<OpenedFile>, synchronous: Synchronous) -> Result<Self> {
        let mut connection = Self {
            path,
            synchronous,
            file,
            opened,
            log: None,
            is_misplaced: false,
            has_copied: true,
            connection: None,
        };
        connection.connection()?;
        Ok(connection)
    }

    fn connection(&mut self) -> Result<&mut Connection> {
        self.check_place()?;
        if self.connection.is_none() {
            let connection = connect(&self.path, self.synchronous)?;
            self.log = log_of(&connection, &self.path)?;
            self.connection = Some(connection);
        }
        Ok(self.connection.as_mut().expect("just opened"))
    }

    /// Fails if a file is not in place: a write would be acknowledged and lost. Logs the first of such failures, and whether what
    /// only the log has is in the database file, whenever that changes.
    fn check_place(&mut self) -> Result<()> {
        let of_database = self.opened.iter().find_map(OpenedFile::why_not_in_place);
        let is_only_log = of_database.is_none();
        let missing = of_database.or_else(|| self.log.as_ref()?.why_not_in_place());
        let was_misplaced = std::mem::replace(&mut self.is_misplaced, missing.is_some());
        let Some(why) = missing else { return Ok(()) };
        // What only the log has would be lost with the process. What a reader still needs there is copied at the next call.
        let copied = match &self.connection {
            _ if !is_only_log => Ok(true),
            Some(connection) => checkpoint(connection),
            None => Err(Error::SqliteFailure(
                ffi::Error::new(ffi::SQLITE_CANTOPEN),
                Some("the connection was closed after a failure, and its log with it".to_owned()),
            )),
        };
        let had_copied = std::mem::replace(&mut self.has_copied, matches!(copied, Ok(true)));
        if !was_misplaced {
            tracing::error!(path = %self.path.display(), "nothing is written any more: {why}");
        }
        if !was_misplaced || self.has_copied != had_copied {
            match copied {
                Ok(true) if was_misplaced => tracing::error!("what was written last is in the database file now"),
                Ok(true) => {}
                Ok(false) => tracing::error!(
                    "what was written last may not be in the database file yet, because a reader needs the log: it is \
                     copied at the next write or health check"
                ),
                Err(error) => {
                    tracing::error!(%error, "what was written last may be lost: it could not be copied to the database file");
                }
            }
        }
        Err(Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_READONLY_DBMOVED), Some(why)))
    }

    /// Runs `write` in a transaction. After an error no transaction is open.
    pub fn transaction<T>(&mut self, write: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        let connection = self.connection()?;
        let written = in_transaction(connection, write);
        if let Err(error) = &written
            && (!connection.is_autocommit() || failure(error) == Failure::Lost)
        {
            self.close();
        }
        written
    }

    /// Checkpoints the log and empties it. `false`: a reader needs data that only the log has.
    pub fn empty_log(&mut self) -> Result<bool> {
        checkpoint(self.connection()?)
    }

    /// Overwrites the remains of deleted rows in these pages of the file. `false`: open readers prevent it.
    pub fn clear_remains(&mut self, pages: &[u32]) -> store::Result<bool> {
        if !self.empty_log().map_err(|error| unwritten(&error))? {
            return Ok(false);
        }
        // Its page cache would write back what is overwritten now.
        self.close();
        Layout::read(&self.file).and_then(|layout| layout.clear(&self.file, pages)).map_err(unavailable)?;
        Ok(true)
    }

    /// Closes the connection. SQLite rolls back an open transaction.
    pub fn close(&mut self) {
        // The next connection has another log if this was the last one. A log that is missing before that stays missing:
        // other connections may still read it.
        self.log = self.log.take().filter(|log| log.why_not_in_place().is_some());
        if let Some(connection) = self.connection.take()
            && let Err((_, error)) = connection.close()
        {
            tracing::warn!(%error, "the database was not closed cleanly");
        }
    }
}

/// Dropping the transaction rolls it back.
fn in_transaction<T>(connection: &mut Connection, write: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let value = write(&transaction)?;
    transaction.commit()?;
    Ok(value)
}

/// Copies the log to the database file and empties it. `false`: a reader needs data that only the log has.
fn checkpoint(connection: &Connection) -> Result<bool> {
    connection.busy_timeout(READERS_TIMEOUT)?;
    let is_empty = connection.query_row("PRAGMA wal_checkpoint(truncate)", [], |row| Ok(row.get::<_, i64>(0)? == 0));
    connection.busy_timeout(BUSY_TIMEOUT)?;
    is_empty
}

/// The log of this connection, which has it open since it read its settings. `None`: it has none, in a restored database
/// that was not started yet.
fn log_of(connection: &Connection, path: &Path) -> Result<Option<OpenedFile>> {
    let journal: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    if journal != "wal" {
        return Ok(None);
    }
    let log = OpenedFile::at(damage::companion(path, "wal"));
    log.map(Some).map_err(|error| {
        let why = format!("its log cannot be looked at: {error}");
        Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CANTOPEN), Some(why))
    })
}

fn connect(path: &Path, synchronous: Synchronous) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| without_folder(error, path))?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    let synchronous = match synchronous {
        Synchronous::Full => "full",
        Synchronous::Normal => "normal",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "foreign_keys", false)?;
    for (name, value) in PRAGMAS {
        connection.pragma_update(None, name, value)?;
    }
    Ok(connection)
}

/// The error, which names the file without its folder, because everybody may read why nothing is written.
fn without_folder(mut error: Error, path: &Path) -> Error {
    if let Error::SqliteFailure(_, Some(why)) = &mut error {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        *why = why.replace(&*path.to_string_lossy(), &name);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_opened_is_named_without_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let error = connect(&folder.path().join("pes.db"), Synchronous::Full).unwrap_err();
        assert_eq!(error.to_string(), "unable to open database file: pes.db");
    }
}
