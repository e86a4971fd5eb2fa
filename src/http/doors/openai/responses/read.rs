//! A response as it stands, read from the log.

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::events::ResponseEvents;
use super::object::ResponseId;
use super::telling::Telling;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{ExpiryPolicy, Suspension};
use crate::domain::ids::{RunId, SuspensionId, ThreadId};
use crate::domain::observation::ObservationType;
use crate::domain::run::RunStatus;
use crate::http::doors::answer_headers::name_run;
use crate::http::doors::openai::asking::{Asker, is_for_people};
use crate::http::doors::openai::refusal::Refusal;
use crate::http::doors::told::Told;
use crate::service::feed::{self, After, FeedAsk};
use crate::service::{runs, suspensions};

/// Observations that are read at once.
const CHUNK: u32 = 200;

/// That something was asked, and that it is asked no more.
const ASKED: [ObservationType; 3] =
    [ObservationType::AgentSuspended, ObservationType::AgentResumed, ObservationType::SuspensionTimeout];

pub(super) async fn thread_of(asker: &Asker, id: &ResponseId) -> Result<ThreadId, Refusal> {
    match runs::get(&asker.app.service, &asker.caller, &id.run).await {
        Err(fault) if fault.code == Code::NotFound => Err(Fault::not_found("response").into()),
        run => Ok(run?.thread_id),
    }
}

/// The response as an answer.
pub(super) async fn object(asker: &Asker, id: &ResponseId) -> Result<Response, Refusal> {
    let events = state(asker, id).await?;
    let mut object = events.response();
    let run = runs::get(&asker.app.service, &asker.caller, &id.run).await?;
    if !events.is_over() && run.status == RunStatus::Queued {
        object["status"] = json!("queued");
    }
    let mut response = Json(object).into_response();
    name_run(response.headers_mut(), &run.thread_id, &id.run);
    Ok(response)
}

/// All that has happened of it.
pub(super) async fn state(asker: &Asker, id: &ResponseId) -> Result<ResponseEvents, Refusal> {
    let thread = thread_of(asker, id).await?;
    let mut telling = Telling::of(asker, id, &thread, None).await?;
    while !telling.events.is_over() {
        // What stands still, or is over, says so after all that has happened.
        if telling.hear().await && !stands_still(asker, &id.run).await? {
            break;
        }
    }
    match telling.events.interruption() {
        Some(refusal) => Err(refusal),
        None => Ok(telling.events),
    }
}

async fn stands_still(asker: &Asker, run: &RunId) -> Result<bool, Refusal> {
    let status = runs::get(&asker.app.service, &asker.caller, run).await?.status;
    Ok(status.is_terminal() || status == RunStatus::Suspended)
}

/// Whether this question was open when the response ended, and was the first to people: it was asked before, or after nothing
/// but the answers that the response goes on with, and none that is older was answered since.
pub(super) async fn has_shown(
    asker: &Asker,
    id: &ResponseId,
    thread: &ThreadId,
    question: &Suspension,
) -> Result<bool, Refusal> {
    let (service, caller) = (&asker.app.service, &asker.caller);
    let (mut after, mut answers) = (id.start, 0);
    loop {
        let ask = FeedAsk { after: After::Seq(after), types: ASKED.to_vec(), ..FeedAsk::default() };
        let page = feed::page(service, caller, thread, ask, CHUNK).await?;
        for seen in page.items {
            after = seen.seq;
            let is_reminder = seen.content["policy"] == ExpiryPolicy::Remind.as_str();
            if seen.run_id != id.run || is_reminder {
                continue;
            }
            let about = SuspensionId::from(seen.content["suspensionId"].as_str().unwrap_or_default());
            if seen.kind == ObservationType::AgentSuspended {
                if about == question.suspension_id && answers > id.answers.unwrap_or(0) {
                    return Ok(false);
                }
                continue;
            }
            answers += 1;
            // Their ids are in the order in which they were asked.
            let is_older = answers > id.answers.unwrap_or(0) && about < question.suspension_id;
            if is_older && suspensions::get(service, caller, &about).await.is_ok_and(|one| is_for_people(&one)) {
                return Ok(false);
            }
        }
        if page.next_cursor.is_none() {
            return Ok(question.run_id == id.run);
        }
    }
}

/// Where the log of a run that is over ends.
pub(super) async fn end_of(asker: &Asker, thread: &ThreadId, run: &RunId) -> Result<i64, Refusal> {
    Ok(seq_of(asker, thread, run, ObservationType::RunFinished).await?.unwrap_or(0))
}

/// Where the run says this for the first time.
pub(super) async fn seq_of(
    asker: &Asker,
    thread: &ThreadId,
    run: &RunId,
    kind: ObservationType,
) -> Result<Option<i64>, Refusal> {
    let ask = FeedAsk { after: After::Seq(0), types: vec![kind], until: Some(run.clone()), ..FeedAsk::default() };
    let mut feed = feed::open(&asker.app.service, &asker.caller, thread, ask).await?;
    while let Some(frame) = feed.next().await {
        match Told::of(&frame) {
            Told::Observation(told) if told.run == *run => return Ok(Some(told.seq)),
            Told::CaughtUp => return Ok(None),
            Told::Observation(_) | Told::Token(_) | Told::Stands(..) | Told::Gap | Told::Draining | Told::Other => {}
        }
    }
    Ok(None)
}
