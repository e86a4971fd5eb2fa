//! Commands that call a running server over HTTP.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, ETAG, IF_MATCH};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::{Position, Url};

use super::Error;
use super::client::line;
use crate::auth::{ApiKey, Issued, KeyRotation, NewKey};
use crate::config::env::Variables;
use crate::domain::fault::{Pointed, in_full};
use crate::egress::{self, Bounds, Destination, Egress, IncomingResponse, OutgoingRequest, retry_after};

const BOUNDS: Bounds = Bounds {
    headers: Duration::from_secs(30),
    stall: Duration::from_secs(30),
    total: Duration::from_secs(60),
    // A plan contains all results of its tools.
    bytes: 128 << 20,
};

/// A stream sends something every 15 seconds.
const STREAM_BOUNDS: Bounds = Bounds {
    headers: Duration::from_secs(30),
    stall: Duration::from_secs(45),
    total: Duration::from_secs(365 * 24 * 3600),
    bytes: usize::MAX,
};

/// A running server, called with the key of `PES_TOKEN`.
pub(super) struct Server {
    base: String,
    /// The address as messages name it: without the user and the password of the URL.
    shown: String,
    headers: HeaderMap,
    egress: Egress,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

impl Server {
    /// The server at this address.
    pub(super) fn at(base: &str, variables: &Variables) -> Result<Self, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(token) = variables.get_secret("PES_TOKEN")? {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| Error::Usage("PES_TOKEN holds characters that no key has".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let shown = shown_address(base)?;
        let base = base.trim().trim_end_matches('/').to_owned();
        Ok(Self { base, shown, headers, egress: Egress::new(Duration::from_secs(10)) })
    }

    /// Fails if no pes answers at this address; says whether something else does.
    pub(super) async fn expect_pes(&self) -> Result<(), Error> {
        let said = self.call(Method::GET, "/version", Vec::new()).await?;
        if serde_json::from_slice::<Value>(&said).is_ok_and(|said| said["name"] == "pes") {
            return Ok(());
        }
        Err(Error::Failed(format!("{}: something answers there that is no pes server", self.shown)))
    }

    pub(super) async fn is_pes(&self) -> bool {
        self.expect_pes().await.is_ok()
    }

    /// Its address, without a password.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// The status of `GET /readyz`, and its body. Sends no key.
    pub(super) async fn readiness(&self) -> Result<(StatusCode, Vec<u8>), Error> {
        let request = self.request(Method::GET, "/readyz", HeaderMap::new(), Vec::new(), BOUNDS)?;
        let answer = self.egress.send(request).await;
        let mut answer = answer.map_err(|error| Error::Failed(format!("{} does not answer: {error}", self.shown)))?;
        Ok((answer.status(), answer.read_up_to(64 << 10).await))
    }

    pub(super) fn has_key(&self) -> bool {
        self.headers.contains_key(AUTHORIZATION)
    }

    /// The tenant of the key that is sent; on a server without keys, the one of all that is made there.
    pub(super) async fn tenant(&self) -> Result<String, Error> {
        #[derive(Deserialize)]
        struct Whoami {
            tenant: String,
        }
        let Whoami { tenant } = self.get("/whoami").await?;
        Ok(tenant)
    }

    pub(super) async fn issue(&self, new: &NewKey) -> Result<Issued, Error> {
        let body = serde_json::to_vec(new).map_err(|error| Error::Failed(error.to_string()))?;
        read(&self.call(Method::POST, "/keys", body).await?)
    }

    pub(super) async fn rotate(&self, key_id: &str, how: &KeyRotation) -> Result<Issued, Error> {
        let body = serde_json::to_vec(how).map_err(|error| Error::Failed(error.to_string()))?;
        read(&self.call(Method::POST, &format!("/keys/{key_id}/rotate"), body).await?)
    }

    pub(super) async fn list(&self) -> Result<Vec<ApiKey>, Error> {
        let (mut keys, mut path) = (Vec::new(), "/keys".to_owned());
        loop {
            let page: Listed<ApiKey> = read(&self.call(Method::GET, &path, Vec::new()).await?)?;
            keys.extend(page.items);
            let Some(next) = page.next_cursor else { return Ok(keys) };
            path = format!("/keys?cursor={next}");
        }
    }

    pub(super) async fn revoke(&self, key_id: &str) -> Result<(), Error> {
        self.call(Method::DELETE, &format!("/keys/{key_id}"), Vec::new()).await.map(drop)
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        read(&self.call(Method::GET, path, Vec::new()).await?)
    }

    /// The body unchanged, for a caller that passes it on.
    pub(super) async fn get_text(&self, path: &str) -> Result<String, Error> {
        Ok(String::from_utf8_lossy(&self.call(Method::GET, path, Vec::new()).await?).into_owned())
    }

    /// Posts with a new idempotency key, so that it takes effect once.
    pub(super) async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, Error> {
        let key = HeaderValue::from_str(&uuid::Uuid::new_v4().to_string()).expect("an id is plain text");
        let mut headers = self.headers.clone();
        headers.insert("idempotency-key", key);
        let answer = self.send(Method::POST, path, headers, body.to_string().into_bytes(), BOUNDS).await?;
        read(&whole(answer, &self.shown).await?)
    }

    pub(super) async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        read(&self.call(Method::DELETE, path, Vec::new()).await?)
    }

