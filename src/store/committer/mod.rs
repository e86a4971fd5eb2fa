//! Writes the commits of many threads in one database transaction.
//!
//! A worker receives one commit, lets others arrive while it yields, and passes all of them to its [`Batch`] at once. There
//! is no timer: a lone commit is written at once, and under load more commits share an fsync. Commits of one thread keep
//! their order, with at most one of them per batch. The worker handles all failures of a batch, the same for every database:
//!
//! - a value that the database refuses fails only its own commit; the batch is halved until that commit is alone. So does
//!   a commit that meets damaged data;
//! - after a lost connection it is unknown whether the batch was stored; it is sent again until the database responds;
//! - after a panic during the write that is unknown, too: the batch is sent again in halves, over a new connection, and a
//!   commit that alone causes repeated panics is given up. A worker that panics elsewhere is restarted.
//!
//! A failure is remembered ([`CommitHealth`]) until as much has been written: until then the store is unhealthy. So it is
//! while a batch has had no outcome for some seconds, and once the database was found damaged.

mod health;
mod prepared;
mod slice;
#[cfg(test)]
mod tests;
mod worker;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use metrics::gauge;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_util::sync::CancellationToken;

pub(crate) use health::CommitHealth;
pub(crate) use prepared::PreparedCommit;
pub(crate) use slice::CommitSlice;

use super::log::{LogFormat, NewEntry};
use super::{Commit, Committed, Error, Result, Traffic};
use worker::CommitWorker;

/// Writes a batch. This is the only part that differs by database.
pub(crate) trait Batch: Send + 'static {
    /// Applies the commits in one database transaction, each with its own fence, and returns their outcomes in order. The
    /// commits are of distinct threads, create distinct ids and carry distinct idempotency keys.
    ///
    /// After an error the writer is ready for the next call. With [`Sending::Again`] some or all may be stored already:
    /// the ones whose token is found are `Done`.
    fn apply(
        &mut self,
        commits: CommitSlice,
        sending: Sending,
    ) -> impl Future<Output = std::result::Result<Vec<Committed>, BatchError>> + Send;

    /// Called after a panic in `apply`. Drops unfinished work, so that the next call begins with a clean state.
    fn reset(&mut self) -> impl Future<Output = ()> + Send;

    /// Closes the connection.
    fn close(self) -> impl Future<Output = ()> + Send;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    First,
    /// The connection was lost while these were written. Must wait for a transaction that may still be committing.
    Again,
}

/// Why a batch failed as a whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BatchError {
    /// A value was refused. Nothing of this call is stored.
    Data(String),
    /// It is unknown whether it is stored.
    Lost(String),
    /// It did not begin, or was certainly rolled back. Nothing of this call is stored.
    Unavailable(String),
    /// The same, because what one of the commits reads or writes is damaged, and the database is not to be used any more.
    Damaged(String),
    /// The same of a database that other processes use, too: what is not damaged is used on.
    DamagedPart(String),
}

/// Limits of one transaction, and of the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub commits: usize,
    pub bytes: usize,
    /// How many commits may be queued before senders must wait.
    pub queue: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { commits: 512, bytes: 4 << 20, queue: 1024 }
    }
}

/// Counts an unfinished commit in `/metrics`, until it is dropped.
struct QueuedCommit;

impl QueuedCommit {
    fn begin() -> Self {
        gauge!("pes_store_commit_queue_depth").increment(1.0);
        Self
    }
}

impl Drop for QueuedCommit {
    fn drop(&mut self) {
        gauge!("pes_store_commit_queue_depth").decrement(1.0);
    }
}

struct Job {
    prepared: PreparedCommit,
    answer: oneshot::Sender<Result<Committed>>,
}

/// The workers, each with its own writer; a thread always takes the same one.
pub(crate) struct Committer {
    workers: Vec<mpsc::Sender<Job>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    shared: CommitterState,
    compresses_log: AtomicBool,
}

/// Shared by the workers and the senders.
#[derive(Clone, Default)]
struct CommitterState {
    closing: CancellationToken,
    health: Arc<CommitHealth>,
    traffic: Arc<Counters>,
}

#[derive(Default)]
struct Counters {
    commits: AtomicU64,
    transactions: AtomicU64,
}

impl Committer {
    pub fn spawn<B: Batch>(writers: impl IntoIterator<Item = B>, bounds: Bounds) -> Self {
        Self::spawn_with(writers, bounds, Arc::default())
    }

    /// The same with a health that others share, who may also find the database damaged.
    pub fn spawn_with<B: Batch>(
        writers: impl IntoIterator<Item = B>,
        bounds: Bounds,
        health: Arc<CommitHealth>,
    ) -> Self {
        let shared = CommitterState { health, ..CommitterState::default() };
        let start = |writer| {
            let (sender, inbox) = mpsc::channel(bounds.queue);
            (sender, tokio::spawn(CommitWorker::new(writer, inbox, bounds, shared.clone()).run()))
        };
        let (workers, tasks): (Vec<_>, Vec<_>) = writers.into_iter().map(start).unzip();
        gauge!("pes_store_commit_queue_limit").set((workers.len() * bounds.queue) as f64);
        Self { workers, tasks: Mutex::new(tasks), shared, compresses_log: AtomicBool::new(false) }
    }

    /// Returns the outcome of the commit once it is certain. Dropping the future does not cancel a queued commit.
    pub async fn commit(&self, commit: Commit) -> Result<Committed> {
        let closed = || Error::Unavailable("the store is closed".to_owned());
        let worker = &self.workers[commit.pk.0.unsigned_abs() as usize % self.workers.len()];
        let _queued = QueuedCommit::begin();
        self.shared.traffic.commits.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        worker.send(Job { prepared: self.prepared(commit), answer }).await.map_err(|_| closed())?;
        answered.await.map_err(|_| closed())?
    }

    /// The commit as it is stored.
    pub fn prepared(&self, commit: Commit) -> PreparedCommit {
        PreparedCommit::of(commit, self.log_format())
    }

    /// The entries of a whole log as they are stored. Compressing them takes too long for a thread of the runtime.
    pub async fn formatted(&self, log: Vec<NewEntry>) -> Result<Vec<NewEntry>> {
        let format = self.log_format();
        let formatted = spawn_blocking(move || log.into_iter().map(|entry| entry.in_format(format)).collect()).await;
        formatted.map_err(|error| Error::Unavailable(format!("the log was not prepared: {error}")))
    }

    /// From now on the log is written compressed.
    pub fn compress_log(&self) {
        self.compresses_log.store(true, Ordering::Relaxed);
    }

    fn log_format(&self) -> LogFormat {
        if self.compresses_log.load(Ordering::Relaxed) { LogFormat::Compressed } else { LogFormat::Json }
    }

    pub fn traffic(&self) -> Traffic {
        let Counters { commits, transactions } = &*self.shared.traffic;
        Traffic { commits: commits.load(Ordering::Relaxed), transactions: transactions.load(Ordering::Relaxed) }
    }

    /// The health of commits. Whoever writes as much as [`CommitHealth::required_proof`] may record the success.
    pub fn health(&self) -> &CommitHealth {
        &self.shared.health
    }

    /// Accepts no more commits, finishes the queued ones, and closes the connections.
    pub async fn close(&self) {
        self.shared.closing.cancel();
        for task in self.tasks.lock().await.drain(..) {
            if let Err(error) = task.await {
                tracing::error!(%error, "a committer ended badly");
            }
        }
    }
}
