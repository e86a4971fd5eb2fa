//! Shared by tools that call out over HTTP.

use http::StatusCode;

use crate::domain::tool::{ToolClass, ToolError};
use crate::egress::{Answer, Error, retry_after};

/// How much of an error's body goes into the message.
const TOLD: usize = 1_000;

/// A call that came to nothing, for the model. One that reached its service and was not answered may have had its
/// effect, unless it has none.
pub(super) fn failed(error: &Error, class: ToolClass) -> ToolError {
    let code = match error {
        Error::Cut(why) if class != ToolClass::Read => {
            return ToolError::lost(format!("The connection to the service broke during the call: {why}."));
        }
        Error::NoHeaders(_) | Error::Stalled(_) | Error::Overdue(_) if class != ToolClass::Read => {
            return ToolError::lost(format!("The service did not answer in time: {error}."));
        }
        Error::Refused(_) => "egress_refused",
        Error::NoHeaders(_) | Error::Stalled(_) | Error::Overdue(_) => "timeout",
        Error::TooLarge(_) => "output_too_large",
        Error::Unreachable(_) | Error::Cut(_) => "failed",
    };
    let retry_after_ms = match error {
        Error::Unreachable(_) | Error::Cut(_) => Some(0),
        Error::Refused(_) | Error::NoHeaders(_) | Error::Stalled(_) | Error::Overdue(_) | Error::TooLarge(_) => None,
    };
    ToolError { retry_after_ms, ..ToolError::new(code, error.to_string()) }
}

/// An answer that is no success, with the beginning of what it says. The service did not say that itself where something
/// before it lost it in the middle of the call, which may have had its effect then, unless it has none.
pub(super) async fn refusal(mut answer: Answer, class: ToolClass) -> ToolError {
    let status = answer.status();
    let retry_after_ms = is_passing(status).then(|| retry_after(answer.headers()).unwrap_or(0));
    let said = answer.beginning(TOLD).await;
    match lost(status, &said, class) {
        Some(lost) => ToolError { retry_after_ms, ..lost },
        None => ToolError { retry_after_ms, ..ToolError::new("failed", told(status, &said)) },
    }
}

/// What such an answer comes to if the service may have been called without being heard to the end. `None`: it was heard, or
/// the call has no effect.
pub(super) fn lost(status: StatusCode, said: &[u8], class: ToolClass) -> Option<ToolError> {
    (class != ToolClass::Read && is_unheard(status, said)).then(|| ToolError::lost(told(status, said)))
}

fn told(status: StatusCode, said: &[u8]) -> String {
    let said = String::from_utf8_lossy(&said[..said.len().min(TOLD)]);
    format!("The service answered {status}: {}", said.trim())
}

/// Cloudflare has numbers of its own for an origin that it lost, others 598 and 599; Envoy says it with a 503 that it words
/// itself.
fn is_unheard(status: StatusCode, said: &[u8]) -> bool {
    match status.as_u16() {
        408 | 502 | 504 | 520..=524 | 598 | 599 => true,
        503 => said.trim_ascii_start().starts_with(b"upstream connect error"),
        _ => false,
    }
}

/// Whether the same request may be answered otherwise later.
fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502..=504 | 520..=524 | 598 | 599)
}

/// The body whole; an error if it is larger than the call's bounds.
pub(super) async fn whole(answer: &mut Answer) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
