//! The Anthropic Messages API, streamed. Signed thinking is stored with a reply that calls tools, and sent back with
//! the next request.

mod form;
mod models;
mod request;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::Arc;

use serde_json::{Map, Value};
use url::Url;

use super::client::{Client, Protocol};
use super::endpoint::Endpoint;
use super::known::KnownFacts;
use super::wire::Framing;
use super::{ChatModel, params};
use crate::domain::fault::Fault;
use crate::domain::model::ModelRequest;
use models::Generation;
pub(crate) use wire::Wire;

/// The key of this wire's replayed blocks.
const WIRE: &str = "anthropic";
/// The API version that this wire was written for.
const VERSION: &str = "2023-06-01";

struct Messages {
    provider: String,
    known: Arc<KnownFacts>,
}

impl Messages {
    fn most_output(&self, request: &ModelRequest) -> u64 {
        request::most_output(request, self.known.facts(&self.provider, &request.model))
    }
}

/// Parameters that the API does not support.
const REFUSED: [&str; 3] = ["seed", "frequencyPenalty", "presencePenalty"];

impl Protocol for Messages {
    type Wire = Wire;
    const FRAMING: Framing = Framing::Events;

    /// The base URL may or may not contain the API version.
    fn url(&self, endpoint: &Endpoint, _: &ModelRequest) -> Url {
        match endpoint.last_segment() {
            Some("v1") => endpoint.url(["messages"]),
            Some(_) | None => endpoint.url(["v1", "messages"]),
        }
    }

    fn body(&self, request: &ModelRequest) -> Vec<u8> {
        request::body(request, self.most_output(request)).to_string().into_bytes()
    }

    fn wire(&self, request: &ModelRequest) -> Wire {
        // Without a schema there is no form, and the prompt need not be measured again.
        let has_form_tool =
            request.response_schema.is_some() && request::has_form_tool(request, self.most_output(request));
        Wire::new(&request.model, has_form_tool.then_some(form::FORM_TOOL))
    }

    fn admit(&self, model: &str, params: &Map<String, Value>) -> Result<(), Fault> {
        let thinks = params.get("reasoningEffort").is_some_and(|effort| effort != "none");
        let samples = ["temperature", "topP"].into_iter().find(|name| params.contains_key(*name));
        if let Some(name) = REFUSED.into_iter().find(|name| params.contains_key(*name)) {
            return Err(params::unsupported(name, "Anthropic does not take it"));
        }
        if thinks && models::generation(model) == Generation::Silent {
            return Err(params::unsupported("reasoningEffort", "this model does not think before it answers"));
        }
        match samples {
            Some(name) if models::generation(model) == Generation::AdaptiveOnly => {
                Err(params::unsupported(name, "this model takes no sampling parameters"))
            }
            Some("temperature") if params.contains_key("topP") => {
                Err(params::unsupported("topP", "Anthropic does not take it with temperature"))
            }
            Some(name) if thinks => Err(params::unsupported(name, "Anthropic does not take it with reasoningEffort")),
            Some("temperature") if params["temperature"].as_f64().is_some_and(|value| value > 1.0) => {
                Err(params::unsupported("temperature", "Anthropic takes a number from 0 to 1"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Opens a client for Anthropic or a compatible service.
pub(crate) fn open(endpoint: Endpoint, known: Arc<KnownFacts>) -> Arc<dyn ChatModel> {
    let messages = Messages { provider: endpoint.provider.clone(), known };
    Arc::new(Client::new(messages, endpoint.with_header("anthropic-version", VERSION)))
}
