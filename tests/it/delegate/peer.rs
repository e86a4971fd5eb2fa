//! A scripted agent: it accepts messages, replies as the test sets it, and records what it received.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use told::Told;

use crate::support::http::{Ask, Said, soon};

// Named because a benchmark includes this file from elsewhere.
#[path = "peer/told.rs"]
mod told;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dialect {
    JsonRpc1,
    JsonRpc03,
    Rest1,
    Rest03,
}

#[derive(Clone)]
pub struct Peer {
    pub address: SocketAddr,
    dialect: Dialect,
    pub told: Arc<Mutex<Told>>,
    moved: watch::Sender<()>,
}

impl Peer {
    pub async fn start(dialect: Dialect) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let told = Arc::new(Mutex::new(Told { state: "WORKING", says: "which one?", ..Told::default() }));
        let peer = Self { address, dialect, told, moved: watch::Sender::new(()) };
        let router = Router::new().fallback(answer).with_state(peer.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        peer
    }

    pub fn card(&self) -> String {
        format!("http://{}/.well-known/agent-card.json", self.address)
    }

    /// Sets the status of all its tasks.
    pub fn says(&self, state: &'static str) {
        self.becomes(|told| told.state = state);
    }

    /// Changes its behaviour from now on.
    pub fn becomes(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.told.lock().unwrap());
        self.moved.send_replace(());
    }

    pub fn told(&self) -> Told {
        self.told.lock().unwrap().clone()
    }

    /// Returns once this holds for what it received, which must be soon, however often it is polled until then.
    pub async fn until(&self, is_so: impl Fn(&Told) -> bool) {
        let mut moved = self.moved.subscribe();
        let met = async {
            while !is_so(&self.told()) {
                moved.changed().await.unwrap();
            }
        };
        soon(met).await;
    }

    /// The push configuration that came with the nth message: its URL's path and its token.
    pub fn push(&self, nth: usize) -> (SocketAddr, String, String) {
        let sent = self.told.lock().unwrap().sent[nth].clone();
        let configuration = &sent["configuration"];
        let names = ["taskPushNotificationConfig", "pushNotificationConfig", "pushNotification"];
        let push = names.into_iter().find_map(|name| configuration.get(name));
        let push = push.expect("it was told where to report");
        let url: url::Url = push["url"].as_str().unwrap().parse().unwrap();
        let address = format!("127.0.0.1:{}", url.port().unwrap()).parse().unwrap();
        (address, url.path().to_owned(), push["token"].as_str().unwrap().to_owned())
    }

    /// Reports the nth task.
    pub async fn reports(&self, nth: usize) -> Said {
        let (address, path, token) = self.push(nth);
        let ask = Ask::new(address, "POST", &path).header("x-a2a-notification-token", &token);
        ask.json(&json!({ "statusUpdate": { "taskId": format!("their-{}", nth + 1) } })).send().await
    }

    /// Its card names the address where it was found.
    fn describe(&self, host: &str) -> Value {
        let (elsewhere, streams) = (self.told().elsewhere, self.told().can_stream);
        let base = elsewhere.map_or_else(|| format!("http://{host}/agent"), |there| format!("http://{there}/agent"));
        let (binding, is_old) = match self.dialect {
            Dialect::JsonRpc1 => ("JSONRPC", false),
            Dialect::Rest1 => ("HTTP+JSON", false),
            Dialect::JsonRpc03 => ("JSONRPC", true),
            Dialect::Rest03 => ("HTTP+JSON", true),
        };
        let mut card = json!({
            "name": "Helper", "description": "Helps.", "version": "1", "capabilities": { "pushNotifications": !streams, "streaming": streams },
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
            "skills": [{ "id": "help", "name": "Help", "description": "Helps with anything.", "tags": ["help"] }],
        });
        if is_old {
            card["url"] = base.into();
            card["preferredTransport"] = binding.into();
            card["protocolVersion"] = "0.3.0".into();
        } else {
            card["supportedInterfaces"] = json!([{ "url": base, "protocolBinding": binding, "protocolVersion": "1.0", "tenant": self.told().tenant }]);
        }
        card
    }

    fn task(&self, id: &str, told: &Told) -> Value {
        let begun = told.begun.iter().filter(|(_, task)| *task == id).map(|(message, _)| message);
        let replies = told.replies.iter().filter(|(_, task)| *task == id).map(|(message, _)| message);
        let is_kind = self.dialect == Dialect::JsonRpc03;
        let state = match self.dialect {
            Dialect::JsonRpc03 => told.state.to_lowercase().replace('_', "-"),
            Dialect::Rest03 if told.state == "CANCELED" => "TASK_STATE_CANCELLED".to_owned(),
            Dialect::JsonRpc1 | Dialect::Rest1 | Dialect::Rest03 => format!("TASK_STATE_{}", told.state),
        };
        let part = |text: &str| if is_kind { json!({ "kind": "text", "text": text }) } else { json!({ "text": text }) };
        let (user, agent) = if is_kind { ("user", "agent") } else { ("ROLE_USER", "ROLE_AGENT") };
        let parts = if self.dialect == Dialect::Rest03 { "content" } else { "parts" };
        let said = |message| json!({ "messageId": message, "role": user, parts: [] });
        let mut history = (!told.has_no_history).then(|| begun.chain(replies).map(said).collect::<Vec<_>>());
        let is_silent = told.ends_without_a_word && told.state == "COMPLETED";
        if let Some(history) = history.as_mut().filter(|_| is_silent) {
            history.push(json!({ "messageId": "r", "role": agent, parts: [part("said by helper")] }));
        }
        let says = (!is_silent).then(|| json!({ "messageId": "m", "role": agent, parts: [part(told.says)] }));
        json!({
            "kind": "task", "id": id, "contextId": format!("context-{id}"),
            "status": { "state": state, "message": says },
            "history": history,
            "artifacts": match told.state {
                "COMPLETED" if is_silent => json!([]),
                "COMPLETED" if told.result_bytes > 0 => json!([{ "artifactId": "a", "parts": [part(&"x".repeat(told.result_bytes))] }]),
                "COMPLETED" => json!([{ "artifactId": "a", "parts": [part("done by helper")] }]),
                _ => json!([]),
            },
        })
    }

    /// The path without the tenant; `None`: the request does not name it.
    fn of_its_tenant<'p>(&self, path: &'p str, body: &Value) -> Option<&'p str> {
        let Some(tenant) = self.told().tenant.filter(|_| !path.starts_with("/.well-known/")) else { return Some(path) };
        match self.dialect {
            Dialect::JsonRpc1 | Dialect::JsonRpc03 => (body["params"]["tenant"] == tenant).then_some(path),
            Dialect::Rest1 | Dialect::Rest03 => path.strip_prefix('/')?.strip_prefix(tenant),
        }
    }

    /// `None`: it accepted the message, but its response is lost.
    fn sent(&self, params: &Value) -> Option<Value> {
        let mut told = self.told.lock().unwrap();
        told.sent.push(params.clone());
        let message = &params["message"];
        let id = match message["taskId"].as_str() {
            Some(id) => {
                told.state = if told.asks_on { "INPUT_REQUIRED" } else { "WORKING" };
                told.replies.push((message["messageId"].as_str().unwrap().to_owned(), id.to_owned()));
                id.to_owned()
            }
            None => {
                let id = format!("their-{}", told.sent.len());
                told.begun.entry(message["messageId"].as_str().unwrap().to_owned()).or_insert(id).clone()
            }
        };
        if told.loses > 0 {
            told.loses -= 1;
            return None;
        }
        let task = self.task(&id, &told);
        Some(if self.dialect == Dialect::JsonRpc03 { task } else { json!({ "task": task }) })
    }

    /// `Err`: the request is to be retried after this many seconds.
    fn asked(&self, id: &str) -> Result<Value, u32> {
        let mut told = self.told.lock().unwrap();
        told.asked += 1;
        told.busy.map_or_else(|| Ok(self.task(id, &told)), Err)
    }

    /// The task's current status, and again after every change.
    fn streamed(&self, id: &str) -> Response {
        let listener = Listener::of(self, id);
        let start = (listener, self.moved.subscribe(), None::<(&str, &str)>);
        let events = stream::unfold(start, async |(listener, mut moved, before)| {
            let (peer, id) = (&listener.peer, &listener.id);
            loop {
                let told = peer.told();
                let is_first = before.is_none();
                if before.is_some_and(|(state, _)| state == "COMPLETED") || (!is_first && told.cuts) {
                    return None;
                }
                let now = Some((told.state, told.says));
                if before != now {
                    let event = format!(": hello\n\ndata: {}\n\n", peer.event(id, &told, is_first));
                    return Some((Ok::<_, Infallible>(event), (listener, moved, now)));
                }
                moved.changed().await.ok()?;
            }
        });
        ([("content-type", "text/event-stream")], Body::from_stream(events)).into_response()
    }

    fn event(&self, id: &str, told: &Told, is_first: bool) -> Value {
        let task = self.task(id, told);
        let update = json!({ "taskId": id, "contextId": task["contextId"], "status": task["status"] });
        let (name, kind, mut said) =
            if is_first { ("task", "task", task) } else { ("statusUpdate", "status-update", update) };
        match self.dialect {
            Dialect::JsonRpc1 => json!({ "jsonrpc": "2.0", "id": 1, "result": { name: said } }),
            Dialect::JsonRpc03 => {
                said["kind"] = kind.into();
                json!({ "jsonrpc": "2.0", "id": 1, "result": said })
            }
            Dialect::Rest1 | Dialect::Rest03 => json!({ name: said }),
        }
    }

    fn listed(&self, has_artifacts: bool) -> Value {
        let mut told = self.told.lock().unwrap();
        told.listed += 1;
        let mut tasks: Vec<Value> = told.begun.values().map(|id| self.task(id, &told)).collect();
        if !has_artifacts {
            tasks.iter_mut().for_each(|task| task["artifacts"] = json!([]));
        }
        json!({ "tasks": tasks, "nextPageToken": "", "pageSize": 100, "totalSize": tasks.len() })
    }

    fn cancelled(&self, id: &str) -> Value {
        let mut told = self.told.lock().unwrap();
        told.cancelled.push(id.to_owned());
        told.state = "CANCELED";
        self.task(id, &told)
    }
}

