//! Whether commits succeed. A failure is remembered until a write of the same size has succeeded.
//!
//! A full disk may still accept a row of a few bytes. So only a write as large as the failed one proves that commits succeed
//! again.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::store::{Error, Result};

/// Shared by the workers and the health check.
#[derive(Default)]
pub(crate) struct CommitHealth {
    /// The size in bytes of the largest batch that failed since a batch of its size succeeded.
    failed: AtomicUsize,
    /// Workers that panicked and have not written since.
    broken: AtomicUsize,
}

impl CommitHealth {
    /// Fails while a worker is being restarted.
    pub fn check(&self) -> Result<()> {
        match self.broken.load(Ordering::SeqCst) {
            0 => Ok(()),
            _ => Err(Error::Unavailable("a commit worker panicked and is being restarted".to_owned())),
        }
    }

    /// How many bytes must be written to prove that commits succeed: as many as failed, or none.
    pub fn required_proof(&self) -> usize {
        self.failed.load(Ordering::SeqCst)
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

    pub(super) fn record_panic(&self) {
        self.broken.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn record_recovery(&self) {
        self.broken.fetch_sub(1, Ordering::SeqCst);
    }
}
