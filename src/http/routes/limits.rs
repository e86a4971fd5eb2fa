//! `/limits`: what model calls may cost.

use axum::Json;
use axum::extract::State;

use crate::domain::spend::TenantCaps;
use crate::http::app_state::AppState;
use crate::http::caller::{MayOperate, MayRead};
use crate::http::json::JsonBody;
use crate::http::params::{NoParams, Params};
use crate::http::problem::HttpResult;
use crate::service::spending::{self, Limits};

/// What the caller's tenant and key spent under the caps, in the day and the month that it is.
#[utoipa::path(get, path = "/limits", operation_id = "getLimits", tag = "server",
    responses((status = 200, body = Limits)))]
pub(crate) async fn get(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    _: NoParams,
) -> HttpResult<Json<Limits>> {
    Ok(Json(spending::limits(&app.service, &caller).await?))
}

/// Say what a tenant may spend, with the scope `operator`. The body takes the place of what was said before; what is absent
/// is as in the server's settings. The answer has the caps that hold now.
#[utoipa::path(put, path = "/limits", operation_id = "putLimits", tag = "server", request_body = TenantCaps,
    params(("tenant" = Option<String>, Query, description = "the tenant's name; the caller's own if absent")),
    responses((status = 200, body = TenantCaps)))]
pub(crate) async fn put(
    MayOperate(caller): MayOperate,
    State(app): State<AppState>,
    mut params: Params,
    sent: JsonBody<TenantCaps>,
) -> HttpResult<Json<TenantCaps>> {
    let tenant = params.text("tenant");
    params.finish()?;
    Ok(Json(spending::put_caps(&app.service, &caller, tenant.as_deref(), sent.value).await?))
}
