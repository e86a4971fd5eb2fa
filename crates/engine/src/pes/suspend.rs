//! Questions to people: a slot is parked, and everything that an answer needs is stored with the question.

use serde_json::Value;

use super::batch::only_reads;
use super::transition::Transition;
use crate::domain::Millis;
use crate::domain::hitl::{
    Decision, ExpiryPolicy, FeedbackSchema, InputType, Resolution, RiskLevel, SelectOption, Suspension, SuspensionKind,
    SuspensionStatus,
};
use crate::domain::ids::{CallId, SuspensionId};
use crate::domain::policy::Terms;
use crate::domain::task::Delegation;
use crate::domain::tool::{CallStatus, Judgement};
use crate::step::Keep;

/// What a person made of a call.
pub(super) struct Modified {
    pub arguments: Value,
    /// Of tool and arguments.
    pub digest: String,
    /// What is to be said of it with these arguments.
    pub judgement: Judgement,
    /// Who edited them.
    pub by: String,
}

/// What is asked about a call once more, as its arguments were edited.
pub(super) struct Anew {
    pub modified: Modified,
    pub message: String,
    pub schema: FeedbackSchema,
    pub risk: Option<RiskLevel>,
}

/// Nobody is reminded more often.
const LEAST_PATIENCE: Millis = 1_000;

