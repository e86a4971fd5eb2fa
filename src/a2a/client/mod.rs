//! Speaking to another agent: JSON-RPC or HTTP+JSON, version 1.0 or 0.3, as its card says. A call is sent once; what came
//! of it is classified by whether it may be sent again.

pub(super) mod call;
mod line;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::directory::Peer;
use super::fault;
use super::types::{AgentCard, ListQuery, SendRequest, SendResult, Task, TaskPage, TaskQuery};
use super::wire::{Method, Unreadable};
use crate::domain::Millis;
use crate::egress::{Bounds, Egress};

pub use line::{Binding, Line};
pub use stream::Events;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// It did not take place: nobody was reached, or the agent was too busy.
    #[error("{why}")]
    Unreachable { why: String, retry_after_ms: Option<Millis> },
    /// It may have taken place.
    #[error("{0}")]
    Unknown(String),
    /// The agent says no.
    #[error("{}", .0.detail)]
    Said(fault::Fault),
    /// It cannot be spoken to, or may not be called.
    #[error("{0}")]
    Refused(String),
}

impl From<Unreadable> for Error {
    fn from(unreadable: Unreadable) -> Self {
        Error::Unknown(format!("the agent's answer cannot be read: {unreadable}"))
    }
}

pub struct Client {
    egress: Arc<Egress>,
    bounds: Bounds,
}

impl Client {
    /// No call takes longer than `time`; no answer is larger than `bytes`.
    pub fn new(egress: Arc<Egress>, time: Duration, bytes: usize) -> Self {
        Self { egress, bounds: Bounds { headers: time, stall: time, total: time, bytes } }
    }

    /// The first of the agent's interfaces that is understood here.
    pub fn line(&self, card: &AgentCard) -> Result<Line, Error> {
        Line::of(card).ok_or_else(|| Error::Refused("its card names no interface that is understood here".to_owned()))
    }

    pub async fn send(&self, peer: &Peer, line: &Line, request: &SendRequest) -> Result<SendResult, Error> {
        let params = line.version.send_request(request);
        let answer = self.ask(peer, line, Method::SendMessage, "message:send", http::Method::POST, params).await?;
        Ok(line.version.read_sent(&answer)?)
    }

    pub async fn task(&self, peer: &Peer, line: &Line, id: &str, history: u32) -> Result<Task, Error> {
        let query = TaskQuery { id: id.to_owned(), history_length: Some(history), ..TaskQuery::default() };
        let path = format!("tasks/{}?historyLength={history}", segment(id));
        let params = line.version.task_query(&query);
        let answer = self.ask(peer, line, Method::GetTask, &path, http::Method::GET, params).await?;
        Ok(line.version.read_task(&answer)?)
    }

    pub async fn cancel(&self, peer: &Peer, line: &Line, id: &str) -> Result<Task, Error> {
        let query = TaskQuery { id: id.to_owned(), ..TaskQuery::default() };
        let path = format!("tasks/{}:cancel", segment(id));
        let params = match line.binding {
            Binding::JsonRpc => line.version.task_query(&query),
            Binding::HttpJson => json!({}),
        };
        let answer = self.ask(peer, line, Method::CancelTask, &path, http::Method::POST, params).await?;
        Ok(line.version.read_task(&answer)?)
    }

    /// The agent's tasks since then, with their history; 0.3 cannot tell.
    pub async fn tasks(&self, peer: &Peer, line: &Line, query: &ListQuery) -> Result<TaskPage, Error> {
        let params = line.version.list_query(query);
        let path = format!("tasks?{}", as_query(&params));
        let answer = self.ask(peer, line, Method::ListTasks, &path, http::Method::GET, params).await?;
        Ok(line.version.read_task_page(&answer)?)
    }

    async fn ask(
        &self,
        peer: &Peer,
        line: &Line,
        method: Method,
        path: &str,
        verb: http::Method,
        params: Value,
    ) -> Result<Value, Error> {
        let request = line.request(method, path, verb, params)?;
        self.call(peer, line, request).await
    }
}

fn as_query(params: &Value) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in params.as_object().into_iter().flatten() {
        query.append_pair(name, &value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    query.finish()
}

/// An id as one segment of a path.
fn segment(id: &str) -> String {
    url::form_urlencoded::byte_serialize(id.as_bytes()).collect::<String>().replace('+', "%20")
}
