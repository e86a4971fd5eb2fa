//! The `run` frames that a feed makes itself. What another process commits comes from the store, which has only observations:
//! the feed reads the runs of these observations, and sends those whose status the subscriber does not know. What this process
//! publishes of commits that were read there is older than what was sent, and is left out.

#[cfg(test)]
mod tests;

use crate::domain::ids::{RunId, ThreadPk};
use crate::domain::run::{Run, RunResource, RunStatus};
use crate::engine::step::RowKind;
use crate::live::EncodedKind;
use crate::runtime::rows::legible;
use crate::service::{Result, Service, runs};

/// How many runs a feed remembers as known. The frame of another one may be sent although nothing of it is new.
const MAX_KNOWN: usize = 64;

/// What the subscriber of a feed knows of the thread's runs.
#[derive(Default)]
pub(super) struct RunFrames {
    /// The runs that were sent last, the newest at the end.
    known: Vec<KnownRun>,
    /// The runs of which observations were sent since.
    observed: Vec<RunId>,
}

struct KnownRun {
    run: RunId,
    status: RunStatus,
    /// The status is at least as new as the log up to this seq.
    as_of: i64,
}

impl RunFrames {
    /// An observation of the run is sent.
    pub fn observe(&mut self, run: &RunId) {
        // The last one first: most observations are of one run for a while.
        if !self.observed.iter().rev().any(|observed| observed == run) {
            self.observed.push(run.clone());
        }
    }

    /// The subscriber knows this status, which is at least as new as the log up to `as_of`.
    pub fn know(&mut self, run: &RunId, status: RunStatus, as_of: i64) {
        self.observed.retain(|observed| observed != run);
        self.known.retain(|known| known.run != *run);
        if self.known.len() == MAX_KNOWN {
            self.known.remove(0);
        }
        self.known.push(KnownRun { run: run.clone(), status, as_of });
    }

    /// The observed runs whose status the subscriber does not know. `until`: the run of the feed, which was just read.
    pub async fn changed(&self, service: &Service, pk: ThreadPk, until: Option<&Run>) -> Result<Vec<RunResource>> {
        let mut changed = Vec::new();
        for id in &self.observed {
            let run = match until {
                Some(run) if run.run_id == *id => Some(run.clone()),
                Some(_) | None => service.reads.row(pk, RowKind::Run, id.as_str()).await?.as_ref().and_then(legible),
            };
            let is_unknown = |run: &Run| !self.known.iter().any(|known| known.run == *id && known.status == run.status);
            if let Some(run) = run.filter(is_unknown) {
                changed.push(runs::resource(service, pk, run).await?);
            }
        }
        Ok(changed)
    }

    /// The observed runs were read as of this seq. Frames of those that have changed follow: see [`know`](Self::know).
    pub fn mark_read(&mut self, as_of: i64) {
        for known in self.known.iter_mut().filter(|known| self.observed.contains(&known.run)) {
            known.as_of = as_of;
        }
        self.observed.clear();
    }

    /// Whether the frame, which was published here, is of a commit that the subscriber knows of by a later status.
    pub fn is_outdated(&self, published: &EncodedKind) -> bool {
        let EncodedKind::Run { run_id, after, .. } = published else { return false };
        self.known.iter().any(|known| known.run == *run_id && *after < known.as_of)
    }

    /// The approximate memory that it takes beside itself, in bytes.
    pub fn bytes(&self) -> usize {
        self.known.capacity() * size_of::<KnownRun>() + self.observed.capacity() * size_of::<RunId>()
    }
}
