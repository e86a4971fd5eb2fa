//! The one connection that writes, on a thread of its own: the committer's batches and the few other writes.
//!
//! A write is a function that is called inside a transaction, on that thread. It may read what it is about to change: no
//! other connection writes, so what it found holds until it has committed.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use rusqlite::Transaction;
use tokio::sync::oneshot;

use super::batch;
use super::fault::{Failure, damage, failure, unavailable, unwritten, why_unavailable};
use super::lock::FolderLock;
use super::shared_transaction::{self, PendingWrite, Write};
use super::write_connection::WriteConnection;
use crate::store::committer::{Batch, BatchError, CommitHealth, CommitSlice, Sending};
use crate::store::{Chores, Committed, Error, Result};

/// A job of the writer thread.
enum Job {
    /// A write in a transaction that other chores share.
    Chore(Box<dyn Write>),
    Alone(Box<dyn FnOnce(&mut WriteConnection) + Send>),
}

/// The payload of a panic in a job.
type Panicked = Box<dyn Any + Send>;

/// A handle of the writer thread, which runs writes in the order in which they were sent.
#[derive(Clone)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
    /// Held as long as something may still be written. `None`: another process holds the folder, and nothing is written.
    lock: Option<Arc<FolderLock>>,
    chores: Arc<Chores>,
    health: Arc<CommitHealth>,
}

impl Writer {
    /// Starts the thread. It ends when the last clone is dropped and every write is done.
    pub fn start(
        mut connection: WriteConnection,
        lock: Option<FolderLock>,
        chores: Arc<Chores>,
        health: Arc<CommitHealth>,
    ) -> io::Result<Self> {
        let (jobs, queue) = mpsc::channel();
        let of_thread = chores.clone();
        let work = move || run_jobs(&queue, &mut connection, &of_thread);
        std::thread::Builder::new().name("sqlite-writer".to_owned()).spawn(work)?;
        Ok(Self { jobs, lock: lock.map(Arc::new), chores, health })
    }

    /// Calls `write` in a transaction and commits it, even if the caller drops the future. After an error nothing of it is
    /// stored.
    pub async fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let written = self.run(move |connection| connection.transaction(write)).await;
        self.remember_damage(written.map_err(|_| unavailable("the write panicked"))?.map_err(|error| unwritten(&error)))
    }

    /// The same for a chore: other queued chores share the transaction, and its time is counted as blocking commits.
    pub async fn chore<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let (pending, answered) = PendingWrite::new(write, self.lock.clone());
        self.send(Job::Chore(Box::new(pending)));
        self.remember_damage(answered.await.expect("the thread answers every job"))
    }

    /// Checkpoints the log and empties it. `false`: readers still need it; call again.
    pub async fn empty_log(&self) -> Result<bool> {
        let emptied = self.run_chore(WriteConnection::empty_log).await;
        self.remember_damage(emptied.map_err(|_| unavailable("the write panicked"))?.map_err(|error| unwritten(&error)))
    }

    /// Overwrites the remains of deleted rows in these pages. `false`: open readers prevent it; call again.
    pub async fn clear_remains(&self, pages: Vec<u32>) -> Result<bool> {
        let cleared = self.run_chore(move |connection| connection.clear_remains(&pages)).await;
        self.remember_damage(cleared.map_err(|_| unavailable("the write panicked"))?)
    }

    /// Remembers that a write found the file damaged; the committer does so for batches.
    fn remember_damage<T>(&self, written: Result<T>) -> Result<T> {
        written.inspect_err(|error| {
            if let Error::Unusable(damage) = error {
                self.health.record_damage(damage);
            }
        })
    }

    pub async fn close(&self) {
        // A panic while closing has been logged.
        let _ = self.run(WriteConnection::close).await;
    }

    fn send(&self, job: Job) {
        self.jobs.send(job).expect("the thread takes jobs as long as there is a writer");
    }

    /// Runs a job of a chore.
    async fn run_chore<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut WriteConnection) -> T + Send + 'static,
    ) -> std::result::Result<T, Panicked> {
        let chores = self.chores.clone();
        let timed = move |connection: &mut WriteConnection| {
            let begun = Instant::now();
            let done = job(connection);
            chores.held(begun.elapsed());
            done
        };
        self.run(timed).await
    }

    /// Runs a job on the thread. A panic closes the connection, and SQLite rolls back what was open.
    async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut WriteConnection) -> T + Send + 'static,
    ) -> std::result::Result<T, Panicked> {
        let (answer, answered) = oneshot::channel();
        let lock = self.lock.clone();
        let job = move |connection: &mut WriteConnection| {
            let outcome = catch_unwind(AssertUnwindSafe(|| job(connection)));
            if outcome.is_err() {
                connection.close();
            }
            drop(lock);
            // The caller may have gone.
            let _ = answer.send(outcome);
        };
        self.send(Job::Alone(Box::new(job)));
        answered.await.expect("the thread answers every job")
    }
}

/// Runs one job after another. Consecutive queued chores share a transaction.
fn run_jobs(queue: &mpsc::Receiver<Job>, connection: &mut WriteConnection, chores: &Chores) {
    let mut next = None;
    while let Some(job) = next.take().or_else(|| queue.recv().ok()) {
        match job {
            Job::Alone(job) => job(connection),
            Job::Chore(first) => {
                let more = || match queue.try_recv() {
                    Ok(Job::Chore(write)) => Some(write),
                    Ok(alone) => {
                        next = Some(alone);
                        None
                    }
                    Err(_) => None,
                };
                shared_transaction::write(connection, first, more, shared_transaction::MAX_TRANSACTION_TIME, chores);
            }
        }
    }
}

impl Batch for Writer {
    async fn apply(
        &mut self,
        commits: CommitSlice,
        sending: Sending,
    ) -> std::result::Result<Vec<Committed>, BatchError> {
        let applied =
            self.run(move |connection| connection.transaction(|tx| batch::write(tx, &commits, sending))).await;
        applied.unwrap_or_else(|panic| resume_unwind(panic)).map_err(|error| match failure(&error) {
            Failure::Data => BatchError::Data(error.to_string()),
            Failure::Lost => BatchError::Lost(error.to_string()),
            Failure::Unavailable => BatchError::Unavailable(why_unavailable(&error)),
            Failure::Damaged => BatchError::Damaged(damage(&error)),
        })
    }

    async fn reset(&mut self) {
        Writer::close(self).await;
    }

    async fn close(self) {
        Writer::close(&self).await;
    }
}
