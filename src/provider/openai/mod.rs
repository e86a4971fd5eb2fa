//! The OpenAI Chat Completions API, streamed, and every provider that implements it, each described by a row of data.
//!
//! A reply is complete only if its end arrived *and* the vendor gave a stop reason; anything else is an error, never a
//! shorter reply.

mod calls;
pub(crate) mod compatible;
mod families;
mod order;
mod replayed_reasoning;
mod request;
mod surrogates;
#[cfg(test)]
mod tests;
mod wire;

use serde_json::{Map, Value};
use url::Url;

use super::client::{Client, Protocol};
use super::endpoint::Endpoint;
use super::wire::Framing;
use super::{ChatModel, params};
use crate::domain::fault::Fault;
use crate::domain::model::ModelRequest;
use compatible::Dialect;
pub(crate) use wire::Wire;

/// The key of this wire's replayed blocks.
const WIRE: &str = "openai";

struct ChatCompletions(Dialect);

impl Protocol for ChatCompletions {
    type Wire = Wire;
    const FRAMING: Framing = Framing::Events;

    fn url(&self, endpoint: &Endpoint, _: &ModelRequest) -> Url {
        endpoint.url(["chat", "completions"])
    }

    fn body(&self, request: &ModelRequest) -> Vec<u8> {
        request::body(&self.0, request)
    }

    fn wire(&self, request: &ModelRequest) -> Wire {
        Wire::new(self.0.reasoning, &request.model)
    }

    fn admit(&self, model: &str, params: &Map<String, Value>) -> Result<(), Fault> {
        match self.0.refuses.iter().find(|name| params.contains_key(**name)) {
            Some(name) => Err(params::unsupported(name, &format!("{} does not take it", self.0.name))),
            None if self.0.name == compatible::OPENAI.name => families::admit(model, params),
            None => Ok(()),
        }
    }
}

/// Opens a client for an endpoint with this dialect.
pub(crate) fn open(dialect: Dialect, endpoint: Endpoint) -> std::sync::Arc<dyn ChatModel> {
    std::sync::Arc::new(Client::new(ChatCompletions(dialect), endpoint))
}
