//! `GET /events`: what changes across all threads of the tenant.

use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::HeaderMap;
use axum::response::Response;
use futures_util::stream;

use super::route::checked_asks_for_socket;
use super::{Frames, socket, sse};
use crate::domain::fault::{Code, Fault};
use crate::http::app_state::AppState;
use crate::http::caller::MayRead;
use crate::http::params::NoParams;
use crate::http::problem::HttpResult;
use crate::http::reply_preferences::ReplyPreferences;
use crate::service::changes::{self, Changes};

/// What changes across all threads: frames `thread` and `suspension` with whole rows as lists show them, of which the latest
/// counts, and `thread_deleted`. Nothing is repeated: after `caught_up`, and after a `gap`, read the lists.
///
/// As a WebSocket (subprotocol `pes.v1`; of the ops it takes `ping`), or as server-sent events. Changes that other processes
/// make arrive within a second.
#[utoipa::path(get, path = "/events", operation_id = "watchThreads", tag = "events",
    responses((status = 200, body = String, content_type = "text/event-stream"),
        (status = 101, description = "The connection becomes a WebSocket: `SocketFrame` out")))]
pub(crate) async fn changes(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    preferences: ReplyPreferences,
    _: NoParams,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> HttpResult<Response> {
    if checked_asks_for_socket(&headers)? {
        let upgrade = upgrade.map_err(|refused| Fault::new(Code::Malformed, format!("{}.", refused.body_text())))?;
        let frames = frames(changes::open(&app.service, &caller).await?);
        return Ok(socket::upgrade(upgrade, socket::SocketSession { app, caller, preferences, thread: None }, frames));
    }
    if !preferences.wants_events {
        let detail = "Ask for `Accept: text/event-stream`, or open a WebSocket; GET /threads is the list.";
        return Err(Fault::new(Code::Malformed, detail).into());
    }
    let frames = frames(changes::open(&app.service, &caller).await?);
    Ok(sse::response(&app, preferences.pass, frames))
}

fn frames(changes: Changes) -> Frames {
    Box::pin(stream::unfold(changes, |mut changes| async { Some((changes.next().await, changes)) }))
}
