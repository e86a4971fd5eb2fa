//! What may be asked of the runtime: commands for a thread's task, and a few things that only this process knows.

use std::future::Future;
use std::sync::Arc;

use tokio::task::JoinHandle;

use super::Runtime;
use super::command::{Audited, Command, CommitExtras, Decided, ProfileEdit, Refusal};
use super::waiters::Waiter;
use crate::domain::Millis;
use crate::domain::console_urls::ConsoleUrls;
use crate::domain::fault::Fault;
use crate::domain::ids::{Mint, RunId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::run::{Run, RunResource};
use crate::domain::trace::TraceOrigin;
use crate::engine::Core;
use crate::engine::event::Event;
use crate::engine::step::{Row, Step};
use crate::store::NewThread;
use crate::traces::Traces;

impl Runtime {
    /// Has the thread's task decide, and commit what comes of it together with `extras`.
    pub(crate) async fn decide(&self, pk: ThreadPk, event: Event, extras: CommitExtras) -> Result<Decided, Refusal> {
        let (event, extras) = (Arc::new(event), Box::new(extras));
        self.0.ask(pk, |reply| Command::Decide { event, extras, reply }).await
    }

    /// Edits the thread's profile: `edit` is asked again whenever somebody else wrote the thread meanwhile.
    pub(crate) async fn edit_profile(&self, pk: ThreadPk, edit: ProfileEdit) -> Result<(), Refusal> {
        self.0.ask(pk, |reply| Command::EditProfile { edit, reply }).await
    }

    /// Has the thread read and looked after. Runs of it that cannot be read end by that.
    pub(crate) async fn look_after(&self, pk: ThreadPk) -> Result<(), Refusal> {
        self.0.wake(pk).await
    }

    /// Stores a row of the thread that no decision writes: a push receiver, how long the thread is kept.
    pub(crate) async fn keep_row(&self, pk: ThreadPk, row: Row, audit: Option<Audited>) -> Result<(), Refusal> {
        self.0.ask(pk, |reply| Command::Keep { row, audit, reply }).await
    }

    /// Stops everything of the thread and erases it, on behalf of `by`.
    pub(crate) async fn delete(&self, pk: ThreadPk, by: String) -> Result<(), Refusal> {
        self.0.ask(pk, |reply| Command::Delete { by, reply }).await
    }

    /// Erases the thread if it is at rest, not on hold, and nobody used it since `before`; whether it did.
    pub(crate) async fn expire(&self, pk: ThreadPk, before: Millis) -> Result<bool, Refusal> {
        self.0.ask(pk, |reply| Command::Expire { before, by: None, reply }).await
    }

    /// The same on behalf of `by`, and at once.
    pub(crate) async fn delete_unused(&self, pk: ThreadPk, before: Millis, by: String) -> Result<bool, Refusal> {
        self.0.ask(pk, |reply| Command::Expire { before, by: Some(by), reply }).await
    }

    /// What this event makes of a new thread whose log ends with `last_seq`. Nothing is stored.
    pub(crate) fn decided_anew(&self, new: &NewThread, last_seq: i64, event: Event) -> Result<Step, Refusal> {
        self.0.decided_anew(new, last_seq, event)
    }

    /// Waits until this process deletes a thread, if it did not since this was asked last.
    pub(crate) async fn erased(&self) {
        self.0.erased.notified().await;
    }

    /// Waits for a run: every change from now on is notified. Read the run after this call, not before.
    pub(crate) fn wait_on(&self, run: &RunId) -> Waiter {
        self.0.waiters.join(run)
    }

    /// Refuses what would start or change something once the server is stopping.
    pub(crate) fn accepting(&self) -> Result<(), Fault> {
        self.0.accepting()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.0.draining.is_cancelled()
    }

    /// Whether effects may start in this process now.
    pub(crate) fn holds_lease(&self) -> bool {
        self.0.lease_keeper.hold().is_some()
    }

    /// The names of all agent cores.
    pub(crate) fn cores(&self) -> Vec<String> {
        self.0.cores.iter().map(|core| core.name().to_owned()).collect()
    }

    pub(crate) fn core(&self, name: &str) -> Result<&Arc<dyn Core>, Fault> {
        self.0.core(name)
    }

    /// A key that no thread ever had.
    pub(crate) fn new_pk(&self) -> ThreadPk {
        self.0.new_pk()
    }

    pub(crate) fn now(&self) -> Millis {
        self.0.now()
    }

    pub(crate) fn mint(&self) -> Mint {
        self.0.mint()
    }

    /// What a new run says of its trace to whatever it calls; as its caller said it, where no collector is told.
    pub(crate) fn marked(&self, trace_id: &str, origin: TraceOrigin) -> TraceOrigin {
        match &self.0.traces {
            Some(traces) => traces.marked(trace_id, origin),
            None => origin,
        }
    }

    pub(crate) fn traces(&self) -> Option<&Arc<Traces>> {
        self.0.traces.as_ref()
    }

    /// Where this server is listened for, once that is known; `is_public`: as it is configured.
    pub(crate) fn served_at(&self, base: String, is_public: bool) {
        // The first address is the one that agents are told of.
        if let Some(urls) = ConsoleUrls::of(&base, is_public) {
            self.0.console_urls.set(urls).ok();
        }
        self.0.base.set(base).ok();
    }

    /// Where people find things in the page, if an address is known.
    pub(crate) fn console_urls(&self) -> Option<&ConsoleUrls> {
        self.0.console_urls()
    }

    /// The same for what other agents are told: a task is the same at every process.
    pub(crate) fn public_console_urls(&self) -> Option<&ConsoleUrls> {
        self.0.public_console_urls()
    }

    /// A run as clients see it.
    pub(crate) fn resource(&self, run: &Run, answer: Option<ConversationMessage>) -> RunResource {
        self.0.resource(run, answer)
    }

    /// Works until the server drains.
    pub(crate) fn spawn_until_drain(&self, work: impl Future<Output = ()> + Send + 'static) {
        let draining = self.0.draining.clone();
        self.0.tasks.spawn(async move { draining.run_until_cancelled(work).await });
    }

    /// Works on while the server drains, which waits for it until the drain's time is up. `None`: it was.
    pub(crate) fn spawn_until_halt<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<Option<T>> {
        let halted = self.0.halted.clone();
        self.0.tasks.spawn(async move { halted.run_until_cancelled(work).await })
    }
}
