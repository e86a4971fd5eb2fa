//! Accepts a request: it starts a run, or answers the questions of one.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::calls::KnownCall;
use super::request::{AiSdkRequest, Answers, ChatQuery, MessageAction, PartAnswer, Pes};
use super::rewind;
use crate::domain::caller::Scope;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{Answer, Suspension, SuspensionKind};
use crate::domain::ids::{RunId, SuspensionId, ThreadId};
use crate::domain::run::OnBusy;
use crate::http::caller::permit;
use crate::http::doors::DoorRequest;
use crate::http::doors::conversation::open_questions;
use crate::http::doors::{scope_to_answer, text_reply};
use crate::service::feed::{self, After, EarlySubscription};
use crate::service::once::{self, Idempotent};
use crate::service::runs::{self, ContinueAt, ProcessAsk, Receipt};
use crate::service::suspensions;

/// How many answers of a repeated request are looked up, the newest first.
const MAX_LOOKUPS: usize = 64;

/// The run to stream, and from where.
pub(super) struct AcceptedChat {
    pub(super) thread: ThreadId,
    pub(super) run: RunId,
    pub(super) from: MessageStart,
}

pub(super) enum MessageStart {
    /// A subscription from before the run started: everything from there.
    Live(EarlySubscription),
    /// The whole run.
    Whole,
    /// What follows this position of the log. The client has the message up to there.
    Resumed { after: After, known: Vec<KnownCall>, answered: HashSet<SuspensionId> },
}

pub(super) async fn accept(
    ctx: &DoorRequest,
    sent: AiSdkRequest,
    key: Option<Idempotent>,
) -> Result<AcceptedChat, Fault> {
    match sent.action {
        MessageAction::Query(last) => {
            let continue_at = if is_repeat(ctx, key.as_ref()).await? {
                None
            } else {
                rewind::position_of_new(ctx, &sent.thread, &last).await?
            };
            let run_query = RunQuery { continue_at, ..RunQuery::at_end(last.query) };
            ask(ctx, sent.thread, run_query, sent.pes, key).await
        }
        MessageAction::Rewind(rewind) => {
            // The message that the first request replaced is superseded and no longer found.
            if let Some(run) = started_before(ctx, key.as_ref()).await? {
                return Ok(AcceptedChat { thread: sent.thread, run, from: MessageStart::Whole });
            }
            let run_query = rewind::run_query(ctx, &sent.thread, rewind).await?;
            ask(ctx, sent.thread, run_query, sent.pes, key).await
        }
        MessageAction::Answers(answers) => answer(ctx, sent.thread, answers, key).await,
    }
}

/// The query of a new run.
pub(super) struct RunQuery {
    pub(super) text: String,
    /// The metadata of the user's message.
    pub(super) metadata: Option<Map<String, Value>>,
    /// The position in the chat to continue from. `None` means its end.
    pub(super) continue_at: Option<ContinueAt>,
    /// What happens to the active run, unless the page says it.
    pub(super) on_busy: OnBusy,
}

impl RunQuery {
    pub(super) fn at_end(query: ChatQuery) -> Self {
        let metadata = query.metadata();
        Self { text: query.text, metadata, continue_at: None, on_busy: OnBusy::default() }
    }
}

/// Starts a run.
async fn ask(
    ctx: &DoorRequest,
    thread: ThreadId,
    run_query: RunQuery,
    pes: Pes,
    key: Option<Idempotent>,
) -> Result<AcceptedChat, Fault> {
    let (service, caller) = (&ctx.app.service, &ctx.caller);
    if pes.on_busy.is_none()
        && run_query.on_busy != OnBusy::Interrupt
        && !is_repeat(ctx, key.as_ref()).await?
        && !open_questions(ctx, &thread).await?.is_empty()
    {
        let detail = "The agent waits for an answer in this chat; give it, or send `pes: {onBusy: \"interrupt\"}`.";
        return Err(Fault::new(Code::ThreadBusy, detail));
    }
    let ask = ProcessAsk {
        metadata: run_query.metadata,
        query: run_query.text,
        user_id: pes.user_id,
        session_id: pes.session_id,
        trace: Some(ctx.preferences.trace.clone()),
        on_busy: pes.on_busy.unwrap_or(run_query.on_busy),
        continue_at: run_query.continue_at,
        options: pes.options,
        ..ProcessAsk::default()
    };
    let (answered, early) = runs::process_subscribed(service, caller, &thread, ask, key).await?;
    let run = answered.into_value()?.run_id;
    Ok(AcceptedChat { thread, run, from: early.map_or(MessageStart::Whole, MessageStart::Live) })
}

/// A repeated request is the same run, whether or not that run has open questions by now.
async fn is_repeat(ctx: &DoorRequest, key: Option<&Idempotent>) -> Result<bool, Fault> {
    match key {
        Some(key) => once::is_repeat(&ctx.app.service, &ctx.caller, key).await,
        None => Ok(false),
    }
}

