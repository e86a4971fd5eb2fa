//! An endpoint that answers with streams, cut anywhere: the calls, questions and failures are the same.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use futures_util::stream;
use pes::config::{Mcp, McpServer};
use pes::domain::hitl::{Question, Reply};
use pes::domain::tool::ToolError;
use pes::egress::Egress;
use pes::mcp::{Catalog, Parts};
use pes::store::documents::DocumentCache;
use pes::tool::{People, Tool, ToolContext, ToolOutput, ToolSource};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};

use super::bed::TENANT;
use crate::support::http::{pass, soon};
use crate::support::store::fresh_store;
use crate::support::tool::context;

const MESSAGE_BYTES: usize = 4_096;

#[derive(Clone)]
struct Endpoint {
    /// The size of a piece in bytes.
    cut: usize,
    /// The answer to its question.
    answered: mpsc::UnboundedSender<Value>,
    answers: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Value>>>,
    /// Notified when an endless stream is open, and when it was closed.
    hangs: Arc<Notify>,
    hung_up: Arc<Notify>,
    /// Notified when the question is asked that it gives up.
    is_asked: Arc<Notify>,
}

/// The catalog of one such endpoint.
async fn catalog(cut: usize) -> Arc<Catalog> {
    endpoint(cut).await.0
}

async fn endpoint(cut: usize) -> (Arc<Catalog>, Endpoint) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("it is bound"));
    let (answered, answers) = mpsc::unbounded_channel();
    let answers = Arc::new(answers.into());
    let (hangs, hung_up, is_asked) = Default::default();
    let endpoint = Endpoint { cut, answered, answers, hangs, hung_up, is_asked };
    let routes = Router::new().route("/mcp", post(answer)).with_state(endpoint.clone());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let mut config = Mcp { message_bytes: MESSAGE_BYTES, ..Mcp::default() };
    config.servers.insert("far".to_owned(), McpServer { url: Some(url), ..McpServer::default() });
    let documents = DocumentCache::open(fresh_store().await).await.expect("a store");
    let egress = Arc::new(Egress::new(Duration::from_secs(5)));
    (Catalog::start(Parts { config, documents, egress, now: Arc::new(|| 0) }), endpoint)
}

async fn tool(catalog: &Catalog, name: &str) -> Arc<dyn Tool> {
    let mut offers = catalog.offers();
    loop {
        match catalog.tools(TENANT).iter().find(|tool| tool.spec().name == name) {
            Some(tool) => return tool.clone(),
            None => soon(offers.changed()).await.expect("the catalog is there"),
        }
    }
}

async fn call(catalog: &Catalog, name: &str, context: ToolContext) -> Result<ToolOutput, ToolError> {
    soon(tool(catalog, name).await.call(json!({}), context)).await
}

async fn answer(State(endpoint): State<Endpoint>, Json(asked): Json<Value>) -> Response {
    let result = |result: Value| json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result });
    let text = |text: &str| result(json!({ "content": [{ "type": "text", "text": text }] }));
    let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
    let name = asked["params"]["name"].as_str().unwrap_or_default();
    match asked["method"].as_str() {
        Some("initialize") => endpoint.stream(vec![event(&result(json!({
            "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
            "serverInfo": { "name": "far", "version": "1" },
        })))]),
        Some("tools/list") => {
            let mut tools = ["plain", "asks", "gives_up", "breaks", "floods", "hangs", "task_only"].map(tool);
            tools[6]["execution"] = json!({ "taskSupport": "required" });
            endpoint.stream(vec![event(&result(json!({ "tools": tools })))])
        }
        Some("tools/call") if name == "asks" => endpoint.asks(asked["id"].clone()),
        Some("tools/call") if name == "gives_up" => endpoint.gives_up(asked["id"].clone()),
        Some("tools/call") if name == "breaks" => {
            let whole = event(&text("never whole"));
            endpoint.stream(vec![whole[..whole.len() / 2].to_owned()])
        }
        Some("tools/call") if name == "hangs" => endpoint.hangs(),
        Some("tools/call") if name == "floods" => endpoint.stream(vec![event(&text(&"x".repeat(MESSAGE_BYTES)))]),
        Some("tools/call") => {
            let params = json!({ "progressToken": "call_1", "progress": 1 });
            let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
            endpoint.stream(vec![": a comment\r\n\r\n".to_owned(), event(&progress), event(&text("ünïcode ✓"))])
        }
        None if asked.get("result").is_some() => {
            endpoint.answered.send(asked["result"].clone()).expect("somebody waits");
            StatusCode::ACCEPTED.into_response()
        }
        Some(_) | None if asked.get("id").is_none() => StatusCode::ACCEPTED.into_response(),
        Some(_) | None => {
            let error = json!({ "code": -32601, "message": "no such method" });
            Json(json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error })).into_response()
        }
    }
}

