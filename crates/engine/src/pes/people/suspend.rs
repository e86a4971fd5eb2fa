//! Questions to people: a slot is parked, and everything that an answer needs is stored with the question.

use serde_json::Value;

use crate::domain::Millis;
use crate::domain::hitl::{
    ExpiryPolicy, FeedbackSchema, InputType, RemoteAsker, RiskLevel, SelectOption, Suspension, SuspensionKind,
    SuspensionStatus,
};
use crate::domain::ids::{CallId, SuspensionId};
use crate::domain::policy::Terms;
use crate::domain::task::{Delegation, RemoteSubject, Task};
use crate::domain::tool::{CallStatus, Judgement, ToolClass, Verdict};
use crate::pes::people::opening;
use crate::pes::settle::{call, suspension};
use crate::pes::state::State;
use crate::pes::tx::Tx;
use crate::step::Keep;

/// A reminder is never sent more often.
const MIN_REMINDER_INTERVAL: Millis = 1_000;

/// A call with the arguments that a person edited.
pub(crate) struct EditedCall {
    pub arguments: Value,
    /// The digest of tool and arguments.
    pub digest: String,
    /// The judgement of the call with these arguments.
    pub judgement: Judgement,
    /// Who edited them.
    pub by: String,
}

/// A further question about a call whose arguments were edited.
pub(crate) struct NewApproval {
    pub modified: EditedCall,
    pub message: String,
    pub schema: FeedbackSchema,
    pub risk: Option<RiskLevel>,
}

/// What a person is asked.
pub(crate) struct NewQuestion {
    pub kind: SuspensionKind,
    pub message: String,
    pub form: FeedbackSchema,
    pub risk: Option<RiskLevel>,
}

/// Asks whether the call may run. If no risk is given, the tool's own level is used.
pub(crate) fn park_for_approval(
    tx: &mut Tx<'_>,
    call: &CallId,
    message: String,
    form: FeedbackSchema,
    risk: Option<RiskLevel>,
) {
    let risk = risk.or_else(|| declared_risk(tx, call));
    park(tx, call, NewQuestion { kind: SuspensionKind::Approval, message, form, risk });
}

/// The risk that the call's tool declares.
fn declared_risk(tx: &Tx<'_>, call: &CallId) -> Option<RiskLevel> {
    tx.world.tools.declared(tx.state.run_settings(), tx.state.tool_of(call))?.risk_level
}

/// The verdict that a person must be asked first, who may edit the arguments; for a call that would otherwise run.
pub(crate) fn ask_first(class: ToolClass, idempotent: bool, delegates: bool, message: String) -> Verdict {
    let schema = FeedbackSchema { allow_modify_args: true, ..FeedbackSchema::new(InputType::Confirm, message.clone()) };
    Verdict::Ask { class, idempotent, message, schema, risk: None, delegates }
}

/// Asks for the value that is the call's result.
pub(crate) fn park_for_input(tx: &mut Tx<'_>, call: &CallId, message: String, form: FeedbackSchema) {
    park(tx, call, NewQuestion { kind: SuspensionKind::Input, message, form, risk: None });
}

/// Waits for the caller's own program to carry the call out; its answer is the result.
pub(crate) fn park_for_client(tx: &mut Tx<'_>, call: &CallId) {
    let tool = tx.state.tool_of(call);
    let message = format!("Carry out {tool} with these arguments and answer with its result.");
    let form = FeedbackSchema::new(InputType::Custom, message.clone());
    park(tx, call, NewQuestion { kind: SuspensionKind::ClientTool, message, form, risk: None });
}

/// It is not known whether the call had its effect: a person decides.
pub(crate) fn park_in_doubt(tx: &mut Tx<'_>, call: &CallId, why: &str) {
    let tool = tx.state.tool_of(call);
    let message = format!("{}. `{tool}` may have had its effect.", why.trim_end().trim_end_matches('.'));
    let risk = declared_risk(tx, call);
    park(tx, call, NewQuestion { kind: SuspensionKind::InDoubt, message, form: doubt_form(), risk });
}

/// The form of an answer about a call that may have had its effect.
pub(crate) fn doubt_form() -> FeedbackSchema {
    let options = ["retry", "done", "skip", "abort"];
    let prompt = "Retry it, mark it done with a value, skip it, or abort the step?";
    FeedbackSchema {
        options: options.map(|o| SelectOption { value: o.into(), label: o.into() }).to_vec(),
        ..FeedbackSchema::new(InputType::Select, prompt)
    }
}

