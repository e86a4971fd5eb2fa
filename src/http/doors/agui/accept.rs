//! A request becomes a run, or answers what a run asks.

use super::again;
use super::cursor::Cursor;
use super::interrupt;
use super::request::{ClientRun, Query, Resume, Sent, ToolMessage};
use crate::domain::caller::Caller;
use crate::domain::digest;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{Answer, Suspension};
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::settings::CallOptions;
use crate::http::app_state::AppState;
use crate::http::caller::permit;
use crate::http::doors::scope_to_answer;
use crate::http::reply_preferences::ReplyPreferences;
use crate::service::feed::{self, After, EarlySubscription};
use crate::service::once::{self, Idempotent};
use crate::service::runs::{self, ProcessAsk};
use crate::service::suspensions;
use serde_json::{Map, json};

pub(super) struct Asker {
    pub(super) app: AppState,
    pub(super) caller: Caller,
    pub(super) preferences: ReplyPreferences,
}

pub(super) enum Accepted {
    Told(RunId, Follow),
    /// Nothing was done: the stream says why.
    Refused(Fault),
}

/// What of a run is told.
pub(super) enum Follow {
    /// Heard since before it began.
    Live(EarlySubscription),
    /// All of it.
    Whole,
    /// What follows this place of the log, to which so many questions were answered.
    Behind(After, u32),
    /// What of a stream that was cut follows this place of it.
    Cut(Cursor),
}

pub(super) async fn accept(asker: &Asker, sent: Sent) -> Result<Accepted, Fault> {
    let asks = sent.resume.is_empty() && sent.results.is_empty();
    // The same request again is the same run, whatever that asks by now.
    if let Some(query) = sent.query.as_ref().filter(|_| asks)
        && once::is_repeat(&asker.app.service, &asker.caller, &once(asker, &sent.run, query)).await?
    {
        return ask(asker, &sent.run, query, sent.options).await;
    }
    let open = open_on(asker, &sent.run.thread).await?;
    if open.iter().all(|open| said(open, &sent).is_none())
        && let Some(told) = again::taken_before(asker, &sent).await?
    {
        return Ok(told);
    }
    if open.is_empty() && sent.resume.is_empty() {
        let Some(query) = &sent.query else {
            let why = "The last message must be the user's, or the result of a call that waits for it.";
            return Err(super::request::invalid("/messages", why.to_owned()));
        };
        return ask(asker, &sent.run, query, sent.options).await;
    }
    let answers = match answers(asker, &open, &sent) {
        Ok(answers) => answers,
        Err(fault) => return Ok(Accepted::Refused(fault)),
    };
    answer(asker, &sent.run, answers).await
}

/// None where there is no such thread yet.
async fn open_on(asker: &Asker, thread: &ThreadId) -> Result<Vec<Suspension>, Fault> {
    match suspensions::open_on(&asker.app.service, &asker.caller, thread).await {
        Err(fault) if fault.code == Code::NotFound => Ok(Vec::new()),
        found => found,
    }
}

/// A new run. The client's own id of its run makes the same request, sent again, the same run.
async fn ask(asker: &Asker, run: &ClientRun, query: &Query, options: CallOptions) -> Result<Accepted, Fault> {
    let (service, caller) = (&asker.app.service, &asker.caller);
    let trace = &asker.preferences.trace;
    let ask = ProcessAsk {
        query: query.text.clone(),
        metadata: Some(Map::from_iter([(KEPT.to_owned(), json!({ "id": query.message_id }))])),
        trace: Some((trace.0.clone(), trace.1.clone())),
        options,
        ..ProcessAsk::default()
    };
    let once = Some(once(asker, run, query));
    let (answered, early) = runs::process_subscribed(service, caller, &run.thread, ask, once).await?;
    let run = answered.into_value()?.run_id;
    Ok(Accepted::Told(run, early.map_or(Follow::Whole, Follow::Live)))
}

fn once(asker: &Asker, run: &ClientRun, query: &Query) -> Idempotent {
    Idempotent {
        key: run.id.clone(),
        scope: format!("AG-UI {} {}", asker.caller.name, run.thread),
        fingerprint: digest::of(&json!([query.text, query.message_id])),
    }
}

