//! `/webhooks`: who outside is told of what happens, and what became of each message.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::domain::webhook::{DeliveryResource, WebhookResource, WebhookSpec};
use crate::http::asked::Asked;
use crate::http::caller::MayAdmin;
use crate::http::front::Front;
use crate::http::idempotency::{IdempotencyKey, settle};
use crate::http::ids::Ids;
use crate::http::json::{MaybeSent, Nothing, Sent};
use crate::http::page::Listed;
use crate::http::params::{NoParams, Params};
use crate::http::problem::Answer;

/// Every webhook of the caller's tenant, and the operator's. Secrets are never shown.
#[utoipa::path(get, path = "/webhooks", operation_id = "listWebhooks",
    tag = "webhooks", responses((status = 200, body = Listed<WebhookResource>)))]
pub(crate) async fn list(
    MayAdmin(caller): MayAdmin,
    State(front): State<Front>,
    _: NoParams,
) -> Answer<Json<Listed<WebhookResource>>> {
    Ok(Json(Listed::whole(front.runtime.webhooks(&caller))))
}

/// Add a webhook. If the request gives no secret, one is made, and this answer is the only place where it is ever shown.
#[utoipa::path(post, path = "/webhooks", operation_id = "createWebhook", tag = "webhooks", request_body = WebhookSpec,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 201, body = WebhookResource)))]
pub(crate) async fn create(
    MayAdmin(caller): MayAdmin,
    State(front): State<Front>,
    _: NoParams,
    asked: Asked,
    key: IdempotencyKey,
    sent: Sent<WebhookSpec>,
) -> Answer<Response> {
    let made = front.runtime.create_webhook(&caller, sent.value, key.with(sent.fingerprint)).await?;
    let made = settle(made, StatusCode::CREATED)?;
    let place = format!("/webhooks/{}", made.value.webhook_id);
    Ok(made.at(&asked, &place))
}

/// One webhook.
#[utoipa::path(get, path = "/webhooks/{webhook}", operation_id = "getWebhook",
    tag = "webhooks", responses((status = 200, body = WebhookResource)))]
pub(crate) async fn get(
    MayAdmin(caller): MayAdmin,
    State(front): State<Front>,
    ids: Ids,
    _: NoParams,
) -> Answer<Json<WebhookResource>> {
    let id: String = ids.get("webhook")?;
    Ok(Json(front.runtime.webhook(&caller, &id)?))
}

/// Replace a webhook. Without `secrets` it keeps those that it has; with two, each delivery is signed with both.
#[utoipa::path(put, path = "/webhooks/{webhook}", operation_id = "replaceWebhook",
    tag = "webhooks", request_body = WebhookSpec,
    responses((status = 200, body = WebhookResource)))]
pub(crate) async fn put(
    MayAdmin(caller): MayAdmin,
    State(front): State<Front>,
    ids: Ids,
    _: NoParams,
    sent: Sent<WebhookSpec>,
) -> Answer<Json<WebhookResource>> {
    let id: String = ids.get("webhook")?;
    Ok(Json(front.runtime.put_webhook(&caller, &id, sent.value).await?))
}

/// Remove a webhook.
#[utoipa::path(delete, path = "/webhooks/{webhook}", operation_id = "deleteWebhook",
    tag = "webhooks", responses((status = 204)))]
pub(crate) async fn delete(
    MayAdmin(caller): MayAdmin,
    State(front): State<Front>,
    ids: Ids,
    _: NoParams,
) -> Answer<StatusCode> {
    let id: String = ids.get("webhook")?;
    front.runtime.delete_webhook(&caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What a webhook was told and is to be told, newest first.
#[utoipa::path(get, path = "/webhooks/{webhook}/deliveries", operation_id = "listDeliveries", tag = "webhooks",
    params(("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<DeliveryResource>)))]
pub(crate) async fn deliveries(
    MayAdmin(caller): MayAdmin,
    State(front): State<Front>,
    ids: Ids,
    mut params: Params,
) -> Answer<Json<Listed<DeliveryResource>>> {
    let id: String = ids.get("webhook")?;
    let page = params.page()?;
    params.finish()?;
    Ok(Json(front.runtime.deliveries(&caller, &id, page).await?.into()))
}

/// Send a message once more that was delivered or given up.
#[utoipa::path(post, path = "/webhooks/deliveries/{delivery}/replay", operation_id = "replayDelivery",
    tag = "webhooks",
    params(("Idempotency-Key" = Option<String>, Header)), responses((status = 202)))]
pub(crate) async fn replay(
    MayAdmin(caller): MayAdmin,
    State(front): State<Front>,
    ids: Ids,
    _: NoParams,
    key: IdempotencyKey,
    MaybeSent(sent): MaybeSent<Nothing>,
) -> Answer<Response> {
    let id: String = ids.get("delivery")?;
    let replayed = front.runtime.replay_delivery(&caller, &id.into(), key.with(sent.fingerprint)).await?;
    let replayed = settle(replayed, StatusCode::ACCEPTED)?;
    Ok((replayed.status, replayed.headers()).into_response())
}
