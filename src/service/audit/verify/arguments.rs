//! Checks that the stored arguments of a call are those whose digest is in the call's audit line.

use serde_json::Value;

use super::stop::Stop;
use crate::domain::digest;
use crate::domain::hitl::Decision;
use crate::domain::ids::ThreadPk;
use crate::domain::tool::{COPIED, CallRecord};
use crate::engine::step::{Row, RowKind};
use crate::runtime::inline;
use crate::service::pages::Entries;
use crate::store::{self, AuditRow, ChainedLine, PageAsk, Store};

/// Lines of a thread that are read at once.
const PAGE: u32 = 500;

/// Checks a line with the digest of a call, if the thread still exists. The digest must be that of the stored arguments, as
/// the model requested them or as a person changed them. Those in between, if several people changed them, are not stored.
pub(super) async fn check(store: &dyn Store, chained: &ChainedLine) -> Result<(), Stop> {
    let detail = &chained.line.detail;
    let (Some(call), Some(expected)) = (detail["callId"].as_str(), detail["digest"].as_str()) else {
        return Ok(());
    };
    let Some((pk, row)) = stored_call(store, &chained.line, call).await? else { return Ok(()) };
    let (n, thread) = (chained.n, chained.line.thread_id.as_ref().map_or("", |id| id.as_str()));
    let stored: Option<Value> = serde_json::from_str(&row.body).ok();
    let whole = match stored {
        Some(stored) => inline::with_payloads(store, pk, stored).await?,
        None => Value::Null,
    };
    let Ok(record) = serde_json::from_value::<CallRecord>(whole) else {
        let why = format!("the call {call} of thread {thread}, of which line {n} tells, cannot be read any more");
        return Err(why.into());
    };
    // A thread that was imported under the id of a deleted one has copies of its calls.
    if pk != chained.line.thread && record.epoch == Some(COPIED) {
        return Ok(());
    }
    let of = |arguments: &Value| digest::of_call(&record.tool_name, arguments) == expected;
    if of(&record.arguments) || record.modified_arguments.as_ref().is_some_and(of) {
        return Ok(());
    }
    if are_in_between(store, &chained.line).await? {
        return Ok(());
    }
    let why = format!(
        "the stored arguments of the call {call} of thread {thread} were changed: they are not those of which line {n} tells"
    );
    Err(why.into())
}

/// The call, and its thread. The id of the thread in the line is hashed, and its key is not: the key counts only if no thread
/// has the id.
async fn stored_call(store: &dyn Store, line: &AuditRow, call: &str) -> store::Result<Option<(ThreadPk, Row)>> {
    let thread = match &line.thread_id {
        Some(id) => store.thread(line.tenant, id).await?,
        None => None,
    };
    let pk = thread.map_or(line.thread, |thread| thread.pk);
    Ok(store.row(pk, RowKind::Call, call).await?.map(|row| (pk, row)))
}

/// Whether a person had made these arguments, and another person then made others of them, as the audit says. Its last lines
/// may not be chained yet.
async fn are_in_between(store: &dyn Store, line: &AuditRow) -> store::Result<bool> {
    let (tenant, Some(thread)) = (line.tenant, &line.thread_id) else { return Ok(false) };
    let mut lines = Entries::from(PageAsk::first(PAGE), |page| async move { store.audit(tenant, thread, &page).await });
    let mut was_made = false;
    while let Some(other) = lines.next().await? {
        if other.action == Decision::Modified.as_str() && other.detail["callId"] == line.detail["callId"] {
            if was_made {
                return Ok(true);
            }
            was_made = other.detail["digest"] == line.detail["digest"];
        }
    }
    Ok(false)
}
