//! Writes that wait at the same time share a transaction, and so its way to the disk.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Transaction;
use tokio::sync::oneshot;

use super::fault::{Failure, failure, unavailable, unwritten};
use super::lock::FolderLock;
use super::write_connection::WriteConnection;
use crate::store::{Chores, Result};

/// After so long no further write joins the transaction: commits wait for it.
const LONGEST: Duration = Duration::from_millis(10);

/// A write that somebody waits for.
pub(super) trait Write: Send {
    /// Whether the time counts that commits wait for it.
    fn is_chore(&self) -> bool;
    fn write(&mut self, tx: &Transaction<'_>) -> rusqlite::Result<()>;
    /// Tells whoever waits whether it is stored.
    fn answer(self: Box<Self>, stored: Result<()>);
}

/// A function that writes and returns something.
pub(super) struct Asked<T, F> {
    write: Option<F>,
    written: Option<T>,
    answer: oneshot::Sender<Result<T>>,
    is_chore: bool,
    /// The folder stays this process's until it is answered.
    _lock: Option<Arc<FolderLock>>,
}

impl<T, F> Asked<T, F>
where
    F: FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send,
    T: Send,
{
    pub fn new(write: F, is_chore: bool, lock: Option<Arc<FolderLock>>) -> (Self, oneshot::Receiver<Result<T>>) {
        let (answer, answered) = oneshot::channel();
        (Self { write: Some(write), written: None, answer, is_chore, _lock: lock }, answered)
    }
}

impl<T, F> Write for Asked<T, F>
where
    F: FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send,
    T: Send,
{
    fn is_chore(&self) -> bool {
        self.is_chore
    }

    fn write(&mut self, tx: &Transaction<'_>) -> rusqlite::Result<()> {
        let write = self.write.take().expect("it is called once");
        self.written = Some(write(tx)?);
        Ok(())
    }

    fn answer(self: Box<Self>, stored: Result<()>) {
        let Self { written, answer, .. } = *self;
        // Whoever asked may have walked away.
        let _ = answer.send(stored.map(|()| written.expect("what is stored was written")));
    }
}

/// Writes this, and what `more` still gives, in one transaction. What the database refuses of it is as if it had not been
/// asked for, and fails alone. A panic fails all of them and gives up the connection; SQLite rolls back what was left open.
/// If any of it is a chore, the time counts as that of chores, before anybody is answered.
pub(super) fn write(
    connection: &mut WriteConnection,
    first: Box<dyn Write>,
    mut more: impl FnMut() -> Option<Box<dyn Write>>,
    chores: &Chores,
) {
    let begun = Instant::now();
    let (mut next, mut written, mut is_any_chore) = (Some(first), Vec::new(), false);
    let work = |tx: &Transaction<'_>| {
        while let Some(write) = next.take() {
            is_any_chore |= write.is_chore();
            written.push(write);
            let write = written.last_mut().expect("it was just put there");
            if let Err(error) = in_savepoint(tx, &mut **write)? {
                written.pop().expect("it is the one that failed").answer(Err(unwritten(&error)));
            }
            next = if begun.elapsed() < LONGEST { more() } else { None };
        }
        Ok(())
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| connection.transaction(work)));
    if outcome.is_err() {
        connection.close();
    }
    let stored = match outcome {
        Ok(stored) => stored.map_err(|error| unwritten(&error)),
        Err(_) => Err(unavailable("the write panicked")),
    };
    if is_any_chore {
        chores.held(begun.elapsed());
    }
    // The first is still there where no transaction began.
    written.into_iter().chain(next).for_each(|write| write.answer(stored.clone()));
}

/// The inner error is of this write alone, and nothing of it is left; the outer one is the end of the transaction.
fn in_savepoint(tx: &Transaction<'_>, write: &mut dyn Write) -> rusqlite::Result<rusqlite::Result<()>> {
    tx.prepare_cached("SAVEPOINT joined")?.execute([])?;
    let written = write.write(tx);
    match &written {
        Err(error) if failure(error) == Failure::Data && !tx.is_autocommit() => {
            tx.prepare_cached("ROLLBACK TO joined")?.execute([])?;
        }
        Err(_) => return written.map(Ok),
        Ok(()) => {}
    }
    tx.prepare_cached("RELEASE joined")?.execute([])?;
    Ok(written)
}
