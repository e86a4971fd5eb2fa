//! Whether a person may give an answer, and what it means. Changes nothing: `decide/resumed.rs` applies it.

use serde_json::{Value, json};

use crate::domain::digest;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{Answer, Decision, InDoubtAction, InputType, Reply, Suspension, SuspensionKind};
use crate::domain::pointer;
use crate::domain::policy::{Answerer, Barred, Ruling, Terms};
use crate::domain::settings::{Budget, PolicyAction};
use crate::domain::task::AuthAnswer;
use crate::domain::to_value;
use crate::domain::tool::{self, CallCode, Judgement, Proposal, ToolError};
use crate::pes::people::suspend::{EditedCall, NewApproval};
use crate::pes::settle::call::CallResult;
use crate::pes::state::State;
use crate::pes::tx::Tx;

/// What an answer means for the call that waited for it.
pub(crate) enum CallAnswer {
    Run {
        modified: Option<Box<EditedCall>>,
    },
    /// Not yet: another person must approve the edited call.
    AskNewApproval(Box<NewApproval>),
    End(CallResult),
    Retry,
    /// The answer is sent to the agent that asked.
    ReplyToPeer(Value),
    /// The decision is sent to the agent that asked about a call or a plan of its own.
    DecideForPeer {
        reply: Value,
        /// The digest of what the agent is to run instead.
        edited: Option<String>,
    },
    /// The agent that asked is asked for the task's state, and sent the reply if it still says this.
    AskPeer(AuthAnswer),
    FailItem,
    /// The running call gets the answer.
    Reply(Reply),
}

impl CallAnswer {
    /// The digest of what runs now, if its arguments were edited.
    pub(crate) fn digest(&self) -> Option<&str> {
        match self {
            CallAnswer::Run { modified } => modified.as_ref().map(|modified| modified.digest.as_str()),
            CallAnswer::AskNewApproval(approval) => Some(approval.modified.digest.as_str()),
            CallAnswer::DecideForPeer { edited, .. } => edited.as_deref(),
            CallAnswer::End(_)
            | CallAnswer::Retry
            | CallAnswer::ReplyToPeer(_)
            | CallAnswer::AskPeer(_)
            | CallAnswer::FailItem
            | CallAnswer::Reply(_) => None,
        }
    }
}

/// What an answer to a question about the whole run means for it.
pub(crate) enum RunAnswer {
    EndPause,
    /// The budget is extended by this.
    ExtendBudget(Box<Budget>),
    /// The budget is not extended: the run ends.
    End,
}

/// Checks that this person may give this answer, and that the answer is about the question as it is now.
pub(crate) fn check_answerer(tx: &Tx<'_>, open: &Suspension, answer: &Answer, by: &Answerer) -> Result<(), Fault> {
    if answer.digest.is_some() && answer.digest != open.digest {
        let fault = Fault::new(Code::ApprovalMismatch, "The digest is not this question's; look at it again.");
        return Err(match &open.digest {
            Some(digest) => fault.with("digest", digest.as_str()),
            None => fault,
        });
    }
    // A caller's own program may always answer for its tool: whether the call may run was asked before.
    let binding = open.policy.as_ref().filter(|_| open.kind != SuspensionKind::ClientTool);
    let Some(Ruling { terms, .. }) = binding else { return Ok(()) };
    check_terms(tx.state, open, terms, answer.lets_run(open.kind), by)
}

/// Whether a model or another agent goes on with words of this answer. Who wrote them has steered the run. The answers
/// of a caller's program are its tool's results, and those that end a run steer nothing.
pub(crate) fn steers(open: &Suspension, answer: &Answer) -> bool {
    let has_reason = answer.reason.as_deref().is_some_and(|reason| !reason.trim().is_empty());
    let is_no = answer.approved == Some(false);
    match open.kind {
        // The agent goes on with the reason, or with what was edited.
        SuspensionKind::Approval | SuspensionKind::PlanReview if open.remote.is_some() => {
            (is_no && has_reason) || (!is_no && answer.modified_args.is_some())
        }
        SuspensionKind::Approval => is_no && has_reason,
        SuspensionKind::PeerAuth if is_no || answer.value == Some(false.into()) => has_reason,
        SuspensionKind::PeerAuth => words(answer.value.as_ref()).is_some(),
        SuspensionKind::Input | SuspensionKind::PeerInput if is_no => has_reason && !open.while_running,
        SuspensionKind::Input | SuspensionKind::PeerInput => answer.value.is_some(),
        SuspensionKind::InDoubt => match answer.action {
            Some(InDoubtAction::Done) => answer.value.is_some(),
            Some(InDoubtAction::Skip) => has_reason,
            Some(InDoubtAction::Retry | InDoubtAction::Abort) | None => false,
        },
        // The reason of a rejected plan is counted where the planner gets it.
        SuspensionKind::PlanReview | SuspensionKind::ClientTool | SuspensionKind::Budget | SuspensionKind::Pause => {
            false
        }
    }
}

