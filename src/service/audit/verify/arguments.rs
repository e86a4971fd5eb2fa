//! Checks that the stored arguments of a call are those whose digest is in the call's audit line.

use serde_json::Value;

use super::Match;
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

/// Checks a line with the digest of a call, if the thread still exists. The digest must be that of the stored arguments, as
/// the model requested them or as a person changed them. If several people changed them, the questions showed those in
/// between.
pub(super) async fn check(store: &dyn Store, chained: &ChainedLine) -> Result<Match> {
    let detail = &chained.line.detail;
    let (Some(call), Some(expected)) = (detail["callId"].as_str(), detail["digest"].as_str()) else {
        return Ok(Ok(()));
    };
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
    let of = |arguments: &Value| digest::of_call(&record.tool_name, arguments) == expected;
    if of(&record.arguments) || record.modified_arguments.as_ref().is_some_and(of) {
        return Ok(Ok(()));
    }
    if !record.edited_by.is_empty() && was_shown(store, chained.line.thread, &record, expected).await? {
        return Ok(Ok(()));
    }
    Ok(Err(format!(
        "the stored arguments of the call {call} of thread {thread} were changed: they are not those of which line {n} tells"
    )))
}

/// Whether one of the questions that the call led to shows arguments with this digest.
async fn was_shown(store: &dyn Store, thread: ThreadPk, record: &CallRecord, expected: &str) -> Result<bool> {
    let mut rows = Entries::from(PageAsk { limit: CHUNK, ..PageAsk::default() }, |page| async move {
        store.rows(thread, RowKind::Suspension, false, &page).await
    });
    while let Some(row) = rows.next().await? {
        let Some(question) = legible::<Suspension>(&row) else { continue };
        let Some(shown) = question.tool_input.filter(|_| question.call_id.as_ref() == Some(&record.call_id)) else {
            continue;
        };
        if digest::of_call(&record.tool_name, &inline::whole(store, thread, shown).await?) == expected {
            return Ok(true);
        }
    }
    Ok(false)
}
