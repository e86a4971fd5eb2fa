//! Some of the commits of a batch, to be written in one transaction.

use std::ops::{Deref, Range};
use std::sync::Arc;

use super::PreparedCommit;

/// A range of a batch. Owned, so that a writer may take it to another thread.
#[derive(Clone)]
pub(crate) struct CommitSlice {
    batch: Arc<Vec<PreparedCommit>>,
    range: Range<usize>,
}

impl CommitSlice {
    pub fn of(batch: &Arc<Vec<PreparedCommit>>, range: Range<usize>) -> Self {
        Self { batch: batch.clone(), range }
    }
}

impl Deref for CommitSlice {
    type Target = [PreparedCommit];

    fn deref(&self) -> &[PreparedCommit] {
        &self.batch[self.range.clone()]
    }
}
