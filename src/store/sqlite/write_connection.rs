//! The connection that writes: opened when it is needed, given up when its state is in doubt.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, Result, Transaction, TransactionBehavior};

use super::fault::{Failure, failure};
use super::open::{BUSY_TIMEOUT, PRAGMAS};
use crate::config::Synchronous;

/// More than there are statements, so that each is prepared once.
const STATEMENTS: usize = 128;

pub(super) struct WriteConnection {
    path: PathBuf,
    synchronous: Synchronous,
    /// `None` after a failure that leaves its state in doubt; opened again by the next write.
    connection: Option<Connection>,
}

impl WriteConnection {
    pub fn open(path: PathBuf, synchronous: Synchronous) -> Result<Self> {
        let mut connection = Self { path, synchronous, connection: None };
        connection.connection()?;
        Ok(connection)
    }

    fn connection(&mut self) -> Result<&mut Connection> {
        if self.connection.is_none() {
            self.connection = Some(connect(&self.path, self.synchronous)?);
        }
        Ok(self.connection.as_mut().expect("just opened"))
    }

    /// After an error no transaction is open.
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

    /// Gives up the connection; SQLite rolls back what it left open.
    pub fn close(&mut self) {
        if let Some(connection) = self.connection.take()
            && let Err((_, error)) = connection.close()
        {
            tracing::warn!(%error, "the database was not closed cleanly");
        }
    }
}

/// A transaction that is dropped is rolled back.
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
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
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
