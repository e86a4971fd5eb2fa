//! What the routes of all tenant-configured resources have in common.

use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::http::app_state::AppState;
use crate::http::etag::Tagged;
use crate::http::idempotency::{IdempotencyKey, reply_value};
use crate::http::json::{KeyedBody, fingerprint, read_value, typed};
use crate::http::page::Listed;
use crate::http::problem::HttpResult;
use crate::http::reply_preferences::ReplyPreferences;
use crate::service::if_match::IfMatch;
use crate::service::once::Answered;
use crate::service::resources::{self, Collection, Resource, Versioned};

pub(super) fn list<R: Collection>(app: &AppState, caller: &Caller) -> HttpResult<Json<Listed<R::View>>> {
    Ok(Json(Listed::whole(R::list(&app.service, caller)?)))
}

pub(super) async fn get<R: Resource>(app: &AppState, caller: &Caller, id: &str) -> HttpResult<Json<R::View>> {
    Ok(Json(R::get(&app.service, caller, id).await?.value))
}

/// A 201 response with the location of the new resource, below `path`.
pub(super) async fn create<R: Collection>(
    app: &AppState,
    caller: &Caller,
    preferences: &ReplyPreferences,
    key: IdempotencyKey,
    sent: KeyedBody<R::Spec>,
    path: &str,
) -> HttpResult<Response>
where
    R::View: DeserializeOwned,
{
    let made = resources::create::<R>(&app.service, caller, sent.value, key.with(sent.fingerprint)).await?;
    let made = reply_value(made, StatusCode::CREATED)?;
    let place = format!("{path}/{}", R::id(&made.value));
    Ok(made.at(preferences, &place))
}

/// Replaces a resource. The request has neither an idempotency key nor a precondition.
pub(super) async fn put<R: Resource>(
    app: &AppState,
    caller: &Caller,
    id: &str,
    spec: R::Spec,
) -> HttpResult<Json<R::View>>
where
    R::View: DeserializeOwned,
{
    let changed = resources::put::<R>(&app.service, caller, id, spec, &IfMatch::Absent, None).await?;
    Ok(Json(changed.map(|changed| changed.value).into_value()?))
}

/// The same with a merge patch.
pub(super) async fn patch<R: Resource>(
    app: &AppState,
    caller: &Caller,
    id: &str,
    patch: Map<String, Value>,
) -> HttpResult<Json<R::View>>
where
    R::View: DeserializeOwned,
{
    let changed = resources::patch::<R>(&app.service, caller, id, patch, &IfMatch::Absent, None).await?;
    Ok(Json(changed.map(|changed| changed.value).into_value()?))
}

/// Replaces a resource. The request may have an idempotency key and a precondition.
pub(super) async fn put_once<R: Resource>(
    app: &AppState,
    caller: &Caller,
    id: &str,
    headers: &HeaderMap,
    key: IdempotencyKey,
    sent: KeyedBody<R::Spec>,
) -> HttpResult<Response>
where
    R::View: DeserializeOwned,
{
    let key = key.with(sent.fingerprint);
    let put = resources::put::<R>(&app.service, caller, id, sent.value, &IfMatch::of(headers), key).await?;
    Ok(changed(put)?)
}

/// The same with a merge patch.
pub(super) async fn patch_once<R: Resource>(
    app: &AppState,
    caller: &Caller,
    id: &str,
    key: IdempotencyKey,
    request: Request,
) -> HttpResult<Response>
where
    R::View: DeserializeOwned,
{
    let on = IfMatch::of(request.headers());
    let types = ["application/merge-patch+json", "application/json"];
    let patch = read_value(app, request, &app.config.limits, &types).await?.value;
    let key = key.with(fingerprint(&patch));
    let patched = resources::patch::<R>(&app.service, caller, id, typed(patch)?, &on, key).await?;
    Ok(changed(patched)?)
}

pub(super) async fn delete<R: Collection>(app: &AppState, caller: &Caller, id: &str) -> HttpResult<StatusCode> {
    resources::delete::<R>(&app.service, caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The resource with its version as the `ETag`. A resource that is not stored has none.
pub(super) fn tagged<V: Serialize>(Versioned { value, version }: Versioned<V>) -> Response {
    match version {
        0 => Json(value).into_response(),
        version => Tagged { value, version }.into_response(),
    }
}

/// A changed resource with its version. A stored response may have an old version, so it is sent without one.
pub(super) fn changed<V: Serialize + DeserializeOwned>(answered: Answered<Versioned<V>>) -> Result<Response, Fault> {
    match answered {
        Answered::Fresh(changed) => Ok(tagged(changed)),
        replayed @ Answered::Replayed(_) => {
            Ok(reply_value(replayed.map(|changed| changed.value), StatusCode::OK)?.into_response())
        }
    }
}
