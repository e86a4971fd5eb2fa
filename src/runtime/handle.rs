//! The methods of [`Runtime`]: commands for a thread's task, and facts that only this process knows.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::Runtime;
use super::actor::{AuditedAction, Command, CommandError, CommitExtras, DecisionResult, ProfileEdit};
use super::waiters::Waiter;
use crate::domain::Millis;
use crate::domain::console_urls::{ConsoleUrls, OwnUrl};
use crate::domain::fault::Fault;
use crate::domain::ids::{Mint, RunId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::run::{Run, RunResource};
use crate::domain::trace::TraceOrigin;
use crate::engine::Core;
use crate::engine::event::Event;
use crate::engine::step::Row;
use crate::traces::Traces;

/// The pause before a background task that panicked begins again.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

impl Runtime {
    /// Has the thread's task decide on `event`, and commit the decision together with `extras`.
    pub(crate) async fn decide(
        &self,
        pk: ThreadPk,
        event: Event,
        extras: CommitExtras,
    ) -> Result<DecisionResult, CommandError> {
        self.0.decide(pk, event, extras).await
    }

    /// Edits the thread's profile. `edit` is called again if another writer changed the thread meanwhile.
    pub(crate) async fn edit_profile(&self, pk: ThreadPk, edit: ProfileEdit) -> Result<(), CommandError> {
        self.0.request(pk, |reply| Command::EditProfile { edit, reply }).await
    }

    /// Has the thread's task load the thread and do what is due. Runs that cannot be read end by that.
    pub(crate) async fn wake(&self, pk: ThreadPk) -> Result<(), CommandError> {
        self.0.wake(pk).await
    }

    /// Stores a row of the thread that no decision writes: a push receiver, the retention of the thread.
    pub(crate) async fn store_row(
        &self,
        pk: ThreadPk,
        row: Row,
        audit: Option<AuditedAction>,
    ) -> Result<(), CommandError> {
        self.0.request(pk, |reply| Command::StoreRow { row, audit, reply }).await
    }

    /// Stops all effects of the thread and erases it, on behalf of `by`.
    pub(crate) async fn delete(&self, pk: ThreadPk, by: String) -> Result<(), CommandError> {
        self.0.request(pk, |reply| Command::Delete { by, reply }).await
    }

    /// Erases the thread if its status allows it, it is not on hold, and unused since `before`. Returns whether it did.
    pub(crate) async fn expire(&self, pk: ThreadPk, before: Millis) -> Result<bool, CommandError> {
        self.0.request(pk, |reply| Command::Expire { before, by: None, reply }).await
    }

    /// Like [`expire`](Self::expire), on behalf of `by`, and not as a background chore.
    pub(crate) async fn delete_unused(&self, pk: ThreadPk, before: Millis, by: String) -> Result<bool, CommandError> {
        self.0.request(pk, |reply| Command::Expire { before, by: Some(by), reply }).await
    }

    /// Waits until this process deletes a thread. Returns at once if it has deleted one since the last call.
    pub(crate) async fn wait_for_erasure(&self) {
        self.0.erased.notified().await;
    }

    /// Subscribes to the changes of a run. Read the run after this call, not before.
    pub(crate) fn wait_on(&self, run: &RunId) -> Waiter {
        self.0.waiters.join(run)
    }

    /// Refuses requests that start or change something once the server is stopping.
    pub(crate) fn accepting(&self) -> Result<(), Fault> {
        self.0.stop.accepting()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.0.stop.is_draining()
    }

    /// Returns when nothing runs in this process any more, and nothing will.
    pub(crate) async fn stopped(&self) {
        self.0.stop.halted.cancelled().await;
    }

    /// Whether effects may start in this process now.
    pub(crate) fn holds_lease(&self) -> bool {
        self.0.lease_keeper.current_lease().is_some()
    }

    /// Why no effects may start in this process now; `None`: they may.
    pub(crate) fn lease_failure(&self) -> Option<String> {
        self.0.lease_keeper.failure()
    }

    /// The names of all agent cores.
    pub(crate) fn cores(&self) -> Vec<String> {
        self.0.cores.iter().map(|core| core.name().to_owned()).collect()
    }

    pub(crate) fn core(&self, name: &str) -> Result<&Arc<dyn Core>, Fault> {
        self.0.core(name)
    }

    /// A primary key that no thread ever had: milliseconds, then a counter with a random start.
    pub(crate) fn new_pk(&self) -> ThreadPk {
        const COUNT_BITS: u32 = 22;
        let count = self.0.pk_counter.fetch_add(1, Ordering::Relaxed) & ((1 << COUNT_BITS) - 1);
        ThreadPk((self.now() << COUNT_BITS) | count as i64)
    }

    pub(crate) fn now(&self) -> Millis {
        self.0.now()
    }

    /// The system's clock, with its steps: for times that are compared with those of other machines.
    pub(crate) fn wall(&self) -> Millis {
        self.0.clock.wall()
    }

    pub(crate) fn mint(&self) -> Mint {
        self.0.mint()
    }

    /// The trace origin of a new run with the sampled flag that its outgoing calls carry; unchanged without a collector.
    pub(crate) fn with_sampled_flag(&self, trace_id: &str, origin: TraceOrigin) -> TraceOrigin {
        match &self.0.trace_exporter.traces {
            Some(traces) => traces.with_sampled_flag(trace_id, origin),
            None => origin,
        }
    }

    pub(crate) fn traces(&self) -> Option<&Arc<Traces>> {
        self.0.trace_exporter.traces.as_ref()
    }

    /// Sets the URL of this server, once the listener is bound. Only the first call counts.
    pub(crate) fn set_own_url(&self, url: OwnUrl) {
        self.0.own_address.set(url);
    }

    /// The URLs of the console, if the address is known.
    pub(crate) fn console_urls(&self) -> Option<&ConsoleUrls> {
        self.0.own_address.console_urls()
    }

    /// The URLs of the console for tasks shown to other agents: only public ones, which are the same at every process.
    pub(crate) fn public_console_urls(&self) -> Option<&ConsoleUrls> {
        self.0.own_address.public_console_urls()
    }

    /// A run as clients see it.
    pub(crate) fn resource(&self, run: &Run, answer: Option<ConversationMessage>) -> RunResource {
        self.0.own_address.resource(run, answer)
    }

    /// Spawns a background task that is dropped when the server drains. If it panics, `work` makes it again.
    pub(crate) fn spawn_until_drain<W>(&self, name: &'static str, work: impl Fn() -> W + Send + 'static)
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let draining = self.0.stop.draining.clone();
        self.0.stop.tasks.spawn(async move { draining.run_until_cancelled(again_after_panics(name, work)).await });
    }

    /// Spawns a background task that goes on during the drain, which does not wait for it. If it panics, `work` makes it again.
    pub(crate) fn spawn_through_drain<W>(&self, name: &'static str, work: impl Fn() -> W + Send + 'static)
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let halted = self.0.stop.halted.clone();
        tokio::spawn(async move { halted.run_until_cancelled(again_after_panics(name, work)).await });
    }

    /// Spawns work that the drain waits for, until its time is up. `None`: the work was dropped then.
    pub(crate) fn spawn_until_halt<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<Option<T>> {
        let halted = self.0.stop.halted.clone();
        self.0.stop.tasks.spawn(async move { halted.run_until_cancelled(work).await })
    }
}

/// Does the work of a background task, and begins it again whenever it panics.
pub(super) async fn again_after_panics<W: Future<Output = ()>>(name: &'static str, work: impl Fn() -> W) {
    while AssertUnwindSafe(work()).catch_unwind().await.is_err() {
        tracing::error!(task = name, "a background task panicked; it begins again in a second");
        sleep(RESTART_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_background_task_that_panics_begins_again() {
        let begun = AtomicUsize::new(0);
        let work = || async { assert!(begun.fetch_add(1, Ordering::Relaxed) == 2, "the first two panic") };
        again_after_panics("test", work).await;
        assert_eq!(begun.into_inner(), 3);
    }
}
