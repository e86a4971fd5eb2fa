//! Reads the current state of a response from the log.

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::events::ResponseEvents;
use super::object::ResponseId;
use super::stream;
use crate::domain::facts::Fact;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{Suspension, SuspensionKind};
use crate::domain::ids::{RunId, SuspensionId, ThreadId};
use crate::domain::observation::ObservationType;
use crate::domain::run::RunStatus;
use crate::http::doors::DoorRequest;
use crate::http::doors::answer_headers::set_run;
use crate::http::doors::conversation::LogPages;
use crate::http::doors::frames::{DecodedObservation, ObservationContent, RunFrame};
use crate::http::doors::openai::error::OpenAiError;
use crate::http::doors::openai::run_request::{approval_key, is_for_people};
use crate::http::doors::run_stream::Projection;
use crate::service::feed::{self, After, FeedAsk};
use crate::service::{lookups, runs, suspensions};

/// The observations that open and close questions.
const QUESTION_TYPES: [ObservationType; 3] =
    [ObservationType::AgentSuspended, ObservationType::AgentResumed, ObservationType::SuspensionTimeout];

/// The observations that close questions, and the messages that answer them.
const ANSWER_TYPES: [ObservationType; 3] =
    [ObservationType::StateUpdate, ObservationType::AgentResumed, ObservationType::SuspensionTimeout];

pub(super) async fn thread_of(ctx: &DoorRequest, id: &ResponseId) -> Result<ThreadId, OpenAiError> {
    let run = runs::get(&ctx.app.service, &ctx.caller, &id.run).await;
    Ok(run.map_err(of_response)?.thread_id)
}

/// The same fault about the response, not about its run.
pub(super) fn of_response(fault: Fault) -> Fault {
    if fault.code == Code::NotFound { Fault::not_found("response") } else { fault }
}

/// The response as an HTTP response.
pub(super) async fn object(ctx: &DoorRequest, id: &ResponseId) -> Result<Response, OpenAiError> {
    let events = state(ctx, id).await?;
    let mut object = events.response();
    let run = runs::get(&ctx.app.service, &ctx.caller, &id.run).await?;
    if !events.is_finished() && run.status == RunStatus::Queued {
        object["status"] = json!("queued");
    }
    let mut response = Json(object).into_response();
    set_run(response.headers_mut(), &run.thread_id, &id.run);
    Ok(response)
}

/// Applies everything that has happened to the response so far.
pub(super) async fn state(ctx: &DoorRequest, id: &ResponseId) -> Result<ResponseEvents, OpenAiError> {
    let thread = thread_of(ctx, id).await?;
    let mut stream = stream::open(ctx, id, &thread, None).await?;
    while !stream.projection.is_finished() {
        // A run that has ended or is suspended has all its events in the log, so reading goes on until they are read.
        if stream.read_frame().await && !is_idle(ctx, &id.run).await? {
            break;
        }
    }
    match stream.projection.interruption() {
        Some(error) => Err(error),
        None => Ok(stream.projection),
    }
}

async fn is_idle(ctx: &DoorRequest, run: &RunId) -> Result<bool, OpenAiError> {
    let status = runs::get(&ctx.app.service, &ctx.caller, run).await?.status;
    Ok(status.is_terminal() || status == RunStatus::Suspended)
}

/// Whether this question was open when the response ended, and was the first question for people. That is so if it was
/// asked before any answers but those of the response's own request, and if no older question was answered since.
pub(super) async fn has_shown(
    ctx: &DoorRequest,
    id: &ResponseId,
    thread: &ThreadId,
    question: &Suspension,
) -> Result<bool, OpenAiError> {
    let (service, caller) = (&ctx.app.service, &ctx.caller);
    let (mut answers, own_answers) = (0, id.answers.unwrap_or(0));
    let ask = FeedAsk { after: After::Seq(id.start), types: QUESTION_TYPES.to_vec(), ..FeedAsk::default() };
    let mut pages = LogPages::new(&ctx.app, caller, thread, ask);
    while let Some(page) = pages.next().await? {
        let observations = page.items.into_iter().flat_map(DecodedObservation::decode);
        for observation in observations.filter(|observation| observation.run == id.run) {
            if let ObservationContent::Fact(Fact::AgentSuspended(asked)) = &observation.content
                && asked.suspension_id == question.suspension_id
                && answers > own_answers
            {
                return Ok(false);
            }
            let Some(closed) = observation.closes() else { continue };
            answers += 1;
            // The ids sort by the time at which the questions were asked.
            let is_older = answers > own_answers && *closed < question.suspension_id;
            if is_older && suspensions::get(service, caller, closed).await.is_ok_and(|one| is_for_people(&one)) {
                return Ok(false);
            }
        }
    }
    Ok(question.run_id == id.run)
}

