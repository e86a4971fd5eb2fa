//! The client of one endpoint.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use url::Url;

use super::compatible::Dialect;
use super::{reading, request};
use crate::domain::fault::{Code, Fault};
use crate::domain::model::{FailureKind, ModelFailure, ModelRequest};
use crate::egress::{Bounds, Destination, Egress, Post};
use crate::provider::http::{failure, of_egress, refusal};
use crate::provider::{ChatModel, DeltaStream, params};

pub(crate) struct OpenAi {
    dialect: Dialect,
    url: Url,
    headers: HeaderMap,
    key: Option<SecretString>,
    egress: Arc<Egress>,
    bounds: Bounds,
}

impl OpenAi {
    /// `base_url` is what `/chat/completions` is appended to; the fault says why it cannot be.
    pub(crate) fn new(
        dialect: Dialect,
        base_url: &str,
        key: Option<SecretString>,
        egress: Arc<Egress>,
        bounds: Bounds,
    ) -> Result<Self, Fault> {
        let wrong = |detail: String| Fault::new(Code::Invalid, detail);
        let mut url = Url::parse(base_url.trim())
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| wrong(format!("The base URL of {} is not an http(s) URL.", dialect.name)))?;
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["chat", "completions"]);
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(key) = &key {
            let value = HeaderValue::try_from(format!("Bearer {}", key.expose_secret().trim()));
            let mut value = value.map_err(|_| {
                wrong(format!("The API key of {} has characters that no header can hold.", dialect.name))
            })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(Self { dialect, url, headers, key, egress, bounds })
    }
}

/// Vendors repeat keys in their errors; nobody else shall read them.
fn redacted(key: Option<&SecretString>, mut failure: ModelFailure) -> ModelFailure {
    if let Some(key) = key.map(|key| key.expose_secret().trim()).filter(|key| !key.is_empty()) {
        failure.message = failure.message.replace(key, "[redacted]");
    }
    failure
}

#[async_trait]
impl ChatModel for OpenAi {
    async fn call(&self, request: ModelRequest) -> Result<DeltaStream, ModelFailure> {
        let body = serde_json::to_vec(&request::body(&self.dialect, &request))
            .map_err(|error| failure(FailureKind::Refused, format!("the request cannot be written: {error}")))?;
        let post = Post {
            to: Destination::Operator(self.url.clone()),
            headers: self.headers.clone(),
            body: body.into(),
            bounds: self.bounds,
        };
        let key = self.key.clone();
        let answer = self.egress.post(post).await.map_err(|error| redacted(key.as_ref(), of_egress(&error)))?;
        if !answer.status().is_success() {
            return Err(redacted(key.as_ref(), refusal(answer).await));
        }
        if answer.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html")) {
            let message = "the endpoint answered with a web page, not with a reply: check the base URL";
            return Err(failure(FailureKind::Refused, message));
        }
        let deltas = reading::stream(answer, self.bounds.bytes);
        Ok(deltas.map(move |delta| delta.map_err(|failure| redacted(key.as_ref(), failure))).boxed())
    }

    fn admit(&self, model: &str, params: &Map<String, Value>) -> Result<(), Fault> {
        if model.trim().is_empty() {
            let fault = Fault::new(Code::Invalid, "Name a model.");
            return Err(fault.at("/options/providerConfig/modelId", "must not be empty"));
        }
        params::check(params)
    }
}