/// The run that this same request started before.
async fn started_before(ctx: &DoorRequest, key: Option<&Idempotent>) -> Result<Option<RunId>, Fault> {
    let Some(key) = key else { return Ok(None) };
    let answered = once::answered::<Receipt>(&ctx.app.service, &ctx.caller, key).await?;
    answered.map(|answered| Ok(answered.into_value()?.run_id)).transpose()
}

/// Applies the message's answers to all open questions. Answers to closed questions are ignored, unless the message has
/// no others: then it is a repeated request, or an error.
async fn answer(
    ctx: &DoorRequest,
    thread: ThreadId,
    answers: Answers,
    key: Option<Idempotent>,
) -> Result<AcceptedChat, Fault> {
    let (service, caller) = (&ctx.app.service, &ctx.caller);
    let open = suspensions::open_on(service, caller, &thread).await?;
    let of_given = |given| open.iter().find_map(|open| Some((given, open, answer_to(open, given)?)));
    let matching: Vec<(&PartAnswer, &Suspension, Answer)> = answers.given.iter().filter_map(of_given).collect();
    let Some((_, first, _)) = matching.first() else { return accepted_before(ctx, thread, &answers, key).await };
    let run = first.run_id.clone();
    // All answers or none: if the caller may not give one of them, no answer is applied.
    for (_, open, _) in &matching {
        permit(caller, scope_to_answer(open.kind))?;
    }
    let after = feed::subscribe(service, caller, &thread).await?.after();
    let mut answered = HashSet::new();
    for (given, open, answer) in matching {
        match runs::resume(service, caller, &thread, answer, key.as_ref().map(|key| answer_key(key, given))).await {
            Ok(_) => {}
            // The earlier answers have changed the run. Its remaining questions are asked again.
            Err(_) if !answered.is_empty() => continue,
            Err(fault) => return Err(fault),
        }
        answered.insert(open.suspension_id.clone());
    }
    Ok(AcceptedChat { thread, run, from: MessageStart::Resumed { after, known: answers.known, answered } })
}

/// The idempotency key of one answer of a message.
fn answer_key(key: &Idempotent, given: &PartAnswer) -> Idempotent {
    let about = match given {
        PartAnswer::Decision { suspension, .. } => suspension,
        PartAnswer::Result { call, .. } | PartAnswer::Failure { call, .. } => call,
    };
    Idempotent { scope: format!("{} {about}", key.scope), ..key.clone() }
}

/// The run that accepted these same answers before; else the reason why they are refused.
async fn accepted_before(
    ctx: &DoorRequest,
    thread: ThreadId,
    answers: &Answers,
    key: Option<Idempotent>,
) -> Result<AcceptedChat, Fault> {
    for given in answers.given.iter().rev().take(MAX_LOOKUPS) {
        let Some(key) = key.as_ref().map(|key| answer_key(key, given)) else { break };
        if let Some(answered) = once::answered::<Receipt>(&ctx.app.service, &ctx.caller, &key).await? {
            return Ok(AcceptedChat { thread, run: answered.into_value()?.run_id, from: MessageStart::Whole });
        }
    }
    Err(why_closed(ctx, &thread, answers).await)
}

/// The given answer in the form of this question. `None` if it is for another question.
fn answer_to(open: &Suspension, given: &PartAnswer) -> Option<Answer> {
    let blank = Answer { digest: open.digest.clone(), ..text_reply::empty_answer(&open.suspension_id) };
    let is_call = |call: &String| {
        let is_for_page = matches!(open.kind, SuspensionKind::ClientTool | SuspensionKind::Input);
        is_for_page && open.call_id.as_ref().is_some_and(|id| id.as_str() == call)
    };
    match given {
        PartAnswer::Decision { suspension, approved, reason } if open.suspension_id.as_str() == suspension => {
            Some(Answer { approved: Some(*approved), reason: reason.clone(), ..blank })
        }
        PartAnswer::Result { call, output } if is_call(call) => Some(Answer { value: Some(output.clone()), ..blank }),
        PartAnswer::Failure { call, why } if is_call(call) => {
            Some(Answer { approved: Some(false), reason: Some(why.clone()), ..blank })
        }
        PartAnswer::Decision { .. } | PartAnswer::Result { .. } | PartAnswer::Failure { .. } => None,
    }
}

/// Why the questions that the message answers are no longer open.
async fn why_closed(ctx: &DoorRequest, thread: &ThreadId, answers: &Answers) -> Fault {
    let decided = answers.given.iter().find_map(|given| match given {
        PartAnswer::Decision { suspension, approved, .. } => Some((suspension, *approved)),
        PartAnswer::Result { .. } | PartAnswer::Failure { .. } => None,
    });
    let over = || Fault::new(Code::AlreadyResolved, "Nothing that the message answers is asked any more.");
    let Some((suspension, approved)) = decided else { return over() };
    if let Err(fault) = permit(&ctx.caller, Scope::Approve) {
        return fault;
    }
    let answer = Answer { approved: Some(approved), ..text_reply::empty_answer(&suspension.as_str().into()) };
    runs::resume(&ctx.app.service, &ctx.caller, thread, answer, None).await.err().unwrap_or_else(over)
}
