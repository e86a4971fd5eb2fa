//! Looking at a thread: its state, messages, calls, and the tenant's inbox. Everything is read from the store.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::command::CommitExtras;
use super::runs::{legible, read};
use super::{Result, Runtime};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{CallId, ThreadId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::thread::AgentState;
use crate::domain::tool::ToolSpec;
use crate::engine::event::{Event, PersonEvent};
use crate::engine::step::{Row, RowKind};
use crate::engine::{Loaded, Machine};
use crate::mcp;
use crate::provider::{self, ModelInfo};
use crate::store::{self, Page, PageAsk, ThreadRow};

impl Runtime {
    /// `PESAgentStateData`, now or as of an observation.
    pub async fn state(&self, caller: &Caller, id: &ThreadId, at: Option<i64>) -> Result<Value> {
        let row = self.row(caller, id).await?;
        match at {
            Some(seq) => self.state_at(&row, seq).await,
            None => {
                let (row, view) = self.view(&row).await?;
                self.dressed(&row, view).await
            }
        }
    }

    /// The application's own state.
    pub async fn agent_state(&self, caller: &Caller, id: &ThreadId) -> Result<AgentState> {
        let thread = self.row(caller, id).await?;
        let row = self.0.reads.row(thread.pk, RowKind::AgentState, "").await?;
        Ok(row.as_ref().map(read).transpose()?.unwrap_or_else(no_state))
    }

    /// Replaces the application state; with `if_match`, only if that is still its version.
    pub async fn put_agent_state(
        &self,
        caller: &Caller,
        id: &ThreadId,
        data: Value,
        if_match: Option<i64>,
    ) -> Result<AgentState> {
        self.0.accepting()?;
        let row = self.row(caller, id).await?;
        let event = Event::Person(PersonEvent::StatePut { data, expected: if_match, by: caller.name.clone() });
        let extras = CommitExtras {
            audit: Some((caller.name.clone(), "put agent state", Value::Null)),
            ..CommitExtras::default()
        };
        match self.decide(row.pk, event, extras).await?.agent_state {
            Some(state) => Ok(state),
            None => self.agent_state(caller, id).await,
        }
    }

    /// The conversation, oldest first.
    pub async fn messages(&self, caller: &Caller, id: &ThreadId, page: PageAsk) -> Result<Page<ConversationMessage>> {
        let thread = self.row(caller, id).await?;
        let page = self.0.reads.rows(thread.pk, RowKind::Message, false, &page).await?;
        let mut items: Vec<ConversationMessage> = page.items.iter().map(read).collect::<store::Result<_>>()?;
        for message in &mut items {
            message.metadata = self.whole(thread.pk, message.metadata.take()).await?;
        }
        Ok(Page { items, next_cursor: page.next_cursor })
    }

    /// What a message carries, with its payloads.
    pub(super) async fn whole(
        &self,
        pk: ThreadPk,
        metadata: Option<Map<String, Value>>,
    ) -> Result<Option<Map<String, Value>>> {
        let Some(metadata) = metadata else { return Ok(None) };
        match self.0.shown(pk, Value::Object(metadata)).await? {
            Value::Object(metadata) => Ok(Some(metadata)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Ok(None),
        }
    }

    /// Open suspensions of the tenant, oldest first.
    pub async fn suspensions(&self, caller: &Caller, page: PageAsk) -> Result<Page<Value>> {
        let page = self.0.reads.open_suspensions(caller.tenant, &page).await?;
        let mut items = Vec::with_capacity(page.items.len());
        for found in page.items {
            let Some(open) = legible(&found.row) else { continue };
            items.push(self.0.shown(found.pk, open).await?);
        }
        Ok(Page { items, next_cursor: page.next_cursor })
    }

    /// One tool call, whole.
    pub async fn tool_call(&self, caller: &Caller, id: &ThreadId, call: &CallId) -> Result<Value> {
        let thread = self.row(caller, id).await?;
        let row = self.0.reads.row(thread.pk, RowKind::Call, call.as_str()).await?;
        let row = row.ok_or_else(|| Fault::not_found("tool call"))?;
        Ok(self.0.shown(thread.pk, read(&row)?).await?)
    }

    /// Every model with whether it answers now; each is asked for a word, with the caller's tenant's keys.
    pub async fn checked_models(&self, caller: &Caller) -> Vec<ModelInfo> {
        provider::check(&*self.0.models, &caller.tenant_name).await
    }

    /// What the caller's agents may call.
    pub fn tools(&self, caller: &Caller) -> Vec<Arc<ToolSpec>> {
        self.0.tools.toolset(caller.tenant).specs()
    }

    /// The MCP servers, and what a tenant's administrator does with them.
    pub fn mcp(&self) -> &Arc<mcp::Catalog> {
        &self.0.mcp
    }

    /// The engine's view, with payload references, and the row it was made from.
    pub(super) async fn view(&self, row: &ThreadRow) -> Result<(ThreadRow, Value)> {
        let (row, machine) = self.loaded(row).await?;
        Ok((row, machine.view()))
    }

    /// The thread's state as it is stored, to look at.
    pub(super) async fn loaded(&self, row: &ThreadRow) -> Result<(ThreadRow, Box<dyn Machine>)> {
        let (row, rows) = self.0.reads.load(row.pk).await?.ok_or_else(|| Fault::not_found("thread"))?;
        let machine = self.machine(&row, rows)?;
        Ok((row, machine))
    }

    fn machine(&self, row: &ThreadRow, rows: Vec<Row>) -> Result<Box<dyn Machine>> {
        let loaded =
            Loaded { thread_id: Some(row.thread_id.clone()), head: row.head.clone(), rows, last_seq: row.last_seq };
        self.0.core(&row.core)?.load(loaded)
    }

    /// A view with its payloads, and what the thread's row knows better.
    pub(super) async fn dressed(&self, row: &ThreadRow, view: Value) -> Result<Value> {
        let mut view = self.0.shown(row.pk, view).await?;
        let Some(fields) = view.as_object_mut() else {
            return Err(Fault::new(Code::Internal, "The thread's state cannot be shown."));
        };
        fields.insert("lastSeq".to_owned(), row.last_seq.into());
        fields.insert("minSeq".to_owned(), row.min_seq.into());
        fields.insert("status".to_owned(), row.status.as_str().into());
        Ok(view)
    }
}

fn no_state() -> AgentState {
    AgentState { data: Value::Object(Default::default()), version: 0 }
}
