//! `GET /threads/{thread}/audit`: who decided what. `/audit/export` and `/audit/keys`: what proves it.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use futures_util::stream;

use crate::http::app_state::AppState;
use crate::http::caller::{MayAdmin, MayRead};
use crate::http::ids::Ids;
use crate::http::json_lines;
use crate::http::page::Listed;
use crate::http::params::{NoParams, OnlyPage, Params};
use crate::http::problem::HttpResult;
use crate::http::reply_preferences::ReplyPreferences;
use crate::service::audit::{self, AuditLine, PublicKeys};

/// Decisions of people, of the policy and of the timer, oldest first.
#[utoipa::path(get, path = "/threads/{thread}/audit", operation_id = "listThreadAudit", tag = "threads",
    params(("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<AuditLine>)))]
pub(crate) async fn list(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    OnlyPage(page, list): OnlyPage,
) -> HttpResult<Json<Listed<AuditLine>>> {
    Ok(Json(list.page(audit::of_thread(&app.service, &caller, &ids.thread()?, page).await?)))
}

/// The hash chain of the tenant's audit, whole or after line `after`, as lines of JSON: each with its number and its
/// hash, and the checkpoints where they were made. Lines that are not chained yet are left out.
#[utoipa::path(get, path = "/audit/export", operation_id = "exportAudit", tag = "policy",
    params(("after" = Option<i64>, Query)),
    responses((status = 200, content_type = "application/x-ndjson", body = String)))]
pub(crate) async fn export(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    preferences: ReplyPreferences,
    mut params: Params,
) -> HttpResult<Response> {
    let after = params.seq("after")?.unwrap_or(0);
    params.finish()?;
    let export = audit::export(&app.service, &caller, after);
    let lines = stream::try_unfold(export, |mut export| async move {
        export.next().await.map(|next| next.map(|lines| (lines, export)))
    });
    Ok(json_lines::response(&app, preferences.pass, lines).await?)
}

/// The keys that verify audit checkpoints and receipts: a JSON Web Key Set, empty if nothing is signed.
#[utoipa::path(get, path = "/audit/keys", operation_id = "listAuditKeys", tag = "policy",
    responses((status = 200, body = PublicKeys)))]
pub(crate) async fn keys(
    MayRead(_): MayRead,
    State(app): State<AppState>,
    _: NoParams,
) -> HttpResult<Json<PublicKeys>> {
    Ok(Json(audit::public_keys(&app.service)))
}
