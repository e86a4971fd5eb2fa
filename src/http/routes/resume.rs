//! `POST /threads/{thread}/resume`: an answer to what the agent asked a person.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::hitl;
use crate::domain::ids::ThreadId;
use crate::http::app_state::AppState;
use crate::http::caller::MayApprove;
use crate::http::follow::{Finished, follow};
use crate::http::idempotency::{IdempotencyKey, ReplyValue, reply_value};
use crate::http::ids::Ids;
use crate::http::json::KeyedBody;
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::http::reply_preferences::ReplyPreferences;
use crate::service::feed;
use crate::service::runs::{self, Receipt, WaitsFor};

/// Resolve one suspension, once.
#[utoipa::path(post, path = "/threads/{thread}/resume", operation_id = "resumeThread",
    tag = "runs", request_body = hitl::Answer,
    params(("Idempotency-Key" = Option<String>, Header), ("Prefer" = Option<String>, Header, example = "wait=30")),
    responses(
        (status = 202, body = Receipt, description = "Accepted: durable, and in progress or waiting for a person"),
        (status = 200, description = "The result, or the run if it has none; or its events", content(
            (Finished = "application/json"), (String = "text/event-stream")))))]
pub(crate) async fn resume(
    MayApprove(caller): MayApprove,
    State(app): State<AppState>,
    ids: Ids,
    preferences: ReplyPreferences,
    _: NoParams,
    key: IdempotencyKey,
    sent: KeyedBody<hitl::Answer>,
) -> HttpResult<Response> {
    let thread = ids.thread()?;
    let early =
        if preferences.wants_events { Some(feed::subscribe(&app.service, &caller, &thread).await?) } else { None };
    let receipt = accept(&app, &caller, &thread, sent, key).await?;
    // Questions that were open before this answer do not end the wait.
    follow(&app, &caller, &preferences, early, receipt, WaitsFor::CallQuestion).await
}

/// Submits the answer. Shared by REST and WebSocket.
pub(crate) async fn accept(
    app: &AppState,
    caller: &Caller,
    thread: &ThreadId,
    sent: KeyedBody<hitl::Answer>,
    key: IdempotencyKey,
) -> Result<ReplyValue<Receipt>, Fault> {
    let answered = runs::resume(&app.service, caller, thread, sent.value, key.with(sent.fingerprint)).await?;
    reply_value(answered, StatusCode::ACCEPTED)
}