/// Parks the call until this question is answered.
pub(crate) fn park(tx: &mut Tx<'_>, call: &CallId, question: NewQuestion) {
    tx.set_call_status(call, CallStatus::Parked);
    if let Some(suspension) = question_about(tx, call, question) {
        open(tx, suspension);
    }
}

/// Parks the call of a task until the question of its agent about a call or a plan of the agent's own is answered. The
/// question shows nothing of the delegated call, which is not what is decided.
pub(crate) fn park_for_agent(tx: &mut Tx<'_>, task: &Task, question: NewQuestion, subject: RemoteSubject) {
    tx.set_call_status(&task.call_id, CallStatus::Parked);
    let Some(asked) = question_of_call(tx, &task.call_id, question) else { return };
    let RemoteSubject { tool_name, arguments, class, idempotent, plan, digest, risk_level, expires_at } = subject;
    let tool_input = arguments.map(|arguments| tx.store(format!("{}.toolInput", asked.suspension_id), arguments));
    let plan = plan.map(|plan| tx.store(format!("{}.plan", asked.suspension_id), plan));
    let (agent_id, task_id, call_id) = (task.agent_id.clone(), task.task_id.clone(), task.call_id.clone());
    let remote = Some(RemoteAsker { agent_id, task_id, call_id, expires_at });
    open(tx, Suspension { tool_name, tool_input, class, idempotent, plan, digest, risk_level, remote, ..asked });
}

/// A question about a call.
pub(crate) fn question_about(tx: &mut Tx<'_>, call: &CallId, question: NewQuestion) -> Option<Suspension> {
    let asked = question_of_call(tx, call, question)?;
    let record = tx.state.calls.get(call)?.record.clone();
    let input = record.modified_arguments.unwrap_or(record.arguments);
    let declared = tx.world.tools.declared(tx.state.run_settings(), &record.tool_name);
    let schema = declared.as_ref().map(|spec| spec.input_schema.clone());
    let input_schema = schema.map(|schema| tx.store(format!("{}.inputSchema", asked.suspension_id), schema));
    Some(Suspension {
        class: record.class.or_else(|| declared.map(|spec| spec.class)),
        idempotent: Some(record.idempotent),
        input_schema,
        digest: record.digest,
        call_id: Some(record.call_id),
        tool_name: Some(record.tool_name),
        tool_input: Some(input),
        ..asked
    })
}

/// A question for whose answer a call waits, on the terms of the policy rule that applies to the call. Nobody is asked for
/// a run that is being cancelled.
fn question_of_call(tx: &mut Tx<'_>, call: &CallId, question: NewQuestion) -> Option<Suspension> {
    if tx.state.is_cancelling() {
        return None;
    }
    let record = &tx.state.calls.get(call)?.record;
    let (policy, item_id) = (record.policy.clone(), record.item_id.clone());
    let terms = policy.as_ref().filter(|_| question.kind != SuspensionKind::ClientTool);
    let terms = terms.map(|ruling| ruling.terms.clone()).unwrap_or_default();
    let asked = question_on(tx, question, &terms);
    Some(Suspension { policy, item_id, ..asked })
}

/// A question of this run, with the run's expiry.
pub(crate) fn question(tx: &mut Tx<'_>, kind: SuspensionKind, message: String, form: FeedbackSchema) -> Suspension {
    question_on(tx, NewQuestion { kind, message, form, risk: None }, &Terms::default())
}

/// A question whose expiry is that of the terms, or else of the run's settings.
fn question_on(tx: &mut Tx<'_>, question: NewQuestion, terms: &Terms) -> Suspension {
    let NewQuestion { kind, message, form, risk } = question;
    let suspension_id = tx.mint.suspension();
    let run = tx.state.active_run();
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
        class: None,
        idempotent: None,
        input_schema: None,
        digest: None,
        plan: None,
        message,
        feedback_schema: form,
        while_running: false,
        risk_level: risk,
        remote: None,
        policy: None,
        created_at: tx.stamp.now,
        expires_at: timeout.map(|timeout| tx.stamp.now + timeout),
        expiry_policy: timeout.map(|_| expiry),
        expires_after_ms: timeout,
        resolution: None,
    }
}

