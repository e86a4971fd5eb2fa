//! A worker of the committer: gathers commits into a batch, writes it, and sends each commit its outcome.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use metrics::{counter, histogram};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::{Batch, BatchError, Bounds, CommitSlice, CommitterState, Job, PreparedCommit, Sending};
use crate::store::{Committed, Error, Result};

/// How often a gathering worker yields, as long as more commits arrive: an actor that just got an outcome can send its next
/// commit.
const MAX_YIELDS: usize = 4;

/// The pauses between attempts to reach the database.
const RETRY_PAUSES: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// After this number of pauses, commits that were not sent yet are refused.
const PAUSES_BEFORE_REFUSAL: usize = 5;

/// After this number of panics, a commit that is alone in its part is given up.
const MAX_PANICS: usize = 3;

pub(super) struct CommitWorker<B> {
    writer: B,
    inbox: mpsc::Receiver<Job>,
    /// Received commits that were not sent, in the order of arrival.
    waiting: VecDeque<Job>,
    bounds: Bounds,
    shared: CommitterState,
    /// The worker panicked, and has not written anything since.
    is_broken: bool,
}

/// A part of a batch, and how often writing it has panicked.
struct BatchPart {
    range: Range<usize>,
    sending: Sending,
    panics: usize,
}

/// The outcome of sending a part once.
enum SendOutcome {
    Answered(std::result::Result<Vec<Committed>, BatchError>),
    Panicked,
}

/// The commits of one transaction, and where their outcomes go.
struct PendingBatch {
    prepared_commits: Arc<Vec<PreparedCommit>>,
    answers: Vec<Option<oneshot::Sender<Result<Committed>>>>,
}

impl<B: Batch> CommitWorker<B> {
    pub fn new(writer: B, inbox: mpsc::Receiver<Job>, bounds: Bounds, shared: CommitterState) -> Self {
        Self { writer, inbox, waiting: VecDeque::new(), bounds, shared, is_broken: false }
    }

    /// Runs until the committer is closed. A panic restarts it.
    pub async fn run(mut self) {
        while AssertUnwindSafe(self.work()).catch_unwind().await.is_err() {
            self.restart().await;
        }
        self.writer.close().await;
    }

    async fn work(&mut self) {
        self.mark_recovered();
        while self.gather().await {
            let batch = self.take_batch();
            self.settle(batch).await;
        }
    }

    /// Restarts after a panic, which the panic hook has logged.
    async fn restart(&mut self) {
        metrics::counter!("pes_store_committer_restarts_total").increment(1);
        tracing::error!("a commit worker panicked; it is restarted");
        if !std::mem::replace(&mut self.is_broken, true) {
            self.shared.health.record_panic();
        }
        self.writer.reset().await;
    }

    fn mark_recovered(&mut self) {
        if std::mem::replace(&mut self.is_broken, false) {
            self.shared.health.record_recovery();
        }
    }

    /// Waits for a commit, then lets others arrive for the same batch. `false`: the committer is closed, and the queue is
    /// empty.
    async fn gather(&mut self) -> bool {
        if self.waiting.is_empty() {
            match self.next().await {
                Some(job) => self.waiting.push_back(job),
                None => return false,
            }
        }
        for _ in 0..MAX_YIELDS {
            tokio::task::yield_now().await;
            if !self.receive() {
                break;
            }
        }
        true
    }

    async fn next(&mut self) -> Option<Job> {
        tokio::select! {
            biased;
            () = self.shared.closing.cancelled() => {}
            job = self.inbox.recv() => return job,
        }
        self.inbox.close();
        self.inbox.recv().await
    }

    /// Takes the commits that have arrived, and returns whether there were any.
    fn receive(&mut self) -> bool {
        let before = self.waiting.len();
        while self.waiting.len() < self.bounds.commits {
            match self.inbox.try_recv() {
                Ok(job) => self.waiting.push_back(job),
                Err(_) => break,
            }
        }
        self.waiting.len() > before
    }

    /// Takes the longest batch in order of arrival whose commits have no common key. A commit that does not fit keeps its
    /// place, and delays those that share a key with it.
    fn take_batch(&mut self) -> PendingBatch {
        let (mut prepared_commits, mut answers) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        let mut taken = HashSet::new();
        let mut left = VecDeque::new();
        for job in self.waiting.drain(..) {
            let is_free = job.prepared.keys.iter().all(|key| !taken.contains(key));
            taken.extend(job.prepared.keys.iter().copied());
            let fits = prepared_commits.is_empty() || bytes + job.prepared.bytes <= self.bounds.bytes;
            if is_free && fits && prepared_commits.len() < self.bounds.commits {
                bytes += job.prepared.bytes;
                prepared_commits.push(job.prepared);
                answers.push(Some(job.answer));
            } else {
                left.push_back(job);
            }
        }
        self.waiting = left;
        PendingBatch { prepared_commits: Arc::new(prepared_commits), answers }
    }