/// Where the client's own id of a message stands in its metadata.
pub(super) const KEPT: &str = "agui";

/// What the client says to an open question.
struct Given<'o> {
    open: &'o Suspension,
    /// `None`: that it stays open.
    answer: Option<Answer>,
    key: Idempotent,
}

/// What the client says to all that is open. Whatever is left out would stay open unseen. What it says to a question that is
/// over counts for nothing beside an answer to one that is open.
fn answers<'o>(asker: &Asker, open: &'o [Suspension], sent: &Sent) -> Result<Vec<Given<'o>>, Fault> {
    let said: Vec<(&Suspension, Option<Said<'_>>)> = open.iter().map(|open| (open, said(open, sent))).collect();
    let is_open = |id: &str| open.iter().any(|open| open.suspension_id.as_str() == id);
    if let Some(past) = sent.resume.iter().find(|resume| !is_open(&resume.interrupt_id))
        && said.iter().all(|(_, said)| said.is_none())
    {
        let detail = format!("Nothing of the id `{}` is open here.", past.interrupt_id);
        return Err(Fault::new(Code::AlreadyResolved, detail));
    }
    let mut answers = Vec::with_capacity(said.len());
    for (open, said) in said {
        let Some(said) = said else {
            let detail = format!("The run waits for an answer to `{}`; resume it with one.", open.suspension_id);
            return Err(Fault::new(Code::ThreadBusy, detail));
        };
        let answer = match said {
            Said::Resume(resume) => interrupt::answer(open, resume)?,
            Said::Result(result) => Some(interrupt::answer_of_result(open, result)?),
        };
        answers.push(Given { open, answer, key: again::key(asker, &sent.run, said) });
    }
    Ok(answers)
}

/// How a client answers a question.
#[derive(Clone, Copy)]
pub(super) enum Said<'s> {
    Resume(&'s Resume),
    Result(&'s ToolMessage),
}

impl<'s> Said<'s> {
    /// The id of the question, or of the call that it is about.
    pub(super) fn about(self) -> &'s str {
        match self {
            Said::Resume(resume) => &resume.interrupt_id,
            Said::Result(result) => &result.call,
        }
    }
}

fn said<'s>(open: &Suspension, sent: &'s Sent) -> Option<Said<'s>> {
    let by_id = sent.resume.iter().find(|resume| resume.interrupt_id == open.suspension_id.as_str());
    let result = || sent.results.iter().find(|result| interrupt::is_of_call(open, &result.call));
    by_id.map(Said::Resume).or_else(|| result().map(Said::Result))
}

/// Each answer has a key of its own: under the same id of the client's run it is the same answer.
async fn answer(asker: &Asker, client: &ClientRun, answers: Vec<Given<'_>>) -> Result<Accepted, Fault> {
    let (service, caller, thread) = (&asker.app.service, &asker.caller, &client.thread);
    let Some(first) = answers.first() else {
        return Ok(Accepted::Refused(Fault::new(Code::AlreadyResolved, "Nothing is open here any more.")));
    };
    let run = first.open.run_id.clone();
    for given in &answers {
        permit(caller, scope_to_answer(given.open.kind))?;
    }
    let after = feed::subscribe(service, caller, thread).await?.after();
    let (mut given, mut refusal) = (0, None);
    for Given { answer, key, .. } in answers {
        let Some(answer) = answer else { continue };
        match runs::resume(service, caller, thread, answer, Some(key)).await {
            Ok(_) => given += 1,
            Err(fault) => refusal = refusal.or(Some(fault)),
        }
    }
    match refusal {
        Some(fault) if given == 0 && fault.code == Code::Forbidden => Err(fault),
        Some(fault) if given == 0 => Ok(Accepted::Refused(fault)),
        // Those that were taken have moved the run: what is still open of it is asked again.
        Some(_) | None => Ok(Accepted::Told(run, Follow::Behind(after, given))),
    }
}