fn check_terms(state: &State, open: &Suspension, terms: &Terms, lets_run: bool, by: &Answerer) -> Result<(), Fault> {
    let call = open.call_id.as_ref().and_then(|id| state.calls.get(id));
    let edited_by = call.map_or(&[][..], |call| &call.record.edited_by);
    match terms.bar(by, lets_run, &state.active_run().requested_by, edited_by) {
        None => Ok(()),
        Some(Barred::NotNamed) => {
            let fault = Fault::new(Code::NotAnApprover, "Only the approvers that its rule names may answer this.");
            Err(fault.with("approvers", terms.approvers.clone()))
        }
        Some(Barred::Asked) => {
            let detail = "You asked for this run, steered it, edited its plan or wrote its instructions; somebody else must approve.";
            Err(Fault::new(Code::FourEyes, detail))
        }
        Some(Barred::Edited) => {
            let detail = "You edited these arguments; somebody else must approve them.";
            Err(Fault::new(Code::FourEyes, detail))
        }
    }
}

/// A larger budget, or the end of the run. A value alone is a yes.
pub(crate) fn judge_budget(state: &State, open: &Suspension, answer: Answer) -> Result<(Decision, RunAnswer), Fault> {
    match (answer.approved, answer.value) {
        (Some(false), _) => Ok((Decision::Rejected, RunAnswer::End)),
        (None, None) => Err(invalid("/approved", "true lets the run go on, false ends it")),
        (Some(true) | None, value) => {
            let more = extension(state, open, value)?;
            Ok((Decision::Approved, RunAnswer::ExtendBudget(Box::new(more))))
        }
    }
}

/// Whether a person did what the agent required elsewhere. An agent that gives its questions ids gets the answer at once.
pub(crate) fn judge_peer_auth(state: &State, open: &Suspension, answer: Answer) -> (Decision, CallAnswer) {
    if answer.approved == Some(false) || answer.value == Some(false.into()) {
        return (Decision::Rejected, rejection(answer.reason));
    }
    let task = open.call_id.as_ref().and_then(|call| state.task_of(call));
    let words = words(answer.value.as_ref()).cloned();
    let call_answer = if task.is_some_and(|task| task.remote_question.is_some()) {
        CallAnswer::ReplyToPeer(words.unwrap_or(Value::Bool(true)))
    } else {
        CallAnswer::AskPeer(AuthAnswer {
            question: open.message.clone(),
            asked_at: open.created_at,
            reply: words.unwrap_or_else(|| "done".into()),
            is_sent: false,
        })
    };
    (Decision::Answered, call_answer)
}

/// A value that says more than yes or no.
fn words(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null() && !value.is_boolean())
}

/// A decision about a call or a plan of another agent. The agent determines what it means, as for its own question; it
/// refuses what does not fit, and the question is asked again with its reason.
pub(crate) fn judge_for_peer(open: &Suspension, answer: Answer) -> Result<(Decision, CallAnswer), Fault> {
    let is_doubt = open.kind == SuspensionKind::InDoubt;
    let reply = if is_doubt {
        Answer { approved: None, modified_args: None, ..answer }
    } else {
        let modified_args = answer.modified_args.filter(|_| answer.approved == Some(true));
        Answer { modified_args, value: None, action: None, ..answer }
    };
    let reply = Answer { digest: open.digest.clone(), ..reply };
    let decision = if is_doubt { judge_doubt(reply.clone())?.0 } else { decision_for_peer(open, &reply)? };
    let edited = reply.modified_args.as_ref().map(|edited| digest_of_edit(open, edited));
    Ok((decision, CallAnswer::DecideForPeer { reply: to_value(&reply), edited }))
}

