//! Whether commits succeed: what failed last, until as much has been written again.
//!
//! A database that is full still takes a row of a few bytes. So a small write does not prove that commits succeed: what
//! does is one of the size of that which failed.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::store::{Error, Result};

/// Shared by the workers and the health check.
#[derive(Default)]
pub(crate) struct CommitHealth {
    /// The bytes of the largest batch that failed since one of its size succeeded.
    failed: AtomicUsize,
    /// Workers that panicked and have not written since.
    broken: AtomicUsize,
}

impl CommitHealth {
    /// Fails while a worker is being started again.
    pub fn check(&self) -> Result<()> {
        match self.broken.load(Ordering::SeqCst) {
            0 => Ok(()),
            _ => Err(Error::Unavailable("a committer broke and is being started again".to_owned())),
        }
    }

    /// How much must be written to prove that commits succeed: as much as failed, else next to nothing.
    pub fn proof(&self) -> usize {
        self.failed.load(Ordering::SeqCst)
    }

    /// So much could not be written.
    pub fn fails(&self, bytes: usize) {
        self.failed.fetch_max(bytes, Ordering::SeqCst);
    }

    /// So much was written.
    pub fn succeeds(&self, bytes: usize) {
        // Nothing is to be done where more has failed.
        let _ = self.failed.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |failed| (failed <= bytes).then_some(0));
    }

    pub(super) fn breaks(&self) {
        self.broken.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn mends(&self) {
        self.broken.fetch_sub(1, Ordering::SeqCst);
    }
}
