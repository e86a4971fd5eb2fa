//! A person answers: exactly one suspension, exactly once.

use super::state::State;
use super::{ask, batch, budget, delegate, item, question, review, suspend};
use serde_json::{Value, json};

use super::item::{REJECTED, error};
use super::review::Reviewed;
use super::suspend::{Anew, Modified};
use super::tx::{Handled, Taken, Tx};
use crate::domain::digest;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{Answer, Decision, ExpiryPolicy, InDoubtAction, Reply, Suspension, SuspensionKind};
use crate::domain::ids::CallId;
use crate::domain::message::ConversationMessage;
use crate::domain::policy::{Ruling, Terms};
use crate::domain::settings::{Budget, PolicyAction};
use crate::domain::tool::{self, Judgement, Proposal, ToolStatus};

/// What an answer means for the call that waited for it.
enum Verdict {
    Run {
        modified: Option<Box<Modified>>,
    },
    /// Not yet: somebody else is asked about it as it was edited.
    AskAnew(Box<Anew>),
    End {
        status: ToolStatus,
        result: Result<Value, crate::domain::tool::ToolError>,
    },
    Again,
    /// It goes to the agent that asked.
    Reply(Value),
    /// The agent that asked is looked at again.
    Look,
    Abort,
    GoOn,
    /// It runs, and is told.
    Tell(Reply),
    /// The budget grows by that.
    Extend(Box<Budget>),
    /// It does not: the run ends.
    Stop,
    /// Of a plan.
    Plan(Reviewed),
}

pub(super) fn resume(tx: &mut Tx<'_>, answer: Answer, by: &str, said: Option<ConversationMessage>) -> Handled {
    let Some(open) = tx.state.suspension(&answer.suspension_id) else {
        return Err(Fault::not_found("suspension"));
    };
    let open = open.clone();
    if tx.active().cancel.is_some() {
        return Err(Fault::new(Code::RunCancelled, "The run is being cancelled; nothing of it can be answered."));
    }
    // Who is only reminded may answer at any time.
    let ends = open.expires_at.filter(|_| open.expiry_policy != Some(ExpiryPolicy::Remind));
    if ends.is_some_and(|at| at <= tx.stamp.now) {
        return Err(Fault::new(Code::Expired, "The time to answer is over."));
    }
    check_answerer(tx, &open, &answer, by)?;
    let reason = answer.reason.clone();
    let (decision, verdict) = judge(tx, &open, answer, by)?;
    let digest = match &verdict {
        Verdict::Run { modified: Some(modified) } => Some(modified.digest.clone()),
        Verdict::AskAnew(anew) => Some(anew.modified.digest.clone()),
        Verdict::Plan(Reviewed::Runs(Some(digest))) => Some(digest.clone()),
        Verdict::Run { modified: None }
        | Verdict::End { .. }
        | Verdict::Again
        | Verdict::Reply(_)
        | Verdict::Look
        | Verdict::Abort
        | Verdict::GoOn
        | Verdict::Tell(_)
        | Verdict::Extend(_)
        | Verdict::Stop
        | Verdict::Plan(_) => open.digest.clone(),
    };
    if let Some(said) = said {
        ask::hear(tx, said);
    }
    suspend::close_bound(tx, &open.suspension_id, decision, by, reason, digest);
    match &open.call_id {
        Some(call) => settle_call(tx, call, verdict),
        None => settle_run(tx, verdict),
    }
    Ok(Taken::Yes)
}

/// Whether this person may answer so, and speaks of what is asked.
fn check_answerer(tx: &Tx<'_>, open: &Suspension, answer: &Answer, by: &str) -> Result<(), Fault> {
    if answer.digest.is_some() && answer.digest != open.digest {
        let fault = Fault::new(Code::ApprovalMismatch, "The digest is not this question's; look at it again.");
        return Err(match &open.digest {
            Some(digest) => fault.with("digest", digest.as_str()),
            None => fault,
        });
    }
    // A caller's own program answers for itself: whether it may run was asked before.
    let binding = open.policy.as_ref().filter(|_| open.kind != SuspensionKind::ClientTool);
    let Some(Ruling { terms, .. }) = binding else { return Ok(()) };
    let lets_run = answer.approved == Some(true) || answer.action == Some(InDoubtAction::Retry);
    check_terms(tx.state, open, terms, lets_run, by)
}

