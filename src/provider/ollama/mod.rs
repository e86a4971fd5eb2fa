//! Ollama's own API: `POST /api/chat`, a JSON document per line. Unlike its `/v1` it accepts the context length, and a
//! schema for the reply.

mod address;
mod request;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::Arc;

use serde_json::{Map, Value};
use url::Url;

use super::ChatModel;
use super::client::{Client, Protocol};
use super::endpoint::Endpoint;
use super::wire::Framing;
use crate::domain::fault::Fault;
use crate::domain::model::ModelRequest;
pub(crate) use wire::Wire;

pub(crate) use address::base_url;

struct Chat {
    num_ctx: u64,
}

impl Protocol for Chat {
    type Wire = Wire;
    const FRAMING: Framing = Framing::Lines;

    fn url(&self, endpoint: &Endpoint, _: &ModelRequest) -> Url {
        match endpoint.last_segment() {
            Some("api") => endpoint.url(["chat"]),
            Some(_) | None => endpoint.url(["api", "chat"]),
        }
    }

    fn body(&self, request: &ModelRequest) -> Vec<u8> {
        request::body(request, self.num_ctx).to_string().into_bytes()
    }

    fn wire(&self, _: &ModelRequest) -> Wire {
        Wire::default()
    }

    fn admit(&self, _: &str, _: &Map<String, Value>) -> Result<(), Fault> {
        Ok(())
    }
}

/// Opens a client for an Ollama server that uses `num_ctx` tokens for prompt and reply.
pub(crate) fn open(endpoint: Endpoint, num_ctx: u64) -> Arc<dyn ChatModel> {
    Arc::new(Client::new(Chat { num_ctx }, endpoint))
}
