//! The results of effects: they are kept until they are committed, in batches, and their commit is retried while the store
//! fails. Here are also the two ways in which effects end early: aborted without results, or stopped with them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use super::Actor;
use super::command::{CommandError, CommitExtras};
use crate::domain::run::Run;
use crate::engine::event::{CancelEvent, Event};
use crate::runtime::perform::{instead_of, is_result};
use crate::store;

/// The pause before a failed commit of results is retried. It doubles with each failure.
const MIN_RETRY_PAUSE: Duration = Duration::from_millis(50);
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(2);
/// Bounds the results that are committed together.
const MAX_RESULTS_PER_COMMIT: usize = 32;

impl Actor {
    /// Another process may act for this thread now: aborts its effects and drops their uncommitted results.
    pub(super) fn abort_effects(&mut self) {
        self.effects.abort_all();
        self.uncommitted.clear();
        self.retry = None;
        self.lease = None;
    }

    /// The second phase of a cancel: stops the effects and records that. Returns the runs that it ended.
    pub(super) async fn stop_effects(&mut self) -> Result<Vec<Run>, CommandError> {
        let ended = self.effects.stop().await;
        // What a tool has done is known, an agent's answer may belong to a task of an earlier run, and the usage of model calls
        // must be paid.
        self.uncommitted.retain(|event| is_result(event));
        self.uncommitted.extend(ended.into_iter().map(Arc::new));
        self.uncommitted.push_back(Arc::new(Event::Cancel(CancelEvent::EffectsStopped)));
        let ended = self.commit_pending().await;
        if self.uncommitted.is_empty() {
            Ok(ended)
        } else {
            Err(store::Error::Unavailable("the cancel is stored, its end is not yet".to_owned()).into())
        }
    }

    /// Commits the results of effects, oldest first, in batches. Results that the store does not take now are retried later.
    /// Returns the runs that changed.
    pub(super) async fn commit_pending(&mut self) -> Vec<Run> {
        let (mut changed, mut most) = (Vec::new(), MAX_RESULTS_PER_COMMIT);
        while !self.uncommitted.is_empty() {
            while self.uncommitted.len() < most
                && let Some(event) = self.effects.next().now_or_never()
            {
                self.uncommitted.push_back(Arc::new(event));
            }
            let events: Vec<Arc<Event>> = self.uncommitted.iter().take(most).cloned().collect();
            match self.transition(&events, &CommitExtras::default()).await {
                // If the lease was lost meanwhile, `uncommitted` is empty now.
                Ok(decided) => changed.extend(decided.runs),
                Err(refusal) if refusal.is_outage() => {
                    self.schedule_retry();
                    return changed;
                }
                Err(CommandError::Gone) => {}
                // One was refused: committing them one by one shows which.
                Err(_) if events.len() > 1 => {
                    most = 1;
                    continue;
                }
                Err(refusal) => {
                    tracing::error!(
                        threadPk = self.pk.0,
                        threadId = self.thread_id(),
                        ?refusal,
                        "the result of an effect was refused"
                    );
                    // A machine in memory does not show that the effect has ended.
                    self.loaded = None;
                    self.uncommitted.extend(events.iter().filter_map(|event| instead_of(event)).map(Arc::new));
                }
            }
            self.uncommitted.drain(..events.len().min(self.uncommitted.len()));
        }
        self.retry = None;
        self.reply_to_calls();
        changed
    }

    /// Schedules the next attempt to commit the results, after a growing pause.
    pub(super) fn schedule_retry(&mut self) {
        let pause = self.retry.map_or(MIN_RETRY_PAUSE, |(_, pause)| (pause * 2).min(MAX_RETRY_PAUSE));
        self.retry = Some((Instant::now() + pause, pause));
    }
}
