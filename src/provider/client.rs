//! The generic client of one endpoint, for any protocol.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value};
use url::Url;

use super::endpoint::Endpoint;
use super::wire::{Framing, ReplyDecoder, Wire};
use super::{ChatModel, DeltaStream, params, reading};
use crate::domain::fault::{Code, Fault};
use crate::domain::model::{ModelFailure, ModelRequest};

/// The protocol of one kind of provider. Pure.
pub(crate) trait Protocol: Send + Sync + 'static {
    type Wire: Wire + 'static;
    /// The framing of its streams.
    const FRAMING: Framing;

    fn url(&self, endpoint: &Endpoint, request: &ModelRequest) -> Url;
    /// The request's body, as JSON.
    fn body(&self, request: &ModelRequest) -> Vec<u8>;
    /// The reader of the response to this request.
    fn wire(&self, request: &ModelRequest) -> Self::Wire;
    /// Rejects parameters that are valid in themselves but not supported by this vendor.
    fn admit(&self, model: &str, params: &Map<String, Value>) -> Result<(), Fault>;
}

pub(crate) struct Client<P> {
    protocol: P,
    endpoint: Arc<Endpoint>,
}

impl<P: Protocol> Client<P> {
    pub(crate) fn new(protocol: P, endpoint: Endpoint) -> Self {
        Self { protocol, endpoint: Arc::new(endpoint) }
    }
}

#[async_trait]
impl<P: Protocol> ChatModel for Client<P> {
    async fn call(&self, request: ModelRequest) -> Result<DeltaStream, ModelFailure> {
        let url = self.protocol.url(&self.endpoint, &request);
        let answer = self.endpoint.post(url, self.protocol.body(&request), &request.trace).await?;
        let kind = answer.headers().get(CONTENT_TYPE);
        let is_whole = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
        // A document on a single line is also a stream of lines.
        let framing = if is_whole && P::FRAMING == Framing::Events { Framing::Whole } else { P::FRAMING };
        let body = ReplyDecoder::new(framing, self.protocol.wire(&request), self.endpoint.bounds.bytes);
        let endpoint = self.endpoint.clone();
        let deltas = reading::stream(answer, body);
        Ok(deltas.map(move |delta| delta.map_err(|failure| endpoint.redacted(failure))).boxed())
    }

    fn warning(&self) -> Option<String> {
        self.endpoint.warning()
    }

    fn is_local(&self) -> bool {
        self.endpoint.is_local()
    }

    fn admit(&self, model: &str, params: &Map<String, Value>) -> Result<(), Fault> {
        if model.trim().is_empty() {
            let fault = Fault::new(Code::Invalid, "Name a model.");
            return Err(fault.at("/options/providerConfig/modelId", "must not be empty"));
        }
        params::check(params)?;
        self.protocol.admit(model, params)
    }
}
