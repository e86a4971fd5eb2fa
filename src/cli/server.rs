//! Commands that ask a running server over HTTP.

use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use super::Error;
use crate::auth::{ApiKey, Issued, NewKey};
use crate::config::env::Variables;
use crate::egress::{Bounds, Destination, Egress, Post};

const BOUNDS: Bounds = Bounds {
    headers: Duration::from_secs(30),
    stall: Duration::from_secs(30),
    total: Duration::from_secs(60),
    bytes: 16 << 20,
};

/// The server that PES_URL names, with the key of PES_TOKEN.
pub(super) struct Server {
    base: String,
    headers: HeaderMap,
    egress: Egress,
}

#[derive(Deserialize)]
struct Listed<T> {
    items: Vec<T>,
}

impl Server {
    /// `None`: PES_URL is not set.
    pub(super) fn of(variables: &Variables) -> Result<Option<Self>, Error> {
        variables.get("PES_URL").map(|base| Self::at(base, variables)).transpose()
    }

    /// The one at this address.
    pub(super) fn at(base: &str, variables: &Variables) -> Result<Self, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(token) = variables.get_secret("PES_TOKEN")? {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| Error::Failed("PES_TOKEN holds characters that no key has".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let base = base.trim_end_matches('/').to_owned();
        Ok(Self { base, headers, egress: Egress::new(Duration::from_secs(10)) })
    }

    /// Whether a pes answers there.
    pub(super) async fn is_pes(&self) -> bool {
        let said = self.call(Method::GET, "/version", Vec::new()).await;
        said.is_ok_and(|said| serde_json::from_slice::<Value>(&said).is_ok_and(|said| said["name"] == "pes"))
    }

    pub(super) fn has_key(&self) -> bool {
        self.headers.contains_key(AUTHORIZATION)
    }

    pub(super) async fn issue(&self, new: &NewKey) -> Result<Issued, Error> {
        let body = serde_json::to_vec(new).map_err(|error| Error::Failed(error.to_string()))?;
        read(&self.call(Method::POST, "/keys", body).await?)
    }

    pub(super) async fn list(&self) -> Result<Vec<ApiKey>, Error> {
        let listed: Listed<ApiKey> = read(&self.call(Method::GET, "/keys", Vec::new()).await?)?;
        Ok(listed.items)
    }

    pub(super) async fn revoke(&self, key_id: &str) -> Result<(), Error> {
        self.call(Method::DELETE, &format!("/keys/{key_id}"), Vec::new()).await.map(drop)
    }

    async fn call(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Vec<u8>, Error> {
        let failed = |why: String| Error::Failed(format!("{}: {why}", self.base));
        let url: Url = format!("{}{path}", self.base).parse().map_err(|error| failed(format!("no URL: {error}")))?;
        let post = Post {
            to: Destination::Operator(url),
            headers: self.headers.clone(),
            body: Bytes::from(body),
            bounds: BOUNDS,
        };
        let mut answer = self.egress.send(method, post).await.map_err(|error| failed(error.to_string()))?;
        let status = answer.status();
        let mut whole = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(|error| failed(error.to_string()))? {
            whole.extend_from_slice(&piece);
        }
        if status.is_success() {
            return Ok(whole);
        }
        let said = said(status.as_u16(), &whole);
        if status == StatusCode::UNAUTHORIZED {
            let how = "set PES_TOKEN to a key that may `admin`: PES_TOKEN=pes_… pes keys …";
            return Err(failed(format!("{said} {how}")));
        }
        Err(failed(said))
    }
}

/// What a problem document says.
fn said(status: u16, body: &[u8]) -> String {
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    match (problem.get("code").and_then(Value::as_str), problem.get("detail").and_then(Value::as_str)) {
        (Some(code), Some(detail)) => format!("{status} {code}: {detail}"),
        _ => format!("status {status}"),
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| Error::Failed(format!("the server answered something else: {error}")))
}
