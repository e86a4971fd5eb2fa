//! Errors and bodies of tools that make HTTP calls.

use http::header::LOCATION;
use http::{Method, StatusCode};

use crate::domain::tool::{CallCode, ToolClass, ToolError};
use crate::egress::{Error, IncomingResponse, is_processed, retry_after};

/// How much of a response's body goes into an error message.
const MAX_BODY_IN_MESSAGE: usize = 1_000;
/// How Envoy's text begins when it lost a service, or did not reach it.
const ENVOY: &[u8] = b"upstream connect error";
/// The same, up to the reason, if Envoy tried only once. Otherwise it says only what became of the last attempt.
const ENVOY_ONCE: &[u8] = b"upstream connect error or disconnect/reset before headers. reset reason: ";
/// The reasons of an Envoy that had no connection to the service.
const NO_CONNECTION: [&[u8]; 5] = [
    b"overflow",
    b"connection failure",
    b"local connection failure",
    b"remote connection failure",
    b"connection timeout",
];

/// The error of a call without a response. If the request may have reached the service, the call is reported as lost,
/// because it may have had its effect; calls of class `read` have none.
pub(super) fn call_error(error: &Error, class: ToolClass) -> ToolError {
    let has_effect = class != ToolClass::Read;
    let failed = |code: CallCode| ToolError::new(code, error.to_string());
    match error {
        Error::Cut(why) if has_effect => {
            ToolError::lost(format!("The connection to the service broke during the call: {why}."))
        }
        Error::NoHeaders(_) | Error::Stalled(_) | Error::Overdue(_) if has_effect => {
            ToolError::lost(format!("The service did not answer in time: {error}."))
        }
        Error::Refused(_) => failed(CallCode::EgressRefused),
        Error::NoHeaders(_) | Error::Stalled(_) | Error::Overdue(_) => failed(CallCode::Timeout),
        Error::TooLarge(_) => failed(CallCode::OutputTooLarge),
        Error::Unreachable(_) | Error::Cut(_) => failed(CallCode::Failed).retry_after(0),
    }
}

/// The error of a response that is no success, with the beginning of its body. A response that a proxy made after it
/// lost the service is reported as lost, because the call may have had its effect. So may one that was answered 301, 302 or
/// 303, as by services that carried it out: it has a code of its own, wherever the redirect leads.
pub(super) async fn status_error(mut answer: IncomingResponse, class: ToolClass) -> ToolError {
    let status = answer.status();
    let retry_after_ms = is_retryable(status).then(|| retry_after(answer.headers()).unwrap_or(0));
    let location = answer.headers().get(LOCATION).filter(|_| status.is_redirection());
    let location = location.and_then(|location| location.to_str().ok()).map(str::to_owned);
    let body = answer.read_up_to(MAX_BODY_IN_MESSAGE).await;
    let error = lost_error(status, &body, class).unwrap_or_else(|| {
        let message = match location {
            Some(to) => format!("The service answered {status}, and redirects to {to}, which is not followed."),
            None => status_message(status, &body),
        };
        if class != ToolClass::Read && is_processed(&Method::POST, status) {
            ToolError::new(CallCode::InvalidOutput, format!("The call may have been carried out. {message}"))
        } else {
            ToolError::new(CallCode::Failed, message)
        }
    });
    ToolError { retry_after_ms, ..error }
}

/// The error of a response after which it is unknown whether the service processed the call. `None`: the service itself
/// answered, or the call has no effect.
pub(super) fn lost_error(status: StatusCode, body: &[u8], class: ToolClass) -> Option<ToolError> {
    (class != ToolClass::Read && is_outcome_unknown(status, body))
        .then(|| ToolError::lost(status_message(status, body)))
}

fn status_message(status: StatusCode, body: &[u8]) -> String {
    let body = String::from_utf8_lossy(&body[..body.len().min(MAX_BODY_IN_MESSAGE)]);
    format!("The service answered {status}: {}", body.trim())
}

/// Whether a proxy answered for a service that it lost. Cloudflare has status codes of its own for that, other proxies
/// use 598 and 599; Envoy sends a 503 with a text of its own, also when it sent the service nothing.
pub(crate) fn is_outcome_unknown(status: StatusCode, body: &[u8]) -> bool {
    match status.as_u16() {
        408 | 502 | 504 | 520..=524 | 598 | 599 => true,
        503 => body.trim_ascii_start().starts_with(ENVOY) && !was_never_sent(body),
        _ => false,
    }
}

/// Whether Envoy says that it sent the service nothing. Details may follow its reason after a comma.
fn was_never_sent(body: &[u8]) -> bool {
    let reason = body.trim_ascii().strip_prefix(ENVOY_ONCE).and_then(|rest| rest.split(|byte| *byte == b',').next());
    reason.is_some_and(|reason| NO_CONNECTION.contains(&reason))
}

/// Whether the same request may succeed later.
fn is_retryable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502..=504 | 520..=524 | 598 | 599)
}
