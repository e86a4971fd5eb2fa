//! One vendor's endpoint: its URL and headers, and its errors with secrets removed.

use std::sync::Arc;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use secrecy::SecretString;
use url::{Host, Url};

use super::http::{egress_failure, failure, response_failure};
use super::key::{Key, KeyHeader, redact_secret};
use crate::domain::fault::{Code, Fault};
use crate::domain::model::{FailureKind, ModelFailure};
use crate::domain::trace::CallTrace;
use crate::egress::{Bounds, Destination, Egress, IncomingResponse, OutgoingRequest, insert_trace_headers};

/// Error texts are cut to this length after redaction.
const MAX_MESSAGE_CHARS: usize = 500;
/// Shorter values are not redacted; replacing them would only make texts unreadable.
const MIN_SECRET_LEN: usize = 4;

pub(crate) struct Endpoint {
    pub(crate) provider: String,
    base: Url,
    headers: HeaderMap,
    key: Option<Key>,
    /// Values besides the key that must not appear in texts.
    secrets: Vec<SecretString>,
    egress: Arc<Egress>,
    pub(crate) bounds: Bounds,
}

impl Endpoint {
    /// `base_url` is the prefix of all paths; the fault says why it is invalid.
    pub(crate) fn new(
        provider: &str,
        base_url: &str,
        key: Option<(KeyHeader, &SecretString)>,
        egress: Arc<Egress>,
        bounds: Bounds,
    ) -> Result<Self, Fault> {
        let base = Url::parse(base_url.trim()).ok().filter(|url| {
            matches!(url.scheme(), "http" | "https") && url.host_str().is_some_and(|host| !host.is_empty())
        });
        let base = base.ok_or_else(|| {
            let detail = format!("The base URL of {provider} is not an http(s) URL.");
            Fault::new(Code::Invalid, detail.clone()).at("/base_url", detail)
        })?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        let mut secrets: Vec<SecretString> = base.password().map(|word| word.to_owned().into()).into_iter().collect();
        secrets.extend(base.query_pairs().map(|(_, value)| value.into_owned().into()));
        let key = key.map(|(header, key)| Key::new(provider, header, key)).transpose()?;
        Ok(Self { provider: provider.to_owned(), base, headers, key, secrets, egress, bounds })
    }

    /// Adds a header to every request.
    pub(crate) fn with_header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        self
    }

    /// The base URL with these path segments appended.
    pub(crate) fn url<'s>(&self, segments: impl IntoIterator<Item = &'s str>) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }

    /// The last segment of the base URL's path.
    pub(crate) fn last_segment(&self) -> Option<&str> {
        self.base.path_segments()?.rfind(|segment| !segment.is_empty())
    }

    /// Sends once. A response that is no success is returned as a classified failure.
    pub(crate) async fn post(
        &self,
        url: Url,
        body: Vec<u8>,
        trace: &CallTrace,
    ) -> Result<IncomingResponse, ModelFailure> {
        let mut headers = self.headers.clone();
        insert_trace_headers(&mut headers, trace);
        self.key.iter().for_each(|key| key.add_to(&mut headers));
        let request = OutgoingRequest {
            method: Method::POST,
            to: Destination::Operator(url),
            headers: headers.clone(),
            body: body.into(),
            // A reply is limited by its content (`size.rs`), and of an error's body only a part is read.
            bounds: Bounds { bytes: usize::MAX, ..self.bounds },
        };
        let answer = self.egress.send(request).await.map_err(|error| self.redacted(egress_failure(&error)))?;
        if !answer.status().is_success() {
            let failure = response_failure(answer).await;
            let is_renewed =
                failure.http_status == Some(401) && self.key.iter().any(|key| key.reload_differs_from(&headers));
            let kind = if is_renewed { FailureKind::Retry } else { failure.kind };
            return Err(self.redacted(ModelFailure { kind, ..failure }));
        }
        if answer.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html")) {
            let message = "the endpoint answered with a web page, not with a reply: check the base URL";
            return Err(failure(FailureKind::Refused, message));
        }
        Ok(answer)
    }

    /// A problem with the key that does not prevent calls.
    pub(crate) fn warning(&self) -> Option<String> {
        self.key.as_ref().and_then(Key::warning)
    }

    /// Whether it is a server of the operator's own: on this machine, or called without a key, which every vendor requires.
    pub(crate) fn is_local(&self) -> bool {
        let is_loopback = match self.base.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        is_loopback || self.key.is_none()
    }

    /// Removes secrets from the message and shortens it: vendors repeat keys in their errors and write long texts.
    pub(crate) fn redacted(&self, mut failure: ModelFailure) -> ModelFailure {
        self.key.iter().for_each(|key| key.redact(&mut failure.message, MIN_SECRET_LEN));
        self.secrets.iter().for_each(|secret| redact_secret(&mut failure.message, secret, MIN_SECRET_LEN));
        if let Some((end, _)) = failure.message.char_indices().nth(MAX_MESSAGE_CHARS) {
            failure.message.truncate(end);
            failure.message.push('…');
        }
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(base_url: &str, key: &str) -> Result<Endpoint, Fault> {
        let zero = std::time::Duration::ZERO;
        let bounds = Bounds { headers: zero, stall: zero, total: zero, bytes: 0 };
        let key: SecretString = key.to_owned().into();
        Endpoint::new("groq", base_url, Some((KeyHeader::Bearer, &key)), Arc::new(Egress::new(zero)), bounds)
    }

    #[test]
    fn what_is_no_address_or_no_key_is_refused_by_name() {
        for (url, key, pointer) in [
            ("localhost", "sk-1234", "/base_url"),
            ("ftp://host", "sk-1234", "/base_url"),
            ("http://", "sk-1234", "/base_url"),
            ("http://host", "sk\n1234", "/api_key"),
        ] {
            let fault = endpoint(url, key).err().unwrap();
            assert!(fault.detail.contains("groq") && !fault.detail.contains(key), "{}", fault.detail);
            assert_eq!(fault.errors[0].pointer, pointer, "{url}");
        }
    }

    #[test]
    fn an_endpoint_without_a_key_or_on_this_machine_is_local() {
        let local = ["http://localhost:1", "http://127.0.0.2", "http://[::1]"];
        assert!(local.iter().all(|url| endpoint(url, "sk-1234").unwrap().is_local()));
        let keyed = endpoint("http://gpu:8000", "sk-1234").unwrap();
        assert_eq!((keyed.is_local(), Endpoint { key: None, ..keyed }.is_local()), (false, true));
    }

    #[test]
    fn a_key_is_taken_out_before_a_text_is_cut() {
        let endpoint = endpoint("http://me:hidden-word@host/v1/", "sk-canary").unwrap();
        assert_eq!(endpoint.url(["chat", "completions"]).path(), "/v1/chat/completions");
        let long = format!("{}sk-canary and hidden-word", "x".repeat(MAX_MESSAGE_CHARS - 5));
        let message = endpoint.redacted(failure(FailureKind::Refused, long)).message;
        assert!(message.ends_with("x[reda…"), "{message}");
        let message = endpoint.redacted(failure(FailureKind::Refused, "hidden-word sk-canary")).message;
        assert_eq!(message, "[redacted] [redacted]");
    }
}
