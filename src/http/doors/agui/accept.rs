//! A request becomes a run, or answers what a run asks.

use super::cursor::Cursor;
use super::interrupt;
use super::request::{ClientRun, Query, Sent};
use crate::domain::caller::Caller;
use crate::domain::digest;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{Answer, Suspension};
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::settings::CallOptions;
use crate::http::app_state::AppState;
use crate::http::caller::permit;
use crate::http::doors::{scope_to_answer, text_reply};
use crate::http::reply_preferences::ReplyPreferences;
use crate::service::feed::{self, After, EarlySubscription};
use crate::service::once::{Answered, Idempotent};
use crate::service::runs::{self, ProcessAsk, Receipt};
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
    let thread = sent.run.thread.clone();
    let open = open_on(asker, &thread).await?;
    if open.is_empty() && sent.resume.is_empty() {
        let Some(query) = &sent.query else {
            let why = "The last message must be the user's, or the result of a call that waits for it.";
            return Err(super::request::invalid("/messages", why.to_owned()));
        };
        return ask(asker, &sent.run, query, sent.options).await;
    }
    let answers = match answers(&open, &sent) {
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
    let once = Idempotent {
        key: run.id.clone(),
        scope: format!("AG-UI {} {}", caller.name, run.thread),
        fingerprint: digest::of(&json!([query.text, query.message_id])),
    };
    let (answered, early) = runs::process_subscribed(service, caller, &run.thread, ask, Some(once)).await?;
    let run = receipt(answered)?.run_id;
    Ok(Accepted::Told(run, early.map_or(Follow::Whole, Follow::Live)))
}

/// Where the client's own id of a message stands in its metadata.
pub(super) const KEPT: &str = "agui";

fn receipt(answered: Answered<Receipt>) -> Result<Receipt, Fault> {
    let damaged = |error| Fault::new(Code::Internal, format!("The stored answer is damaged: {error}."));
    match answered {
        Answered::Fresh(receipt) => Ok(receipt),
        Answered::Replayed { body, .. } => serde_json::from_str(&body).map_err(damaged),
    }
}

/// What the client says to all that is open; whatever is left out would stay open unseen.
fn answers<'o>(open: &'o [Suspension], sent: &Sent) -> Result<Vec<(&'o Suspension, Answer)>, Fault> {
    for resume in &sent.resume {
        if !open.iter().any(|open| open.suspension_id.as_str() == resume.interrupt_id) {
            let detail = format!("Nothing of the id `{}` is open here.", resume.interrupt_id);
            return Err(Fault::new(Code::AlreadyResolved, detail));
        }
    }
    let mut answers = Vec::new();
    for open in open {
        let by_id = sent.resume.iter().find(|resume| resume.interrupt_id == open.suspension_id.as_str());
        let result = || {
            let call = open.call_id.as_ref()?.as_str();
            sent.results.iter().find(|result| interrupt::is_of_call(open, call) && result.call == call)
        };
        let blank = Answer { digest: open.digest.clone(), ..text_reply::blank(open) };
        answers.push(match (by_id, result()) {
            (Some(resume), _) => (open, interrupt::answer(open, resume)?),
            (None, Some(result)) => match &result.error {
                None => (open, Answer { value: Some(result.content.clone()), ..blank }),
                Some(why) => (open, Answer { approved: Some(false), reason: Some(why.clone()), ..blank }),
            },
            (None, None) => {
                let detail = format!("The run waits for an answer to `{}`; resume it with one.", open.suspension_id);
                return Err(Fault::new(Code::ThreadBusy, detail));
            }
        });
    }
    Ok(answers)
}

async fn answer(asker: &Asker, client: &ClientRun, answers: Vec<(&Suspension, Answer)>) -> Result<Accepted, Fault> {
    let (service, caller, thread) = (&asker.app.service, &asker.caller, &client.thread);
    let Some((first, _)) = answers.first() else {
        return Ok(Accepted::Refused(Fault::new(Code::AlreadyResolved, "Nothing is open here any more.")));
    };
    let run = first.run_id.clone();
    let given = u32::try_from(answers.len()).unwrap_or(u32::MAX);
    for (open, _) in &answers {
        permit(caller, scope_to_answer(open.kind))?;
    }
    let after = feed::subscribe(service, caller, thread).await?.after();
    for (_, answer) in answers {
        if let Err(fault) = runs::resume(service, caller, thread, answer, None).await {
            return if fault.code == Code::Forbidden { Err(fault) } else { Ok(Accepted::Refused(fault)) };
        }
    }
    Ok(Accepted::Told(run, Follow::Behind(after, given)))
}
