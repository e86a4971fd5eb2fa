//! A person answered, or nobody did in time: what follows for the call or the run that waited.

use crate::domain::actor::ServerActor;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{Answer, Decision, ExpiryPolicy, Reply, Suspension, SuspensionKind};
use crate::domain::ids::{CallId, SuspensionId};
use crate::domain::plan::ItemCode;
use crate::domain::policy::Answerer;
use crate::domain::tool::{CallCode, ToolError};
use crate::event::AnswerMessage;
use crate::pes::peers::send;
use crate::pes::people::verdict::{self, CallAnswer, RunAnswer};
use crate::pes::people::{question, suspend};
use crate::pes::plan::later_calls;
use crate::pes::plan::review::{self, ReviewDecision};
use crate::pes::run::{ask, budget, end_early, message};
use crate::pes::settle::call::{CallEnd, CallResult};
use crate::pes::settle::suspension::{Closing, DecidedBy};
use crate::pes::settle::{call, item, suspension};
use crate::pes::state::{EarlyEnd, Steer, TurnContent};
use crate::pes::tx::{EventOutcome, HandlerResult, Tx};
use crate::pes::work::batch;

/// An answer that was judged, by what it is about.
enum JudgedAnswer {
    Call(CallAnswer),
    Run(RunAnswer),
    Plan(ReviewDecision),
}

impl JudgedAnswer {
    /// The digest of what runs now, if it was edited.
    fn digest(&self) -> Option<&str> {
        match self {
            JudgedAnswer::Call(call_answer) => call_answer.digest(),
            JudgedAnswer::Run(_) => None,
            JudgedAnswer::Plan(reviewed) => reviewed.digest(),
        }
    }
}

/// A person answered an open question. Nothing changes if the answer does not fit it.
pub(crate) fn resume(tx: &mut Tx<'_>, answer: Answer, by: &Answerer, said: Option<AnswerMessage>) -> HandlerResult {
    let Some(open) = tx.state.suspension(&answer.suspension_id) else {
        return Err(Fault::not_found("suspension"));
    };
    let open = open.clone();
    if tx.state.is_cancelling() {
        return Err(Fault::new(Code::RunCancelled, "The run is being cancelled; nothing of it can be answered."));
    }
    // With the policy `remind`, a question can be answered at any time.
    let ends = open.expires_at.filter(|_| open.expiry_policy != Some(ExpiryPolicy::Remind));
    if ends.is_some_and(|at| at <= tx.stamp.now) {
        return Err(Fault::new(Code::Expired, "The time to answer is over."));
    }
    verdict::check_answerer(tx, &open, &answer, by)?;
    let says_more = said.as_ref().is_some_and(|said| said.steers);
    let (reason, steers) = (answer.reason.clone(), says_more || verdict::steers(&open, &answer));
    let (decision, answered) = judge(tx, &open, answer, by)?;
    if steers {
        tx.add_requesters(std::slice::from_ref(&by.name));
    }
    let digest = answered.digest().map(str::to_owned).or_else(|| open.digest.clone());
    if let Some(said) = said {
        add_message(tx, &open, said);
    }
    let closing = Closing { decision, by: DecidedBy::Person(&by.name), reason, digest };
    suspension::resolve(tx, &open.suspension_id, closing);
    match answered {
        JudgedAnswer::Call(call_answer) => {
            if let Some(call) = open.waiting_call() {
                settle_call(tx, call, &open.suspension_id, call_answer);
            }
        }
        JudgedAnswer::Run(run_answer) => settle_run(tx, run_answer),
        JudgedAnswer::Plan(reviewed) => {
            if let Some(why) = review::apply(tx, reviewed) {
                end_early::end_early(tx, EarlyEnd::Rejected, &why);
            }
        }
    }
    Ok(EventOutcome::Applied)
}

/// Adds the message that came with an answer. If it says something more, the item that waited shows it to its model,
/// since it may belong to the result. A plan is refined with it, too, if the run takes another message that steers it.
fn add_message(tx: &mut Tx<'_>, open: &Suspension, said: AnswerMessage) {
    let AnswerMessage { message, steers } = said;
    let (id, words) = (message.message_id.clone(), message.content.clone());
    let text = message::add(tx, message);
    if !steers {
        return;
    }
    let call = open.waiting_call().and_then(|id| tx.state.calls.get(id));
    if let Some(item) = call.and_then(|call| call.record.item_id.clone()) {
        tx.add_turn(&item, TurnContent::Engine { text: words });
    }
    // Where no more messages may steer the run, the answer is taken all the same: the run waits for it.
    if ask::can_be_steered(tx.state) && ask::check_steers(tx).is_ok() {
        tx.active().steers.push(Steer::new(id, text));
    }
}

/// Determines what the answer means. Changes nothing, except that an edited plan is applied.
fn judge(tx: &mut Tx<'_>, open: &Suspension, answer: Answer, by: &Answerer) -> Result<(Decision, JudgedAnswer), Fault> {
    let (decision, call_answer) = match open.kind {
        _ if open.remote.is_some() => verdict::judge_for_peer(open, answer)?,
        SuspensionKind::PlanReview => {
            let (decision, reviewed) = review::judge(tx, answer, &by.name)?;
            return Ok((decision, JudgedAnswer::Plan(reviewed)));
        }
        SuspensionKind::Pause => {
            let (decision, run_answer) = verdict::judge_pause(&answer)?;
            return Ok((decision, JudgedAnswer::Run(run_answer)));
        }
        SuspensionKind::Budget => {
            let (decision, run_answer) = verdict::judge_budget(tx.state, open, answer)?;
            return Ok((decision, JudgedAnswer::Run(run_answer)));
        }
        SuspensionKind::Approval => verdict::judge_approval(tx, open, answer, by)?,
        SuspensionKind::InDoubt => verdict::judge_doubt(answer)?,
        SuspensionKind::Input | SuspensionKind::ClientTool => {
            verdict::judge_input(tx, open, answer, |value| CallAnswer::End(CallResult::Success(value)))?
        }
        SuspensionKind::PeerInput => verdict::judge_input(tx, open, answer, CallAnswer::ReplyToPeer)?,
        SuspensionKind::PeerAuth => verdict::judge_peer_auth(tx.state, open, answer),
    };
    Ok((decision, JudgedAnswer::Call(call_answer)))
}

