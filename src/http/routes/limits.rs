//! `/limits`: what model calls may cost, and how many runs there may be.

use axum::Json;
use axum::extract::State;

use crate::domain::caller::Scope;
use crate::domain::run_limits::TenantRunLimits;
use crate::domain::spend::TenantCaps;
use crate::http::app_state::AppState;
use crate::http::caller::{MayOperate, MayRead, permit};
use crate::http::json::JsonBody;
use crate::http::params::Params;
use crate::http::problem::HttpResult;
use crate::service::limits::{self, Limits};

/// What the caller's tenant and key have spent under the caps in the current day and month, and how many runs the
/// tenant has and may have. With `tenant`, which needs the scope `operator` too, those of another tenant.
#[utoipa::path(get, path = "/limits", operation_id = "getLimits", tag = "server",
    params(("tenant" = Option<String>, Query, description = "the tenant's name; the caller's own if absent")),
    responses((status = 200, body = Limits)))]
pub(crate) async fn get(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    mut params: Params,
) -> HttpResult<Json<Limits>> {
    let tenant = params.text("tenant");
    params.finish()?;
    if tenant.is_some() {
        permit(&caller, Scope::Operator)?;
    }
    Ok(Json(limits::get(&app.service, &caller, tenant.as_deref()).await?))
}

/// Set the spending caps of a tenant; needs the scope `operator`. The body replaces what was set before; absent caps
/// are those of the server's settings. The response has the caps that now apply.
#[utoipa::path(put, path = "/limits", operation_id = "putLimits", tag = "server", request_body = TenantCaps,
    params(("tenant" = Option<String>, Query, description = "the tenant's name; the caller's own if absent")),
    responses((status = 200, body = TenantCaps)))]
pub(crate) async fn put(
    MayOperate(caller): MayOperate,
    State(app): State<AppState>,
    mut params: Params,
    JsonBody(sent): JsonBody<TenantCaps>,
) -> HttpResult<Json<TenantCaps>> {
    let tenant = params.text("tenant");
    params.finish()?;
    Ok(Json(limits::put_caps(&app.service, &caller, tenant.as_deref(), sent).await?))
}

/// Set how many runs a tenant may have; needs the scope `operator`. The body replaces what was set before; absent
/// limits are those of the server's settings. The response has the limits that now apply.
#[utoipa::path(put, path = "/limits/runs", operation_id = "putRunLimits", tag = "server",
    request_body = TenantRunLimits,
    params(("tenant" = Option<String>, Query, description = "the tenant's name; the caller's own if absent")),
    responses((status = 200, body = TenantRunLimits)))]
pub(crate) async fn put_runs(
    MayOperate(caller): MayOperate,
    State(app): State<AppState>,
    mut params: Params,
    JsonBody(sent): JsonBody<TenantRunLimits>,
) -> HttpResult<Json<TenantRunLimits>> {
    let tenant = params.text("tenant");
    params.finish()?;
    Ok(Json(limits::put_runs(&app.service, &caller, tenant.as_deref(), sent).await?))
}
