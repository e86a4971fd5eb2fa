//! `GET /threads/{thread}/messages`: the conversation.

use axum::Json;
use axum::extract::State;

use crate::domain::message::ConversationMessage;
use crate::http::app_state::AppState;
use crate::http::caller::MayRead;
use crate::http::ids::Ids;
use crate::http::page::Listed;
use crate::http::params::OnlyPage;
use crate::http::problem::HttpResult;
use crate::service::threads;

/// The messages of a thread, oldest first. A page may be short although there is another.
#[utoipa::path(get, path = "/threads/{thread}/messages", operation_id = "listMessages", tag = "threads",
    params(("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<ConversationMessage>)))]
pub(crate) async fn list(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    OnlyPage(page, list): OnlyPage,
) -> HttpResult<Json<Listed<ConversationMessage>>> {
    Ok(Json(list.page(threads::messages(&app.service, &caller, &ids.thread()?, page).await?)))
}
