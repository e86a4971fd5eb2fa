//! `POST /threads/{thread}/process`: a new query, which becomes a run.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;

use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::ids::ThreadId;
use crate::domain::message::HistoryMessage;
use crate::domain::request_trace::RequestTrace;
use crate::domain::run::OnBusy;
use crate::domain::settings::CallOptions;
use crate::http::app_state::AppState;
use crate::http::caller::MayRun;
use crate::http::follow::{Finished, follow};
use crate::http::idempotency::{IdempotencyKey, ReplyValue, reply_value};
use crate::http::ids::Ids;
use crate::http::json::KeyedBody;
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::http::reply_preferences::ReplyPreferences;
use crate::service::once::Answered;
use crate::service::runs::{self, ContinueAt, ProcessAsk, Receipt, WaitsFor};

/// `AgentProps`: the query, and the options of its run.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = AgentProps)]
pub(crate) struct ProcessBody {
    query: String,
    user_id: Option<String>,
    session_id: Option<String>,
    trace_id: Option<String>,
    /// What to do when a run is active.
    #[serde(default)]
    on_busy: OnBusy,
    /// A conversation from elsewhere, oldest first, with which the thread's own begins. Only for a thread on which
    /// nothing has happened yet.
    #[serde(default)]
    history: Vec<HistoryMessage>,
    /// The id of a message of the thread, or `start`: the thread goes back there first, and later messages are
    /// superseded. A thread with an active run goes back only with `onBusy: interrupt`.
    after: Option<String>,
    #[serde(default)]
    options: CallOptions,
}

/// Send the agent a query. The thread is created if it does not exist.
///
/// Answered 202 once the request is durable. With `Prefer: wait=N`: 200 and the final response if it ends in time. With
/// `Accept: text/event-stream`: the run's events until it ends or suspends.
#[utoipa::path(post, path = "/threads/{thread}/process", operation_id = "processThread",
    tag = "runs", request_body = ProcessBody,
    params(("Idempotency-Key" = Option<String>, Header), ("Prefer" = Option<String>, Header, example = "wait=30")),
    responses(
        (status = 202, body = Receipt, description = "Accepted: durable, and in progress or waiting for a person"),
        (status = 200, description = "The result, or the run if it has none; or its events", content(
            (Finished = "application/json"), (String = "text/event-stream")))))]
pub(crate) async fn process(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    ids: Ids,
    preferences: ReplyPreferences,
    _: NoParams,
    key: IdempotencyKey,
    sent: KeyedBody<ProcessBody>,
) -> HttpResult<Response> {
    let thread = ids.new_thread(&app)?;
    let ask = ask_of(&app, sent.value, &preferences.trace)?;
    let (service, key) = (&app.service, key.with(sent.fingerprint));
    let (answered, early) = if preferences.wants_events {
        runs::process_subscribed(service, &caller, &thread, ask, key).await?
    } else {
        (runs::process(service, &caller, &thread, ask, key).await?, None)
    };
    follow(&app, &caller, &preferences, early, accepted(answered)?, WaitsFor::Question).await
}

/// Validates and accepts a request that came over a WebSocket.
pub(crate) async fn accept(
    app: &AppState,
    caller: &Caller,
    thread: &ThreadId,
    sent: KeyedBody<ProcessBody>,
    key: IdempotencyKey,
    trace: &RequestTrace,
) -> Result<ReplyValue<Receipt>, Fault> {
    let ask = ask_of(app, sent.value, trace)?;
    accepted(runs::process(&app.service, caller, thread, ask, key.with(sent.fingerprint)).await?)
}

fn accepted(answered: Answered<Receipt>) -> Result<ReplyValue<Receipt>, Fault> {
    reply_value(answered, StatusCode::ACCEPTED)
}

/// What the body asks for, once it is validated.
fn ask_of(app: &AppState, body: ProcessBody, trace: &RequestTrace) -> Result<ProcessAsk, Fault> {
    check(&body, app.config.limits.id_length)?;
    Ok(ProcessAsk {
        query: body.query,
        user_id: body.user_id,
        session_id: body.session_id,
        trace_id: body.trace_id,
        trace: Some(trace.clone()),
        on_busy: body.on_busy,
        history: body.history,
        continue_at: body.after.map(continue_at),
        options: body.options,
        ..ProcessAsk::default()
    })
}

fn continue_at(after: String) -> ContinueAt {
    if after == "start" { ContinueAt::Start } else { ContinueAt::After(after.into()) }
}

fn check(body: &ProcessBody, longest: usize) -> Result<(), Fault> {
    if body.query.trim().is_empty() {
        return Err(Fault::invalid("/query", "must say something"));
    }
    for (pointer, id) in [("/userId", &body.user_id), ("/sessionId", &body.session_id), ("/traceId", &body.trace_id)] {
        let fits = |id: &String| (1..=longest).contains(&id.len()) && !id.contains(char::is_control);
        if !id.as_ref().is_none_or(fits) {
            return Err(Fault::invalid(pointer, format!("has 1 to {longest} bytes and no control characters")));
        }
    }
    Ok(())
}
