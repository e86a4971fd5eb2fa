//! `/v1/responses`: a query or answers as a response that can be read again, as one object or as events from any of
//! them on, at any time and from any replica. It is derived from its thread's log. Only what the client sent is stored
//! for it.

mod accept;
mod events;
mod object;
mod read;
mod request;
mod stream;
mod words;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::{Value, json};

use super::error::OpenAiError;
use super::models;
use super::repeat::RequestIdentity;
use crate::domain::fault::{Code, Fault};
use crate::http::app_state::AppState;
use crate::http::caller::{MayRead, MayRun};
use crate::http::doors::DoorRequest;
use crate::http::doors::run_stream::Projection;
use crate::http::idempotency::IdempotencyKey;
use crate::http::ids::Ids;
use crate::http::json::KeyedBody;
use crate::http::params::{NoParams, Params};
use crate::http::reply_preferences::ReplyPreferences;
use crate::service::runs;
use object::ResponseId;
pub(crate) use request::Sent;

/// Ask the agent: OpenAI's Responses.
///
/// With `background`, answered at once; with `stream`, as events, which a later GET repeats byte for byte.
#[utoipa::path(post, path = "/v1/responses", operation_id = "createOpenAiResponse", tag = "openai", request_body = Object,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 200, description = "A response, or its events", content(
        (Object = "application/json"), (String = "text/event-stream")))))]
pub(crate) async fn create(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    preferences: ReplyPreferences,
    _: NoParams,
    headers: HeaderMap,
    key: IdempotencyKey,
    sent: KeyedBody<Sent>,
) -> Result<Response, OpenAiError> {
    let model = models::find(&app, &sent.value.model)?;
    let request = sent.value.read(&model)?;
    let ctx = DoorRequest { app, caller, preferences };
    let key = key.with_content(sent.fingerprint.clone());
    let identity = RequestIdentity::of(&ctx, &headers, key.as_ref(), ("/v1/responses", &sent.fingerprint), None);
    let accepted =
        accept::accept(&ctx, &identity, &model, &request, key).await.map_err(OpenAiError::for_responses_api)?;
    stream::respond(ctx, &request, accepted).await
}

/// A response as it stands; with `stream=true` its events, only those after `starting_after` if that is given.
#[utoipa::path(get, path = "/v1/responses/{response}", operation_id = "getOpenAiResponse", tag = "openai",
    params(("stream" = Option<bool>, Query), ("starting_after" = Option<u64>, Query)),
    responses((status = 200, description = "A response, or its events", content(
        (Object = "application/json"), (String = "text/event-stream")))))]
pub(crate) async fn get(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    preferences: ReplyPreferences,
    mut params: Params,
) -> Result<Response, OpenAiError> {
    let id = named(&ids)?;
    let is_streamed = params.flag("stream", false).map_err(OpenAiError::from)?;
    let after = params.text("starting_after").map(|text| text.parse::<u64>().map_err(|_| no_number()));
    let after = after.transpose()?;
    let ctx = DoorRequest { app, caller, preferences };
    if is_streamed { stream::replay(ctx, id, after).await } else { read::object(&ctx, &id).await }
}

/// Cancel the run of a response that is in progress. Repeating the call changes nothing.
#[utoipa::path(post, path = "/v1/responses/{response}/cancel", operation_id = "cancelOpenAiResponse", tag = "openai",
    responses((status = 200, body = Object)))]
pub(crate) async fn cancel(
    MayRun(caller): MayRun,
    State(app): State<AppState>,
    ids: Ids,
    preferences: ReplyPreferences,
) -> Result<Response, OpenAiError> {
    let id = named(&ids)?;
    let ctx = DoorRequest { app, caller, preferences };
    if !read::state(&ctx, &id).await?.is_finished() {
        match runs::cancel(&ctx.app.service, &ctx.caller, &id.run, None).await {
            // It has ended since it was read.
            Err(fault) if fault.code == Code::RunFinished => {}
            cancelled => drop(cancelled?),
        }
    }
    read::object(&ctx, &id).await
}

/// The input of the response.
#[utoipa::path(get, path = "/v1/responses/{response}/input_items", operation_id = "listOpenAiInputItems", tag = "openai",
    responses((status = 200, body = Object)))]
pub(crate) async fn input_items(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
) -> Result<Json<Value>, OpenAiError> {
    let id = named(&ids)?;
    let run = runs::get(&app.service, &caller, &id.run).await.map_err(read::of_response)?;
    let item = json!({
        "id": format!("msg_{}", run.run_id), "type": "message", "role": "user", "status": "completed",
        "content": [{ "type": "input_text", "text": run.query }],
    });
    let data = if id.answers.is_some() { Vec::new() } else { vec![item] };
    let ends = [data.first(), data.last()].map(|item| item.map(|item| item["id"].clone()));
    Ok(Json(json!({
        "object": "list", "data": data, "first_id": ends[0], "last_id": ends[1], "has_more": false,
    })))
}

/// A response is a part of its thread and can only be deleted with it.
pub(super) async fn delete(_: MayRun, State(_): State<AppState>) -> OpenAiError {
    OpenAiError::unsupported("response_id", "A response goes with its thread: DELETE /threads/{thread}.")
}

fn named(ids: &Ids) -> Result<ResponseId, OpenAiError> {
    let id = ids.get::<String>("response").map_err(|problem| OpenAiError::from(problem.0))?;
    ResponseId::parse(&id).ok_or_else(|| Fault::not_found("response").into())
}

fn no_number() -> OpenAiError {
    OpenAiError::bad_request("invalid", "starting_after", "It is the number of an event.")
}
