//! Another agent, as a test wants it: it takes messages, says what it is told to say, and remembers what reached it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::support::http::{Ask, Said, soon};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dialect {
    JsonRpc1,
    JsonRpc03,
    Rest1,
    Rest03,
}

#[derive(Clone, Debug, Default)]
pub struct Told {
    /// What `SendMessage` was called with, in order.
    pub sent: Vec<Value>,
    /// The ids of its tasks, by the ids of the messages that began them.
    pub begun: BTreeMap<String, String>,
    pub asked: usize,
    pub cancelled: Vec<String>,
    /// The `Authorization` of the last call.
    pub authorization: Option<String>,
    /// So many messages it takes without an answer.
    pub silent: usize,
    /// Whoever asks is to come again after so many seconds.
    pub busy: Option<u32>,
    /// Where it sends those who call it, and where its card says that it is.
    pub moved: Option<SocketAddr>,
    /// How many it sent there.
    pub refused: usize,
    pub elsewhere: Option<SocketAddr>,
    /// How all of its tasks stand, in the words of 1.0 without their beginning.
    pub state: &'static str,
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
        let told = Arc::new(Mutex::new(Told { state: "WORKING", ..Told::default() }));
        let peer = Self { address, dialect, told, moved: watch::Sender::new(()) };
        let router = Router::new().fallback(answer).with_state(peer.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        peer
    }

    pub fn card(&self) -> String {
        format!("http://{}/.well-known/agent-card.json", self.address)
    }

    /// From now on all of its tasks stand so.
    pub fn says(&self, state: &'static str) {
        self.becomes(|told| told.state = state);
    }