fn decision_for_peer(open: &Suspension, reply: &Answer) -> Result<Decision, Fault> {
    match (reply.approved, &reply.modified_args) {
        (None, _) => Err(invalid("/approved", "an approval needs true or false")),
        (Some(false), _) => Ok(Decision::Rejected),
        (Some(true), None) => Ok(Decision::Approved),
        (Some(true), Some(_)) if open.feedback_schema.allow_modify_args => Ok(Decision::Modified),
        (Some(true), Some(_)) => Err(invalid("/modifiedArgs", "what is asked about cannot be edited")),
    }
}

/// The digest of what a person approves in place of an agent's call or plan.
fn digest_of_edit(open: &Suspension, edited: &Value) -> String {
    match &open.tool_name {
        Some(tool) => digest::of_call(tool, edited),
        None => digest::of(edited),
    }
}

/// Edited arguments are another call: who may approve that is checked again.
pub(crate) fn judge_approval(
    tx: &Tx<'_>,
    open: &Suspension,
    answer: Answer,
    by: &Answerer,
) -> Result<(Decision, CallAnswer), Fault> {
    let Some(approved) = answer.approved else {
        return Err(invalid("/approved", "an approval needs true or false"));
    };
    if !approved {
        return Ok((Decision::Rejected, rejection(answer.reason)));
    }
    let Some(arguments) = answer.modified_args else {
        return Ok((Decision::Approved, CallAnswer::Run { modified: None }));
    };
    if !open.feedback_schema.allow_modify_args {
        return Err(invalid("/modifiedArgs", "the arguments of this call cannot be edited"));
    }
    let tool = open.tool_name.as_deref().unwrap_or_default();
    let (thread, settings) = (&tx.state.active_run().thread_id, tx.state.run_settings());
    let edited = Proposal { thread, settings, tool, arguments: &arguments };
    let judgement = tx.world.tools.judge_edited(&edited)?;
    if let Some(ruling) = &judgement.ruling {
        check_terms(tx.state, open, &ruling.terms, true, by)?;
    }
    let digest = digest::of_call(tool, &arguments);
    let modified = EditedCall { arguments, digest, judgement, by: by.name.clone() };
    let call_answer = match second_approval(open, &modified.judgement) {
        Some(ruling) => CallAnswer::AskNewApproval(Box::new(new_approval(open, modified, ruling))),
        None => CallAnswer::Run { modified: Some(Box::new(modified)) },
    };
    Ok((Decision::Modified, call_answer))
}

/// An answer to a question of a tool, a client or an agent; `means` says what its value means for the call.
pub(crate) fn judge_input(
    tx: &Tx<'_>,
    open: &Suspension,
    answer: Answer,
    means: fn(Value) -> CallAnswer,
) -> Result<(Decision, CallAnswer), Fault> {
    if answer.approved == Some(false) {
        let call_answer =
            if open.while_running { CallAnswer::Reply(Reply::Declined) } else { rejection(answer.reason) };
        return Ok((Decision::Rejected, call_answer));
    }
    let Some(value) = answer.value else {
        return Err(invalid("/value", "an answer is needed"));
    };
    tx.world.tools.check_answer(open, &value)?;
    let call_answer = if open.while_running { CallAnswer::Reply(Reply::Accepted { value }) } else { means(value) };
    Ok((Decision::Answered, call_answer))
}

/// A person who edits arguments shapes what runs. If the rule that asked, or the rule that now applies, requires four
/// eyes, a second person must approve: on the terms of the rule that asks, and one of the approvers that either rule
/// names.
fn second_approval(open: &Suspension, judgement: &Judgement) -> Option<Ruling> {
    let (asked, now) = (open.policy.as_ref(), judgement.ruling.as_ref());
    if ![asked, now].into_iter().flatten().any(|ruling| ruling.terms.four_eyes) {
        return None;
    }
    let mut ruling = now.filter(|ruling| ruling.action == PolicyAction::Ask).or(asked).cloned()?;
    if ruling.terms.approvers.is_empty() {
        ruling.terms.approvers = asked.map(|ruling| ruling.terms.approvers.clone()).unwrap_or_default();
    }
    ruling.terms.four_eyes = true;
    Some(ruling)
}