    /// A JSON patch against the version of this ETag.
    pub(super) async fn patch<T: DeserializeOwned>(&self, path: &str, etag: &str, body: &Value) -> Result<T, Error> {
        let mut headers = self.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json-patch+json"));
        let etag =
            HeaderValue::from_str(etag).map_err(|_| Error::Failed("the server sent a broken ETag".to_owned()))?;
        headers.insert(IF_MATCH, etag);
        let answer = self.send(Method::PATCH, path, headers, body.to_string().into_bytes(), BOUNDS).await?;
        read(&whole(answer, &self.shown).await?)
    }

    /// A merge patch, independent of the version.
    pub(super) async fn merge<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, Error> {
        let mut headers = self.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/merge-patch+json"));
        let answer = self.send(Method::PATCH, path, headers, body.to_string().into_bytes(), BOUNDS).await?;
        read(&whole(answer, &self.shown).await?)
    }

    /// The document and its ETag.
    pub(super) async fn get_with_etag(&self, path: &str) -> Result<(Value, String), Error> {
        let answer = self.send(Method::GET, path, self.headers.clone(), Vec::new(), BOUNDS).await?;
        let etag = answer.headers().get(ETAG).and_then(|etag| etag.to_str().ok()).unwrap_or_default().to_owned();
        Ok((read(&whole(answer, &self.shown).await?)?, etag))
    }

    /// An endless stream of events.
    pub(super) async fn events(&self, path: &str) -> Result<IncomingResponse, Error> {
        let mut headers = self.headers.clone();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let answer = self.send(Method::GET, path, headers, Vec::new(), STREAM_BOUNDS).await?;
        if answer.status().is_success() { Ok(answer) } else { Err(refused(answer, &self.shown).await) }
    }

    /// A long text, in pieces.
    pub(super) async fn lines(&self, path: &str) -> Result<IncomingResponse, Error> {
        let answer = self.send(Method::GET, path, self.headers.clone(), Vec::new(), STREAM_BOUNDS).await?;
        if answer.status().is_success() { Ok(answer) } else { Err(refused(answer, &self.shown).await) }
    }

    /// The next piece; `None`: the end.
    pub(super) async fn piece(&self, answer: &mut IncomingResponse) -> Result<Option<Bytes>, Error> {
        answer.chunk().await.map_err(|error| unanswered(&self.shown, &error))
    }

    /// Posts the text that [`lines`](Self::lines) returned.
    pub(super) async fn post_lines<T: DeserializeOwned>(&self, path: &str, text: Vec<u8>) -> Result<T, Error> {
        let mut headers = self.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
        let bounds = Bounds { headers: Duration::from_secs(300), total: Duration::from_secs(600), ..BOUNDS };
        let answer = self.send(Method::POST, path, headers, text, bounds).await?;
        read(&whole(answer, &self.shown).await?)
    }