fn event(message: &Value) -> String {
    format!("event: message\r\nid: 1\r\ndata: {message}\r\n\r\n")
}

impl Endpoint {
    fn stream(&self, events: Vec<String>) -> Response {
        let (sender, pieces) = mpsc::unbounded_channel();
        self.send(&sender, &events.concat());
        streamed(pieces)
    }

    /// Sends a message, and nothing more.
    fn hangs(&self) -> Response {
        let (sender, pieces) = mpsc::unbounded_channel();
        self.send(&sender, ": wait\r\n\r\n");
        let (hangs, hung_up) = (self.hangs.clone(), self.hung_up.clone());
        tokio::spawn(async move {
            hangs.notify_one();
            sender.closed().await;
            hung_up.notify_one();
        });
        streamed(pieces)
    }

    /// Asks a person, and returns the answer.
    fn asks(&self, id: Value) -> Response {
        let (sender, pieces) = mpsc::unbounded_channel();
        let endpoint = self.clone();
        tokio::spawn(async move {
            endpoint.send(&sender, &event(&question("q")));
            let told = endpoint.answers.lock().await.recv().await.expect("it is answered");
            let result = json!({ "content": [{ "type": "text", "text": told.to_string() }] });
            endpoint.send(&sender, &event(&json!({ "jsonrpc": "2.0", "id": id, "result": result })));
        });
        streamed(pieces)
    }

    /// Asks a person, does not wait for the answer, and asks again.
    fn gives_up(&self, id: Value) -> Response {
        let (sender, pieces) = mpsc::unbounded_channel();
        let endpoint = self.clone();
        tokio::spawn(async move {
            endpoint.send(&sender, &event(&question("first")));
            endpoint.is_asked.notified().await;
            let params = json!({ "requestId": "first", "reason": "it takes too long" });
            let gives_up = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
            endpoint.send(&sender, &event(&gives_up));
            endpoint.send(&sender, &event(&question("second")));
            let mut answers = endpoint.answers.lock().await;
            while answers.recv().await.expect("it is answered")["action"] != "accept" {}
            let result = json!({ "content": [{ "type": "text", "text": "thanks" }] });
            endpoint.send(&sender, &event(&json!({ "jsonrpc": "2.0", "id": id, "result": result })));
        });
        streamed(pieces)
    }

    fn send(&self, to: &mpsc::UnboundedSender<Vec<u8>>, text: &str) {
        for piece in text.as_bytes().chunks(self.cut) {
            // A client that has disconnected receives no more.
            to.send(piece.to_vec()).ok();
        }
    }
}

fn question(id: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { "size": { "type": "integer" } } });
    let params = json!({ "mode": "form", "message": "What size?", "requestedSchema": schema });
    json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params })
}