async fn answer(State(peer): State<Peer>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    peer.told.lock().unwrap().authorization = header("authorization");
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path = uri.path().trim_start_matches("/agent").trim_start_matches("/v1");
    let Some(path) = peer.of_its_tenant(path, &body) else { return StatusCode::NOT_FOUND.into_response() };
    let sent = || peer.told.lock().unwrap().sent.len();
    let before = sent();
    let moved = peer.told.lock().unwrap().moved;
    if let Some(elsewhere) = moved {
        peer.becomes(|told| told.refused += 1);
        let there = [("location", format!("http://{elsewhere}{}", uri.path()))];
        return (StatusCode::TEMPORARY_REDIRECT, there).into_response();
    }
    if peer.told.lock().unwrap().locked {
        peer.becomes(|told| told.refused += 1);
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let said = |status: StatusCode| (status, axum::Json(json!({ "message": "it is not possible" }))).into_response();
    let told = peer.told();
    if told.forgets && path.starts_with("/tasks/") {
        return said(StatusCode::NOT_FOUND);
    }
    if told.takes_no_address && body["configuration"].to_string().contains("/a2a/callbacks/") {
        peer.becomes(|told| told.refused += 1);
        return said(StatusCode::NOT_IMPLEMENTED);
    }
    if let Some((code, why)) = told.refuses_answers
        && !body["params"]["message"]["taskId"].is_null()
    {
        peer.becomes(|told| told.refused += 1);
        let error = json!({ "code": code, "message": why });
        return axum::Json(json!({ "jsonrpc": "2.0", "id": body["id"], "error": error })).into_response();
    }
    let found = match (&peer.dialect, path) {
        (_, "/.well-known/agent-card.json") => {
            let known = header("if-none-match");
            peer.told.lock().unwrap().cards.push(known.clone());
            peer.moved.send_replace(());
            if peer.told().has_no_card {
                return StatusCode::NOT_FOUND.into_response();
            }
            let card = peer.describe(&header("host").expect("everybody names it"));
            let tag = format!("\"{}\"", pes::domain::digest::of(&card));
            return if known == Some(tag.clone()) {
                StatusCode::NOT_MODIFIED.into_response()
            } else {
                ([("etag", tag)], axum::Json(card)).into_response()
            };
        }
        (Dialect::JsonRpc1 | Dialect::JsonRpc03, _) => {
            let params = &body["params"];
            let id = params["id"].as_str().unwrap_or_default();
            let result = match body["method"].as_str().unwrap() {
                "SendMessage" | "message/send" => peer.sent(params).ok_or_else(lost),
                "GetTask" | "tasks/get" => peer.asked(id).map_err(busy).map(|task| as_far(task, &told, params)),
                "ListTasks" => Ok(peer.listed(params["includeArtifacts"] == true)),
                "CancelTask" | "tasks/cancel" => Ok(peer.cancelled(id)),
                "SubscribeToTask" | "tasks/resubscribe" => Err(peer.streamed(id)),
                other => panic!("unexpected: {other}"),
            };
            result.map(|result| json!({ "jsonrpc": "2.0", "id": body["id"], "result": result }))
        }
        (_, "/message:send") => peer.sent(&body).ok_or_else(lost),
        (_, "/tasks") => Ok(peer.listed(uri.query().is_some_and(|query| query.contains("includeArtifacts=true")))),
        (_, path) => {
            let named = path.trim_start_matches("/tasks/").replace("%3A", ":");
            match named.rsplit_once(':') {
                Some((id, "subscribe")) if method == Method::GET => Err(peer.streamed(id)),
                Some((id, "cancel")) if method == Method::POST => Ok(peer.cancelled(id)),
                Some(_) | None => peer.asked(&named).map_err(busy),
            }
        }
    };
    peer.moved.send_replace(());
    let silent = peer.told.lock().unwrap().silent;
    if before < silent && sent() > before {
        return std::future::pending().await;
    }
    found.map_or_else(|other| other, |found| axum::Json(found).into_response())
}

/// The task without its history, if that was not asked for: only an agent that answers in its history makes a difference.
fn as_far(mut task: Value, told: &Told, params: &Value) -> Value {
    if told.ends_without_a_word && params["historyLength"] == 0 {
        task["history"] = json!([]);
    }
    task
}

fn lost() -> Response {
    StatusCode::INTERNAL_SERVER_ERROR.into_response()
}

fn busy(seconds: u32) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", seconds.to_string())]).into_response()
}

/// A subscriber of a task.
struct Listener {
    peer: Peer,
    id: String,
}

impl Listener {
    fn of(peer: &Peer, id: &str) -> Self {
        let mut told = peer.told.lock().unwrap();
        (told.streams.0, told.streams.1) = (told.streams.0 + 1, told.streams.1 + 1);
        Self { peer: peer.clone(), id: id.to_owned() }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.peer.told.lock().unwrap().streams.1 -= 1;
        self.peer.moved.send_replace(());
    }
}