    async fn call(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Vec<u8>, Error> {
        let answer = self.send(method, path, self.headers.clone(), body, BOUNDS).await?;
        whole(answer, &self.shown).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Vec<u8>,
        bounds: Bounds,
    ) -> Result<IncomingResponse, Error> {
        let request = self.request(method, path, headers, body, bounds)?;
        self.egress.send(request).await.map_err(|error| unanswered(&self.shown, &error))
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Vec<u8>,
        bounds: Bounds,
    ) -> Result<OutgoingRequest, Error> {
        let wrong = |error| Error::Usage(format!("{}{path} is no URL: {error}", self.shown));
        let url: Url = format!("{}{path}", self.base).parse().map_err(wrong)?;
        Ok(OutgoingRequest { method, to: Destination::Operator(url), headers, body: Bytes::from(body), bounds })
    }
}

/// The URL of a server as messages name it. No error repeats the URL, which may contain a password. Another scheme is refused:
/// by `wss` the key would be sent to the port for TLS, but without TLS.
fn shown_address(text: &str) -> Result<String, Error> {
    let wrong = || {
        Error::Usage(
            "The URL of a server (--url or PES_URL) begins with http:// or https://, as in http://localhost:7070, and has \
             no query and no fragment."
                .to_owned(),
        )
    };
    let url: Url = text.parse().map_err(|_| wrong())?;
    if !matches!(url.scheme(), "http" | "https") || url.query().is_some() || url.fragment().is_some() {
        return Err(wrong());
    }
    let has_user = !url.username().is_empty() || url.password().is_some();
    let shown = if has_user {
        format!("{}://{}", url.scheme(), &url[Position::BeforeHost..Position::AfterPath])
    } else {
        text.trim().to_owned()
    };
    Ok(shown.trim_end_matches('/').to_owned())
}

/// An answer that is too large is one: no other server would give a smaller one.
fn unanswered(base: &str, error: &egress::Error) -> Error {
    match error {
        egress::Error::TooLarge(_) => Error::Failed(format!("{base}: {error}, and no more are read.")),
        egress::Error::Refused(_)
        | egress::Error::Unreachable(_)
        | egress::Error::Cut(_)
        | egress::Error::NoHeaders(_)
        | egress::Error::Stalled(_)
        | egress::Error::Overdue(_) => Error::Unreachable(format!("{base}: {error}")),
    }
}

async fn whole(mut answer: IncomingResponse, base: &str) -> Result<Vec<u8>, Error> {
    if !answer.status().is_success() {
        return Err(refused(answer, base).await);
    }
    answer.read_all().await.map_err(|error| unanswered(base, &error))
}

/// Converts a refusal to the error by which a caller can act.
async fn refused(mut answer: IncomingResponse, base: &str) -> Error {
    let status = answer.status();
    let again_in = retry_after(answer.headers()).map(|ms| Duration::from_millis(ms.unsigned_abs()));
    let problem = problem(status.as_u16(), &answer.read_up_to(64 << 10).await);
    let is_of_pes = problem.is_some();
    let unknown = || format!("status {}, and not the error of a pes server", status.as_u16());
    let said = format!("{base}: {}", problem.unwrap_or_else(unknown));
    match status {
        StatusCode::UNAUTHORIZED => Error::KeyRefused(format!(
            "{said} Set PES_TOKEN to a valid key: PES_TOKEN=pes_… pes …. If none is left, stop the server: then `pes keys \
             new --tenant … --scopes admin` needs none."
        )),
        StatusCode::FORBIDDEN => Error::KeyRefused(said),
        StatusCode::TOO_MANY_REQUESTS => Error::TooManyRequests { said, again_in },
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            Error::Unavailable { said, again_in }
        }
        // What something else does not find is not missing at a pes.
        _ if !is_of_pes => Error::Failed(said),
        StatusCode::NOT_FOUND | StatusCode::GONE => Error::NotFound(said),
        StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED => Error::Conflict(said),
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => Error::Usage(said),
        _ => Error::Failed(said),
    }
}

/// The message and the details of a problem document, which may contain untrusted text. `None`: the body is none.
fn problem(status: u16, body: &[u8]) -> Option<String> {
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    let errors = problem.get("errors").and_then(|errors| Vec::<Pointed>::deserialize(errors).ok()).unwrap_or_default();
    let code = problem.get("code").and_then(Value::as_str)?;
    let detail = problem.get("detail").and_then(Value::as_str)?;
    Some(format!("{status} {}: {}", line(code), line(&in_full(detail, &errors))))
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| Error::Failed(format!("the server answered something else: {error}")))
}

#[cfg(test)]
pub(super) mod tests;
