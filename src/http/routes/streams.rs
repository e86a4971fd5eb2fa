//! `GET /threads/{thread}/streams/{stream}`: what one model call saw.

use axum::Json;
use axum::extract::State;

use crate::http::app_state::AppState;
use crate::http::caller::MayRead;
use crate::http::ids::Ids;
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::service::threads::{self, CallPrompt};

/// The prompt of a model call, part by part: rendered again from the stored data, and compared with the digest of the
/// prompt that was sent. `streamId` is that of its `LLM_STREAM_START`.
#[utoipa::path(get, path = "/threads/{thread}/streams/{stream}", operation_id = "getModelCallPrompt", tag = "threads",
    responses((status = 200, body = CallPrompt)))]
pub(crate) async fn get(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    _: NoParams,
) -> HttpResult<Json<CallPrompt>> {
    Ok(Json(threads::prompt(&app.service, &caller, &ids.thread()?, &ids.get("stream")?).await?))
}
