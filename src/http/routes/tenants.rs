//! `/tenants`: all tenants of the server, for its operator.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use crate::domain::tenant::{Tenant, TenantInUse};
use crate::http::app_state::AppState;
use crate::http::caller::MayOperate;
use crate::http::ids::Ids;
use crate::http::page::Listed;
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::service::tenants;

/// All tenants, by name, also removed ones; needs the scope `operator`.
#[utoipa::path(get, path = "/tenants", operation_id = "listTenants", tag = "server",
    responses((status = 200, body = Listed<Tenant>)))]
pub(crate) async fn list(
    MayOperate(_): MayOperate,
    State(app): State<AppState>,
    _: NoParams,
) -> HttpResult<Json<Listed<Tenant>>> {
    Ok(Json(Listed::whole(tenants::list(&app.service).await?)))
}

/// A tenant, and when it was last in use; needs the scope `operator`.
#[utoipa::path(get, path = "/tenants/{tenant}", operation_id = "getTenant", tag = "server",
    responses((status = 200, body = TenantInUse)))]
pub(crate) async fn get(
    MayOperate(_): MayOperate,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<Json<TenantInUse>> {
    Ok(Json(tenants::get(&app.service, &ids.tenant()).await?))
}

/// Remove a tenant; needs the scope `operator`.
///
/// Within five seconds its keys, tokens and sessions are refused. Its keys, documents and threads, with the runs under way,
/// are deleted in the background; its audit and its usage are kept for their retention. `409 on_hold` if the tenant or one of
/// its threads must be kept.
#[utoipa::path(delete, path = "/tenants/{tenant}", operation_id = "removeTenant", tag = "server",
    responses((status = 202, body = TenantInUse)))]
pub(crate) async fn remove(
    MayOperate(caller): MayOperate,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<(StatusCode, Json<TenantInUse>)> {
    Ok((StatusCode::ACCEPTED, Json(tenants::remove(&app.service, &caller, &ids.tenant()).await?)))
}

/// Let the callers of a removed tenant in again; needs the scope `operator`. What was deleted does not come back.
#[utoipa::path(post, path = "/tenants/{tenant}/reopen", operation_id = "reopenTenant", tag = "server",
    responses((status = 200, body = TenantInUse)))]
pub(crate) async fn reopen(
    MayOperate(caller): MayOperate,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<Json<TenantInUse>> {
    Ok(Json(tenants::reopen(&app.service, &caller, &ids.tenant()).await?))
}