impl Transition<'_> {
    pub fn park_for_approval(
        &mut self,
        call: &CallId,
        message: String,
        schema: FeedbackSchema,
        risk: Option<RiskLevel>,
    ) {
        self.park(call, SuspensionKind::Approval, message, schema, risk);
    }

    pub fn park_for_input(&mut self, call: &CallId, message: String, schema: FeedbackSchema) {
        self.park(call, SuspensionKind::Input, message, schema, None);
    }

    /// The caller's own program carries it out; what it answers is the result.
    pub fn park_for_client(&mut self, call: &CallId) {
        let tool = self.tool_of(call);
        let message = format!("Carry out {tool} with these arguments and answer with its result.");
        let schema = FeedbackSchema {
            input_type: InputType::Custom,
            prompt: message.clone(),
            options: Vec::new(),
            allow_modify_args: false,
            custom_schema: None,
        };
        self.park(call, SuspensionKind::ClientTool, message, schema, None);
    }

    /// Whether the call had its effect is not known: a person decides.
    pub fn park_in_doubt(&mut self, call: &CallId, why: &str) {
        let tool = self.tool_of(call);
        let message = format!("{why} {tool} may have had its effect.");
        let options = ["retry", "done", "skip", "abort"];
        let schema = FeedbackSchema {
            input_type: InputType::Select,
            prompt: "Retry it, mark it done with a value, skip it, or abort the step?".into(),
            options: options.map(|o| SelectOption { value: o.into(), label: o.into() }).to_vec(),
            allow_modify_args: false,
            custom_schema: None,
        };
        self.park(call, SuspensionKind::InDoubt, message, schema, None);
    }

    pub fn park(
        &mut self,
        call: &CallId,
        kind: SuspensionKind,
        message: String,
        schema: FeedbackSchema,
        risk: Option<RiskLevel>,
    ) {
        let now = self.stamp.now;
        self.call(call, |call| {
            call.record.status = CallStatus::Parked;
            call.record.updated_at = now;
        });
        if let Some(suspension) = self.question_about(call, kind, message, schema, risk) {
            self.open_suspension(suspension);
        }
    }

    /// A question about a call, on the terms of the rule that was applied to it.
    pub fn question_about(
        &mut self,
        call: &CallId,
        kind: SuspensionKind,
        message: String,
        schema: FeedbackSchema,
        risk: Option<RiskLevel>,
    ) -> Option<Suspension> {
        let record = self.state.calls.get(call)?.record.clone();
        let input = record.modified_arguments.unwrap_or(record.arguments);
        let terms = record.policy.as_ref().filter(|_| kind != SuspensionKind::ClientTool);
        let terms = terms.map(|ruling| ruling.terms.clone()).unwrap_or_default();
        Some(Suspension {
            digest: record.digest,
            policy: record.policy,
            item_id: record.item_id,
            call_id: Some(record.call_id),
            tool_name: Some(record.tool_name),
            tool_input: Some(input),
            risk_level: risk,
            ..self.question_on(kind, message, schema, &terms)
        })
    }

    /// A question of this run, with the run's expiry.
    pub fn question(&mut self, kind: SuspensionKind, message: String, schema: FeedbackSchema) -> Suspension {
        self.question_on(kind, message, schema, &Terms::default())
    }

    /// Where the terms say nothing about its expiry, the run's settings do.
    fn question_on(
        &mut self,
        kind: SuspensionKind,
        message: String,
        schema: FeedbackSchema,
        terms: &Terms,
    ) -> Suspension {
        let suspension_id = self.mint.suspension();
        let run = self.run();
        let execution = &run.settings.execution;
        let timeout = terms.expires_after_ms.or(execution.suspension_timeout_ms);
        let expiry = terms.on_expiry.unwrap_or(execution.suspension_expiry);
        Suspension {
            suspension_id,
            thread_id: run.thread_id.clone(),
            run_id: run.run_id.clone(),
            kind,
            status: SuspensionStatus::Pending,
            item_id: None,
            call_id: None,
            tool_name: None,
            tool_input: None,
            digest: None,
            plan: None,
            message,
            feedback_schema: schema,
            while_running: false,
            risk_level: None,
            policy: None,
            created_at: self.stamp.now,
            expires_at: timeout.map(|timeout| self.stamp.now + timeout),
            expiry_policy: timeout.map(|_| expiry),
            expires_after_ms: timeout,
            resolution: None,
        }
    }

    pub fn open_suspension(&mut self, suspension: Suspension) {
        if let Some(item) = &suspension.item_id {
            self.keep_opening(item, &suspension.suspension_id);
        }
        let ord = self.ord();
        self.record_suspended(&suspension);
        self.write_suspension(ord, &suspension, Keep::Always);
        self.state.suspensions.insert(ord, suspension);
    }

    /// Resolves it, once; the caller decides what follows.
    pub fn close_suspension(&mut self, id: &SuspensionId, decision: Decision, by: &str, reason: Option<String>) {
        let digest = self.state.suspension(id).and_then(|open| open.digest.clone());
        self.close_bound(id, decision, by, reason, digest);
    }

    /// Resolves it with the digest of what runs now.
    pub fn close_bound(
        &mut self,
        id: &SuspensionId,
        decision: Decision,
        by: &str,
        reason: Option<String>,
        digest: Option<String>,
    ) {
        let Some(ord) = self.ord_of(id) else { return };
        let Some(mut suspension) = self.state.suspensions.remove(&ord) else { return };
        suspension.status = match decision {
            Decision::Expired => SuspensionStatus::Expired,
            Decision::Cancelled => SuspensionStatus::Cancelled,
            Decision::Approved
            | Decision::Modified
            | Decision::Rejected
            | Decision::Answered
            | Decision::Retry
            | Decision::Done
            | Decision::Skip
            | Decision::Abort
            | Decision::Resumed => SuspensionStatus::Resolved,
        };
        suspension.resolution =
            Some(Resolution { decision, decided_by: by.to_owned(), decided_at: self.stamp.now, reason, digest });
        if decision != Decision::Expired {
            self.record_resumed(&suspension, decision, by);
        }
        self.write_suspension(ord, &suspension, Keep::Never);
    }

    fn ord_of(&self, id: &SuspensionId) -> Option<i64> {
        self.state.suspensions.iter().find(|(_, open)| open.suspension_id == *id).map(|(ord, _)| *ord)
    }

    /// Asks once more: the question stays open for as long again.
    pub fn remind(&mut self, id: &SuspensionId) {
        let Some(ord) = self.ord_of(id) else { return };
        let now = self.stamp.now;
        let Some(open) = self.state.suspensions.get_mut(&ord) else { return };
        let patience = open.expires_after_ms.or_else(|| open.expires_at.map(|at| at - open.created_at));
        open.expires_at = Some(now + patience.unwrap_or_default().max(LEAST_PATIENCE));
        let reminded = open.clone();
        self.record_timeout(&reminded, ExpiryPolicy::Remind);
        self.write_suspension(ord, &reminded, Keep::Always);
    }

    /// Empty if there is no such call.
    pub fn tool_of(&self, call: &CallId) -> &str {
        self.state.calls.get(call).map_or("", |call| &call.record.tool_name)
    }

    /// Whether the caller's own program carries this call out.
    fn is_clients(&self, call: &CallId) -> bool {
        self.settings().client_tool(self.tool_of(call)).is_some()
    }

    /// A parked call awaits its turn; one of the caller's own goes to it now.
    pub fn unpark(&mut self, call: &CallId, modified: Option<Box<Modified>>) {
        let now = self.stamp.now;
        if let Some(modified) = modified {
            self.edit_call(call, *modified);
        }
        self.call(call, |call| {
            call.record.status = CallStatus::Ready;
            call.record.retrying = None;
            call.record.updated_at = now;
        });
        if self.is_clients(call) {
            self.park_for_client(call);
        }
    }

    /// Somebody else is asked about the call as it was edited.
    pub fn ask_anew(&mut self, call: &CallId, anew: Anew) {
        let Anew { modified, message, schema, risk } = anew;
        self.edit_call(call, modified);
        self.park_for_approval(call, message, schema, risk);
    }

    /// These arguments take the place of those before.
    fn edit_call(&mut self, call: &CallId, modified: Modified) {
        let Modified { arguments, digest, judgement, by } = modified;
        self.keep_order(call, &judgement);
        // A name of its own for each edit: a payload is never written twice.
        let edits = self.state.calls.get(call).map_or(0, |call| call.record.edited_by.len());
        let name = if edits == 0 { format!("{call}.modified") } else { format!("{call}.modified.{edits}") };
        let stored = self.store(name, arguments.clone());
        self.call(call, |call| {
            let delegation = call.record.delegation.take();
            call.record.delegation = delegation.map(|known| Delegation::new(known.task_id, &arguments));
            call.record.modified_arguments = Some(stored);
            call.record.digest = Some(digest);
            call.record.idempotent = judgement.verdict.is_idempotent();
            call.record.policy = judgement.ruling;
            call.record.edited_by.push(by);
        });
    }

    /// A batch that only read goes one by one from now on if this call does more.
    fn keep_order(&mut self, call: &CallId, judgement: &Judgement) {
        let item = self.state.calls.get(call).and_then(|call| call.record.item_id.clone());
        if let Some(item) = item.filter(|_| !only_reads(&judgement.verdict)) {
            self.work(&item, |work| work.is_together = false);
        }
    }
}
