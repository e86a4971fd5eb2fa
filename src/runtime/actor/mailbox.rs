//! The actor's loop: commands, results of effects, the end of its lease, and its own end when it is idle.

use std::collections::VecDeque;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::Actor;
use super::command::{Command, CommandError, CommitExtras, DecisionResult, Reply};
use crate::domain::ids::ThreadPk;
use crate::engine::event::Event;
use crate::runtime::actors::KnownVersion;
use crate::runtime::lease::Lease;
use crate::runtime::perform::RunningEffects;
use crate::runtime::shared::Shared;
use crate::store::LeaseChange;

impl Actor {
    pub(in crate::runtime) fn new(
        shared: Arc<Shared>,
        pk: ThreadPk,
        mailbox: mpsc::Receiver<Command>,
        known_version: KnownVersion,
    ) -> Self {
        let effects = RunningEffects::new(shared.stop.out_of_time.clone());
        Self {
            shared,
            pk,
            mailbox,
            known_version,
            version: 0,
            loaded: None,
            is_reserved: false,
            has_written: false,
            room_for_retry: None,
            run_slot: None,
            lease: None,
            effects,
            uncommitted: VecDeque::new(),
            retry: None,
        }
    }

    pub(in crate::runtime) async fn run(mut self) {
        let shared = self.shared.clone();
        // All threads share these tokens, so each waits for them once, not at each turn of the loop.
        let (mut halted, mut draining) = (pin!(shared.stop.halted.cancelled()), pin!(shared.stop.draining.cancelled()));
        loop {
            let (idle, retry) = (self.idle_after(), self.retry.map(|(at, _)| at));
            self.version = self.loaded.as_ref().map_or(self.version, |loaded| loaded.row.fence.version);
            self.known_version.set(idle.is_none().then_some(self.version));
            tokio::select! {
                biased;
                () = &mut halted => return self.halt(),
                () = ended(self.lease.as_ref()) => self.abort_effects(),
                event = self.effects.next() => {
                    self.uncommitted.push_back(Arc::new(event));
                    self.commit_pending().await;
                }
                () = sleep_until(retry.unwrap_or_else(Instant::now)), if retry.is_some() => drop(self.commit_pending().await),
                command = self.mailbox.recv() => match command {
                    Some(command) => self.handle(command).await,
                    None => return,
                },
                () = sleep(idle.unwrap_or_default()), if idle.is_some() => {
                    self.release_while_draining().await;
                    if shared.actors.remove_if_idle(self.pk, &self.mailbox) {
                        return;
                    }
                }
                // Draining changes when the actor may end, so the loop looks again.
                () = &mut draining, if idle != Some(Duration::ZERO) && !shared.stop.is_draining() => {}
            }
        }
    }

    /// How long to wait before the actor ends; `None`: it has something to do.
    fn idle_after(&self) -> Option<Duration> {
        if !self.effects.is_empty() || !self.uncommitted.is_empty() {
            return None;
        }
        if self.shared.stop.is_draining() {
            return Some(Duration::ZERO);
        }
        let is_active = self.loaded.as_ref().is_some_and(|loaded| loaded.machine.is_active() && self.is_ours(loaded));
        (!is_active).then(|| Duration::from_millis(self.shared.config.runtime.idle_ms))
    }

    /// Releases the lease of a thread of which no call is in flight, if this process drains: it would start no other one.
    async fn release_while_draining(&mut self) {
        let is_leaving = self.shared.store.is_shared() && self.shared.stop.is_draining();
        let Some(loaded) = self.loaded.as_ref().filter(|loaded| is_leaving && self.is_ours(loaded)) else { return };
        let commit = loaded.commit_with_lease(LeaseChange::Release, self.shared.now());
        if let Err(refusal) = self.write(commit).await {
            tracing::warn!(threadPk = self.pk.0, ?refusal, "a thread stays with this process until it has drained");
        }
    }

    fn halt(mut self) {
        self.abort_effects();
        self.shared.actors.remove(self.pk);
    }

    async fn handle(&mut self, command: Command) {
        match command {
            Command::Decide { event, extras, reply } => {
                let decided = self.decide_and_finish_cancel(&event, &extras).await;
                self.answer(reply, decided).await;
            }
            Command::EditProfile { edit, reply } => {
                let edited = self.edit_profile(&edit).await;
                self.answer(reply, edited).await;
            }
            Command::StoreRow { row, audit, reply } => {
                let stored = self.store_row(&row, audit).await;
                self.answer(reply, stored).await;
            }
            Command::Delete { by, reply } => {
                let deleted = self.delete(&by).await;
                self.answer(reply, deleted).await;
            }
            Command::Expire { before, by, reply } => {
                let expired = self.expire(before, by.as_deref()).await;
                self.answer(reply, expired).await;
            }
            Command::Wake { reply } => {
                // If a reservation was necessary, the sweeper made it, and it must stay.
                self.is_reserved = false;
                let looked = self.look_after().await;
                self.leave_to_others(&looked).await;
                self.answer(reply, looked).await;
            }
        }
    }

    /// Replies to a command, after releasing a reservation that turned out unnecessary.
    async fn answer<T>(&mut self, reply: Reply<T>, answer: Result<T, CommandError>) {
        if self.is_reserved {
            let released = self.end_reservation().await;
            self.warn_if_reserved(released);
        }
        // The caller may be gone by now; the decision is durable anyway.
        drop(reply.send(answer));
    }

    /// Decides and commits. A cancel also stops the effects before this returns.
    async fn decide_and_finish_cancel(
        &mut self,
        event: &Arc<Event>,
        extras: &CommitExtras,
    ) -> Result<DecisionResult, CommandError> {
        let mut decided = self.transition(std::slice::from_ref(event), extras).await?;
        self.finish_cancel(&mut decided).await?;
        Ok(decided)
    }

    /// Finishes a cancel that waits until the effects are stopped, if this process holds the lease: only the lease holder can
    /// record that they are.
    pub(super) async fn finish_cancel(&mut self, decided: &mut DecisionResult) -> Result<(), CommandError> {
        if decided.is_cancelling && self.loaded.as_ref().is_some_and(|loaded| self.is_ours(loaded)) {
            decided.runs.extend(self.stop_effects().await?);
            decided.is_cancelling = false;
        }
        Ok(())
    }
}

/// Waits until the lease has ended; for ever without a lease.
async fn ended(lease: Option<&Lease>) {
    match lease {
        Some(lease) => lease.ended.cancelled().await,
        None => pending().await,
    }
}
