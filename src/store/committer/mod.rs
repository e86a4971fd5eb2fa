//! Many threads' commits, one database transaction.
//!
//! A worker receives one commit, lets others arrive while it yields, and hands all of them to its [`Batch`] at once. No
//! timer: a lone commit goes at once, and the busier it is, the more share an fsync. Commits of one thread keep their
//! order, at most one of them per batch. Whatever a batch meets is settled here, the same for every database:
//!
//! - a value that the database refuses fails its own commit; the batch is halved until that one stands alone;
//! - a lost connection leaves it open whether the batch landed; it is sent again until the database answers;
//! - so does a panic while it is written: the batch is sent again in halves, over a new connection, and a commit on which
//!   it happens alone, again and again, is given up. A worker that panics elsewhere is started again.
//!
//! What fails is remembered ([`CommitHealth`]) until as much has been written: so long the store is not well.

mod health;
mod prepared;
mod slice;
#[cfg(test)]
mod tests;
mod worker;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::gauge;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) use health::CommitHealth;
pub(crate) use prepared::PreparedCommit;
pub(crate) use slice::CommitSlice;

use super::{Commit, Committed, Error, Result, Traffic};
use worker::CommitWorker;

/// Writes a batch; the one thing that each database does its own way.
pub(crate) trait Batch: Send + 'static {
    /// Applies the commits in one database transaction, each fenced on its own, and tells what became of each, in their
    /// order. They are of distinct threads, create distinct ids and carry distinct idempotency keys.
    ///
    /// After an error the writer is ready for the next call. With [`Sending::Again`] some or all may be stored already:
    /// the ones whose token is found are `Done`.
    fn apply(
        &mut self,
        commits: CommitSlice,
        sending: Sending,
    ) -> impl Future<Output = std::result::Result<Vec<Committed>, BatchError>> + Send;

    /// After a panic in `apply`: whatever it left half done is dropped, so that the next call begins anew.
    fn reset(&mut self) -> impl Future<Output = ()> + Send;

    /// Gives up the connection.
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
    /// Nobody knows whether it is stored.
    Lost(String),
    /// It did not begin, or was rolled back for sure. Nothing of this call is stored.
    Unavailable(String),
}

/// How much one transaction takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub commits: usize,
    pub bytes: usize,
    /// Commits that wait before senders do.
    pub queue: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { commits: 512, bytes: 4 << 20, queue: 1024 }
    }
}

/// A commit that is not answered yet, as `/metrics` counts it.
struct Waiting;

impl Waiting {
    fn begin() -> Self {
        gauge!("pes_store_commit_queue_depth").increment(1.0);
        Self
    }
}

impl Drop for Waiting {
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
    closing: CancellationToken,
    health: Arc<CommitHealth>,
    traffic: Arc<Counters>,
}

/// Shared by the workers and whoever asks for commits.
#[derive(Default)]
struct Counters {
    commits: AtomicU64,
    transactions: AtomicU64,
}

impl Committer {
    pub fn spawn<B: Batch>(writers: impl IntoIterator<Item = B>, bounds: Bounds) -> Self {
        let (closing, health) = (CancellationToken::new(), Arc::new(CommitHealth::default()));
        let traffic = Arc::<Counters>::default();
        let mut limit = 0;
        let (workers, tasks) = writers
            .into_iter()
            .map(|writer| {
                limit += bounds.queue;
                let (sender, inbox) = mpsc::channel(bounds.queue);
                let worker = CommitWorker::new(writer, inbox, bounds, closing.clone(), health.clone(), traffic.clone());
                (sender, tokio::spawn(worker.run()))
            })
            .unzip();
        gauge!("pes_store_commit_queue_limit").set(limit as f64);
        Self { workers, tasks: Mutex::new(tasks), closing, health, traffic }
    }

    /// Returns what became of the commit, once that is certain. Dropped after it was queued, the commit goes on.
    pub async fn commit(&self, commit: Commit) -> Result<Committed> {
        let closed = || Error::Unavailable("the store is closed".to_owned());
        let worker = &self.workers[commit.pk.0.unsigned_abs() as usize % self.workers.len()];
        let _waiting = Waiting::begin();
        self.traffic.commits.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        worker.send(Job { prepared: PreparedCommit::of(commit), answer }).await.map_err(|_| closed())?;
        answered.await.map_err(|_| closed())?
    }

    pub fn traffic(&self) -> Traffic {
        let Counters { commits, transactions } = &*self.traffic;
        Traffic { commits: commits.load(Ordering::Relaxed), transactions: transactions.load(Ordering::Relaxed) }
    }

    /// What failed and was not made good yet. Whoever writes as much as it asks for may say so.
    pub fn health(&self) -> &CommitHealth {
        &self.health
    }

    /// Takes no more, finishes what was queued, and gives up the connections.
    pub async fn close(&self) {
        self.closing.cancel();
        for task in self.tasks.lock().await.drain(..) {
            if let Err(error) = task.await {
                tracing::error!(%error, "a committer ended badly");
            }
        }
    }
}
