//! `GET /threads/{thread}/export` and `POST /imports`: a thread as a file, and back.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use crate::http::app_state::AppState;
use crate::http::caller::{MayAdmin, MayRead};
use crate::http::ids::{Ids, new_thread_id};
use crate::http::json::read_text;
use crate::http::json_lines;
use crate::http::params::{NoParams, Params};
use crate::http::problem::HttpResult;
use crate::http::reply_preferences::ReplyPreferences;
use crate::service::transfer::{self, ImportAsk, ImportTurn, Imported, MAX_FILE_BYTES};

/// The thread as lines of JSON: a header, its observations with all values, its messages, the application's state, its
/// audit, the usage of its model calls, and a last line with the number of lines and their checksum. Without that line
/// the response is incomplete.
#[utoipa::path(get, path = "/threads/{thread}/export", operation_id = "exportThread", tag = "threads",
    responses((status = 200, content_type = "application/x-ndjson", body = String)))]
pub(crate) async fn export(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    preferences: ReplyPreferences,
    _: NoParams,
) -> HttpResult<Response> {
    let export = transfer::export(&app.service, &caller, &ids.thread()?).await?;
    let lines = stream::try_unfold(export, |mut export| async move {
        export.next().await.map(|next| next.map(|lines| (lines, export)))
    });
    Ok(json_lines::response(&app, preferences.pass, lines).await?)
}

/// Create an idle thread from an export, whole or not at all. Unfinished runs are cancelled; nothing is announced, and
/// the usage of its model calls is not counted again. Its runs are in its log, but not among those of this server.
#[utoipa::path(post, path = "/imports", operation_id = "importThread", tag = "threads",
    request_body(content = String, content_type = "application/x-ndjson"),
    params(("threadId" = Option<String>, Query, description = "the new thread's id; absent: that of the file"),
        ("dryRun" = Option<bool>, Query, description = "check the file, and create nothing")),
    responses((status = 201, body = Imported, headers(("Location" = String))), (status = 200, body = Imported)))]
pub(crate) async fn import(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    preferences: ReplyPreferences,
    mut params: Params,
    request: Request,
) -> HttpResult<Response> {
    let longest = app.config.limits.id_length;
    let thread_id = params.text("threadId").map(|id| new_thread_id(&id, longest, "?threadId")).transpose()?;
    let dry_run = params.flag("dryRun", false)?;
    params.finish()?;
    let turn = ImportTurn::wait(&app.service, &caller).await?;
    let text = read_text(&app, request, json_lines::MEDIA_TYPE, MAX_FILE_BYTES).await?;
    let imported = transfer::import(&app.service, &caller, turn, text, ImportAsk { thread_id, dry_run }).await?;
    if dry_run {
        return Ok(Json(imported).into_response());
    }
    let place = format!("{}/threads/{}", preferences.base, imported.thread_id);
    Ok((StatusCode::CREATED, [(LOCATION, place)], Json(imported)).into_response())
}
