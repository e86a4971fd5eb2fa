//! `POST /threads/{thread}/process`: a new query.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;

use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::ThreadId;
use crate::domain::run::OnBusy;
use crate::domain::settings::CallOptions;
use crate::http::asked::Asked;
use crate::http::caller::MayRun;
use crate::http::follow::{Finished, follow};
use crate::http::front::Front;
use crate::http::idempotency::{IdempotencyKey, Settled, settle};
use crate::http::ids::Ids;
use crate::http::json::Sent;
use crate::http::params::NoParams;
use crate::http::problem::Answer;
use crate::http::trace::TraceId;
use crate::runtime::{Ear, ProcessAsk, Receipt};

/// `AgentProps`: what the agent is asked.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = AgentProps)]
pub(crate) struct Query {
    query: String,
    user_id: Option<String>,
    session_id: Option<String>,
    trace_id: Option<String>,
    /// What to do when a run is active.
    #[serde(default)]
    on_busy: OnBusy,
    #[serde(default)]
    options: CallOptions,
}

/// Ask the agent. The thread is created if there is none.
///
/// Answered 202 once the request is durable. With `Prefer: wait=N`: 200 and the final response if it ends in time. With
/// `Accept: text/event-stream`: the run's events until it ends or suspends.
#[utoipa::path(post, path = "/threads/{thread}/process", operation_id = "processThread",
    tag = "runs", request_body = Query,
    params(("Idempotency-Key" = Option<String>, Header), ("Prefer" = Option<String>, Header, example = "wait=30")),
    responses(
        (status = 202, body = Receipt, description = "Accepted: durable, and under way, or waiting for a person"),
        (status = 200, description = "The result, or the run without one; or its events", content(
            (Finished = "application/json"), (String = "text/event-stream")))))]
pub(crate) async fn process(
    MayRun(caller): MayRun,
    State(front): State<Front>,
    ids: Ids,
    asked: Asked,
    _: NoParams,
    key: IdempotencyKey,
    sent: Sent<Query>,
) -> Answer<Response> {
    let thread = ids.new_thread(&front)?;
    let (receipt, ear) = accept(&front, &caller, &thread, sent, key, &asked.trace, asked.wants_events).await?;
    follow(&front, &caller, &asked, ear, receipt).await
}

/// Checks and hands over; REST and WebSocket share it. Who wants events listens before anything can happen.
pub(crate) async fn accept(
    front: &Front,
    caller: &Caller,
    thread: &ThreadId,
    sent: Sent<Query>,
    key: IdempotencyKey,
    trace: &TraceId,
    listens: bool,
) -> Result<(Settled<Receipt>, Option<Ear>), Fault> {
    let asked = sent.value;
    check(&asked, front.config.limits.id_length)?;
    let ask = ProcessAsk {
        query: asked.query,
        metadata: None,
        user_id: asked.user_id,
        session_id: asked.session_id,
        trace_id: asked.trace_id,
        trace: Some((trace.0.clone(), trace.1.clone())),
        on_busy: asked.on_busy,
        options: asked.options,
        push: None,
    };
    let (runtime, key) = (&front.runtime, key.with(sent.fingerprint));
    let (answered, ear) = match listens {
        true => runtime.process_heard(caller, thread, ask, key).await?,
        false => (runtime.process(caller, thread, ask, key).await?, None),
    };
    Ok((settle(answered, StatusCode::ACCEPTED)?, ear))
}

fn check(asked: &Query, longest: usize) -> Result<(), Fault> {
    let invalid =
        |pointer: &str, how: String| Fault::new(Code::Invalid, format!("`{pointer}` {how}.")).at(pointer, how);
    if asked.query.trim().is_empty() {
        return Err(invalid("/query", "must say something".to_owned()));
    }
    for (pointer, id) in [("/userId", &asked.user_id), ("/sessionId", &asked.session_id), ("/traceId", &asked.trace_id)]
    {
        let fits = |id: &String| (1..=longest).contains(&id.len()) && !id.contains(char::is_control);
        if !id.as_ref().is_none_or(fits) {
            return Err(invalid(pointer, format!("has 1 to {longest} bytes and no control characters")));
        }
    }
    Ok(())
}