    /// Sends, halves and resends until every commit of the batch has its outcome.
    async fn settle(&mut self, mut batch: PendingBatch) {
        let health = self.shared.health.clone();
        let unsettled = health.record_sent();
        let mut parts = vec![BatchPart { range: 0..batch.prepared_commits.len(), sending: Sending::First, panics: 0 }];
        let mut failures = 0;
        while let Some(part) = parts.pop() {
            let commits = CommitSlice::of(&batch.prepared_commits, part.range.clone());
            let bytes = commits.iter().map(|prepared| prepared.bytes).sum();
            match self.send(commits, part.sending).await {
                SendOutcome::Answered(Ok(outcomes)) => {
                    debug_assert_eq!(outcomes.len(), part.range.len(), "one outcome for each");
                    self.shared.health.record_success(bytes);
                    self.mark_recovered();
                    for (place, outcome) in part.range.zip(outcomes) {
                        batch.answer(place, Ok(outcome));
                    }
                }
                SendOutcome::Answered(Err(BatchError::Data(why))) => {
                    batch.halve_or_refuse(&part, &mut parts, Error::Refused(why));
                }
                SendOutcome::Answered(Err(BatchError::Unavailable(why))) if part.sending == Sending::First => {
                    self.shared.health.record_failure(bytes);
                    batch.refuse(part.range, &Error::Unavailable(why));
                }
                SendOutcome::Answered(Err(BatchError::Damaged(why))) => {
                    self.shared.health.record_damage(&why);
                    let error = part.damaged(why, Error::Unusable);
                    batch.halve_or_refuse(&part, &mut parts, error);
                }
                SendOutcome::Answered(Err(BatchError::DamagedPart(why))) => {
                    let error = part.damaged(why, Error::Unavailable);
                    batch.halve_or_refuse(&part, &mut parts, error);
                }
                SendOutcome::Answered(Err(BatchError::Unavailable(why) | BatchError::Lost(why))) => {
                    let commits = part.range.len();
                    tracing::warn!(%why, commits, "whether a batch was stored is not known; sending it again");
                    unsettled.record_attempt(&why);
                    self.shared.health.record_failure(bytes);
                    parts.push(BatchPart { sending: Sending::Again, ..part });
                    self.pause(failures, &why).await;
                    failures += 1;
                }
                SendOutcome::Panicked => {
                    self.restart().await;
                    // The part may have been stored before the panic.
                    let part = BatchPart { sending: Sending::Again, panics: part.panics + 1, ..part };
                    match part.halves() {
                        Some(halves) => parts.extend(halves),
                        None if part.panics < MAX_PANICS => parts.push(part),
                        None => {
                            self.mark_recovered();
                            batch.answer(part.range.start, Err(given_up()));
                        }
                    }
                }
            }
        }
    }

    async fn send(&mut self, commits: CommitSlice, sending: Sending) -> SendOutcome {
        let (began, count) = (Instant::now(), commits.len());
        self.shared.traffic.transactions.fetch_add(1, Ordering::Relaxed);
        let applied = AssertUnwindSafe(self.writer.apply(commits, sending)).catch_unwind().await;
        count_transaction(applied.as_ref().ok(), sending, count, began.elapsed());
        applied.map_or(SendOutcome::Panicked, SendOutcome::Answered)
    }

    /// Pauses, and refuses waiting commits after too many failures. They were not sent, so it is certain that they are not
    /// stored.
    async fn pause(&mut self, failures: usize, why: &str) {
        tokio::time::sleep(RETRY_PAUSES[failures.min(RETRY_PAUSES.len() - 1)]).await;
        if failures >= PAUSES_BEFORE_REFUSAL {
            self.receive();
            for job in self.waiting.drain(..) {
                answer(job.answer, Err(Error::Unavailable(why.to_owned())));
            }
        }
    }
}

impl BatchPart {
    /// The first half is sent first; `None`: it is a single commit.
    fn halves(&self) -> Option<[BatchPart; 2]> {
        let Range { start, end } = self.range;
        let middle = start + self.range.len() / 2;
        let half = |range| BatchPart { range, sending: self.sending, panics: 0 };
        (self.range.len() > 1).then(|| [half(middle..end), half(start..middle)])
    }

    /// The error of damaged data. `unstored` makes the one that says that the commit is not stored.
    fn damaged(&self, why: String, unstored: fn(String) -> Error) -> Error {
        match self.sending {
            Sending::First => unstored(why),
            Sending::Again => Error::Damaged(format!("{why}; whether it is stored is not known")),
        }
    }
}

fn given_up() -> Error {
    Error::Damaged("writing the commit panicked each time; whether it is stored is not known".to_owned())
}

/// Counts one transaction; `None`: its code panicked.
fn count_transaction(
    applied: Option<&std::result::Result<Vec<Committed>, BatchError>>,
    sending: Sending,
    commits: usize,
    took: Duration,
) {
    histogram!("pes_store_commit_duration_seconds").record(took.as_secs_f64());
    histogram!("pes_store_commit_batch_size").record(commits as f64);
    if sending == Sending::Again {
        counter!("pes_store_resends_total").increment(1);
    }
    let outcome = match applied {
        Some(Ok(_)) => "done",
        Some(Err(BatchError::Data(_))) => "refused",
        Some(Err(BatchError::Lost(_))) => "lost",
        Some(Err(BatchError::Unavailable(_) | BatchError::Damaged(_) | BatchError::DamagedPart(_))) => "unavailable",
        None => "panicked",
    };
    counter!("pes_store_commits_total", "outcome" => outcome).increment(1);
}

impl PendingBatch {
    fn answer(&mut self, place: usize, outcome: Result<Committed>) {
        if let Some(sender) = self.answers[place].take() {
            answer(sender, outcome);
        }
    }

    /// Has the halves of the part sent by themselves, so that only the commit that is at fault fails.
    fn halve_or_refuse(&mut self, part: &BatchPart, parts: &mut Vec<BatchPart>, why: Error) {
        match part.halves() {
            Some(halves) => parts.extend(halves),
            None => self.answer(part.range.start, Err(why)),
        }
    }

    fn refuse(&mut self, part: Range<usize>, why: &Error) {
        for place in part {
            self.answer(place, Err(why.clone()));
        }
    }
}

fn answer(sender: oneshot::Sender<Result<Committed>>, outcome: Result<Committed>) {
    // An error means that the caller has gone. The commit is stored all the same.
    let _ = sender.send(outcome);
}
