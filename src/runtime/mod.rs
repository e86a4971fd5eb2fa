//! The runtime: one task per active thread, and everything that callers may ask of it.
//!
//! Every method answers only after what it did is durable. Whoever asks names a [`Caller`]; what belongs to another
//! tenant does not exist for it.

pub mod ask;
pub mod clock;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::hitl::Answer;
use crate::domain::ids::{CallId, RunId, ThreadId};
use crate::domain::message::ConversationMessage;
use crate::domain::run::RunResource;
use crate::domain::thread::{AgentState, Thread};
use crate::domain::tool::ToolSpec;
use crate::provider::ModelInfo;
use crate::store::{Page, PageAsk, ThreadFilter};

pub use ask::*;

type Result<T> = std::result::Result<T, Fault>;

/// A handle to the running process; clones share it.
#[derive(Clone)]
pub struct Runtime;

#[expect(unused_variables, clippy::todo, reason = "the face that http is written against")]
impl Runtime {
    pub async fn create_thread(
        &self,
        caller: &Caller,
        ask: NewThreadAsk,
        idempotent: Option<Idempotent>,
    ) -> Result<Answered<(Thread, bool)>> {
        todo!()
    }
    pub async fn threads(&self, caller: &Caller, filter: ThreadFilter, page: PageAsk) -> Result<Page<Thread>> {
        todo!()
    }
    pub async fn thread(&self, caller: &Caller, id: &ThreadId) -> Result<Thread> {
        todo!()
    }
    pub async fn patch_thread(&self, caller: &Caller, id: &ThreadId, merge_patch: Value) -> Result<Thread> {
        todo!()
    }
    pub async fn delete_thread(&self, caller: &Caller, id: &ThreadId) -> Result<()> {
        todo!()
    }
    pub async fn process(
        &self,
        caller: &Caller,
        id: &ThreadId,
        ask: ProcessAsk,
        idempotent: Option<Idempotent>,
    ) -> Result<Answered<Receipt>> {
        todo!()
    }
    pub async fn resume(
        &self,
        caller: &Caller,
        id: &ThreadId,
        answer: Answer,
        idempotent: Option<Idempotent>,
    ) -> Result<Answered<Receipt>> {
        todo!()
    }
    pub async fn pause(
        &self,
        caller: &Caller,
        id: &ThreadId,
        idempotent: Option<Idempotent>,
    ) -> Result<Answered<Receipt>> {
        todo!()
    }
    pub async fn cancel_thread(&self, caller: &Caller, id: &ThreadId) -> Result<CancelReceipt> {
        todo!()
    }
    pub async fn cancel_run(&self, caller: &Caller, id: &RunId) -> Result<CancelReceipt> {
        todo!()
    }
    pub async fn run(&self, caller: &Caller, id: &RunId) -> Result<RunResource> {
        todo!()
    }
    pub async fn wait_run(&self, caller: &Caller, id: &RunId, at_most: Duration) -> Result<Waited> {
        todo!()
    }
    pub async fn runs(&self, caller: &Caller, id: &ThreadId, page: PageAsk) -> Result<Page<RunResource>> {
        todo!()
    }
    pub async fn messages(&self, caller: &Caller, id: &ThreadId, page: PageAsk) -> Result<Page<ConversationMessage>> {
        todo!()
    }
    pub async fn state(&self, caller: &Caller, id: &ThreadId, at: Option<i64>) -> Result<Value> {
        todo!()
    }
    pub async fn agent_state(&self, caller: &Caller, id: &ThreadId) -> Result<AgentState> {
        todo!()
    }
    pub async fn put_agent_state(
        &self,
        caller: &Caller,
        id: &ThreadId,
        data: Value,
        if_match: Option<i64>,
    ) -> Result<AgentState> {
        todo!()
    }
    /// The todo list and its planVersion.
    pub async fn plan(&self, caller: &Caller, id: &ThreadId) -> Result<(Value, i64)> {
        todo!()
    }
    pub async fn edit_plan(
        &self,
        caller: &Caller,
        id: &ThreadId,
        patch: PlanPatch,
        if_match: i64,
    ) -> Result<(Value, i64)> {
        todo!()
    }
    pub async fn events_page(
        &self,
        caller: &Caller,
        id: &ThreadId,
        after: i64,
        limit: u32,
        types: Vec<crate::domain::observation::ObservationType>,
    ) -> Result<EventsPage> {
        todo!()
    }
    pub async fn fork(
        &self,
        caller: &Caller,
        id: &ThreadId,
        at: Option<i64>,
        new_id: Option<ThreadId>,
        idempotent: Option<Idempotent>,
    ) -> Result<Answered<Thread>> {
        todo!()
    }
    /// Open suspensions of the tenant, oldest first.
    pub async fn suspensions(&self, caller: &Caller, page: PageAsk) -> Result<Page<Value>> {
        todo!()
    }
    pub async fn tool_call(&self, caller: &Caller, id: &ThreadId, call: &CallId) -> Result<Value> {
        todo!()
    }
    pub fn models(&self) -> Vec<ModelInfo> {
        todo!()
    }
    pub fn tools(&self) -> Vec<Arc<ToolSpec>> {
        todo!()
    }
    /// Whether requests can be served; else what fails, a sentence each.
    pub async fn ready(&self) -> std::result::Result<(), Vec<String>> {
        todo!()
    }
    /// Starts nothing any more, waits for what runs (at most `runtime.drain_ms`), gives the leases back.
    pub async fn drain(&self) {
        todo!()
    }
    /// Threads that take a task and memory right now.
    pub fn active_threads(&self) -> usize {
        todo!()
    }
}
