//! Builds the request that is sent.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{
    ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use http::{Request, Uri};
use http_body_util::Full;
use percent_encoding::percent_decode_str;
use url::{Position, Url};

use super::{Destination, Error, OutgoingRequest};

/// Headers that control the transport or the target host: only the operator's calls may set them.
const RESERVED_HEADERS: [HeaderName; 10] = [
    CONNECTION,
    CONTENT_LENGTH,
    EXPECT,
    HOST,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

pub(super) fn of(outgoing: &OutgoingRequest) -> Result<Request<Full<Bytes>>, Error> {
    let url = outgoing.to.url();
    let refuse = |why: String| Error::Refused(format!("the URL cannot be sent: {why}"));
    let target = url[Position::BeforePath..Position::AfterQuery].parse::<Uri>();
    let mut request = Request::new(Full::new(outgoing.body.clone()));
    *request.method_mut() = outgoing.method.clone();
    *request.uri_mut() = target.map_err(|error| refuse(error.to_string()))?;
    let headers = request.headers_mut();
    *headers = outgoing.headers.clone();
    if let Destination::Untrusted { .. } = outgoing.to {
        RESERVED_HEADERS.iter().for_each(|name| drop(headers.remove(name)));
    }
    if !headers.contains_key(HOST) {
        let host = HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort]);
        headers.insert(HOST, host.map_err(|error| refuse(error.to_string()))?);
    }
    if !headers.contains_key(AUTHORIZATION)
        && let Some(credentials) = credentials(url)
    {
        headers.insert(AUTHORIZATION, credentials);
    }
    headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(concat!("pes/", env!("CARGO_PKG_VERSION"))));
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
    Ok(request)
}

/// The URL's user and password, as Basic authentication.
fn credentials(url: &Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let mut pair: Vec<u8> = percent_decode_str(url.username()).collect();
    pair.push(b':');
    pair.extend(percent_decode_str(url.password().unwrap_or_default()));
    let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair))).ok()?;
    value.set_sensitive(true);
    Some(value)
}
