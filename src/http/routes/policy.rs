//! `/policy`: which calls need a person's approval. `/audit`: who changed what of the tenant's settings.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Serialize;

use super::resource;
use crate::domain::policy::PolicyRules;
use crate::http::app_state::AppState;
use crate::http::caller::MayAdmin;
use crate::http::etag::Tagged;
use crate::http::json::JsonBody;
use crate::http::page::Listed;
use crate::http::params::{NoParams, OnlyPage, Params};
use crate::http::problem::HttpResult;
use crate::service::audit::{self, AuditLine};
use crate::service::if_match::IfMatch;
use crate::service::policy::{self, DryRun, DryRunReport, EffectivePolicy, Policy};
use crate::service::resources::{self, Resource, Versioned};
use crate::tool::policy::POLICY_ID;

/// The tenant's own rules, or everything that decides.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub(crate) enum ShownPolicy {
    Effective(EffectivePolicy),
    Own(PolicyRules),
}

/// The tenant's own rules and their version; with `effective=true` also what the server's rules and the defaults say.
#[utoipa::path(get, path = "/policy", operation_id = "getPolicy", tag = "policy",
    params(("effective" = Option<bool>, Query)),
    responses((status = 200, body = ShownPolicy, headers(("ETag" = String)))))]
pub(crate) async fn get(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    mut params: Params,
) -> HttpResult<Tagged<ShownPolicy>> {
    let is_effective = params.flag("effective", false)?;
    params.finish()?;
    Ok(if is_effective {
        let Versioned { value, version } = policy::effective(&app.service, &caller).await?;
        Tagged { value: ShownPolicy::Effective(value), version }
    } else {
        let Versioned { value, version } = Policy::get(&app.service, &caller, POLICY_ID).await?;
        Tagged { value: ShownPolicy::Own(value), version }
    })
}

/// Replace the tenant's rules. If there are any, If-Match must name their version.
#[utoipa::path(put, path = "/policy", operation_id = "replacePolicy", tag = "policy", request_body = PolicyRules,
    params(("If-Match" = Option<String>, Header)),
    responses((status = 200, body = PolicyRules, headers(("ETag" = String)))))]
pub(crate) async fn put(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    _: NoParams,
    headers: HeaderMap,
    JsonBody(sent): JsonBody<PolicyRules>,
) -> HttpResult<Response> {
    let on = IfMatch::of(&headers);
    let changed = resources::put::<Policy>(&app.service, &caller, POLICY_ID, sent, &on, None).await?;
    Ok(resource::changed(changed)?)
}

/// Try rules on the tool calls of past runs; nothing is changed.
#[utoipa::path(post, path = "/policy/dry-run", operation_id = "tryPolicy", tag = "policy", request_body = DryRun,
    responses((status = 200, body = DryRunReport)))]
pub(crate) async fn dry_run(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    _: NoParams,
    JsonBody(sent): JsonBody<DryRun>,
) -> HttpResult<Json<DryRunReport>> {
    Ok(Json(policy::dry_run(&app.service, &caller, &sent).await?))
}

/// The changes of the configuration, and who made them, newest first.
#[utoipa::path(get, path = "/audit", operation_id = "listAudit", tag = "policy",
    params(("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<AuditLine>)))]
pub(crate) async fn audit(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    OnlyPage(page, list): OnlyPage,
) -> HttpResult<Json<Listed<AuditLine>>> {
    Ok(Json(list.page(audit::of_tenant(&app.service, &caller, page).await?)))
}
