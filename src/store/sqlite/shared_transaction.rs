//! Writes of chores that are queued at the same time share a transaction, and so its sync.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Transaction;
use tokio::sync::oneshot;

use super::fault::{Failure, failure, unavailable, unwritten};
use super::lock::FolderLock;
use super::write_connection::WriteConnection;
use crate::store::{Chores, Result};

/// After this time no further write joins a transaction, because commits wait for it.
pub(super) const MAX_TRANSACTION_TIME: Duration = Duration::from_millis(10);

/// A write whose caller waits for the result.
pub(super) trait Write: Send {
    fn write(&mut self, tx: &Transaction<'_>) -> rusqlite::Result<()>;
    /// Sends the caller whether it is stored.
    fn answer(self: Box<Self>, stored: Result<()>);
}

/// A function that writes and returns something.
pub(super) struct PendingWrite<T, F> {
    write: Option<F>,
    written: Option<T>,
    answer: oneshot::Sender<Result<T>>,
    /// Keeps the folder locked until it is written.
    lock: Option<Arc<FolderLock>>,
}

impl<T, F> PendingWrite<T, F>
where
    F: FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send,
    T: Send,
{
    pub fn new(write: F, lock: Option<Arc<FolderLock>>) -> (Self, oneshot::Receiver<Result<T>>) {
        let (answer, answered) = oneshot::channel();
        (Self { write: Some(write), written: None, answer, lock }, answered)
    }
}

impl<T, F> Write for PendingWrite<T, F>
where
    F: FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send,
    T: Send,
{
    fn write(&mut self, tx: &Transaction<'_>) -> rusqlite::Result<()> {
        let write = self.write.take().expect("it is called once");
        self.written = Some(write(tx)?);
        Ok(())
    }

    fn answer(self: Box<Self>, stored: Result<()>) {
        let Self { written, answer, lock, .. } = *self;
        drop(lock);
        // The caller may have gone.
        let _ = answer.send(stored.map(|()| written.expect("what is stored was written")));
    }
}

/// Writes `first`, and what `more` returns until the transaction is older than `longest`. A write that fails alone leaves
/// nothing. A panic fails all of them and closes the connection; SQLite rolls back what was open. The time is counted as
/// blocked by chores before any caller gets a result.
pub(super) fn write(
    connection: &mut WriteConnection,
    first: Box<dyn Write>,
    mut more: impl FnMut() -> Option<Box<dyn Write>>,
    longest: Duration,
    chores: &Chores,
) {
    let begun = Instant::now();
    let (mut next, mut written) = (Some(first), Vec::new());
    let work = |tx: &Transaction<'_>| {
        while let Some(write) = next.take() {
            written.push((write, Ok(())));
            let (write, outcome) = written.last_mut().expect("it was just put there");
            *outcome = in_savepoint(tx, &mut **write)?.map_err(|error| unwritten(&error));
            next = if begun.elapsed() < longest { more() } else { None };
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
    chores.held(begun.elapsed());
    for (write, outcome) in written {
        write.answer(stored.clone().and(outcome));
    }
    // It is still set if no transaction began.
    if let Some(first) = next {
        first.answer(stored);
    }
}

/// The inner error is that of this write alone, which was rolled back; the outer error ends the transaction.
fn in_savepoint(tx: &Transaction<'_>, write: &mut dyn Write) -> rusqlite::Result<rusqlite::Result<()>> {
    tx.prepare_cached("SAVEPOINT joined")?.execute([])?;
    let written = write.write(tx);
    if let Err(error) = &written {
        if failure(error) == Failure::Lost || tx.is_autocommit() {
            return written.map(Ok);
        }
        tx.prepare_cached("ROLLBACK TO joined")?.execute([])?;
    }
    tx.prepare_cached("RELEASE joined")?.execute([])?;
    Ok(written)
}

#[cfg(test)]
mod tests;
