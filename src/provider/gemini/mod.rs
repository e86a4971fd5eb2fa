//! Gemini's own API: `streamGenerateContent`, as server-sent events. Thought signatures are stored with a reply that
//! calls tools, and sent back with the next request.

mod request;
mod schema;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::Arc;

use serde_json::{Map, Value};
use url::Url;

use super::client::{Client, Protocol};
use super::endpoint::Endpoint;
use super::wire::Framing;
use super::{ChatModel, params};
use crate::domain::fault::Fault;
use crate::domain::model::ModelRequest;
use request::{Thinks, thinks};
pub(crate) use wire::Wire;

/// The key of this wire's replayed blocks.
const WIRE: &str = "gemini";

struct GenerateContent;

impl Protocol for GenerateContent {
    type Wire = Wire;
    const FRAMING: Framing = Framing::Events;

    fn url(&self, endpoint: &Endpoint, request: &ModelRequest) -> Url {
        let model = request.model.strip_prefix("models/").unwrap_or(&request.model);
        let mut url = endpoint.url(["models", &format!("{model}:streamGenerateContent")]);
        url.query_pairs_mut().append_pair("alt", "sse");
        url
    }

    fn body(&self, request: &ModelRequest) -> Vec<u8> {
        request::body(request).to_string().into_bytes()
    }

    fn wire(&self, request: &ModelRequest) -> Wire {
        Wire::new(&request.model)
    }

    fn admit(&self, model: &str, params: &Map<String, Value>) -> Result<(), Fault> {
        match thinks(model) {
            Thinks::Not if params.contains_key("reasoningEffort") => {
                Err(params::unsupported("reasoningEffort", "this model does not think before it answers"))
            }
            Thinks::Not | Thinks::Budgeted | Thinks::Levelled => Ok(()),
        }
    }
}

/// Opens a client for Gemini.
pub(crate) fn open(endpoint: Endpoint) -> Arc<dyn ChatModel> {
    Arc::new(Client::new(GenerateContent, endpoint))
}
