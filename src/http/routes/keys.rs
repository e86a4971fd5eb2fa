//! `/keys`: the API keys of the caller's tenant.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;

use crate::auth::{ApiKey, ConfiguredApiKey, Issued, KeyRotation, NewKey};
use crate::http::app_state::AppState;
use crate::http::caller::MayAdmin;
use crate::http::ids::Ids;
use crate::http::json::{JsonBody, OptionalJsonBody};
use crate::http::page::Listed;
use crate::http::params::{NoParams, Params};
use crate::http::problem::HttpResult;

/// The keys of a tenant.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiKeyList {
    /// Those that were created, oldest first.
    items: Vec<ApiKey>,
    /// Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// Those in the settings of the server, on every page.
    configured: Vec<ConfiguredApiKey>,
}

/// All keys, without the secrets themselves. Revoked and expired ones stay for some time: see `[retention]`.
///
/// A page has `limit` keys, or 1000, and at most `limits.page`.
#[utoipa::path(get, path = "/keys", operation_id = "listKeys", tag = "keys",
    params(("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = ApiKeyList)))]
pub(crate) async fn list(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    mut params: Params,
) -> HttpResult<Json<ApiKeyList>> {
    let (page, list) = params.large_page()?;
    params.finish()?;
    let Listed { items, next_cursor } = list.page(app.keys.list(&caller, &page).await?);
    Ok(Json(ApiKeyList { items, next_cursor, configured: app.keys.list_configured(&caller) }))
}

/// Create a key. It is shown only in this response.
#[utoipa::path(post, path = "/keys", operation_id = "createKey", tag = "keys", request_body = NewKey,
    responses((status = 201, body = Issued)))]
pub(crate) async fn create(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    _: NoParams,
    JsonBody(sent): JsonBody<NewKey>,
) -> HttpResult<(StatusCode, Json<Issued>)> {
    Ok((StatusCode::CREATED, Json(app.keys.issue(&caller, &sent).await?)))
}

/// Replace a key with a new one of the same id, name and scopes.
///
/// The new key is shown only in this response. The old one stays valid for `overlapMs`; during that time the key is not
/// rotated again with an overlap. A key that has expired is valid again if it gets a new `expiresAt`.
#[utoipa::path(post, path = "/keys/{key}/rotate", operation_id = "rotateKey", tag = "keys",
    request_body = Option<KeyRotation>, responses((status = 200, body = Issued)))]
pub(crate) async fn rotate(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
    OptionalJsonBody(sent): OptionalJsonBody<KeyRotation>,
) -> HttpResult<Json<Issued>> {
    let key: String = ids.get("key")?;
    Ok(Json(app.keys.rotate(&caller, &key, &sent).await?))
}

/// Revoke a key. It stops working within five seconds.
#[utoipa::path(delete, path = "/keys/{key}", operation_id = "revokeKey", tag = "keys", responses((status = 204)))]
pub(crate) async fn revoke(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<StatusCode> {
    let key: String = ids.get("key")?;
    app.keys.revoke(&caller, &key).await?;
    Ok(StatusCode::NO_CONTENT)
}
