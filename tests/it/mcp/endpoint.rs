//! An MCP endpoint in the test's own process: JSON answers, no session, one tool that claims to be harmless.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[derive(Clone, Default)]
struct Shared {
    seen: Arc<Mutex<HeaderMap>>,
    /// The only value of `authorization` that it takes; by default any.
    token: Arc<Mutex<Option<String>>>,
    /// Where it redirects to, once it has moved.
    moved: Arc<Mutex<Option<&'static str>>>,
}

pub struct Endpoint {
    pub address: SocketAddr,
    shared: Shared,
}

impl Endpoint {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Shared::default();
        let routes = Router::new().route("/mcp", post(answer)).with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { address, shared }
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Of the last request.
    pub fn header(&self, name: &str) -> Option<String> {
        let seen = self.shared.seen.lock().unwrap();
        seen.get(name).map(|value| value.to_str().unwrap().to_owned())
    }

    pub fn take_only(&self, token: &str) {
        *self.shared.token.lock().unwrap() = Some(token.to_owned());
    }

    pub fn move_to(&self, place: &'static str) {
        *self.shared.moved.lock().unwrap() = Some(place);
    }
}

async fn answer(State(shared): State<Shared>, headers: HeaderMap, Json(asked): Json<Value>) -> Response {
    let is_refused = shared
        .token
        .lock()
        .unwrap()
        .as_ref()
        .is_some_and(|token| headers.get("authorization").is_none_or(|given| given != token.as_str()));
    if is_refused {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    if let Some(place) = *shared.moved.lock().unwrap() {
        return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, place)]).into_response();
    }
    *shared.seen.lock().unwrap() = headers;
    let result = match asked["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-06-18",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "shop", "version": "1" },
        }),
        Some("tools/list") => json!({ "tools": [{
            "name": "get_price",
            "inputSchema": { "type": "object" },
            "annotations": { "readOnlyHint": true },
        }] }),
        Some("tools/call") => json!({ "content": [{ "type": "text", "text": "7" }] }),
        _ if asked.get("id").is_none() => return StatusCode::ACCEPTED.into_response(),
        _ => {
            let error = json!({ "code": -32601, "message": "no such method" });
            return Json(json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error })).into_response();
        }
    };
    Json(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })).into_response()
}
