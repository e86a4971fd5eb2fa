//! `POST /threads/{thread}/fork`: a new thread that continues from an observation of this one.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;

use super::threads::created;
use crate::domain::fault::{Code, Fault};
use crate::domain::thread::Thread;
use crate::http::app_state::AppState;
use crate::http::caller::MayRun;
use crate::http::idempotency::{IdempotencyKey, reply_value};
use crate::http::ids::{Ids, new_thread_id};
use crate::http::json::OptionalKeyedBody;
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::http::reply_preferences::ReplyPreferences;
use crate::service::fork;

/// Where to fork, and the id of the new thread.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ForkRequest)]
pub(crate) struct Fork {
    /// The seq of an observation; absent: the last one.
    at: Option<i64>,
    thread_id: Option<String>,
}

/// Create an idle thread with the state of this one as of an observation.
#[utoipa::path(post, path = "/threads/{thread}/fork", operation_id = "forkThread",
    tag = "threads", request_body = Option<Fork>,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 201, body = Thread, headers(("Location" = String)))))]
pub(crate) async fn fork(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    ids: Ids,
    preferences: ReplyPreferences,
    _: NoParams,
    key: IdempotencyKey,
    OptionalKeyedBody(sent): OptionalKeyedBody<Fork>,
) -> HttpResult<Response> {
    let Fork { at, thread_id } = sent.value;
    if at.is_some_and(|seq| seq < 0) {
        let how = "must not be negative";
        return Err(Fault::new(Code::Invalid, format!("`at` {how}.")).at("/at", how).into());
    }
    let longest = app.config.limits.id_length;
    let new_id = thread_id.map(|id| new_thread_id(&id, longest, "/threadId")).transpose()?;
    let forked = fork::fork(&app.service, &caller, &ids.thread()?, at, new_id, key.with(sent.fingerprint)).await?;
    Ok(created(&preferences, reply_value(forked, StatusCode::CREATED)?))
}
