//! Who decided what: lines written in the transaction of what they tell about, and read back here.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};

use super::{Result, Runtime};
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::ids::{ThreadId, ThreadPk};
use crate::domain::observation::{ObservationType, Record};
use crate::domain::thread::ThreadProfile;
use crate::store::{AuditRow, Page, PageAsk, ThreadRow};

/// Who did what, and when.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct AuditLine {
    pub at: Millis,
    /// A key's name; `policy` and `timer` are the server itself.
    pub actor: String,
    pub action: String,
    pub detail: Value,
}

impl From<AuditRow> for AuditLine {
    fn from(row: AuditRow) -> Self {
        Self { at: row.at, actor: row.actor, action: row.action, detail: row.detail }
    }
}

impl Runtime {
    /// Who decided what on this thread, oldest first: also when it was erased, and of all that had its id.
    pub async fn audit(&self, caller: &Caller, id: &ThreadId) -> Result<Vec<AuditLine>> {
        let lines = self.0.reads.audit(caller.tenant, id).await?;
        if lines.is_empty() {
            self.row(caller, id).await?;
        }
        Ok(lines.into_iter().map(AuditLine::from).collect())
    }

    /// Who configured what of the caller's tenant, made its keys and erased its threads; newest first.
    pub async fn audit_of_tenant(&self, caller: &Caller, page: PageAsk) -> Result<Page<AuditLine>> {
        let page = self.0.reads.audit_of_tenant(caller.tenant, &page).await?;
        let items = page.items.into_iter().map(AuditLine::from).collect();
        Ok(Page { items, next_cursor: page.next_cursor })
    }
}

/// A line of a thread.
pub(super) fn line(thread: &ThreadRow, at: Millis, actor: &str, action: &str, detail: Value) -> AuditRow {
    AuditRow {
        tenant: thread.tenant,
        thread: thread.pk,
        thread_id: Some(thread.thread_id.clone()),
        at,
        actor: actor.to_owned(),
        action: action.to_owned(),
        detail,
    }
}

/// That it is erased: a line of its tenant, too.
pub(super) fn erased(thread: &ThreadRow, at: Millis, actor: &str) -> AuditRow {
    let detail = json!({ "threadId": thread.thread_id, "lastSeq": thread.last_seq, "createdBy": thread.created_by });
    AuditRow { thread: ThreadPk::NONE, ..line(thread, at, actor, "delete thread", detail) }
}

/// That somebody changed the thread, and what of it; its `toolPolicy` in full, as it says who must be asked. `None`: all is
/// as it was.
pub(super) fn patched(thread: &ThreadRow, sheet: &ThreadProfile, at: Millis, actor: &str) -> Option<AuditRow> {
    let old = &thread.sheet;
    let mut changed = differing(&json!(old.config), &json!(sheet.config), "/config/");
    changed.extend((old.title != sheet.title).then(|| "/title".to_owned()));
    changed.extend((old.metadata != sheet.metadata).then(|| "/metadata".to_owned()));
    let mut detail = json!({ "changed": changed });
    if old.config.tool_policy != sheet.config.tool_policy {
        detail["toolPolicy"] = json!(sheet.config.tool_policy);
    }
    (!changed.is_empty()).then(|| line(thread, at, actor, "patch thread", detail))
}

/// The members that two objects do not have alike, in the order of their names.
fn differing(old: &Value, new: &Value, place: &str) -> Vec<String> {
    let names = [old, new].into_iter().filter_map(Value::as_object).flat_map(|object| object.keys());
    let names: BTreeSet<&String> = names.filter(|name| old.get(name) != new.get(name)).collect();
    names.into_iter().map(|name| format!("{place}{name}")).collect()
}

/// What people, the policy and the timer decided by what is recorded here. Calls that simply run are in the log alone.
pub(super) fn lines(thread: &ThreadRow, records: &[Record]) -> Vec<AuditRow> {
    records.iter().filter_map(|record| told(thread, record)).collect()
}

fn told(thread: &ThreadRow, record: &Record) -> Option<AuditRow> {
    let ruling = record.metadata.as_ref().and_then(|metadata| metadata.get("policy"));
    let content = &record.content;
    let (actor, action) = if record.kind == ObservationType::AgentResumed {
        (content["decidedBy"].as_str()?, content["decision"].as_str()?)
    } else if record.kind == ObservationType::SuspensionTimeout {
        ("timer", content["policy"].as_str()?)
    } else if (record.kind == ObservationType::AgentSuspended && content["kind"] == "approval")
        || (record.kind == ObservationType::ToolExecution && ruling?["action"] == "deny")
    {
        ("policy", ruling?["action"].as_str()?)
    } else {
        return None;
    };
    let mut detail = json!({ "runId": record.run_id });
    for name in ["suspensionId", "kind", "callId", "toolName", "digest", "reason"] {
        if let Some(value) = content.get(name) {
            detail[name] = value.clone();
        }
    }
    if let Some(ruling) = ruling {
        detail["rule"] = ruling["rule"].clone();
        detail["scope"] = ruling["scope"].clone();
    }
    Some(line(thread, record.timestamp, actor, action, detail))
}
