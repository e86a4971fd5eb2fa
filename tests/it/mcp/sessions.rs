//! An endpoint that loses its sessions, lists its tools in pages, and is sometimes down.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONNECTION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use pes::config::{Mcp, McpServer};
use pes::domain::ids::TenantPk;
use pes::domain::tool::ToolError;
use pes::egress::Egress;
use pes::mcp::{Catalog, Health, Parts, ServerView};
use pes::store::documents::DocumentCache;
use pes::tool::{ToolContext, ToolOutput, ToolSource};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::bed::{TENANT, until_server};
use crate::support::http::soon;
use crate::support::store::fresh_store;
use crate::support::tool::context;

/// The endpoint's state, and its scripted behaviour.
#[derive(Default)]
struct EndpointState {
    /// The current session, counted from 1.
    session: u32,
    is_forgotten: bool,
    /// Its response in a forgotten session; by default 404.
    says_of_forgotten: Option<(StatusCode, String)>,
    /// Its response to calls instead of executing them.
    refuses: Option<StatusCode>,
    /// The text of a 400 to a call with this id; by default as JSON-RPC.
    words: Option<fn(&Value) -> String>,
    carried_out: u32,
    /// The tools of each page; all but the last have a cursor.
    pages: Vec<Vec<&'static str>>,
    has_endless_pages: bool,
    /// The description of each tool.
    description: String,
}

#[derive(Clone)]
struct Endpoint {
    state: Arc<Mutex<EndpointState>>,
    slow_began: Arc<Notify>,
    slow_ends: Arc<Notify>,
}

struct Bed {
    catalog: Arc<Catalog>,
    endpoint: Endpoint,
    serving: JoinHandle<()>,
}

impl Bed {
    async fn new(change: impl FnOnce(&mut EndpointState)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let mut state = EndpointState { pages: vec![vec!["plain", "slow"]], ..EndpointState::default() };
        change(&mut state);
        let state = Arc::new(Mutex::new(state));
        let endpoint = Endpoint { state, slow_began: Arc::default(), slow_ends: Arc::default() };
        let refused = async || ([(CONNECTION, "close")], StatusCode::METHOD_NOT_ALLOWED);
        let routes = Router::new().route("/mcp", post(answer).get(refused)).with_state(endpoint.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await.expect("it serves") });
        Self { catalog: catalog(address).await, endpoint, serving }
    }

    fn change(&self, change: impl FnOnce(&mut EndpointState)) {
        change(&mut self.endpoint.state.lock().unwrap());
    }

    fn carried_out(&self) -> u32 {
        self.endpoint.state.lock().unwrap().carried_out
    }

    async fn until(&self, what: impl Fn(&ServerView) -> bool) -> ServerView {
        until_server(&self.catalog, "far", what).await
    }

    async fn call(&self, name: &str) -> Result<ToolOutput, ToolError> {
        self.call_of(TENANT, name).await
    }

    async fn call_of(&self, tenant: TenantPk, name: &str) -> Result<ToolOutput, ToolError> {
        let name = format!("far__{name}");
        self.until(|view| view.tools.iter().any(|tool| tool.name == name)).await;
        let tools = self.catalog.tools(tenant);
        let tool = tools.iter().find(|tool| tool.spec().name == name).expect("it is offered");
        soon(tool.call(json!({}), ToolContext { tenant, ..context() })).await
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.catalog.close();
    }
}

async fn catalog(address: SocketAddr) -> Arc<Catalog> {
    let mut config = Mcp { message_bytes: 1 << 20, ..Mcp::default() };
    let url = Some(format!("http://{address}/mcp"));
    config.servers.insert("far".to_owned(), McpServer { url, ..McpServer::default() });
    let documents = DocumentCache::open(fresh_store().await).await.expect("a store");
    let egress = Arc::new(Egress::new(Duration::from_secs(5)));
    Catalog::start(Parts { config, documents, egress, now: Arc::new(|| 0) })
}

/// Every response ends its connection, so that nothing is sent to an endpoint that is gone.
async fn answer(State(endpoint): State<Endpoint>, headers: HeaderMap, Json(asked): Json<Value>) -> Response {
    let mut response = endpoint.answer(&headers, &asked).await;
    response.headers_mut().insert(CONNECTION, "close".parse().unwrap());
    response
}

