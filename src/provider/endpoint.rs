//! One vendor's endpoint: its URL, the headers of a request, and its errors without secrets.

use std::sync::Arc;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::SecretString;
use url::Url;

use super::http::{failure, of_egress, refusal};
use super::key::{Key, KeyAs, hide};
use crate::domain::fault::{Code, Fault};
use crate::domain::model::{FailureKind, ModelFailure};
use crate::domain::trace::CallTrace;
use crate::egress::{Answer, Bounds, Destination, Egress, Post, insert_trace_headers};

/// How much of an error's text is redacted.
const MESSAGE_CHARS: usize = 500;
/// What is shorter is no secret; replacing it would only make texts unreadable.
const LEAST_SECRET: usize = 4;

#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) provider: String,
    base: Url,
    headers: HeaderMap,
    key: Option<Key>,
    /// What no text may repeat, besides the key.
    secrets: Vec<SecretString>,
    egress: Arc<Egress>,
    pub(crate) bounds: Bounds,
}

impl Endpoint {
    /// `base_url` is what paths are appended to; the fault says why it cannot be.
    pub(crate) fn new(
        provider: &str,
        base_url: &str,
        key: Option<(KeyAs, &SecretString)>,
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
        let key = key.map(|(how, key)| Key::new(provider, how, key)).transpose()?;
        Ok(Self { provider: provider.to_owned(), base, headers, key, secrets, egress, bounds })
    }

    /// One more header, the same in every request.
    pub(crate) fn with_header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        self
    }

    /// The base URL with these segments behind its path.
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

    /// Sends once. What is no success comes back as a failure, classified.
    pub(crate) async fn post(&self, url: Url, body: Vec<u8>, trace: &CallTrace) -> Result<Answer, ModelFailure> {
        let mut headers = self.headers.clone();
        insert_trace_headers(&mut headers, trace);
        self.key.iter().for_each(|key| key.show(&mut headers));
        let post = Post {
            to: Destination::Operator(url),
            headers: headers.clone(),
            body: body.into(),
            // A reply is counted by what it says (`size.rs`), a refusal is read as far as it is redacted.
            bounds: Bounds { bytes: usize::MAX, ..self.bounds },
        };
        let answer = self.egress.post(post).await.map_err(|error| self.redacted(of_egress(&error)))?;
        if !answer.status().is_success() {
            let failure = refusal(answer).await;
            let is_renewed = failure.http_status == Some(401) && self.key.iter().any(|key| key.is_renewed(&headers));
            let kind = if is_renewed { FailureKind::Retry } else { failure.kind };
            return Err(self.redacted(ModelFailure { kind, ..failure }));
        }
        if answer.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html")) {
            let message = "the endpoint answered with a web page, not with a reply: check the base URL";
            return Err(failure(FailureKind::Refused, message));
        }
        Ok(answer)
    }

    /// What is wrong with its key, although there is one.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.key.as_ref().and_then(Key::trouble)
    }

    /// The failure without secrets in its message, and shortened: vendors repeat keys in their errors, and write at length.
    pub(crate) fn redacted(&self, mut failure: ModelFailure) -> ModelFailure {
        self.key.iter().for_each(|key| key.hidden(&mut failure.message, LEAST_SECRET));
        self.secrets.iter().for_each(|secret| hide(&mut failure.message, secret, LEAST_SECRET));
        if let Some((end, _)) = failure.message.char_indices().nth(MESSAGE_CHARS) {
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
        Endpoint::new("groq", base_url, Some((KeyAs::Bearer, &key)), Arc::new(Egress::new(zero)), bounds)
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
    fn a_key_is_taken_out_before_a_text_is_cut() {
        let endpoint = endpoint("http://me:hidden-word@host/v1/", "sk-canary").unwrap();
        assert_eq!(endpoint.url(["chat", "completions"]).path(), "/v1/chat/completions");
        let long = format!("{}sk-canary and hidden-word", "x".repeat(MESSAGE_CHARS - 5));
        let message = endpoint.redacted(failure(FailureKind::Refused, long)).message;
        assert!(message.ends_with("x[reda…"), "{message}");
        let message = endpoint.redacted(failure(FailureKind::Refused, "hidden-word sk-canary")).message;
        assert_eq!(message, "[redacted] [redacted]");
    }
}