    /// From now on it behaves so.
    pub fn becomes(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.told.lock().unwrap());
    }

    pub fn told(&self) -> Told {
        self.told.lock().unwrap().clone()
    }

    /// Returns when what reached it is so.
    pub async fn until(&self, is_so: impl Fn(&Told) -> bool) {
        let mut moved = self.moved.subscribe();
        while !is_so(&self.told()) {
            soon(moved.changed()).await.unwrap();
        }
    }

    /// The push configuration that came with the nth message: its URL's path and its token.
    pub fn push(&self, nth: usize) -> (SocketAddr, String, String) {
        let sent = &self.told().sent[nth];
        let configuration = &sent["configuration"];
        let push = configuration.get("taskPushNotificationConfig").or(configuration.get("pushNotificationConfig"));
        let push = push.expect("it was told where to report");
        let url: url::Url = push["url"].as_str().unwrap().parse().unwrap();
        let address = format!("127.0.0.1:{}", url.port().unwrap()).parse().unwrap();
        (address, url.path().to_owned(), push["token"].as_str().unwrap().to_owned())
    }

    /// Reports on the nth task.
    pub async fn reports(&self, nth: usize) -> Said {
        let (address, path, token) = self.push(nth);
        let ask = Ask::new(address, "POST", &path).header("x-a2a-notification-token", &token);
        ask.json(&json!({ "statusUpdate": { "taskId": format!("their-{}", nth + 1) } })).send().await
    }

    fn describe(&self) -> Value {
        let base = format!("http://{}/agent", self.told().elsewhere.unwrap_or(self.address));
        let (binding, is_old) = match self.dialect {
            Dialect::JsonRpc1 => ("JSONRPC", false),
            Dialect::Rest1 => ("HTTP+JSON", false),
            Dialect::JsonRpc03 => ("JSONRPC", true),
            Dialect::Rest03 => ("HTTP+JSON", true),
        };
        let mut card = json!({
            "name": "Helper", "description": "Helps.", "version": "1", "capabilities": { "pushNotifications": true },
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
            "skills": [{ "id": "help", "name": "Help", "description": "Helps with anything.", "tags": ["help"] }],
        });
        if is_old {
            card["url"] = base.into();
            card["preferredTransport"] = binding.into();
            card["protocolVersion"] = "0.3.0".into();
        } else {
            card["supportedInterfaces"] =
                json!([{ "url": base, "protocolBinding": binding, "protocolVersion": "1.0" }]);
        }
        card
    }

    fn is_old(&self) -> bool {
        matches!(self.dialect, Dialect::JsonRpc03 | Dialect::Rest03)
    }

    fn task(&self, id: &str, told: &Told) -> Value {
        let message = told.begun.iter().find(|(_, task)| *task == id).map(|(message, _)| message.clone());
        let (state, role, text) = match self.is_old() {
            true => (
                told.state.to_lowercase().replace('_', "-"),
                "agent",
                json!({ "kind": "text", "text": "done by helper" }),
            ),
            false => (format!("TASK_STATE_{}", told.state), "ROLE_AGENT", json!({ "text": "done by helper" })),
        };
        let asks = match self.is_old() {
            true => json!({ "kind": "text", "text": "which one?" }),
            false => json!({ "text": "which one?" }),
        };
        let user = if self.is_old() { "user" } else { "ROLE_USER" };
        json!({
            "kind": "task", "id": id, "contextId": format!("context-{id}"),
            "status": { "state": state, "message": { "kind": "message", "messageId": "m", "role": role, "parts": [asks] } },
            "history": [{ "kind": "message", "messageId": message, "role": user, "parts": [] }],
            "artifacts": if told.state == "COMPLETED" { json!([{ "artifactId": "a", "parts": [text] }]) } else { json!([]) },
        })
    }

    fn sent(&self, params: &Value) -> Value {
        let mut told = self.told.lock().unwrap();
        told.sent.push(params.clone());
        let message = &params["message"];
        let id = match message["taskId"].as_str() {
            Some(id) => {
                told.state = "WORKING";
                id.to_owned()
            }
            None => {
                let id = format!("their-{}", told.sent.len());
                told.begun.insert(message["messageId"].as_str().unwrap().to_owned(), id.clone());
                id
            }
        };
        let task = self.task(&id, &told);
        if self.is_old() { task } else { json!({ "task": task }) }
    }

    fn asked(&self, id: &str) -> Value {
        let mut told = self.told.lock().unwrap();
        told.asked += 1;
        self.task(id, &told)
    }

    fn listed(&self) -> Value {
        let told = self.told.lock().unwrap();
        let tasks: Vec<Value> = told.begun.values().map(|id| self.task(id, &told)).collect();
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
    let authorization = headers.get("authorization").and_then(|value| value.to_str().ok()).map(str::to_owned);
    peer.told.lock().unwrap().authorization = authorization;
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path = uri.path().trim_start_matches("/agent").trim_start_matches("/v1");
    let Told { busy, moved, silent, .. } = peer.told();
    if let Some(elsewhere) = moved {
        peer.becomes(|told| told.refused += 1);
        peer.moved.send_replace(());
        let there = [("location", format!("http://{elsewhere}{}", uri.path()))];
        return (StatusCode::TEMPORARY_REDIRECT, there).into_response();
    }
    let (sent, asked) = (peer.told().sent.len(), peer.told().asked);
    let found = match (&peer.dialect, path) {
        (_, "/.well-known/agent-card.json") => peer.describe(),
        (Dialect::JsonRpc1 | Dialect::JsonRpc03, _) => {
            let params = &body["params"];
            let id = params["id"].as_str().unwrap_or_default();
            let result = match body["method"].as_str().unwrap() {
                "SendMessage" | "message/send" => peer.sent(params),
                "GetTask" | "tasks/get" => peer.asked(id),
                "ListTasks" => peer.listed(),
                "CancelTask" | "tasks/cancel" => peer.cancelled(id),
                other => panic!("unexpected: {other}"),
            };
            json!({ "jsonrpc": "2.0", "id": body["id"], "result": result })
        }
        (_, "/message:send") => peer.sent(&body),
        (_, "/tasks") => peer.listed(),
        (_, path) => {
            let id = path.trim_start_matches("/tasks/");
            match id.strip_suffix(":cancel").or_else(|| id.strip_suffix("%3Acancel")) {
                Some(id) if method == Method::POST => peer.cancelled(id),
                Some(_) | None => peer.asked(id),
            }
        }
    };
    peer.moved.send_replace(());
    match busy {
        _ if sent < silent && peer.told().sent.len() > sent => std::future::pending().await,
        Some(seconds) if peer.told().asked > asked => {
            (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", seconds.to_string())]).into_response()
        }
        Some(_) | None => axum::Json(found).into_response(),
    }
}