fn check_terms(state: &State, open: &Suspension, terms: &Terms, lets_run: bool, by: &str) -> Result<(), Fault> {
    if !terms.approvers.is_empty() && !terms.approvers.iter().any(|name| name == by) {
        let fault = Fault::new(Code::NotAnApprover, "Only the approvers that its rule names may answer this.");
        return Err(fault.with("approvers", terms.approvers.clone()));
    }
    if terms.four_eyes && lets_run {
        if state.active_run().requested_by.iter().any(|name| name == by) {
            let detail = "You asked for this run, steered it or edited its plan; somebody else must approve.";
            return Err(Fault::new(Code::FourEyes, detail));
        }
        if has_edited(state, open, by) {
            let detail = "You edited these arguments; somebody else must approve them.";
            return Err(Fault::new(Code::FourEyes, detail));
        }
    }
    Ok(())
}

fn has_edited(state: &State, open: &Suspension, by: &str) -> bool {
    let call = open.call_id.as_ref().and_then(|id| state.calls.get(id));
    call.is_some_and(|call| call.record.edited_by.iter().any(|name| name == by))
}

/// Changes nothing, but for a plan that was edited.
fn judge(tx: &mut Tx<'_>, open: &Suspension, answer: Answer, by: &str) -> Result<(Decision, Verdict), Fault> {
    match open.kind {
        SuspensionKind::Approval => judge_approval(tx, open, answer, by),
        SuspensionKind::PlanReview => {
            review::judge(tx, answer, by).map(|(decision, reviewed)| (decision, Verdict::Plan(reviewed)))
        }
        SuspensionKind::InDoubt => judge_doubt(answer),
        SuspensionKind::Pause => Ok((Decision::Resumed, Verdict::GoOn)),
        SuspensionKind::Budget => match answer.approved {
            Some(true) => {
                Ok((Decision::Approved, Verdict::Extend(Box::new(budget::extension(tx.state, answer.value)?))))
            }
            Some(false) => Ok((Decision::Rejected, Verdict::Stop)),
            None => Err(invalid("/approved", "true extends the budget, false ends the run")),
        },
        SuspensionKind::Input | SuspensionKind::ClientTool => {
            judge_input(tx, open, answer, |value| Verdict::End { status: ToolStatus::Success, result: Ok(value) })
        }
        SuspensionKind::PeerInput => judge_input(tx, open, answer, Verdict::Reply),
        SuspensionKind::PeerAuth => match answer.approved == Some(false) || answer.value == Some(false.into()) {
            true => Ok((Decision::Rejected, rejection(answer.reason))),
            false => Ok((Decision::Answered, Verdict::Look)),
        },
    }
}

/// Edited arguments are another call: who may let that one run is asked again.
fn judge_approval(tx: &Tx<'_>, open: &Suspension, answer: Answer, by: &str) -> Result<(Decision, Verdict), Fault> {
    let Some(approved) = answer.approved else {
        return Err(invalid("/approved", "an approval needs true or false"));
    };
    if !approved {
        return Ok((Decision::Rejected, rejection(answer.reason)));
    }
    let Some(arguments) = answer.modified_args else {
        return Ok((Decision::Approved, Verdict::Run { modified: None }));
    };
    if !open.feedback_schema.allow_modify_args {
        return Err(invalid("/modifiedArgs", "the arguments of this call cannot be edited"));
    }
    let tool = open.tool_name.as_deref().unwrap_or_default();
    let (thread, settings) = (&tx.state.active_run().thread_id, tx.state.settings());
    let edited = Proposal { thread, settings, tool, arguments: &arguments };
    let judgement = tx.world.tools.judge_edited(&edited)?;
    if let Some(ruling) = &judgement.ruling {
        check_terms(tx.state, open, &ruling.terms, true, by)?;
    }
    let digest = digest::of_call(tool, &arguments);
    let modified = Modified { arguments, digest, judgement, by: by.to_owned() };
    let verdict = match needs_another(open, &modified.judgement) {
        Some(ruling) => Verdict::AskAnew(Box::new(anew(open, modified, ruling))),
        None => Verdict::Run { modified: Some(Box::new(modified)) },
    };
    Ok((Decision::Modified, verdict))
}