/// Applies an answer to a question about the whole run.
fn settle_run(tx: &mut Tx<'_>, answer: RunAnswer) {
    match answer {
        RunAnswer::EndPause => tx.active().pause = None,
        RunAnswer::ExtendBudget(more) => budget::extend(tx, &more),
        RunAnswer::End => budget::refuse_more(tx, "nobody wanted to extend it"),
    }
}

/// Applies an answer to a question about this call.
fn settle_call(tx: &mut Tx<'_>, call: &CallId, question: &SuspensionId, answer: CallAnswer) {
    match answer {
        CallAnswer::Run { modified } => {
            suspend::unpark(tx, call, modified);
            later_calls::allow(tx, call);
        }
        CallAnswer::AskNewApproval(approval) => return suspend::ask_new_approval(tx, call, *approval),
        CallAnswer::End(result) => call::end(tx, call, result.into()),
        CallAnswer::ReplyToPeer(reply) | CallAnswer::DecideForPeer { reply, .. } => {
            send::reply(tx, call, question, reply);
        }
        CallAnswer::AskPeer(answer) => send::ask_now(tx, call, question, answer),
        CallAnswer::Retry if tx.state.task_of(call).is_some() => send::send_again(tx, call),
        CallAnswer::Retry => {
            // A call that an earlier release put in doubt has no reason yet.
            call::mark_lost(tx, call, "An earlier attempt may have had its effect.");
            suspend::unpark(tx, call, None);
            tx.change_call(call, |call| call.record.attempt += 1);
        }
        CallAnswer::FailItem => {
            let item = tx.state.calls.get(call).and_then(|call| call.record.item_id.clone());
            if let Some(item) = item {
                let why = format!("a person ended the step; `{}` may have had its effect", tx.state.tool_of(call));
                item::fail(tx, &item, ItemCode::Aborted.as_str(), why);
            }
            return;
        }
        CallAnswer::Reply(reply) => return question::store_reply(tx, call, reply),
    }
    batch::on_call_ended(tx, call);
}

/// Handles suspensions that have expired, as their policy says. A cancel that is under way closes them itself.
pub(crate) fn expire(tx: &mut Tx<'_>) {
    let now = tx.stamp.now;
    let due = |open: &&Suspension| open.expires_at.is_some_and(|at| at <= now);
    let due: Vec<Suspension> = tx.state.suspensions.values().filter(due).cloned().collect();
    for open in &due {
        expire_one(tx, open);
    }
}

fn expire_one(tx: &mut Tx<'_>, open: &Suspension) {
    use ExpiryPolicy::{Deny, Fail, Remind};
    if tx.state.is_cancelling() || tx.state.suspension(&open.suspension_id).is_none() {
        return;
    }
    let policy = open.expiry_policy.unwrap_or(Deny);
    if policy == Remind {
        return suspend::remind(tx, &open.suspension_id);
    }
    tx.record_timeout(open, policy);
    let why = "nobody answered in time";
    suspension::close(tx, &open.suspension_id, Decision::Expired, ServerActor::Timer, Some(why.into()));
    let Some(call) = open.waiting_call() else {
        return run_question_expired(tx, open.kind, policy, why);
    };
    if open.while_running {
        return match (policy, &open.item_id) {
            (Fail, Some(item)) => item::fail(tx, item, ItemCode::SuspensionTimedOut.as_str(), why.into()),
            (Fail | Deny | Remind, _) => question::store_reply(tx, call, Reply::Cancelled),
        };
    }
    let (code, message) = match open.kind {
        SuspensionKind::InDoubt | SuspensionKind::ClientTool => {
            (CallCode::Unknown, format!("whether it had its effect is not known, and {why}"))
        }
        SuspensionKind::Approval
        | SuspensionKind::Input
        | SuspensionKind::Budget
        | SuspensionKind::PeerInput
        | SuspensionKind::PeerAuth
        | SuspensionKind::PlanReview
        | SuspensionKind::Pause => (CallCode::Rejected, why.to_owned()),
    };
    call::end(tx, call, CallEnd::error(ToolError::new(code, message)));
    match (policy, &open.item_id) {
        (Fail, Some(item)) => item::fail(tx, item, ItemCode::SuspensionTimedOut.as_str(), why.into()),
        (Fail | Deny | Remind, _) => batch::on_call_ended(tx, call),
    }
}

/// Handles an expired question about the whole run.
fn run_question_expired(tx: &mut Tx<'_>, kind: SuspensionKind, policy: ExpiryPolicy, why: &str) {
    match kind {
        SuspensionKind::Budget => budget::refuse_more(tx, why),
        SuspensionKind::PlanReview => {
            let ends = review::on_expired(tx, policy);
            end_early::end_early(tx, ends, why);
        }
        SuspensionKind::Pause
        | SuspensionKind::Approval
        | SuspensionKind::Input
        | SuspensionKind::InDoubt
        | SuspensionKind::ClientTool
        | SuspensionKind::PeerInput
        | SuspensionKind::PeerAuth => tx.active().pause = None,
    }
}