fn streamed(pieces: mpsc::UnboundedReceiver<Vec<u8>>) -> Response {
    let pieces = stream::unfold(pieces, async |mut pieces| {
        let piece = pieces.recv().await?;
        Some((Ok::<_, Infallible>(piece), pieces))
    });
    ([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(pieces)).into_response()
}

#[rstest]
#[case(1)]
#[case(7)]
#[case(1 << 20)]
#[tokio::test]
async fn a_streamed_answer_is_an_answer_wherever_it_is_cut(#[case] cut: usize) {
    let catalog = catalog(cut).await;
    assert_eq!(call(&catalog, "far__plain", context()).await.unwrap().output, "ünïcode ✓");
    let offered = catalog.tools(TENANT);
    assert!(offered.iter().all(|tool| tool.spec().name != "far__task_only"), "a task is needed, which we make none of");
    catalog.close();
}

#[derive(Debug, Default)]
struct Tailor(Mutex<Vec<String>>);

#[async_trait::async_trait]
impl People for Tailor {
    async fn ask(&self, question: Question) -> Result<Reply, ToolError> {
        self.0.lock().unwrap().push(question.message);
        Ok(Reply::Accepted { value: json!({ "size": 42 }) })
    }
}

#[tokio::test]
async fn a_question_comes_by_the_stream_of_its_call_and_is_answered_by_another_request() {
    let (catalog, tailor) = (catalog(5).await, Arc::new(Tailor::default()));
    let context = ToolContext { people: tailor.clone(), ..context() };
    let output = call(&catalog, "far__asks", context).await.unwrap().output;
    let told: Value = serde_json::from_str(output.as_str().unwrap()).unwrap();
    assert_eq!(told, json!({ "action": "accept", "content": { "size": 42 } }));
    assert_eq!(*tailor.0.lock().unwrap(), ["What size?"]);
    catalog.close();
}

/// Answers as `Tailor` does, two days later.
#[derive(Debug, Default)]
struct Sleeper(Tailor);

#[async_trait::async_trait]
impl People for Sleeper {
    async fn ask(&self, question: Question) -> Result<Reply, ToolError> {
        pass(Duration::from_secs(2 * 24 * 3_600)).await;
        self.0.ask(question).await
    }
}

#[tokio::test]
async fn a_question_waits_for_its_answer_as_long_as_that_takes() {
    let catalog = catalog(64).await;
    let context = ToolContext { people: Arc::new(Sleeper::default()), ..context() };
    let output = tool(&catalog, "far__asks").await.call(json!({}), context).await.unwrap().output;
    let told: Value = serde_json::from_str(output.as_str().unwrap()).unwrap();
    assert_eq!(told, json!({ "action": "accept", "content": { "size": 42 } }));
    catalog.close();
}

/// Answers the second question only.
#[derive(Debug, Default)]
struct Slow {
    is_asked: Arc<Notify>,
    asked: AtomicU32,
    withdrawn: AtomicU32,
}

#[async_trait::async_trait]
impl People for Slow {
    async fn ask(&self, _: Question) -> Result<Reply, ToolError> {
        if self.asked.fetch_add(1, Ordering::Relaxed) == 0 {
            self.is_asked.notify_one();
            std::future::pending::<()>().await;
        }
        Ok(Reply::Accepted { value: json!({ "size": 42 }) })
    }

    async fn withdraw(&self) {
        self.withdrawn.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn a_question_that_its_server_gives_up_is_withdrawn_and_the_next_one_is_asked() {
    let (catalog, endpoint) = endpoint(64).await;
    let slow = Arc::new(Slow { is_asked: endpoint.is_asked.clone(), ..Slow::default() });
    let context = ToolContext { people: slow.clone(), ..context() };
    assert_eq!(call(&catalog, "far__gives_up", context).await.unwrap().output, "thanks");
    let times = [&slow.asked, &slow.withdrawn].map(|times| times.load(Ordering::Relaxed));
    assert_eq!(times, [2, 1]);
    catalog.close();
}

#[tokio::test]
async fn whoever_gives_a_call_up_closes_its_stream() {
    let (catalog, endpoint) = endpoint(64).await;
    let hanging = tool(&catalog, "far__hangs").await;
    {
        let mut call = std::pin::pin!(hanging.call(json!({}), context()));
        tokio::select! {
            ended = &mut call => panic!("{ended:?}"),
            () = soon(endpoint.hangs.notified()) => {}
        }
    }
    soon(endpoint.hung_up.notified()).await;
    catalog.close();
}

#[tokio::test]
async fn a_stream_that_breaks_off_or_floods_is_a_lost_call() {
    let catalog = catalog(64).await;
    for tool in ["far__breaks", "far__floods"] {
        let error = call(&catalog, tool, context()).await.unwrap_err();
        assert!(error.is_lost(), "{tool}: {error:?}");
    }
    assert_eq!(call(&catalog, "far__plain", context()).await.unwrap().output, "ünïcode ✓", "others are not affected");
    catalog.close();
}
