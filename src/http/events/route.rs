//! `GET /threads/{thread}/events`

use axum::Json;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::HeaderMap;
use axum::http::header::{SEC_WEBSOCKET_KEY, UPGRADE};
use axum::response::{IntoResponse, Response};

use super::{ask, open, page, socket, sse};
use crate::domain::fault::{Code, Fault};
use crate::http::app_state::AppState;
use crate::http::caller::MayRead;
use crate::http::header_list::entries;
use crate::http::ids::Ids;
use crate::http::params::Params;
use crate::http::problem::HttpResult;
use crate::http::reply_preferences::ReplyPreferences;

/// A thread's observations and live tokens: as a WebSocket (subprotocol `pes.v1`), as server-sent events
/// (`Accept: text/event-stream`), or as a page of the log.
#[utoipa::path(get, path = "/threads/{thread}/events", operation_id = "listEvents", tag = "events",
    params(("after" = Option<String>, Query, description = "a seq, or `latest`"), ("limit" = Option<u32>, Query),
        ("cursor" = Option<String>, Query, description = "for a page: `nextCursor` of the one before"),
        ("types" = Option<String>, Query, description = "observation types, comma-separated"),
        ("tokens" = Option<bool>, Query), ("until" = Option<String>, Query, description = "the run with whose end the events end"),
        ("Last-Event-ID" = Option<String>, Header)),
    responses((status = 200, content((crate::service::feed::EventsPage = "application/json"), (String = "text/event-stream"))),
        (status = 101, description = "The connection becomes a WebSocket: `SocketFrame` out, `SocketOp` in")))]
pub(crate) async fn events(
    MayRead(caller): MayRead,
    State(app): State<AppState>,
    ids: Ids,
    preferences: ReplyPreferences,
    headers: HeaderMap,
    mut params: Params,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> HttpResult<Response> {
    let id = ids.thread()?;
    let is_socket = checked_asks_for_socket(&headers)?;
    if !is_socket && !preferences.wants_events {
        return Ok(Json(page::read(&app, &caller, &id, params, &headers).await?).into_response());
    }
    let ask = ask::of_query(&mut params, &headers)?;
    params.finish()?;
    if !is_socket {
        return Ok(sse::response(&app, preferences.pass, open(&app, &caller, &id, ask).await?));
    }
    let upgrade = upgrade.map_err(|refused| Fault::new(Code::Malformed, format!("{}.", refused.body_text())))?;
    let frames = open(&app, &caller, &id, ask).await?;
    Ok(socket::upgrade(upgrade, socket::SocketSession { app, caller, preferences, thread: Some(id) }, frames))
}

/// Whether the client requests a WebSocket. Other protocols that it offers (`h2c`) do not count.
pub(crate) fn asks_for_socket(headers: &HeaderMap) -> bool {
    entries(headers, UPGRADE).any(|protocol| protocol.eq_ignore_ascii_case("websocket"))
}

/// The same. Refuses the rest of a handshake whose `Upgrade` was removed on its way: the answer to it would be a page of
/// events, which tells nobody why no socket opens.
pub(super) fn checked_asks_for_socket(headers: &HeaderMap) -> Result<bool, Fault> {
    let is_socket = asks_for_socket(headers);
    if !is_socket && headers.contains_key(SEC_WEBSOCKET_KEY) {
        let detail = "This is a WebSocket handshake without `Upgrade: websocket`: a proxy before the server has removed it. \
                      Let the proxy pass `Upgrade` and `Connection` on, over HTTP/1.1.";
        return Err(Fault::new(Code::Malformed, detail));
    }
    Ok(is_socket)
}
