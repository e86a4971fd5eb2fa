//! Who decided what: lines written in the transaction of what they tell about.

use serde_json::{Value, json};

use crate::domain::Millis;
use crate::domain::ids::ThreadPk;
use crate::domain::observation::{ObservationType, Record};
use crate::store::{AuditRow, ThreadRow};

/// A line of a thread.
pub(crate) fn line(thread: &ThreadRow, at: Millis, actor: &str, action: &str, detail: Value) -> AuditRow {
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