fn judge_input(
    tx: &Tx<'_>,
    open: &Suspension,
    answer: Answer,
    means: fn(Value) -> Verdict,
) -> Result<(Decision, Verdict), Fault> {
    if answer.approved == Some(false) {
        let verdict = if open.while_running { Verdict::Tell(Reply::Declined) } else { rejection(answer.reason) };
        return Ok((Decision::Rejected, verdict));
    }
    let Some(value) = answer.value else {
        return Err(invalid("/value", "an answer is needed"));
    };
    tx.world.tools.check_answer(open, &value)?;
    let verdict = if open.while_running { Verdict::Tell(Reply::Accepted { value }) } else { means(value) };
    Ok((Decision::Answered, verdict))
}

/// What an answer to a question about the whole run comes to.
fn settle_run(tx: &mut Tx<'_>, verdict: Verdict) {
    match verdict {
        Verdict::GoOn => tx.active().pause = None,
        Verdict::Extend(more) => budget::extend(tx, &more),
        Verdict::Stop => budget::refuse_more(tx, "nobody wanted to extend it"),
        Verdict::Plan(reviewed) => review::apply(tx, reviewed),
        Verdict::Run { .. }
        | Verdict::AskAnew(_)
        | Verdict::End { .. }
        | Verdict::Again
        | Verdict::Reply(_)
        | Verdict::Look
        | Verdict::Tell(_)
        | Verdict::Abort => {}
    }
}

fn settle_call(tx: &mut Tx<'_>, call: &CallId, verdict: Verdict) {
    match verdict {
        Verdict::Run { modified } => suspend::unpark(tx, call, modified),
        Verdict::AskAnew(anew) => return suspend::ask_anew(tx, call, *anew),
        Verdict::End { status, result } => batch::end_call(tx, call, status, result, None, 0),
        Verdict::Reply(value) => delegate::reply(tx, call, value),
        Verdict::Look => delegate::look_again(tx, call),
        Verdict::Again if tx.state.task_of(call).is_some() => delegate::send_again(tx, call),
        Verdict::Again => {
            suspend::unpark(tx, call, None);
            tx.change_call(call, |call| call.record.attempt += 1);
        }
        Verdict::Abort => {
            let item = tx.state.calls.get(call).and_then(|call| call.record.item_id.clone());
            if let Some(item) = item {
                item::fail(tx, &item, "aborted", "a person ended the step after a crash".into());
            }
            return;
        }
        Verdict::Tell(reply) => return question::reply_to(tx, call, reply),
        Verdict::GoOn | Verdict::Extend(_) | Verdict::Stop | Verdict::Plan(_) => {}
    }
    batch::on_call_ended(tx, call);
}

/// Suspensions whose time is over take the way that their policy says. `false`: none was due.
pub(super) fn expire(tx: &mut Tx<'_>) -> bool {
    let now = tx.stamp.now;
    let due = |open: &&Suspension| open.expires_at.is_some_and(|at| at <= now);
    let due: Vec<Suspension> = tx.state.suspensions.values().filter(due).cloned().collect();
    for open in &due {
        expire_one(tx, open);
    }
    !due.is_empty()
}

