//! Calls other agents: JSON-RPC or HTTP+JSON, version 1.0 or 0.3, as the agent's card says. A call is sent once; its
//! error says whether it may be sent again.

pub(super) mod call;
mod interface;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::directory::Peer;
use super::fault;
use super::types::{ListQuery, SendRequest, SendResult, Task, TaskPage, TaskQuery};
use super::wire::{Binding, Method, Unreadable};
use crate::domain::Millis;
use crate::egress::{Bounds, Egress};
use crate::store;

pub use interface::ChosenInterface;
pub use stream::Events;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The call did not take place: no connection, or the agent was too busy.
    #[error("{why}")]
    Unreachable { why: String, retry_after_ms: Option<Millis> },
    /// The call may have taken place.
    #[error("{0}")]
    Unknown(String),
    /// The call took place, and its answer is too large to be read.
    #[error("{0}")]
    TooLarge(String),
    /// The answer is JSON, and none of the protocol. The call may have taken place.
    #[error("{0}")]
    Unreadable(String),
    /// The HTTP status says that the call was not carried out.
    #[error("{0}")]
    NotCarriedOut(String),
    /// The agent returned an error.
    #[error("{}", .0.detail)]
    Fault(fault::Fault),
    /// The agent's interface is not supported, or it may not be called.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    /// The call did not take place, and nothing says when to try again.
    pub fn unreachable(why: impl Into<String>) -> Self {
        Error::Unreachable { why: why.into(), retry_after_ms: None }
    }
}

/// What the call needs could not be read, so it did not take place.
impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Error::unreachable(error.to_string())
    }
}

impl From<Unreadable> for Error {
    fn from(unreadable: Unreadable) -> Self {
        Error::Unreadable(format!("the agent's answer cannot be read: {unreadable}"))
    }
}

pub struct Client {
    egress: Arc<Egress>,
    bounds: Bounds,
}

impl Client {
    pub fn new(egress: Arc<Egress>, timeout: Duration, max_bytes: usize) -> Self {
        Self { egress, bounds: Bounds { headers: timeout, stall: timeout, total: timeout, bytes: max_bytes } }
    }

    pub async fn send(
        &self,
        peer: &Peer,
        interface: &ChosenInterface,
        request: &SendRequest,
    ) -> Result<SendResult, Error> {
        let params = interface.version.send_request(request);
        let request = interface.request(Method::SendMessage, "message:send", http::Method::POST, params)?;
        Ok(interface.version.read_sent(&self.call(peer, interface, request).await?)?)
    }

    pub async fn task(&self, peer: &Peer, interface: &ChosenInterface, id: &str, history: u32) -> Result<Task, Error> {
        let query = TaskQuery { id: id.to_owned(), history_length: Some(history), ..TaskQuery::default() };
        let path = format!("tasks/{}?historyLength={history}", segment(id));
        let params = interface.version.task_query(&query);
        let request = interface.request(Method::GetTask, &path, http::Method::GET, params)?;
        Ok(interface.version.read_task(&self.call(peer, interface, request).await?)?)
    }

    pub async fn cancel(&self, peer: &Peer, interface: &ChosenInterface, id: &str) -> Result<Task, Error> {
        let query = TaskQuery { id: id.to_owned(), ..TaskQuery::default() };
        let path = format!("tasks/{}:cancel", segment(id));
        let params = match interface.binding {
            Binding::JsonRpc => interface.version.task_query(&query),
            Binding::HttpJson => json!({}),
        };
        let request = interface.request(Method::CancelTask, &path, http::Method::POST, params)?;
        Ok(interface.version.read_task(&self.call(peer, interface, request).await?)?)
    }

    /// The agent's tasks since then, with their history; not available in 0.3.
    pub async fn tasks(&self, peer: &Peer, interface: &ChosenInterface, query: &ListQuery) -> Result<TaskPage, Error> {
        let params = interface.version.list_query(query);
        let path = format!("tasks?{}", as_query(&params));
        let request = interface.request(Method::ListTasks, &path, http::Method::GET, params)?;
        Ok(interface.version.read_task_page(&self.call(peer, interface, request).await?)?)
    }
}

fn as_query(params: &Value) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in params.as_object().into_iter().flatten() {
        query.append_pair(name, &value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    query.finish()
}

/// Encodes an id as one path segment.
fn segment(id: &str) -> String {
    url::form_urlencoded::byte_serialize(id.as_bytes()).collect::<String>().replace('+', "%20")
}
