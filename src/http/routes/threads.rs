//! `/threads`: create, list, read, change, erase.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::domain::fault::{Code, Fault};
use crate::domain::pointer::Pointer;
use crate::domain::run::ResultStatus;
use crate::domain::settings::ThreadConfig;
use crate::domain::thread::{Thread, ThreadStatus};
use crate::http::app_state::AppState;
use crate::http::caller::{MayRead, MayRun};
use crate::http::idempotency::{IdempotencyKey, ReplyValue, reply_value};
use crate::http::ids::{Ids, new_thread_id};
use crate::http::json::{KeyedBody, read_value};
use crate::http::page::Listed;
use crate::http::params::{NoParams, Params};
use crate::http::problem::HttpResult;
use crate::http::reply_preferences::ReplyPreferences;
use crate::service::once::Answered;
use crate::service::threads::{self, NewThreadAsk};
use crate::store::ThreadFilter;

/// A new thread; everything is optional.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewThread {
    /// 1 to 128 characters of `[A-Za-z0-9._:-]`, at least one letter or digit. Absent: the server generates one.
    thread_id: Option<String>,
    title: Option<String>,
    #[serde(default)]
    config: ThreadConfig,
    #[serde(default)]
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
}

/// Create a thread. If a thread with this id and content exists: 200.
#[utoipa::path(post, path = "/threads", operation_id = "createThread", tag = "threads", request_body = NewThread,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 201, body = Thread, headers(("Location" = String))), (status = 200, body = Thread)))]
pub(crate) async fn create(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    preferences: ReplyPreferences,
    _: NoParams,
    key: IdempotencyKey,
    sent: KeyedBody<NewThread>,
) -> HttpResult<Response> {
    let NewThread { thread_id, title, config, metadata } = sent.value;
    let longest = app.config.limits.id_length;
    let thread_id = thread_id.map(|id| new_thread_id(&id, longest, "/threadId")).transpose()?;
    let ask = NewThreadAsk { thread_id, title, config, metadata };
    let answered = threads::create(&app.service, &caller, ask, key.with(sent.fingerprint)).await?;
    let (answered, status) = match answered {
        Answered::Fresh((thread, true)) => (Answered::Fresh(thread), StatusCode::CREATED),
        Answered::Fresh((thread, false)) => (Answered::Fresh(thread), StatusCode::OK),
        Answered::Replayed(stored) => (Answered::Replayed(stored), StatusCode::CREATED),
    };
    Ok(created(&preferences, reply_value(answered, status)?))
}

/// A new thread, with its location.
pub(crate) fn created(preferences: &ReplyPreferences, thread: ReplyValue<Thread>) -> Response {
    let place = format!("/threads/{}", thread.value.thread_id);
    thread.at(preferences, &place)
}

/// Threads, newest activity first.
///
/// With a filter a limited number of threads is examined for one page, so a page may have fewer items than
/// `limit`, or none, and still a `nextCursor`.
#[utoipa::path(get, path = "/threads", operation_id = "listThreads", tag = "threads",
    params(("status" = Option<ThreadStatus>, Query), ("q" = Option<String>, Query, description = "part of id or title"),
        ("resultStatus" = Option<ResultStatus>, Query, description = "of the last run"),
        ("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<Thread>)))]
pub(crate) async fn list(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    mut params: Params,
) -> HttpResult<Json<Listed<Thread>>> {
    let filter = ThreadFilter {
        status: params.one_of("status", &ThreadStatus::ALL, |status| status.as_str())?,
        q: params.text("q"),
        result: params.one_of("resultStatus", &ResultStatus::ALL, |result| result.as_str())?,
    };
    let (page, list) = params.page()?;
    params.finish()?;
    Ok(Json(list.page(threads::list(&app.service, &caller, filter, page).await?)))
}

/// One thread.
#[utoipa::path(get, path = "/threads/{thread}", operation_id = "getThread",
    tag = "threads", responses((status = 200, body = Thread)))]
pub(crate) async fn get(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<Json<Thread>> {
    Ok(Json(threads::get(&app.service, &caller, &ids.thread()?).await?))
}

/// Change title, config or metadata by a merge patch (RFC 7386).
#[utoipa::path(patch, path = "/threads/{thread}", operation_id = "updateThread", tag = "threads",
    request_body(content = Object, content_type = "application/merge-patch+json"),
    responses((status = 200, body = Thread)))]
pub(crate) async fn patch(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
    request: Request,
) -> HttpResult<Json<Thread>> {
    let id = ids.thread()?;
    let types = ["application/merge-patch+json", "application/json"];
    let patch = read_value(&app, request, &app.config.limits, &types).await?.value;
    check_patch(&patch)?;
    Ok(Json(threads::patch(&app.service, &caller, &id, patch).await?))
}

fn check_patch(patch: &Value) -> Result<(), Fault> {
    const MEMBERS: [&str; 3] = ["title", "config", "metadata"];
    let invalid = |pointer: String, how: &str| Fault::new(Code::Invalid, format!("The patch {how}.")).at(pointer, how);
    let members = patch.as_object().ok_or_else(|| invalid(String::new(), "must be an object"))?;
    match members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
        Some(name) => {
            let pointer = Pointer::of([name.as_str()]).to_string();
            Err(invalid(pointer, "may change title, config and metadata only"))
        }
        None => Ok(()),
    }
}

/// Erase a thread with all its data. Agents that work for it are told to stop.
#[utoipa::path(delete, path = "/threads/{thread}", operation_id = "deleteThread",
    tag = "threads", responses((status = 204)))]
pub(crate) async fn delete(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<StatusCode> {
    threads::delete(&app.service, &caller, &ids.thread()?).await?;
    Ok(StatusCode::NO_CONTENT)
}
