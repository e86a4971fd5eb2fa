//! A request becomes a run, or answers what a run asks.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::again;
use super::calls::KnownCall;
use super::request::{Answers, Given, Pes, Says, Sent};
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{Answer, Suspension, SuspensionKind};
use crate::domain::ids::{RunId, SuspensionId, ThreadId};
use crate::domain::run::OnBusy;
use crate::http::app_state::AppState;
use crate::http::caller::permit;
use crate::http::doors::{scope_to_answer, text_reply};
use crate::http::reply_preferences::ReplyPreferences;
use crate::service::feed::{self, After, EarlySubscription};
use crate::service::once::{self, Idempotent};
use crate::service::runs::{self, ContinueAt, ProcessAsk, Receipt};
use crate::service::suspensions;

pub(super) struct Asker {
    pub(super) app: AppState,
    pub(super) caller: Caller,
    pub(super) preferences: ReplyPreferences,
}

/// Which run is told, and from where.
pub(super) struct Accepted {
    pub(super) thread: ThreadId,
    pub(super) run: RunId,
    pub(super) follow: Follow,
}

pub(super) enum Follow {
    /// Heard since before it began.
    Live(EarlySubscription),
    /// All of it.
    Whole,
    /// What follows this place of the log; the client has the message so far.
    Resumed { after: After, known: Vec<KnownCall>, answered: HashSet<SuspensionId> },
}

pub(super) async fn accept(asker: &Asker, sent: Sent, key: Option<Idempotent>) -> Result<Accepted, Fault> {
    match sent.says {
        Says::Query(query) => {
            let asks = Asks { metadata: query.metadata(), text: query.text, place: None };
            ask(asker, sent.thread, asks, sent.pes, key).await
        }
        Says::Again(again) => {
            // What it took the place of when it came first is not found any more.
            if let Some(run) = begun_before(asker, key.as_ref()).await? {
                return Ok(Accepted { thread: sent.thread, run, follow: Follow::Whole });
            }
            let asks = again::asks(asker, &sent.thread, again).await?;
            ask(asker, sent.thread, asks, sent.pes, key).await
        }
        Says::Answers(answers) => answer(asker, sent.thread, answers, key).await,
    }
}

/// What is asked of the agent.
pub(super) struct Asks {
    pub(super) text: String,
    /// Of the user's message.
    pub(super) metadata: Option<Map<String, Value>>,
    /// Where in the chat, if not at its end.
    pub(super) place: Option<ContinueAt>,
}

/// A new run. One that goes back takes the place of what goes on: that answers what is said no more.
async fn ask(
    asker: &Asker,
    thread: ThreadId,
    asks: Asks,
    pes: Pes,
    key: Option<Idempotent>,
) -> Result<Accepted, Fault> {
    let (service, caller) = (&asker.app.service, &asker.caller);
    let goes_back = asks.place.is_some();
    if pes.on_busy.is_none() && !goes_back && !is_repeat(asker, key.as_ref()).await? && waits(asker, &thread).await? {
        let detail = "The agent waits for an answer in this chat; give it, or send `pes: {onBusy: \"interrupt\"}`.";
        return Err(Fault::new(Code::ThreadBusy, detail));
    }
    let trace = &asker.preferences.trace;
    let ask = ProcessAsk {
        metadata: asks.metadata,
        query: asks.text,
        user_id: pes.user_id,
        session_id: pes.session_id,
        trace: Some((trace.0.clone(), trace.1.clone())),
        on_busy: pes.on_busy.unwrap_or(if goes_back { OnBusy::Interrupt } else { OnBusy::default() }),
        continue_at: asks.place,
        options: pes.options,
        ..ProcessAsk::default()
    };
    let (answered, early) = runs::process_subscribed(service, caller, &thread, ask, key).await?;
    let run = answered.into_value()?.run_id;
    Ok(Accepted { thread, run, follow: early.map_or(Follow::Whole, Follow::Live) })
}

/// The same request again is the same run, whatever that asks by now.
async fn is_repeat(asker: &Asker, key: Option<&Idempotent>) -> Result<bool, Fault> {
    match key {
        Some(key) => once::is_repeat(&asker.app.service, &asker.caller, key).await,
        None => Ok(false),
    }
}

/// The run that this very request began when it came first.
async fn begun_before(asker: &Asker, key: Option<&Idempotent>) -> Result<Option<RunId>, Fault> {
    let Some(key) = key else { return Ok(None) };
    let answered = once::answered::<Receipt>(&asker.app.service, &asker.caller, key).await?;
    answered.map(|answered| Ok(answered.into_value()?.run_id)).transpose()
}

