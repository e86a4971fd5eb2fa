//! Audit rows: who decided what. They are written in the transaction of the decision.

use serde::Serialize;
use serde_json::{Value, json};

use super::actor::{AuditedAction, NewReceiver};
use crate::domain::Millis;
use crate::domain::actor::ServerActor;
use crate::domain::facts::Fact;
use crate::domain::hitl::SuspensionKind;
use crate::domain::ids::{CallId, SuspensionId, ThreadPk};
use crate::domain::observation::Record;
use crate::domain::policy::{RuleScope, Ruling};
use crate::domain::settings::PolicyAction;
use crate::outbox::PushTarget;
use crate::store::{AuditRow, ThreadRow};

/// An audit row of a thread.
pub(crate) fn audit_row(thread: &ThreadRow, at: Millis, actor: &str, action: &str, detail: Value) -> AuditRow {
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

impl AuditedAction {
    pub(super) fn row(&self, thread: &ThreadRow, at: Millis) -> AuditRow {
        audit_row(thread, at, &self.actor, self.action, self.detail.clone())
    }

    /// A change to a push receiver. Only the origin of its URL is recorded: the rest may contain a secret.
    fn on_receiver(actor: &str, action: &'static str, target: &PushTarget) -> Self {
        let detail = json!({ "runId": target.run_id, "id": target.id, "url": target.origin() });
        Self { actor: actor.to_owned(), action, detail }
    }

    pub(crate) fn receiver_deleted(by: &str, target: &PushTarget) -> Self {
        Self::on_receiver(by, "delete push receiver", target)
    }
}

impl NewReceiver {
    pub(crate) fn audited(&self) -> AuditedAction {
        AuditedAction::on_receiver(&self.by, "put push receiver", &self.target)
    }
}

/// The row about an erased thread. It is a row of the tenant, not of the thread.
pub(super) fn erasure_row(thread: &ThreadRow, at: Millis, actor: &str) -> AuditRow {
    let detail = json!({ "threadId": thread.thread_id, "lastSeq": thread.last_seq, "createdBy": thread.created_by });
    AuditRow { thread: ThreadPk::NONE, ..audit_row(thread, at, actor, "delete thread", detail) }
}

/// The decisions of people, the policy and timers among these records. Calls without a decision are only in the log.
pub(super) fn rows(thread: &ThreadRow, records: &[Record]) -> Vec<AuditRow> {
    records.iter().filter_map(|record| row_of(thread, record)).collect()
}

/// What the audit stores about a decision.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Detail<'a> {
    run_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    suspension_id: Option<&'a SuspensionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<SuspensionKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<&'a CallId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<RuleScope>,
}

fn row_of(thread: &ThreadRow, record: &Record) -> Option<AuditRow> {
    let ruling = record.metadata.as_ref().and_then(|metadata| metadata.policy.as_ref());
    let Decided { by, what, detail } = decision(&record.fact, ruling)?;
    let run_id = record.run_id.as_str();
    let (rule, scope) = (ruling.map(|ruling| ruling.rule.as_str()), ruling.map(|ruling| ruling.scope));
    let detail = json!(Detail { run_id, rule, scope, ..detail });
    Some(audit_row(thread, record.timestamp, by, what, detail))
}

/// Who decided what.
struct Decided<'a> {
    by: &'a str,
    what: &'static str,
    detail: Detail<'a>,
}

/// The decision that the fact is, if it is one.
fn decision<'a>(fact: &'a Fact, ruling: Option<&Ruling>) -> Option<Decided<'a>> {
    match fact {
        Fact::AgentResumed(body) => {
            let detail = Detail {
                suspension_id: Some(&body.suspension_id),
                call_id: body.call_id.as_ref(),
                tool_name: body.tool_name.as_deref(),
                digest: body.digest.as_deref(),
                reason: body.reason.as_deref(),
                ..Detail::default()
            };
            Some(Decided { by: &body.decided_by, what: body.decision.as_str(), detail })
        }
        Fact::SuspensionTimeout(body) => {
            let detail = Detail { suspension_id: Some(&body.suspension_id), ..Detail::default() };
            Some(Decided { by: ServerActor::Timer.as_str(), what: body.policy.as_str(), detail })
        }
        // An agent that asks about a call of its own does so by its own policy.
        Fact::AgentSuspended(body) if body.kind == SuspensionKind::Approval && body.remote.is_none() => {
            let detail = Detail {
                suspension_id: Some(&body.suspension_id),
                kind: Some(body.kind),
                call_id: body.call_id.as_ref(),
                tool_name: body.tool_name.as_deref(),
                digest: body.digest.as_deref(),
                ..Detail::default()
            };
            Some(Decided { by: ServerActor::Policy.as_str(), what: ruling?.action.as_str(), detail })
        }
        Fact::ToolExecution(body) if ruling.is_some_and(|ruling| ruling.action == PolicyAction::Deny) => {
            let (call_id, tool_name) = (Some(&body.call_id), Some(body.tool_name.as_str()));
            let detail = Detail { call_id, tool_name, ..Detail::default() };
            Some(Decided { by: ServerActor::Policy.as_str(), what: PolicyAction::Deny.as_str(), detail })
        }
        Fact::AgentSuspended(_)
        | Fact::ToolExecution(_)
        | Fact::RunStarted(_)
        | Fact::Intent(_)
        | Fact::Title(_)
        | Fact::Plan(_)
        | Fact::PlanUpdate(_)
        | Fact::ItemStatusChange(_)
        | Fact::LlmStreamStart(_)
        | Fact::LlmStreamMetadata(_)
        | Fact::LlmStreamEnd(_)
        | Fact::LlmStreamError(_)
        | Fact::Thoughts(_)
        | Fact::ToolCall(_)
        | Fact::A2aTask(_)
        | Fact::StateUpdate(_)
        | Fact::Synthesis(_)
        | Fact::FinalResponse(_)
        | Fact::Error(_)
        | Fact::RunFinished(_) => None,
    }
}
