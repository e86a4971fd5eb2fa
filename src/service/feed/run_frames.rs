//! The `run` frames that a feed makes itself. What another process commits comes from the store, which has only observations:
//! the feed reads the runs of these observations, and sends those whose status the subscriber does not know.

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
    /// The status of the runs that were sent last, the newest at the end.
    known: Vec<(RunId, RunStatus)>,
    /// The runs of which observations were sent since.
    observed: Vec<RunId>,
    /// The frames that the feed made last. If this process committed the change, its own frame of it follows.
    made: Vec<(RunId, RunStatus)>,
}

impl RunFrames {
    /// An observation of the run is sent.
    pub fn observe(&mut self, run: &RunId) {
        if !self.observed.contains(run) {
            self.observed.push(run.clone());
        }
    }

    /// The subscriber knows this status.
    pub fn know(&mut self, run: &RunId, status: RunStatus) {
        self.observed.retain(|observed| observed != run);
        self.known.retain(|(known, _)| known != run);
        if self.known.len() == MAX_KNOWN {
            self.known.remove(0);
        }
        self.known.push((run.clone(), status));
    }

    /// The observed runs whose status the subscriber does not know. `until`: the run of the feed, which was just read.
    pub async fn changed(&self, service: &Service, pk: ThreadPk, until: Option<&Run>) -> Result<Vec<RunResource>> {
        let mut changed = Vec::new();
        for id in &self.observed {
            let run = match until {
                Some(run) if run.run_id == *id => Some(run.clone()),
                Some(_) | None => service.reads.row(pk, RowKind::Run, id.as_str()).await?.as_ref().and_then(legible),
            };
            let is_unknown = |run: &Run| !self.known.iter().any(|(known, status)| known == id && *status == run.status);
            if let Some(run) = run.filter(is_unknown) {
                changed.push(runs::resource(service, pk, run).await?);
            }
        }
        Ok(changed)
    }

    /// Frames of these runs are sent, and all observed runs are known.
    pub fn make(&mut self, changed: &[RunResource]) {
        self.observed.clear();
        if !changed.is_empty() {
            self.made = changed.iter().map(|run| (run.run_id.clone(), run.status)).collect();
        }
    }

    /// Whether the frame, which was published here, repeats one that the feed made.
    pub fn repeats(&mut self, published: &EncodedKind) -> bool {
        let EncodedKind::Run { run_id, status } = published else { return false };
        let at = self.made.iter().position(|(made, as_made)| made == run_id && as_made == status);
        at.map(|at| self.made.swap_remove(at)).is_some()
    }

    /// The approximate memory that it takes beside itself, in bytes.
    pub fn bytes(&self) -> usize {
        let known = self.known.capacity() + self.made.capacity();
        known * size_of::<(RunId, RunStatus)>() + self.observed.capacity() * size_of::<RunId>()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::RunFrames;
    use crate::domain::run::{RunResource, RunStatus};
    use crate::live::EncodedKind;

    #[test]
    fn a_frame_that_is_published_here_after_it_was_made_from_the_store_is_not_sent_twice() {
        let usage = json!({ "inputTokens": 0, "outputTokens": 0, "thinkingTokens": 0, "cachedInputTokens": 0 });
        let run: RunResource = serde_json::from_value(json!({
            "runId": "run_1", "threadId": "t", "status": "suspended", "query": "?", "traceId": "x", "model": "m",
            "provider": "p", "createdAt": 1, "llmCalls": 1, "toolCalls": 0, "usage": usage
        }))
        .unwrap();
        let published = |status| EncodedKind::Run { run_id: "run_1".into(), status };
        let mut frames = RunFrames::default();
        frames.make(&[run]);
        assert!(!frames.repeats(&published(RunStatus::Running)), "it is news");
        assert!(frames.repeats(&published(RunStatus::Suspended)));
        assert!(!frames.repeats(&published(RunStatus::Suspended)), "it is suspended again");
    }
}