/// Opens a question: it is stored with the prompt that the model saw, and recorded.
pub(crate) fn open(tx: &mut Tx<'_>, suspension: Suspension) {
    if let Some(item) = &suspension.item_id {
        opening::store(tx, item, &suspension.suspension_id);
    }
    let ord = tx.next_ord();
    tx.record_suspended(&suspension);
    tx.write_suspension(ord, &suspension, Keep::Always);
    tx.state.suspensions.insert(ord, suspension);
}

/// Reminds: the question stays open for the same time again.
pub(crate) fn remind(tx: &mut Tx<'_>, id: &SuspensionId) {
    let Some(ord) = tx.state.ord_of_suspension(id) else { return };
    let now = tx.stamp.now;
    let Some(open) = tx.state.suspensions.get_mut(&ord) else { return };
    let patience = open.expires_after_ms.or_else(|| open.expires_at.map(|at| at - open.created_at));
    open.expires_at = Some(now + patience.unwrap_or_default().max(MIN_REMINDER_INTERVAL));
    let reminded = open.clone();
    tx.record_timeout(&reminded, ExpiryPolicy::Remind);
    tx.write_suspension(ord, &reminded, Keep::Always);
}

/// Whether the caller's own program carries this call out.
fn is_client_call(state: &State, call: &CallId) -> bool {
    state.run_settings().client_tool(state.tool_of(call)).is_some()
}

/// Makes a parked call ready; a call of the caller's own tool is sent to the caller now.
pub(crate) fn unpark(tx: &mut Tx<'_>, call: &CallId, modified: Option<Box<EditedCall>>) {
    if let Some(modified) = modified {
        edit_call(tx, call, *modified);
    }
    tx.set_call_status(call, CallStatus::Ready);
    tx.change_call(call, |call| call.record.retrying = None);
    if is_client_call(tx.state, call) {
        park_for_client(tx, call);
    }
}

/// Asks another person about the call with its edited arguments.
pub(crate) fn ask_new_approval(tx: &mut Tx<'_>, call: &CallId, approval: NewApproval) {
    let NewApproval { modified, message, schema, risk } = approval;
    edit_call(tx, call, modified);
    park_for_approval(tx, call, message, schema, risk);
}

/// Replaces the call's arguments.
fn edit_call(tx: &mut Tx<'_>, call: &CallId, modified: EditedCall) {
    let EditedCall { arguments, digest, judgement, by } = modified;
    keep_order(tx, call, &judgement);
    // Each edit has a payload id of its own: a payload is never overwritten.
    let edits = tx.state.calls.get(call).map_or(0, |call| call.record.edited_by.len());
    let name = if edits == 0 { format!("{call}.modified") } else { format!("{call}.modified.{edits}") };
    let stored = tx.store(name, arguments.clone());
    tx.change_call(call, |call| {
        let delegation = call.record.delegation.take();
        call.record.delegation = delegation.map(|known| Delegation::new(known.task_id, &arguments));
        call.record.modified_arguments = Some(stored);
        call.record.digest = Some(digest);
        call.record.idempotent = judgement.verdict.is_idempotent();
        call.record.class = judgement.verdict.class();
        call.record.policy = judgement.ruling;
        call.record.edited_by.push(by);
    });
}

/// A batch that ran in parallel runs one by one from now on if this call does more than read.
fn keep_order(tx: &mut Tx<'_>, call: &CallId, judgement: &Judgement) {
    let item = tx.state.calls.get(call).and_then(|call| call.record.item_id.clone());
    if let Some(item) = item.filter(|_| !only_reads(&judgement.verdict)) {
        tx.change_loop(&item, |work| work.is_together = false);
    }
}

/// Whether the order of this call among others makes no difference.
pub(crate) fn only_reads(verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Run { class, .. } | Verdict::Ask { class, .. } => *class == ToolClass::Read,
        Verdict::Delegate => false,
        Verdict::Input { .. } | Verdict::Client | Verdict::Refuse(_) => true,
    }
}

/// Has a person decide about a call that was interrupted.
pub(crate) fn put_in_doubt(tx: &mut Tx<'_>, id: &CallId, why: &str) {
    call::mark_lost(tx, id, why);
    suspension::withdraw_question_of_call(tx, id, "the call was interrupted");
    park_in_doubt(tx, id, why);
}