/// The `seq` before the first answers of a later response of the same run, which is where this response ended. `None` if
/// it ended with its run. Also `None` if its question expired or was answered elsewhere: no other response follows then,
/// and the conversation goes on with what the run did.
pub(super) async fn end_before_answers(
    ctx: &DoorRequest,
    id: &ResponseId,
    thread: &ThreadId,
) -> Result<Option<i64>, OpenAiError> {
    let (mut own_answers, mut last_user_seq) = (id.answers.unwrap_or(0), None);
    let (after, until) = (After::Seq(id.start), Some(id.run.clone()));
    let ask = FeedAsk { after, types: ANSWER_TYPES.to_vec(), until, ..FeedAsk::default() };
    let mut pages = LogPages::new(&ctx.app, &ctx.caller, thread, ask);
    loop {
        let page = match pages.next().await {
            Ok(Some(page)) => page,
            Ok(None) => return Ok(None),
            // That part of the log was deleted.
            Err(fault) if fault.code == Code::HistoryCompacted => return Ok(None),
            Err(fault) => return Err(fault.into()),
        };
        for observation in page.items.into_iter().flat_map(DecodedObservation::decode) {
            if observation.is_user_message() {
                last_user_seq = Some(observation.seq);
            }
            let Some(closed) = observation.closes().filter(|_| observation.run == id.run) else { continue };
            if observation.kind == ObservationType::SuspensionTimeout {
                return Ok(None);
            }
            if own_answers > 0 {
                own_answers -= 1;
                continue;
            }
            // A message that answers is recorded just before.
            if last_user_seq == Some(observation.seq - 1) {
                return Ok(Some(observation.seq - 2));
            }
            return Ok(is_answered_here(ctx, closed).await?.then_some(observation.seq - 1));
        }
    }
}

/// Whether the result of a client's own function, or an approval given to this API, answered this question.
async fn is_answered_here(ctx: &DoorRequest, id: &SuspensionId) -> Result<bool, OpenAiError> {
    let (service, caller) = (&ctx.app.service, &ctx.caller);
    match suspensions::get(service, caller, id).await {
        Ok(question) if question.kind == SuspensionKind::ClientTool => Ok(true),
        Err(fault) if fault.code != Code::NotFound => Err(fault.into()),
        Ok(_) | Err(_) => Ok(!lookups::find(service, caller, &approval_key(ctx, id), 1).await?.is_empty()),
    }
}

/// The last `seq` of a run that has ended.
pub(super) async fn end_of(ctx: &DoorRequest, thread: &ThreadId, run: &RunId) -> Result<i64, OpenAiError> {
    Ok(seq_of(ctx, thread, run, ObservationType::RunFinished).await?.unwrap_or(0))
}

/// The first `seq` at which the run has this observation.
pub(super) async fn seq_of(
    ctx: &DoorRequest,
    thread: &ThreadId,
    run: &RunId,
    kind: ObservationType,
) -> Result<Option<i64>, OpenAiError> {
    let ask = FeedAsk { after: After::Seq(0), types: vec![kind], until: Some(run.clone()), ..FeedAsk::default() };
    let mut feed = feed::open(&ctx.app.service, &ctx.caller, thread, ask).await?;
    while let Some(frame) = feed.next().await {
        match RunFrame::decode(&frame, run) {
            Some(RunFrame::Observation(observation)) if observation.run == *run => return Ok(Some(observation.seq)),
            Some(RunFrame::CaughtUp) => return Ok(None),
            Some(
                RunFrame::Observation(_)
                | RunFrame::Token(_)
                | RunFrame::CallStarted(_)
                | RunFrame::Suspended
                | RunFrame::Gap
                | RunFrame::LogUnreadable
                | RunFrame::Draining
                | RunFrame::Erased,
            )
            | None => {}
        }
    }
    Ok(None)
}
