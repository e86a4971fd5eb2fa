//! `/webhooks`: a tenant's webhooks, and the deliveries to each.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::resource;
use crate::domain::webhook::{DeliveryResource, WebhookResource, WebhookSpec};
use crate::http::app_state::AppState;
use crate::http::caller::MayAdmin;
use crate::http::idempotency::{IdempotencyKey, reply_value};
use crate::http::ids::Ids;
use crate::http::json::{JsonBody, KeyedBody, Nothing, OptionalKeyedBody};
use crate::http::page::Listed;
use crate::http::params::{NoParams, OnlyPage, Params};
use crate::http::problem::HttpResult;
use crate::http::reply_preferences::ReplyPreferences;
use crate::service::resources::{self, Webhooks};
use crate::store::outbox::DeliveryStatus;

/// Every webhook of the caller's tenant, and the operator's. Secrets are never shown.
#[utoipa::path(get, path = "/webhooks", operation_id = "listWebhooks",
    tag = "webhooks", responses((status = 200, body = Listed<WebhookResource>)))]
pub(crate) async fn list(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    _: NoParams,
) -> HttpResult<Json<Listed<WebhookResource>>> {
    resource::list::<Webhooks>(&app, &caller)
}

/// Add a webhook. If the request has no secret, one is generated. It is shown only in this response.
#[utoipa::path(post, path = "/webhooks", operation_id = "createWebhook", tag = "webhooks", request_body = WebhookSpec,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 201, body = WebhookResource, headers(("Location" = String)))))]
pub(crate) async fn create(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    _: NoParams,
    preferences: ReplyPreferences,
    key: IdempotencyKey,
    sent: KeyedBody<WebhookSpec>,
) -> HttpResult<Response> {
    resource::create::<Webhooks>(&app, &caller, &preferences, key, sent, "/webhooks").await
}

/// One webhook.
#[utoipa::path(get, path = "/webhooks/{webhook}", operation_id = "getWebhook",
    tag = "webhooks", responses((status = 200, body = WebhookResource)))]
pub(crate) async fn get(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<Json<WebhookResource>> {
    let id: String = ids.get("webhook")?;
    resource::get::<Webhooks>(&app, &caller, &id).await
}

/// Replace a webhook. Without `secrets` its secrets are kept; with two, each delivery is signed with both.
#[utoipa::path(put, path = "/webhooks/{webhook}", operation_id = "replaceWebhook",
    tag = "webhooks", request_body = WebhookSpec,
    responses((status = 200, body = WebhookResource)))]
pub(crate) async fn put(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
    JsonBody(sent): JsonBody<WebhookSpec>,
) -> HttpResult<Json<WebhookResource>> {
    let id: String = ids.get("webhook")?;
    resource::put::<Webhooks>(&app, &caller, &id, sent).await
}

/// Remove a webhook.
#[utoipa::path(delete, path = "/webhooks/{webhook}", operation_id = "deleteWebhook",
    tag = "webhooks", responses((status = 204)))]
pub(crate) async fn delete(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<StatusCode> {
    let id: String = ids.get("webhook")?;
    resource::delete::<Webhooks>(&app, &caller, &id).await
}

/// A webhook's deliveries, sent and pending, newest first.
#[utoipa::path(get, path = "/webhooks/{webhook}/deliveries", operation_id = "listDeliveries", tag = "webhooks",
    params(("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<DeliveryResource>)))]
pub(crate) async fn deliveries(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    ids: Ids,
    OnlyPage(page, list): OnlyPage,
) -> HttpResult<Json<Listed<DeliveryResource>>> {
    let id: String = ids.get("webhook")?;
    Ok(Json(list.page(resources::deliveries(&app.service, &caller, &id, page).await?)))
}

/// The deliveries of all webhooks of the tenant, sent and pending, newest first.
#[utoipa::path(get, path = "/deliveries", operation_id = "listAllDeliveries", tag = "webhooks",
    params(("status" = Option<String>, Query, description = "pending, delivered or dead"),
        ("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<DeliveryResource>)))]
pub(crate) async fn all_deliveries(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    mut params: Params,
) -> HttpResult<Json<Listed<DeliveryResource>>> {
    let status = params.one_of("status", DeliveryStatus::ALL, |status| status.as_str())?;
    let (page, list) = params.page()?;
    params.finish()?;
    Ok(Json(list.page(resources::all_deliveries(&app.service, &caller, status, page).await?)))
}

/// Send a delivery again that was delivered or given up.
#[utoipa::path(post, path = "/webhooks/deliveries/{delivery}/replay", operation_id = "replayDelivery",
    tag = "webhooks",
    params(("Idempotency-Key" = Option<String>, Header)), responses((status = 202)))]
pub(crate) async fn replay(
    MayAdmin(caller): MayAdmin,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
    key: IdempotencyKey,
    OptionalKeyedBody(sent): OptionalKeyedBody<Nothing>,
) -> HttpResult<Response> {
    let id: String = ids.get("delivery")?;
    let replayed = resources::replay(&app.service, &caller, &id.into(), key.with(sent.fingerprint)).await?;
    let replayed = reply_value(replayed, StatusCode::ACCEPTED)?;
    Ok((replayed.status, replayed.headers()).into_response())
}
