//! Whether commits succeed. A failure is remembered until a write of the same size has succeeded.
//!
//! A full disk may still accept a row of a few bytes: in a page of its table that has room, while the tables of a commit need
//! new ones. So only a write that is as large as the failed one, and larger than the room of a few pages, proves that commits
//! succeed again. A batch that has no outcome for some time is a failure, too, while it lasts: the connection that it was
//! sent over may be lost without a sign, while others work.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::store::{Error, Result};

/// A batch without an outcome for longer than this is a failure.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(5);

/// After a failure less than this, in bytes, proves nothing. A commit of two kilobytes changes some twenty pages of tables and
/// indexes, of which each may need a new one.
const LEAST_PROOF: usize = 256 * 1024;

/// Shared by the workers and the health check.
#[derive(Default)]
pub(crate) struct CommitHealth {
    /// The size in bytes of the largest batch that failed since a batch of its size succeeded.
    failed: AtomicUsize,
    /// How the database was found to be damaged. Other pages may be intact, so writes that succeed prove nothing.
    damage: OnceLock<String>,
    /// Workers that panicked and have not written since.
    broken: AtomicUsize,
    /// The batches whose outcome is not known yet: at most one for each worker.
    unsettled: Mutex<Vec<SentBatch>>,
}

struct SentBatch {
    sent: Instant,
    /// Why the last attempt told no outcome, if it failed.
    why: Option<String>,
}

/// A batch that was sent. Dropped when all of its commits have their outcomes.
pub(super) struct Unsettled<'a> {
    health: &'a CommitHealth,
    sent: Instant,
}

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        let mut unsettled = self.health.unsettled.lock();
        if let Some(place) = unsettled.iter().position(|batch| batch.sent == self.sent) {
            unsettled.swap_remove(place);
        }
    }
}

impl Unsettled<'_> {
    /// Records why an attempt told no outcome, for whoever asks whether the server is ready.
    pub(super) fn record_attempt(&self, why: &str) {
        let mut unsettled = self.health.unsettled.lock();
        if let Some(batch) = unsettled.iter_mut().find(|batch| batch.sent == self.sent) {
            batch.why = Some(why.to_owned());
        }
    }
}

impl CommitHealth {
    /// Fails while a worker is being restarted, while a batch has had no outcome for too long, and for ever after damage.
    pub fn check(&self) -> Result<()> {
        if let Some(why) = self.damage.get() {
            return Err(Error::Unusable(why.clone()));
        }
        if self.broken.load(Ordering::SeqCst) > 0 {
            return Err(Error::Unavailable("a commit worker panicked and is being restarted".to_owned()));
        }
        let unsettled = self.unsettled.lock();
        let oldest = unsettled.iter().min_by_key(|batch| batch.sent);
        match oldest.filter(|batch| batch.sent.elapsed() >= OUTCOME_TIMEOUT) {
            None => Ok(()),
            Some(SentBatch { sent, why }) => {
                let seconds = sent.elapsed().as_secs();
                let why = why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
                Err(Error::Unavailable(format!("commits that were sent {seconds} s ago have no outcome yet{why}")))
            }
        }
    }

    pub(super) fn record_sent(&self) -> Unsettled<'_> {
        let sent = Instant::now();
        self.unsettled.lock().push(SentBatch { sent, why: None });
        Unsettled { health: self, sent }
    }

    /// How many bytes must be written to prove that commits succeed: at least as many as failed, or none.
    pub fn required_proof(&self) -> usize {
        match self.failed.load(Ordering::SeqCst) {
            0 => 0,
            failed => failed.max(LEAST_PROOF),
        }
    }

    /// Records that a write of this size failed.
    pub fn record_failure(&self, bytes: usize) {
        self.failed.fetch_max(bytes, Ordering::SeqCst);
    }

    /// Records that a write of this size succeeded.
    pub fn record_success(&self, bytes: usize) {
        // The failure remains if it was larger.
        let _ = self.failed.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |failed| (failed <= bytes).then_some(0));
    }

    /// Records, and logs the first time, that the database is damaged.
    pub fn record_damage(&self, why: &str) {
        self.damage.get_or_init(|| {
            tracing::error!("this server is not ready any more: {why}");
            why.to_owned()
        });
    }

    pub(super) fn record_panic(&self) {
        self.broken.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn record_recovery(&self) {
        self.broken.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::yield_now;
    use tokio::time::advance;

    use super::*;
    use crate::store::committer::tests::{Script, commit};
    use crate::store::committer::{BatchError, Bounds};

    #[tokio::test(start_paused = true)]
    async fn a_batch_that_is_sent_again_and_again_says_why() {
        let lost = || Err(BatchError::Lost("attempt to write a readonly database".into()));
        let script = Script::new((0..20).map(|_| lost()));
        let committer = script.committer(Bounds::default());
        let sender = committer.clone();
        let sent = tokio::spawn(async move { sender.commit(commit(1)).await });
        while script.calls().is_empty() {
            yield_now().await;
        }
        committer.health().check().expect("it may still succeed");
        advance(OUTCOME_TIMEOUT).await;
        let Err(Error::Unavailable(why)) = committer.health().check() else { panic!("the check must fail") };
        assert_eq!(why, "commits that were sent 5 s ago have no outcome yet: attempt to write a readonly database");
        sent.await.unwrap().unwrap();
        committer.health().check().unwrap();
    }
}
