//! `POST /threads/{thread}/fork`: another way from here.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;

use super::threads::created;
use crate::domain::fault::{Code, Fault};
use crate::domain::thread::Thread;
use crate::http::asked::Asked;
use crate::http::caller::MayRun;
use crate::http::front::Front;
use crate::http::idempotency::{IdempotencyKey, settle};
use crate::http::ids::{Ids, new_thread_id};
use crate::http::json::MaybeSent;
use crate::http::params::NoParams;
use crate::http::problem::Answer;

/// Where to fork, and what to call it.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ForkRequest)]
pub(crate) struct Fork {
    /// The seq of an observation; absent: the last one.
    at: Option<i64>,
    thread_id: Option<String>,
}

/// A new, idle thread as of an observation.
#[utoipa::path(post, path = "/threads/{thread}/fork", operation_id = "forkThread",
    tag = "threads", request_body = Option<Fork>,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 201, body = Thread, headers(("Location" = String)))))]
pub(crate) async fn fork(
    MayRun(caller): MayRun,
    State(front): State<Front>,
    ids: Ids,
    asked: Asked,
    _: NoParams,
    key: IdempotencyKey,
    MaybeSent(sent): MaybeSent<Fork>,
) -> Answer<Response> {
    let Fork { at, thread_id } = sent.value;
    if at.is_some_and(|seq| seq < 0) {
        let how = "must not be negative";
        return Err(Fault::new(Code::Invalid, format!("`at` {how}.")).at("/at", how).into());
    }
    let longest = front.config.limits.id_length;
    let new_id = thread_id.map(|id| new_thread_id(&id, longest, "/threadId")).transpose()?;
    let forked = front.runtime.fork(&caller, &ids.thread()?, at, new_id, key.with(sent.fingerprint)).await?;
    Ok(created(&asked, settle(forked, StatusCode::CREATED)?))
}