/// Whether the agent waits for an answer; not where there is no such thread yet.
async fn waits(asker: &Asker, thread: &ThreadId) -> Result<bool, Fault> {
    match suspensions::open_on(&asker.app.service, &asker.caller, thread).await {
        Err(fault) if fault.code == Code::NotFound => Ok(false),
        open => Ok(!open?.is_empty()),
    }
}

/// Everything that is still asked and that the message answers. What was answered before is left out, unless nothing else
/// is there: then that is the answer.
async fn answer(asker: &Asker, thread: ThreadId, answers: Answers, key: Option<Idempotent>) -> Result<Accepted, Fault> {
    let (service, caller) = (&asker.app.service, &asker.caller);
    let open = suspensions::open_on(service, caller, &thread).await?;
    let of_given = |given| open.iter().find_map(|open| Some((given, open, said(open, given)?)));
    let matching: Vec<(&Given, &Suspension, Answer)> = answers.given.iter().filter_map(of_given).collect();
    let Some((_, first, _)) = matching.first() else { return taken_before(asker, thread, &answers, key).await };
    let run = first.run_id.clone();
    // All of them or none: a message of which only a part may be said is not half taken.
    for (_, open, _) in &matching {
        permit(caller, scope_to_answer(open.kind))?;
    }
    let after = feed::subscribe(service, caller, &thread).await?.after();
    let mut answered = HashSet::new();
    for (given, open, answer) in matching {
        match runs::resume(service, caller, &thread, answer, key.as_ref().map(|key| of_one(key, given))).await {
            Ok(_) => {}
            // The others have moved the run: what is still open of it is asked again.
            Err(_) if !answered.is_empty() => continue,
            Err(fault) => return Err(fault),
        }
        answered.insert(open.suspension_id.clone());
    }
    Ok(Accepted { thread, run, follow: Follow::Resumed { after, known: answers.known, answered } })
}

/// The key of one answer of a message.
fn of_one(key: &Idempotent, given: &Given) -> Idempotent {
    let about = match given {
        Given::Decision { suspension, .. } => suspension,
        Given::Result { call, .. } | Given::Failure { call, .. } => call,
    };
    Idempotent { scope: format!("{} {about}", key.scope), ..key.clone() }
}

/// The run that took these very answers when they came first; else, why they are not taken.
async fn taken_before(
    asker: &Asker,
    thread: ThreadId,
    answers: &Answers,
    key: Option<Idempotent>,
) -> Result<Accepted, Fault> {
    for given in &answers.given {
        let Some(key) = key.as_ref().map(|key| of_one(key, given)) else { break };
        if let Some(answered) = once::answered::<Receipt>(&asker.app.service, &asker.caller, &key).await? {
            return Ok(Accepted { thread, run: answered.into_value()?.run_id, follow: Follow::Whole });
        }
    }
    Err(past(asker, &thread, answers).await)
}

/// What the client gave, as the answer to this question; `None`: it is meant for another.
fn said(open: &Suspension, given: &Given) -> Option<Answer> {
    let blank = Answer { digest: open.digest.clone(), ..text_reply::blank(open) };
    let is_call = |call: &String| {
        let is_for_page = matches!(open.kind, SuspensionKind::ClientTool | SuspensionKind::Input);
        is_for_page && open.call_id.as_ref().is_some_and(|id| id.as_str() == call)
    };
    match given {
        Given::Decision { suspension, approved, reason } if open.suspension_id.as_str() == suspension => {
            Some(Answer { approved: Some(*approved), reason: reason.clone(), ..blank })
        }
        Given::Result { call, output } if is_call(call) => Some(Answer { value: Some(output.clone()), ..blank }),
        Given::Failure { call, why } if is_call(call) => {
            Some(Answer { approved: Some(false), reason: Some(why.clone()), ..blank })
        }
        Given::Decision { .. } | Given::Result { .. } | Given::Failure { .. } => None,
    }
}

/// What became of the questions that the message answers.
async fn past(asker: &Asker, thread: &ThreadId, answers: &Answers) -> Fault {
    let decided = answers.given.iter().find_map(|given| match given {
        Given::Decision { suspension, approved, .. } => Some((suspension, *approved)),
        Given::Result { .. } | Given::Failure { .. } => None,
    });
    let over = || Fault::new(Code::AlreadyResolved, "Nothing that the message answers is asked any more.");
    let Some((suspension, approved)) = decided else { return over() };
    if let Err(fault) = permit(&asker.caller, Scope::Approve) {
        return fault;
    }
    let answer = Answer {
        suspension_id: suspension.as_str().into(),
        digest: None,
        approved: Some(approved),
        value: None,
        modified_args: None,
        reason: None,
        action: None,
    };
    runs::resume(&asker.app.service, &asker.caller, thread, answer, None).await.err().unwrap_or_else(over)
}
