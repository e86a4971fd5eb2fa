//! An endpoint of protocol version 2026-07-28, whose subscription streams end. Changed tools are noticed all the same.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use futures_util::{StreamExt as _, stream};
use pes::config::{Mcp, McpServer};
use pes::egress::Egress;
use pes::mcp::{Catalog, Parts};
use pes::store::documents::DocumentCache;
use pes::tool::ToolSource as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::bed::TENANT;
use crate::support::http::soon;
use crate::support::store::fresh_store;

/// The number of subscriptions so far. The tool that is offered changes before each, and no announcement says so.
type Subscriptions = Arc<AtomicUsize>;

async fn answer(State(subscriptions): State<Subscriptions>, Json(asked): Json<Value>) -> Response {
    let said = |result: Value| Json(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })).into_response();
    match asked["method"].as_str() {
        Some("server/discover") => said(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": { "tools": { "listChanged": true } }, "ttlMs": 0, "cacheScope": "private",
        })),
        Some("tools/list") => {
            let name = format!("tool_{}", subscriptions.load(Ordering::SeqCst));
            // Clients may keep the list for an hour unless a change is announced.
            said(json!({
                "resultType": "complete", "tools": [{ "name": name, "inputSchema": { "type": "object" } }],
                "ttlMs": 3_600_000, "cacheScope": "private",
            }))
        }
        Some("subscriptions/listen") => match subscriptions.fetch_add(1, Ordering::SeqCst) {
            0 => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            1 => subscribed(&asked, false),
            _ => subscribed(&asked, true),
        },
        Some(_) | None => StatusCode::ACCEPTED.into_response(),
    }
}

/// Acknowledges the subscription; then the stream stays open, or ends.
fn subscribed(asked: &Value, stays: bool) -> Response {
    let acknowledged = json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
        "_meta": { "io.modelcontextprotocol/subscriptionId": asked["id"] },
        "notifications": { "toolsListChanged": true },
    } });
    let event = format!("event: message\r\ndata: {acknowledged}\r\n\r\n");
    let first = stream::iter([Ok::<_, Infallible>(event)]);
    let body = if stays { Body::from_stream(first.chain(stream::pending())) } else { Body::from_stream(first) };
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}

#[tokio::test]
async fn tools_that_changed_between_two_subscriptions_are_noticed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("it is bound"));
    let routes = Router::new().route("/mcp", post(answer)).with_state(Subscriptions::default());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let mut config = Mcp::default();
    config.servers.insert("far".to_owned(), McpServer { url: Some(url), ..McpServer::default() });
    let documents = DocumentCache::open(fresh_store().await).await.expect("a store");
    let egress = Arc::new(Egress::new(Duration::from_secs(5)));
    let catalog = Catalog::start(Parts { config, documents, egress, now: Arc::new(|| 0) });
    let mut offers = catalog.offers();
    let offered = || catalog.tools(TENANT).iter().map(|tool| tool.spec().name.clone()).collect::<Vec<_>>();
    while offered() != ["far__tool_3"] {
        soon(offers.changed()).await.expect("the catalog is there");
    }
    catalog.close();
}
