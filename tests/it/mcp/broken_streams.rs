//! An endpoint whose streams break after an event with an id, so that they can be opened again from there.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONNECTION, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use bytes::Bytes;
use futures_util::stream;
use pes::config::{Mcp, McpServer};
use pes::domain::tool::ToolError;
use pes::egress::Egress;
use pes::mcp::{Catalog, Health, Parts, ServerView};
use pes::store::documents::DocumentCache;
use pes::tool::{ToolOutput, ToolSource};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::bed::{TENANT, until_server};
use crate::support::http::soon;
use crate::support::store::fresh_store;
use crate::support::tool::context;

#[derive(Clone)]
struct Endpoint {
    /// Its response to a stream that is opened again.
    reopened: StatusCode,
    /// It knows no session any more from the next call on.
    forgets: bool,
    has_forgotten: Arc<AtomicBool>,
    /// Notified when a stream has sent its event; the stream then waits to break.
    began: Arc<Notify>,
    breaks: Arc<Notify>,
}

struct Bed {
    catalog: Arc<Catalog>,
    endpoint: Endpoint,
    address: SocketAddr,
    serving: Option<JoinHandle<()>>,
}

impl Bed {
    async fn new(reopened: StatusCode, forgets: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (began, breaks, has_forgotten) = (Arc::default(), Arc::default(), Arc::default());
        let endpoint = Endpoint { reopened, forgets, has_forgotten, began, breaks };
        let routes = Router::new().route("/mcp", post(answer).get(reopen)).with_state(endpoint.clone());
        let serving = Some(tokio::spawn(async move { axum::serve(listener, routes).await.expect("it serves") }));
        let mut config = Mcp { message_bytes: 1 << 20, ..Mcp::default() };
        let url = Some(format!("http://{address}/mcp"));
        config.servers.insert("far".to_owned(), McpServer { url, ..McpServer::default() });
        let documents = DocumentCache::open(fresh_store().await).await.expect("a store");
        let egress = Arc::new(Egress::new(Duration::from_secs(5)));
        let catalog = Catalog::start(Parts { config, documents, egress, now: Arc::new(|| 0) });
        Self { catalog, endpoint, address, serving }
    }

    async fn until(&self, what: impl Fn(&ServerView) -> bool) -> ServerView {
        until_server(&self.catalog, "far", what).await
    }

    /// Calls the tool, whose stream breaks after `meanwhile`.
    async fn call(&self, name: &str, meanwhile: impl AsyncFnOnce()) -> Result<ToolOutput, ToolError> {
        let name = format!("far__{name}");
        self.until(|view| view.tools.iter().any(|tool| tool.name == name)).await;
        let tool = self.catalog.tools(TENANT).iter().find(|tool| tool.spec().name == name).cloned();
        let call = tool.expect("it is offered");
        let (ended, ()) = tokio::join!(soon(call.call(json!({}), context())), async {
            soon(self.endpoint.began.notified()).await;
            meanwhile().await;
            self.endpoint.breaks.notify_one();
        });
        ended
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.catalog.close();
    }
}

/// Every response ends its connection, so that nothing is sent to an endpoint that is gone.
async fn answer(State(endpoint): State<Endpoint>, headers: HeaderMap, Json(asked): Json<Value>) -> Response {
    let mut response = endpoint.answer(&headers, &asked);
    response.headers_mut().insert(CONNECTION, "close".parse().expect("a header"));
    response
}

/// It has no stream for messages that belong to no call.
async fn reopen(State(endpoint): State<Endpoint>, headers: HeaderMap) -> Response {
    let is_of_call = headers.contains_key("last-event-id");
    let status = if is_of_call { endpoint.reopened } else { StatusCode::METHOD_NOT_ALLOWED };
    ([(CONNECTION, "close")], status).into_response()
}

impl Endpoint {
    fn answer(&self, headers: &HeaderMap, asked: &Value) -> Response {
        let result = |result: Value| Json(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }));
        if asked["method"] == "initialize" {
            self.has_forgotten.store(false, Ordering::SeqCst);
            let server = json!({ "name": "far", "version": "1" });
            let said =
                json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} }, "serverInfo": server });
            return ([("mcp-session-id", "s")], result(said)).into_response();
        }
        if headers.contains_key("mcp-session-id") && self.has_forgotten.load(Ordering::SeqCst) {
            return StatusCode::NOT_FOUND.into_response();
        }
        match asked["method"].as_str() {
            Some("tools/list") => {
                let tool = |name: &str, is_read: bool| json!({ "name": name, "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": is_read } });
                result(json!({ "tools": [tool("write", false), tool("read", true)] })).into_response()
            }
            Some("tools/call") => self.broken(),
            _ if asked.get("id").is_none() => StatusCode::ACCEPTED.into_response(),
            Some("ping") => result(json!({})).into_response(),
            _ => {
                let error = json!({ "code": -32601, "message": "no such method" });
                Json(json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error })).into_response()
            }
        }
    }

    /// An event with an id, and no answer.
    fn broken(&self) -> Response {
        self.has_forgotten.store(self.forgets, Ordering::SeqCst);
        let params = json!({ "level": "info", "data": "begun" });
        let said = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params });
        let event = Bytes::from(format!("id: 7\ndata: {said}\n\n"));
        let (began, breaks) = (self.began.clone(), self.breaks.clone());
        let pieces = stream::unfold(Some(event), move |event| {
            let (began, breaks) = (began.clone(), breaks.clone());
            async move {
                if let Some(event) = event {
                    return Some((Ok(event), None));
                }
                began.notify_one();
                breaks.notified().await;
                Some((Err(std::io::Error::other("it breaks")), None))
            }
        });
        ([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(pieces)).into_response()
    }
}

#[rstest]
#[case(400)]
#[case(404)]
#[case(410)]
#[tokio::test]
async fn a_call_whose_stream_is_not_opened_again_is_lost_and_its_session_stays(#[case] status: u16) {
    let bed = Bed::new(StatusCode::from_u16(status).unwrap(), false).await;
    for _ in 0..2 {
        let error = bed.call("write", async || ()).await.unwrap_err();
        assert!(error.is_lost(), "{error:?}");
    }
    let view = bed.until(|_| true).await;
    assert_eq!((view.health, view.restarts), (Health::Ready, 0), "{view:?}");
}

#[tokio::test]
async fn a_call_whose_stream_belongs_to_a_forgotten_session_is_lost_and_another_session_is_opened() {
    let bed = Bed::new(StatusCode::BAD_REQUEST, true).await;
    let error = bed.call("write", async || ()).await.unwrap_err();
    assert!(error.is_lost(), "{error:?}");
    bed.until(|view| view.health == Health::Ready && view.restarts == 1).await;
}

/// It takes seven seconds to give a stream up.
#[tokio::test]
async fn a_call_ends_whose_server_is_gone_and_the_server_is_down() {
    let mut bed = Bed::new(StatusCode::OK, false).await;
    let serving = bed.serving.take().unwrap();
    let stop = async move || {
        serving.abort();
        serving.await.unwrap_err();
    };
    let error = bed.call("read", stop).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.retry_after_ms), ("failed", Some(0)), "it only reads: {error:?}");
    let cause = format!("cannot reach {}: connection refused", bed.address);
    bed.until(|view| view.health == Health::Down && view.reason.as_ref() == Some(&cause)).await;
}