impl Endpoint {
    async fn answer(&self, headers: &HeaderMap, asked: &Value) -> Response {
        let result = |result: Value| Json(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }));
        let text = |text: &str| result(json!({ "content": [{ "type": "text", "text": text }] })).into_response();
        if asked["method"] == "initialize" {
            let session = self.begin();
            let server = json!({ "name": "far", "version": "1" });
            let said =
                json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} }, "serverInfo": server });
            return ([("mcp-session-id", session)], result(said)).into_response();
        }
        if !self.knows(headers) {
            let said = self.state.lock().unwrap().says_of_forgotten.clone();
            return said.unwrap_or((StatusCode::NOT_FOUND, String::new())).into_response();
        }
        match asked["method"].as_str() {
            Some("tools/list") => result(self.page(&asked["params"]["cursor"])).into_response(),
            Some("tools/call") => match self.carry_out() {
                Err(StatusCode::BAD_REQUEST) => {
                    let words = self.state.lock().unwrap().words;
                    let words = words.unwrap_or(|id| refusal(id, "not like this"));
                    (StatusCode::BAD_REQUEST, words(&asked["id"])).into_response()
                }
                Err(status) => (status, [("retry-after", "30")]).into_response(),
                Ok(()) if asked["params"]["name"] == "slow" => {
                    self.slow_began.notify_one();
                    self.slow_ends.notified().await;
                    text("at last")
                }
                Ok(()) => text("done"),
            },
            _ if asked.get("id").is_none() => StatusCode::ACCEPTED.into_response(),
            _ => {
                let error = json!({ "code": -32601, "message": "no such method" });
                Json(json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error })).into_response()
            }
        }
    }

    fn begin(&self) -> String {
        let mut state = self.state.lock().unwrap();
        state.session += 1;
        state.is_forgotten = false;
        format!("s{}", state.session)
    }

    /// A request without a session needs none.
    fn knows(&self, headers: &HeaderMap) -> bool {
        let state = self.state.lock().unwrap();
        let known = format!("s{}", state.session);
        headers.get("mcp-session-id").is_none_or(|id| !state.is_forgotten && id == known.as_str())
    }

    fn carry_out(&self) -> Result<(), StatusCode> {
        let mut state = self.state.lock().unwrap();
        state.refuses.map_or(Ok(()), Err)?;
        state.carried_out += 1;
        Ok(())
    }

    fn page(&self, cursor: &Value) -> Value {
        let state = self.state.lock().unwrap();
        let at: usize = cursor.as_str().map_or(0, |cursor| cursor.parse().unwrap());
        let names = state.pages.get(at).map(Vec::as_slice).unwrap_or_default();
        let tools: Vec<Value> = names
            .iter()
            .map(|name| json!({ "name": name, "description": state.description, "inputSchema": { "type": "object" } }))
            .collect();
        let mut page = json!({ "tools": tools });
        if state.has_endless_pages || at + 1 < state.pages.len() {
            page["nextCursor"] = json!((at + 1).to_string());
        }
        page
    }
}

fn refusal(id: &Value, message: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32602, "message": message } }).to_string()
}

#[tokio::test]
async fn a_session_that_is_forgotten_is_begun_anew_and_its_call_was_not_carried_out() {
    let bed = Bed::new(|_| ()).await;
    assert_eq!(bed.call("plain").await.unwrap().output, "done");
    bed.change(|state| state.is_forgotten = true);
    let error = bed.call("plain").await.unwrap_err();
    assert_eq!(error.code, "unavailable", "{error:?}");
    assert_eq!(bed.call("plain").await.unwrap().output, "done", "the next one waits for the new session");
    assert_eq!(bed.carried_out(), 2);
    let view = bed.until(|view| view.health == Health::Ready).await;
    assert_eq!(view.restarts, 1);
}

/// Servers made with the SDKs respond so, and so do those behind a gateway that responds in text.
#[tokio::test]
async fn a_forgotten_session_that_is_refused_as_a_bad_request_is_begun_anew() {
    let error = json!({ "code": -32000, "message": "Bad Request: No valid session ID provided" });
    let page = format!("<html>{}</html>", "no such session ".repeat(1_000));
    for said in [json!({ "jsonrpc": "2.0", "id": null, "error": error }).to_string(), page] {
        let bed = Bed::new(|state| state.says_of_forgotten = Some((StatusCode::BAD_REQUEST, said))).await;
        assert_eq!(bed.call("plain").await.unwrap().output, "done");
        bed.change(|state| state.is_forgotten = true);
        let error = bed.call("plain").await.unwrap_err();
        assert_eq!(error.code, "unavailable", "{error:?}");
        assert_eq!(bed.call("plain").await.unwrap().output, "done", "the next one waits for the new session");
        assert_eq!(bed.carried_out(), 2);
    }
}

