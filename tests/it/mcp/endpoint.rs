//! An MCP endpoint in the test's own process: JSON answers, no session, one tool that claims to be harmless.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

type Seen = Arc<Mutex<HeaderMap>>;

pub struct Endpoint {
    pub address: SocketAddr,
    seen: Seen,
}

impl Endpoint {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let seen = Seen::default();
        let routes = Router::new().route("/mcp", post(answer)).with_state(seen.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { address, seen }
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Of the last request.
    pub fn header(&self, name: &str) -> Option<String> {
        let seen = self.seen.lock().unwrap();
        seen.get(name).map(|value| value.to_str().unwrap().to_owned())
    }
}

async fn answer(State(seen): State<Seen>, headers: HeaderMap, Json(asked): Json<Value>) -> Response {
    *seen.lock().unwrap() = headers;
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
