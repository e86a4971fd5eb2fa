//! One lane: gather, write, settle.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{Batch, BatchError, Bounds, Job, Parcel, Sending};
use crate::store::{Committed, Error, Result};

/// How often a gathering lane lets others run, as long as that brings something: whoever was just answered gets to send
/// its next commit.
const YIELDS: usize = 4;

/// Pauses between attempts to reach the database again.
const PAUSES: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// After so many pauses, what has not been sent yet is refused instead of waiting on.
const PATIENCE: usize = 5;

pub(super) struct Lane<B> {
    writer: B,
    inbox: mpsc::Receiver<Job>,
    /// Received and not sent, in the order of arrival.
    waiting: VecDeque<Job>,
    bounds: Bounds,
    closing: CancellationToken,
}

/// What is sent together, and to whom the outcomes go.
#[derive(Default)]
struct Batched {
    parcels: Vec<Parcel>,
    answers: Vec<Option<oneshot::Sender<Result<Committed>>>>,
}

impl<B: Batch> Lane<B> {
    pub fn new(writer: B, inbox: mpsc::Receiver<Job>, bounds: Bounds, closing: CancellationToken) -> Self {
        Self { writer, inbox, waiting: VecDeque::new(), bounds, closing }
    }

    pub async fn run(mut self) {
        while self.gather().await {
            let batch = self.take();
            self.settle(batch).await;
        }
        self.writer.close().await;
    }

    /// Waits for work, then for company. `false`: closed, and everything is done.
    async fn gather(&mut self) -> bool {
        if self.waiting.is_empty() {
            match self.next().await {
                Some(job) => self.waiting.push_back(job),
                None => return false,
            }
        }
        for _ in 0..YIELDS {
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
            () = self.closing.cancelled() => {}
            job = self.inbox.recv() => return job,
        }
        self.inbox.close();
        self.inbox.recv().await
    }

    /// Whether something had arrived.
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

    /// The longest batch in order of arrival, in which nobody stands in another's way. What stays behind keeps its place,
    /// and holds back whatever must come after it.
    fn take(&mut self) -> Batched {
        let mut batch = Batched::default();
        let mut bytes = 0;
        let mut taken = HashSet::new();
        let mut left = VecDeque::new();
        for job in self.waiting.drain(..) {
            let is_free = job.parcel.keys.iter().all(|key| !taken.contains(key));
            taken.extend(job.parcel.keys.iter().copied());
            let fits = batch.parcels.is_empty() || bytes + job.parcel.bytes <= self.bounds.bytes;
            if is_free && fits && batch.parcels.len() < self.bounds.commits {
                bytes += job.parcel.bytes;
                batch.parcels.push(job.parcel);
                batch.answers.push(Some(job.answer));
            } else {
                left.push_back(job);
            }
        }
        self.waiting = left;
        batch
    }

    /// Sends, halves and sends again until every commit of the batch has its answer.
    async fn settle(&mut self, mut batch: Batched) {
        let mut parts = vec![(0..batch.parcels.len(), Sending::First)];
        let mut failures = 0;
        while let Some((part, sending)) = parts.pop() {
            match self.writer.apply(&batch.parcels[part.clone()], sending).await {
                Ok(outcomes) => {
                    debug_assert_eq!(outcomes.len(), part.len(), "one outcome for each");
                    for (place, outcome) in part.zip(outcomes) {
                        batch.answer(place, Ok(outcome));
                    }
                }
                Err(BatchError::Data(why)) if part.len() == 1 => batch.answer(part.start, Err(Error::Refused(why))),
                Err(BatchError::Data(_)) => {
                    let middle = part.start + part.len() / 2;
                    parts.push((middle..part.end, sending));
                    parts.push((part.start..middle, sending));
                }
                Err(BatchError::Unavailable(why)) if sending == Sending::First => batch.refuse(part, &why),
                Err(BatchError::Unavailable(why) | BatchError::Lost(why)) => {
                    tracing::warn!(%why, commits = part.len(), "it is open whether a batch is stored; sending it again");
                    parts.push((part, Sending::Again));
                    self.pause(failures, &why).await;
                    failures += 1;
                }
            }
        }
    }

    /// Nothing that waits has been sent, so it may be refused with certainty.
    async fn pause(&mut self, failures: usize, why: &str) {
        tokio::time::sleep(PAUSES[failures.min(PAUSES.len() - 1)]).await;
        if failures >= PATIENCE {
            self.receive();
            for job in self.waiting.drain(..) {
                answer(job.answer, Err(Error::Unavailable(why.to_owned())));
            }
        }
    }
}

impl Batched {
    fn answer(&mut self, place: usize, outcome: Result<Committed>) {
        if let Some(sender) = self.answers[place].take() {
            answer(sender, outcome);
        }
    }

    fn refuse(&mut self, part: Range<usize>, why: &str) {
        for place in part {
            self.answer(place, Err(Error::Unavailable(why.to_owned())));
        }
    }
}

fn answer(sender: oneshot::Sender<Result<Committed>>, outcome: Result<Committed>) {
    // Nobody waits for it any more: the commit stands all the same.
    let _ = sender.send(outcome);
}