/// A refusal of one unread call, or a long text, does not end the session, which other calls share.
#[tokio::test]
async fn a_call_that_is_refused_as_a_bad_request_leaves_its_session_alone() {
    let forms: [fn(&Value) -> String; 3] = [
        |_| refusal(&Value::Null, "no"),
        |id| refusal(id, &"x".repeat(5 << 10)),
        |_| "<html>Bad Request</html>".to_owned(),
    ];
    let bed = Bed::new(|_| ()).await;
    for words in forms {
        bed.change(|state| (state.refuses, state.words) = (Some(StatusCode::BAD_REQUEST), Some(words)));
        let error = bed.call("plain").await.unwrap_err();
        assert_eq!((error.code.as_str(), error.retry_after_ms), ("failed", None), "{error:?}");
        bed.change(|state| state.refuses = None);
        assert_eq!(bed.call("plain").await.unwrap().output, "done");
    }
    assert_eq!(bed.until(|view| view.health == Health::Ready).await.restarts, 0);
    assert_eq!(bed.endpoint.state.lock().unwrap().session, 1, "none was begun anew");
}

#[tokio::test]
async fn what_is_said_of_a_refusal_is_told() {
    let bed = Bed::new(|state| {
        state.refuses = Some(StatusCode::BAD_REQUEST);
        state.words = Some(|_| r#"{"detail":"field x is missing"}"#.to_owned());
    })
    .await;
    let error = bed.call("plain").await.unwrap_err();
    let told = r#"The call was refused: HTTP 400: {"detail":"field x is missing"}"#;
    assert_eq!((error.code.as_str(), error.message.as_str()), ("failed", told));
}

#[tokio::test]
async fn a_call_that_was_taken_is_answered_although_its_session_is_forgotten() {
    let bed = Bed::new(|_| ()).await;
    let (slow, ()) = tokio::join!(bed.call("slow"), async {
        soon(bed.endpoint.slow_began.notified()).await;
        bed.change(|state| state.is_forgotten = true);
        assert_eq!(bed.call("plain").await.unwrap_err().code, "unavailable");
        assert_eq!(bed.call("plain").await.unwrap().output, "done");
        bed.endpoint.slow_ends.notify_one();
    });
    assert_eq!(slow.unwrap().output, "at last");
}

#[tokio::test]
async fn calls_that_a_server_does_not_answer_hold_up_no_other_tenants() {
    const HELD: u32 = 16;
    let bed = Bed::new(|_| ()).await;
    let held = (0..HELD).map(|_| bed.call("slow"));
    let other = async {
        while bed.carried_out() < HELD {
            soon(bed.endpoint.slow_began.notified()).await;
        }
        bed.call_of(TenantPk(2), "plain").await
    };
    tokio::select! {
        ended = futures_util::future::join_all(held) => panic!("{ended:?}"),
        other = other => assert_eq!(other.unwrap().output, "done"),
    }
}

#[tokio::test]
async fn a_call_that_is_refused_or_reaches_nobody_is_not_lost() {
    let mut bed = Bed::new(|_| ()).await;
    let refused = [(400, None), (401, None), (403, None), (413, None), (415, None), (429, Some(30_000))];
    for (status, wait) in refused {
        bed.change(|state| state.refuses = Some(StatusCode::from_u16(status).unwrap()));
        let error = bed.call("plain").await.unwrap_err();
        assert_eq!((error.code.as_str(), error.retry_after_ms), ("failed", wait), "{status}: {error:?}");
    }
    bed.change(|state| state.refuses = None);
    bed.call("plain").await.unwrap();
    assert_eq!(bed.until(|view| view.health == Health::Ready).await.restarts, 0, "the session is the same");
    bed.change(|state| state.refuses = Some(StatusCode::BAD_GATEWAY));
    let error = bed.call("plain").await.unwrap_err();
    assert!(error.is_lost(), "somebody may have passed it on: {error:?}");
    bed.serving.abort();
    (&mut bed.serving).await.unwrap_err();
    let error = bed.call("plain").await.unwrap_err();
    assert_eq!(error.code, "unavailable", "{error:?}");
}

#[tokio::test]
async fn a_page_without_tools_is_not_the_last_one() {
    let bed = Bed::new(|state| state.pages = vec![vec!["plain"], vec![], vec!["later"]]).await;
    assert_eq!(bed.call("later").await.unwrap().output, "done");
    let view = bed.until(|view| view.health == Health::Ready).await;
    assert!(!view.has_more_tools);
}

/// Each definition is a little smaller than a quarter of a MiB.
#[tokio::test]
async fn definitions_of_more_than_four_mib_end_the_list() {
    const NAMES: [&str; 18] =
        ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r"];
    let bed = Bed::new(|state| {
        state.pages = NAMES.chunks(3).map(<[_]>::to_vec).collect();
        state.description = "x".repeat((256 << 10) - 200);
    })
    .await;
    let view = bed.until(|view| view.health == Health::Ready).await;
    assert!(view.has_more_tools);
    let listed: Vec<&str> = view.tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(listed, NAMES[..16].iter().map(|name| format!("far__{name}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn pages_without_end_end() {
    let bed = Bed::new(|state| state.has_endless_pages = true).await;
    let view = bed.until(|view| view.health == Health::Ready).await;
    assert!(view.has_more_tools && view.tools.len() == 2, "{view:?}");
}