/// The question about edited arguments, in the words of the policy rule that now asks about them.
fn new_approval(open: &Suspension, mut modified: EditedCall, ruling: Ruling) -> NewApproval {
    modified.judgement.ruling = Some(ruling);
    let (message, schema, risk) = match &modified.judgement.verdict {
        tool::Verdict::Ask { message, schema, risk, .. } => (message.clone(), schema.clone(), *risk),
        tool::Verdict::Run { .. }
        | tool::Verdict::Delegate
        | tool::Verdict::Input { .. }
        | tool::Verdict::Client
        | tool::Verdict::Refuse(_) => (open.message.clone(), open.feedback_schema.clone(), open.risk_level),
    };
    NewApproval { modified, message, schema, risk }
}

/// What is to be done about a call whose effect is not known.
pub(crate) fn judge_doubt(answer: Answer) -> Result<(Decision, CallAnswer), Fault> {
    let Some(action) = answer.action else {
        return Err(invalid("/action", "one of retry, done, skip, abort is needed"));
    };
    Ok(match action {
        InDoubtAction::Retry => (Decision::Retry, CallAnswer::Retry),
        InDoubtAction::Done => {
            let value = answer.value.unwrap_or_else(|| json!({ "done": true }));
            (Decision::Done, CallAnswer::End(CallResult::Success(value)))
        }
        InDoubtAction::Skip => {
            let reason = answer.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            let message = format!("whether it had its effect is not known, and a person skipped it{reason}");
            (Decision::Skip, CallAnswer::End(CallResult::Error(ToolError::new(CallCode::Unknown, message))))
        }
        InDoubtAction::Abort => (Decision::Abort, CallAnswer::FailItem),
    })
}

/// A "no" to a paused run is refused: leaving the question open keeps the pause.
pub(crate) fn judge_pause(answer: &Answer) -> Result<(Decision, RunAnswer), Fault> {
    match answer.approved {
        Some(false) => Err(invalid("/approved", "true lets it go on; else leave the question open, or cancel the run")),
        Some(true) | None => Ok((Decision::Resumed, RunAnswer::EndPause)),
    }
}

/// A blank reason is none: the model and the item need words.
fn rejection(reason: Option<String>) -> CallAnswer {
    let why = reason.filter(|reason| !reason.trim().is_empty()).unwrap_or_else(|| "a person said no".into());
    CallAnswer::End(CallResult::Error(ToolError::new(CallCode::Rejected, why)))
}

/// The fault for an answer that does not fit, at this pointer.
pub(crate) fn invalid(pointer: &str, why: &str) -> Fault {
    Fault::new(Code::Invalid, "The answer does not fit the question.").at(pointer, why)
}

/// What an answer adds to the budget; a plain yes adds as much as the run began with. A question about a cap has no form:
/// its answer adds nothing.
fn extension(state: &State, open: &Suspension, value: Option<Value>) -> Result<Budget, Fault> {
    let is_about_cap = open.feedback_schema.input_type == InputType::Confirm;
    let value = match value {
        Some(_) if is_about_cap => return Err(invalid("/value", "an answer cannot extend a cap")),
        Some(value) => value,
        None if is_about_cap => return Ok(Budget::default()),
        None => return Ok(state.run_settings().budget.clone().unwrap_or_default()),
    };
    let more = budget_of(value)?;
    more.check("/value")?;
    Ok(more)
}

/// The fault points at the first member that does not fit.
fn budget_of(value: Value) -> Result<Budget, Fault> {
    let Value::Object(members) = &value else {
        return Err(invalid("/value", "an object such as {\"maxTokens\": 10000} is needed"));
    };
    let fits = |name: &str, amount: &Value| serde_json::from_value::<Budget>(json!({ name: amount })).is_ok();
    if let Some((name, _)) = members.iter().find(|(name, amount)| !fits(name, amount)) {
        let why = match name.as_str() {
            "maxCostUsd" => "a number above 0 is needed",
            known if fits(known, &Value::Null) => "a whole number above 0 is needed",
            _ => "a budget has no such member",
        };
        return Err(invalid(&format!("/value/{}", pointer::token(name)), why));
    }
    serde_json::from_value(value).map_err(|error| invalid("/value", &error.to_string()))
}
