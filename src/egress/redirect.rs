//! Turns the `Location` of a response into the next request.

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION, USER_AGENT};
use http::{Method, StatusCode};
use url::Url;

use super::{Destination, Error, IncomingResponse, OutgoingRequest};

/// The only request headers that are sent to another origin: any other may hold a credential.
const CROSS_ORIGIN_HEADERS: [HeaderName; 4] = [ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, USER_AGENT];

/// The next request, if `response` is a redirect. Another origin gets only harmless headers and no body, and a redirect
/// from https to http is refused.
pub(super) fn next(request: &OutgoingRequest, response: &IncomingResponse) -> Result<Option<OutgoingRequest>, Error> {
    let status = response.status();
    if !is_after_processing(status) && !is_before_processing(status) {
        return Ok(None);
    }
    let Some(location) = response.headers().get(LOCATION) else { return Ok(None) };
    let from = request.to.url();
    let target = location.to_str().ok().and_then(|text| from.join(text).ok());
    let target = target.ok_or_else(|| Error::Refused("the answer redirects to no URL".to_owned()))?;
    let is_same = target.origin() == from.origin();
    if from.scheme() == "https" && target.scheme() != "https" {
        return Err(Error::Refused("the answer redirects from https to something else".to_owned()));
    }
    let (method, body) = if is_processed(&request.method, status) {
        (Method::GET, Bytes::new())
    } else {
        (request.method.clone(), request.body.clone())
    };
    if !is_same && !body.is_empty() {
        return Err(Error::Refused("the answer redirects the request's body to another origin".to_owned()));
    }
    let to = redirected(&request.to, target, is_same)?;
    let headers = if is_same { request.headers.clone() } else { cross_origin_headers(&request.headers) };
    Ok(Some(OutgoingRequest { method, to, headers, body, bounds: request.bounds }))
}

/// Whether a request that may have an effect was processed, so that its result is fetched with GET. Browsers understand
/// these statuses so.
pub(crate) fn is_processed(method: &Method, status: StatusCode) -> bool {
    !matches!(*method, Method::GET | Method::HEAD) && is_after_processing(status)
}

fn is_after_processing(status: StatusCode) -> bool {
    matches!(status, StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER)
}

fn is_before_processing(status: StatusCode) -> bool {
    matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT)
}

/// The operator's trust in one origin does not extend to another.
fn redirected(from: &Destination, url: Url, is_same: bool) -> Result<Destination, Error> {
    match from {
        Destination::Operator(_) if is_same => Ok(Destination::Operator(url)),
        Destination::Operator(_) => {
            Err(Error::Refused("the answer redirects to an address that the operator did not name".to_owned()))
        }
        Destination::Untrusted { tenant, .. } => Ok(Destination::Untrusted { url, tenant: *tenant }),
    }
}

fn cross_origin_headers(headers: &HeaderMap) -> HeaderMap {
    let kept = headers.iter().filter(|(name, _)| CROSS_ORIGIN_HEADERS.contains(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}
