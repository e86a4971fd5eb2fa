//! Reads a thread's state, messages and calls from the store.

use serde_json::{Map, Value};

use super::row;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{CallId, MessageId, ThreadId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::thread::AgentState;
use crate::engine::event::{Event, PersonEvent};
use crate::engine::step::RowKind;
use crate::runtime::CommitExtras;
use crate::runtime::rows::read;
use crate::service::{Result, Service, fork, pages};
use crate::store::{self, Page, PageAsk, RowKey, ThreadRow};

/// `PESAgentStateData`, now or as of an observation.
pub async fn state(service: &Service, caller: &Caller, id: &ThreadId, at: Option<i64>) -> Result<Value> {
    let row = row(service, caller, id).await?;
    match at {
        Some(seq) => fork::state_at(service, &row, seq).await,
        None => {
            let snapshot = service.runtime.snapshot(row.pk).await?;
            with_row_fields(service, &snapshot.row, snapshot.view()).await
        }
    }
}

/// The application's own state.
pub async fn agent_state(service: &Service, caller: &Caller, id: &ThreadId) -> Result<AgentState> {
    let thread = row(service, caller, id).await?;
    let row = service.reads.row(thread.pk, RowKind::AgentState, "").await?;
    Ok(row.as_ref().map(read).transpose()?.unwrap_or_else(no_state))
}

/// Replaces the application state; with `if_match`, only if that is still its version.
pub async fn put_agent_state(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    data: Value,
    if_match: Option<i64>,
) -> Result<AgentState> {
    service.runtime.accepting()?;
    let row = row(service, caller, id).await?;
    let event = Event::Person(PersonEvent::StatePut { data, expected: if_match, by: caller.name.clone() });
    let extras = CommitExtras::audited(caller.name.clone(), "put agent state", Value::Null);
    match service.runtime.decide(row.pk, event, extras).await?.agent_state {
        Some(state) => Ok(state),
        None => agent_state(service, caller, id).await,
    }
}

/// The conversation, oldest first, without what was superseded.
pub async fn messages(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    page: PageAsk,
) -> Result<Page<ConversationMessage>> {
    let thread = row(service, caller, id).await?;
    let page = service.reads.messages(thread.pk, &page).await?.try_map(|row| read::<ConversationMessage>(&row))?;
    let mut page = pages::within_bytes(&*service.reads, page, |message| metadata_payloads(thread.pk, message)).await?;
    for message in &mut page.items {
        message.metadata = metadata_with_payloads(service, thread.pk, message.metadata.take()).await?;
    }
    Ok(page)
}

/// The payloads in the metadata of a message.
pub(crate) fn metadata_payloads(pk: ThreadPk, message: &ConversationMessage) -> Vec<RowKey> {
    pages::payloads_of(pk, message.metadata.iter().flat_map(|metadata| metadata.values()))
}

/// The newest messages of the conversation before this one, or of all, newest first, without what was superseded. If they are
/// large there are fewer than `limit`, but at least one. Messages that cannot be read are left out.
pub async fn newest_messages(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    before: Option<&MessageId>,
    limit: u32,
) -> Result<Vec<ConversationMessage>> {
    let thread = row(service, caller, id).await?;
    // No message has an empty id.
    let before = before.cloned().unwrap_or_else(|| MessageId::from(""));
    let mut messages = service.reads.history(thread.pk, &before, limit, store::MAX_PAGE_BYTES).await?;
    messages.reverse();
    let metadata = pages::sizes(&*service.reads, &messages, |message| metadata_payloads(thread.pk, message)).await?;
    let sizes = messages.iter().zip(metadata).map(|(message, metadata)| message.content.len() as u64 + metadata);
    let most = store::fitting(sizes, store::MAX_PAGE_BYTES);
    messages.truncate(most);
    for message in &mut messages {
        message.metadata = metadata_with_payloads(service, thread.pk, message.metadata.take()).await?;
    }
    Ok(messages)
}

/// The metadata of a message, with its payloads.
pub(crate) async fn metadata_with_payloads(
    service: &Service,
    pk: ThreadPk,
    metadata: Option<Map<String, Value>>,
) -> Result<Option<Map<String, Value>>> {
    let Some(metadata) = metadata else { return Ok(None) };
    match service.with_payloads(pk, Value::Object(metadata)).await? {
        Value::Object(metadata) => Ok(Some(metadata)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Ok(None),
    }
}

/// One tool call, with its payloads.
pub async fn tool_call(service: &Service, caller: &Caller, id: &ThreadId, call: &CallId) -> Result<Value> {
    let thread = row(service, caller, id).await?;
    let row = service.reads.row(thread.pk, RowKind::Call, call.as_str()).await?;
    let row = row.ok_or_else(|| Fault::not_found("tool call"))?;
    Ok(service.with_payloads(thread.pk, read(&row)?).await?)
}

/// Adds the payloads to a view, and the fields of which the thread's row has the current values.
async fn with_row_fields(service: &Service, row: &ThreadRow, view: Value) -> Result<Value> {
    let mut view = service.with_payloads(row.pk, view).await?;
    let Some(fields) = view.as_object_mut() else {
        return Err(Fault::new(Code::Internal, "The thread's state cannot be shown."));
    };
    fields.insert("lastSeq".to_owned(), row.last_seq.into());
    fields.insert("minSeq".to_owned(), row.min_seq.into());
    fields.insert("status".to_owned(), row.status.as_str().into());
    Ok(view)
}

fn no_state() -> AgentState {
    AgentState { data: Value::Object(Default::default()), version: 0 }
}
