//! Whether the arguments that are stored of a call are those that its line of the audit tells of.

use serde_json::Value;

use super::Checked;
use crate::domain::digest;
use crate::domain::hitl::Suspension;
use crate::domain::ids::ThreadPk;
use crate::domain::tool::CallRecord;
use crate::engine::step::RowKind;
use crate::runtime::inline;
use crate::runtime::rows::legible;
use crate::service::pages::Entries;
use crate::store::{ChainedLine, PageAsk, Result, Store};

/// How many questions of a thread are read at once.
const CHUNK: u32 = 100;

/// A line with the digest of a call, whose thread is there: what is stored has this digest, as it was asked for or as a
/// person made it. Where several people changed it one after the other, those in between were shown by its questions.
pub(super) async fn check(store: &dyn Store, chained: &ChainedLine) -> Result<Checked> {
    let detail = &chained.line.detail;
    let (Some(call), Some(told)) = (detail["callId"].as_str(), detail["digest"].as_str()) else { return Ok(Ok(())) };
    let Some(row) = store.row(chained.line.thread, RowKind::Call, call).await? else { return Ok(Ok(())) };
    let (n, thread) = (chained.n, chained.line.thread_id.as_ref().map_or("", |id| id.as_str()));
    let stored: Option<Value> = serde_json::from_str(&row.body).ok();
    let whole = match stored {
        Some(stored) => inline::whole(store, chained.line.thread, stored).await?,
        None => Value::Null,
    };
    let Ok(record) = serde_json::from_value::<CallRecord>(whole) else {
        return Ok(Err(format!(
            "the call {call} of thread {thread}, of which line {n} tells, cannot be read any more"
        )));
    };
    let of = |arguments: &Value| digest::of_call(&record.tool_name, arguments) == told;
    if of(&record.arguments) || record.modified_arguments.as_ref().is_some_and(of) {
        return Ok(Ok(()));
    }
    if !record.edited_by.is_empty() && was_shown(store, chained.line.thread, &record, told).await? {
        return Ok(Ok(()));
    }
    Ok(Err(format!(
        "the stored arguments of the call {call} of thread {thread} were changed: they are not those of which line {n} tells"
    )))
}

/// Whether one of the questions that the call led to shows arguments with this digest.
async fn was_shown(store: &dyn Store, thread: ThreadPk, record: &CallRecord, told: &str) -> Result<bool> {
    let mut rows = Entries::from(PageAsk { limit: CHUNK, ..PageAsk::default() }, |page| async move {
        store.rows(thread, RowKind::Suspension, false, &page).await
    });
    while let Some(row) = rows.next().await? {
        let Some(question) = legible::<Suspension>(&row) else { continue };
        let Some(shown) = question.tool_input.filter(|_| question.call_id.as_ref() == Some(&record.call_id)) else {
            continue;
        };
        if digest::of_call(&record.tool_name, &inline::whole(store, thread, shown).await?) == told {
            return Ok(true);
        }
    }
    Ok(false)
}
