//! What a lost lease holder left: slots that are `Running` and have no effect in this process. They are settled before anything
//! else is decided, in a commit that claims the thread with a new epoch.

use std::sync::Arc;

use super::Actor;
use super::claim::ClaimMode;
use super::command::{CommandError, CommitExtras, DecisionResult};
use super::load::contended;
use crate::domain::thread::ThreadStatus;
use crate::engine::effect::Effect;
use crate::engine::event::{CancelEvent, Event, SystemEvent};
use crate::runtime::perform::{is_result, is_result_of};

impl Actor {
    /// Aborts effects that the loaded thread no longer has. Slots that are `Running` without an effect in this process were left
    /// by a lost holder: one commit claims the thread and settles them.
    pub(super) async fn settle_lost_effects(&mut self) -> Result<(), CommandError> {
        let Some(loaded) = &self.loaded else { return Ok(()) };
        let running = loaded.machine.running();
        if self.is_ours(loaded) {
            self.effects.retain(&running)
        } else {
            self.abort_effects()
        }
        let Some(loaded) = &self.loaded else { return Ok(()) };
        if loaded.machine.is_unreadable() {
            return self.end_unreadable_runs().await;
        }
        let is_lost = running.iter().any(|effect| !self.effects.contains(effect) && !self.is_uncommitted(effect));
        // A run that waits for admission must not begin either.
        let has_runs = loaded.machine.run().is_some() || loaded.machine.waits_to_begin();
        let is_quarantined = loaded.row.status == ThreadStatus::Quarantined && has_runs;
        if !(is_lost || is_quarantined) || self.lease_for_commit(loaded, ClaimMode::IfFree).epoch.is_none() {
            return Ok(());
        }
        let crashes = loaded.row.crashes.attributed;
        tracing::info!(threadId = %loaded.row.thread_id, crashes, "settling effects that a lost lease holder left running");
        let results: Vec<Arc<Event>> = self.uncommitted.drain(..).filter(|event| is_result(event)).collect();
        self.abort_effects();
        if is_quarantined {
            let crashes = u32::try_from(crashes).unwrap_or(u32::MAX);
            return self.take_over(&[Event::System(SystemEvent::Quarantined { crashes }).into()]).await.map(drop);
        }
        self.recover(results).await
    }

    /// Ends the runs of a thread of which part cannot be read.
    async fn end_unreadable_runs(&mut self) -> Result<(), CommandError> {
        let Some(loaded) = &self.loaded else { return Ok(()) };
        // The lease holder may still have in memory what cannot be read from the store.
        if self.lease_for_commit(loaded, ClaimMode::IfFree).epoch.is_none() && loaded.row.is_owned {
            // Nothing may be decided on a machine that lacks the unreadable part.
            self.loaded = None;
            return Err(contended());
        }
        self.abort_effects();
        self.take_over(&[Event::System(SystemEvent::Unreadable).into()]).await.map(drop)
    }

    /// Decides on these events in a commit that claims the thread with a new epoch. `None`: the thread was stale.
    async fn take_over(&mut self, events: &[Arc<Event>]) -> Result<Option<DecisionResult>, CommandError> {
        self.try_transition(events, &CommitExtras::default(), ClaimMode::NewEpoch).await
    }

    /// Settles lost effects, after committing the results that are known, so that no result is dropped or produced twice.
    async fn recover(&mut self, results: Vec<Arc<Event>>) -> Result<(), CommandError> {
        let recovered = Arc::new(Event::System(SystemEvent::Recovered));
        let events: Vec<Arc<Event>> = results.iter().cloned().chain([recovered]).collect();
        match self.take_over(&events).await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => {
                self.keep_uncommitted(results);
                Ok(())
            }
            Err(refusal) if refusal.is_outage() => {
                self.keep_uncommitted(results);
                Err(refusal)
            }
            Err(refusal) if results.is_empty() => Err(refusal),
            Err(refusal) => {
                tracing::error!(
                    threadPk = self.pk.0,
                    threadId = self.thread_id(),
                    ?refusal,
                    "results of effects were refused; their effects count as lost"
                );
                self.loaded = None;
                Ok(())
            }
        }
    }

    fn keep_uncommitted(&mut self, results: Vec<Arc<Event>>) {
        if !results.is_empty() {
            self.uncommitted.extend(results);
            self.schedule_retry();
        }
    }

    /// Whether the result of this effect waits to be committed.
    fn is_uncommitted(&self, effect: &Effect) -> bool {
        self.uncommitted.iter().any(|event| {
            // The end of a cancel ends every effect of the run: none of them is lost.
            is_result_of(event, effect) || matches!(**event, Event::Cancel(CancelEvent::EffectsStopped))
        })
    }
}
