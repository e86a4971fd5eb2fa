//! One request to another agent, and its outcome as a result or a classified error.

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::Value;
use url::Url;

use super::super::directory::{Peer, shown};
use super::super::fault::{self, Fault};
use super::super::view::QUESTIONS;
use super::super::wire::{Binding, Version};
use super::interface::Request;
use super::{ChosenInterface, Client, Error};
use crate::domain::{Millis, depth};
use crate::egress::{self, Bounds, IncomingResponse, OutgoingRequest, insert_trace_headers};
use crate::tool::is_outcome_unknown;

/// How much is read of what a proxy may have said in place of the agent.
const MAX_PROXY_BYTES: usize = 1_024;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl Client {
    /// The result, or the agent's error.
    pub(super) async fn call(
        &self,
        peer: &Peer,
        interface: &ChosenInterface,
        request: Request,
    ) -> Result<Value, Error> {
        let mut answer = self.answer(peer, interface, request, JSON, self.bounds).await?;
        let (status, retry_after_ms) = (answer.status(), egress::retry_after(answer.headers()));
        let location = answer.headers().get(LOCATION).and_then(|to| place(&interface.url, to));
        if status == StatusCode::SERVICE_UNAVAILABLE
            && is_outcome_unknown(status, &answer.read_up_to(MAX_PROXY_BYTES).await)
        {
            return Err(Error::Unknown(fault::said_over_http(status.as_u16(), &Value::Null)));
        }
        if status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE {
            return Err(Error::Unreachable { why: format!("the agent answers HTTP {status}"), retry_after_ms });
        }
        let bytes = match answer.read_all().await.map_err(of_egress) {
            Err(Error::TooLarge(why)) if !status.is_success() => return Err(Error::Unknown(why)),
            read => read?,
        };
        let body = depth::read(&bytes).unwrap_or_default();
        let has_envelope = body.get("jsonrpc").is_some();
        if status.is_success() && body.is_null() {
            return Err(Error::Unknown("the agent's answer is no JSON".to_owned()));
        }
        match interface.binding {
            // Other bodies with an `error` are those of a gateway or of OAuth, and codes of an agent's own beside a refusal by
            // HTTP say no more than that.
            Binding::JsonRpc
                if body["error"]["code"].is_number()
                    && (status.is_success() || (has_envelope && fault::names_error(&body))) =>
            {
                Err(agent_error(Fault::from_json_rpc(&body["error"]), retry_after_ms))
            }
            Binding::JsonRpc | Binding::HttpJson if !status.is_success() => {
                let fault = match interface.version {
                    Version::V1 | Version::V03 => Fault::from_http(status.as_u16(), &body),
                    Version::V03Rest => Fault::from_http_03(status.as_u16(), &body),
                };
                if is_refusal(status) && fault.error == fault::Error::Internal && !fault::names_error(&body) {
                    let to = location.map(|to| format!(" It leads to {to}.")).unwrap_or_default();
                    let said = fault::said_over_http(status.as_u16(), &body);
                    return Err(Error::NotCarriedOut(format!("{said}{to}")));
                }
                Err(agent_error(fault, retry_after_ms))
            }
            Binding::JsonRpc => match body.get("result") {
                Some(result) => Ok(result.clone()),
                None => Err(Error::Unknown("the agent's answer is no JSON-RPC".to_owned())),
            },
            Binding::HttpJson => Ok(body),
        }
    }

    pub(super) async fn answer(
        &self,
        peer: &Peer,
        interface: &ChosenInterface,
        request: Request,
        accepted: HeaderValue,
        bounds: Bounds,
    ) -> Result<IncomingResponse, Error> {
        let Request { verb, url, body } = request;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accepted);
        if body.is_some() {
            headers.insert(CONTENT_TYPE, JSON);
        }
        headers.insert("a2a-version", HeaderValue::from_static(interface.version.as_str()));
        // 0.3 has another name for it.
        let extensions = match interface.version {
            Version::V1 => "a2a-extensions",
            Version::V03 | Version::V03Rest => "x-a2a-extensions",
        };
        headers.insert(extensions, HeaderValue::from_static(QUESTIONS));
        headers.extend(peer.authorization_at(&url)?.map(|token| (AUTHORIZATION, token)));
        insert_trace_headers(&mut headers, &peer.trace);
        let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let named = shown(&url);
        let request = OutgoingRequest { method: verb, to: peer.destination(url), headers, body, bounds };
        self.egress.send(request).await.map_err(|error| {
            if matches!(error, egress::Error::Refused(_)) {
                Error::Refused(format!("its card names {named}: {error}"))
            } else {
                of_egress(error)
            }
        })
    }
}

/// Whether the status says that the request was not carried out. Other redirects may be the answer to one that was, and
/// a time-out says nothing of it.
fn is_refusal(status: StatusCode) -> bool {
    let is_redirect = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    is_redirect || (status.is_client_error() && status != StatusCode::REQUEST_TIMEOUT)
}

/// Where a redirect leads.
fn place(from: &Url, to: &HeaderValue) -> Option<String> {
    from.join(to.to_str().ok()?).ok().map(|to| shown(&to))
}

/// After an error inside the agent it is unknown how far the call got.
fn agent_error(fault: Fault, retry_after_ms: Option<Millis>) -> Error {
    match fault.error {
        fault::Error::Internal | fault::Error::InvalidAgentResponse => Error::Unknown(fault.detail),
        fault::Error::ResourceExhausted | fault::Error::Unavailable => {
            Error::Unreachable { why: fault.detail, retry_after_ms }
        }
        fault::Error::TaskNotFound
        | fault::Error::TaskNotCancelable
        | fault::Error::PushNotificationNotSupported
        | fault::Error::UnsupportedOperation
        | fault::Error::ContentTypeNotSupported
        | fault::Error::ExtendedAgentCardNotConfigured
        | fault::Error::ExtensionSupportRequired
        | fault::Error::VersionNotSupported
        | fault::Error::Parse
        | fault::Error::InvalidRequest
        | fault::Error::MethodNotFound
        | fault::Error::InvalidParams
        | fault::Error::Unauthenticated
        | fault::Error::PermissionDenied => Error::Fault(fault),
    }
}

pub(in crate::a2a) fn of_egress(error: egress::Error) -> Error {
    match error {
        egress::Error::Refused(_) => Error::Refused(error.to_string()),
        egress::Error::Unreachable(_) => Error::unreachable(error.to_string()),
        egress::Error::Cut(_) | egress::Error::NoHeaders(_) | egress::Error::Stalled(_) | egress::Error::Overdue(_) => {
            Error::Unknown(error.to_string())
        }
        egress::Error::TooLarge(bytes) => {
            Error::TooLarge(format!("The agent's answer is larger than {bytes} bytes, which is more than can be read."))
        }
    }
}
