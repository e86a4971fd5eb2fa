//! The writing connection. It is opened on demand, and closed when its state is unknown.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, Error, OpenFlags, Result, Transaction, TransactionBehavior, ffi};

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
    /// One of them was not in place when it was last looked at.
    is_misplaced: bool,
    /// `None` after a failure that leaves its state unknown. The next write opens it again.
    connection: Option<Connection>,
}

impl WriteConnection {
    /// Opens the database of this path, which is this file. Every write checks that these files are in place.
    pub fn open(path: PathBuf, file: Arc<File>, opened: Vec<OpenedFile>, synchronous: Synchronous) -> Result<Self> {
        let mut connection = Self { path, synchronous, file, opened, is_misplaced: false, connection: None };
        connection.connection()?;
        Ok(connection)
    }

    fn connection(&mut self) -> Result<&mut Connection> {
        self.check_place()?;
        if self.connection.is_none() {
            self.connection = Some(connect(&self.path, self.synchronous)?);
        }
        Ok(self.connection.as_mut().expect("just opened"))
    }

    /// Fails if a file is not in place: a write would be acknowledged and lost. Logs the first of such failures.
    fn check_place(&mut self) -> Result<()> {
        let missing = self.opened.iter().find(|opened| !opened.is_in_place()).map(OpenedFile::name);
        let was_misplaced = std::mem::replace(&mut self.is_misplaced, missing.is_some());
        let Some(name) = missing else { return Ok(()) };
        let why = format!(
            "{name} is no longer where it was opened: it or its folder was removed, moved or replaced; put back what was \
             there, or stop this server"
        );
        if !was_misplaced {
            tracing::error!(path = %self.path.display(), "nothing is written any more: {why}");
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
        let connection = self.connection()?;
        connection.busy_timeout(READERS_TIMEOUT)?;
        let is_busy: Result<bool> =
            connection.query_row("PRAGMA wal_checkpoint(truncate)", [], |row| Ok(row.get::<_, i64>(0)? != 0));
        connection.busy_timeout(BUSY_TIMEOUT)?;
        Ok(!is_busy?)
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

fn connect(path: &Path, synchronous: Synchronous) -> Result<Connection> {
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
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