fn expire_one(tx: &mut Tx<'_>, open: &Suspension) {
    use ExpiryPolicy::{Deny, Fail, Remind};
    if tx.state.suspension(&open.suspension_id).is_none() {
        return;
    }
    let policy = open.expiry_policy.unwrap_or(Deny);
    if policy == Remind {
        return suspend::remind(tx, &open.suspension_id);
    }
    tx.record_timeout(open, policy);
    let why = "nobody answered in time";
    suspend::close(tx, &open.suspension_id, Decision::Expired, "timer", Some(why.into()));
    let Some(call) = &open.call_id else {
        return run_question_expired(tx, open.kind, policy, why);
    };
    if open.while_running {
        return match (policy, &open.item_id) {
            (Fail, Some(item)) => item::fail(tx, item, "suspension_timed_out", why.into()),
            (Fail | Deny | Remind, _) => question::reply_to(tx, call, Reply::Cancelled),
        };
    }
    let (code, message) = match open.kind {
        SuspensionKind::InDoubt => ("unknown", format!("whether it had its effect is not known, and {why}")),
        SuspensionKind::Approval
        | SuspensionKind::Input
        | SuspensionKind::ClientTool
        | SuspensionKind::Budget
        | SuspensionKind::PeerInput
        | SuspensionKind::PeerAuth
        | SuspensionKind::PlanReview
        | SuspensionKind::Pause => (REJECTED, why.to_owned()),
    };
    batch::end_call(tx, call, ToolStatus::Error, Err(error(code, message)), None, 0);
    match (policy, &open.item_id) {
        (Fail, Some(item)) => item::fail(tx, item, "suspension_timed_out", why.into()),
        (Fail | Deny | Remind, _) => batch::on_call_ended(tx, call),
    }
}

/// Nobody answered a question about the whole run.
fn run_question_expired(tx: &mut Tx<'_>, kind: SuspensionKind, policy: ExpiryPolicy, why: &str) {
    match kind {
        SuspensionKind::Budget => budget::refuse_more(tx, why),
        SuspensionKind::PlanReview => review::expired(tx, policy, why),
        SuspensionKind::Pause
        | SuspensionKind::Approval
        | SuspensionKind::Input
        | SuspensionKind::InDoubt
        | SuspensionKind::ClientTool
        | SuspensionKind::PeerInput
        | SuspensionKind::PeerAuth => tx.active().pause = None,
    }
}

/// Who edits arguments shapes what runs. Where the rule that asked, or the one that is about them now, wants four eyes, a
/// second person approves them: on the terms of the rule that asks, and by those whom either names.
fn needs_another(open: &Suspension, judgement: &Judgement) -> Option<Ruling> {
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

/// The question about edited arguments, in the words of whoever asks about them now.
fn anew(open: &Suspension, mut modified: Modified, ruling: Ruling) -> Anew {
    modified.judgement.ruling = Some(ruling);
    let (message, schema, risk) = match &modified.judgement.verdict {
        tool::Verdict::Ask { message, schema, risk, .. } => (message.clone(), schema.clone(), *risk),
        tool::Verdict::Run { .. }
        | tool::Verdict::Delegate
        | tool::Verdict::Input { .. }
        | tool::Verdict::Client
        | tool::Verdict::Refuse(_) => (open.message.clone(), open.feedback_schema.clone(), open.risk_level),
    };
    Anew { modified, message, schema, risk }
}

fn judge_doubt(answer: Answer) -> Result<(Decision, Verdict), Fault> {
    let Some(action) = answer.action else {
        return Err(invalid("/action", "one of retry, done, skip, abort is needed"));
    };
    Ok(match action {
        InDoubtAction::Retry => (Decision::Retry, Verdict::Again),
        InDoubtAction::Done => {
            let value = answer.value.unwrap_or_else(|| json!({ "done": true }));
            (Decision::Done, Verdict::End { status: ToolStatus::Success, result: Ok(value) })
        }
        InDoubtAction::Skip => {
            let why = answer.reason.unwrap_or_else(|| "a person decided to skip it".into());
            (Decision::Skip, Verdict::End { status: ToolStatus::Skipped, result: Err(error("skipped", why)) })
        }
        InDoubtAction::Abort => (Decision::Abort, Verdict::Abort),
    })
}

fn rejection(reason: Option<String>) -> Verdict {
    let why = reason.unwrap_or_else(|| "a person said no".into());
    Verdict::End { status: ToolStatus::Error, result: Err(error(REJECTED, why)) }
}

pub(super) fn invalid(pointer: &str, why: &str) -> Fault {
    Fault::new(Code::Invalid, "The answer does not fit the question.").at(pointer, why)
}
