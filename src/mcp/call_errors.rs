//! What a failed request implies for its call, and its message. People and models read messages, so they contain the cause
//! and nothing of the types of the protocol library.

use std::error::Error;

use rmcp::model::ServerResult;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::{HttpStatusError, StreamableHttpError};

use super::http::Failure;
use crate::domain::tool::{CallCode, ToolError};
use crate::egress;

/// What an answer to `initialize` has.
const INITIALIZE_MEMBERS: [&str; 3] = ["protocolVersion", "capabilities", "serverInfo"];

/// The error of a call that the server certainly has not started; `None`: it may have.
pub(super) fn not_started(error: &ServiceError) -> Option<ToolError> {
    let failure = failure_of(error)?;
    match failure {
        StreamableHttpError::SessionExpired => Some(unavailable(failure)),
        StreamableHttpError::AuthRequired(_) => Some(refused(&failure_cause(failure))),
        StreamableHttpError::HttpStatus(error) => refused_by_status(error),
        StreamableHttpError::Client(error) => match error {
            egress::Error::Unreachable(_) => Some(unavailable(failure)),
            egress::Error::Refused(why) => Some(refused(why)),
            egress::Error::Cut(_)
            | egress::Error::NoHeaders(_)
            | egress::Error::Stalled(_)
            | egress::Error::Overdue(_)
            | egress::Error::TooLarge(_) => None,
        },
        _ => None,
    }
}

/// The error of a call that the server may have started. `broken`: why nothing more is read from the server.
pub(super) fn lost(error: &ServiceError, broken: Option<&str>) -> ToolError {
    ToolError::lost(match failure_of(error) {
        Some(StreamableHttpError::HttpStatus(error)) => format!("The server answered the call with {error}"),
        Some(StreamableHttpError::Deserialize(error)) => format!("The server's answer is no message: {error}"),
        Some(StreamableHttpError::Client(egress::Error::Cut(why))) => {
            format!("The connection to the server broke during the call: {why}")
        }
        _ => {
            let why = broken.map_or_else(|| request_cause(error), str::to_owned);
            format!("The connection to the server broke during the call: {why}")
        }
    })
}

pub(super) fn failed(message: impl Into<String>) -> ToolError {
    ToolError::new(CallCode::Failed, message)
}

/// Whether nothing was sent because the server cannot be reached.
pub(super) fn is_unreachable(error: &ServiceError) -> bool {
    matches!(failure_of(error), Some(StreamableHttpError::Client(egress::Error::Unreachable(_))))
}

/// Why a request failed.
pub(super) fn request_cause(error: &ServiceError) -> String {
    match error {
        ServiceError::TransportSend(sending) => transport_cause(sending),
        ServiceError::UnexpectedResponse => "its answer is none to what it was asked".to_owned(),
        _ => with_causes(error),
    }
}

/// Why no connection was made.
pub(super) fn start_cause(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => transport_cause(error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => start_cause(fallback),
        ClientInitializeError::ExpectedInitResult(Some(ServerResult::CustomResult(said))) => {
            let missing = INITIALIZE_MEMBERS.into_iter().find(|member| said.0.get(member).is_none());
            match missing {
                Some(member) => format!("its answer to `initialize` lacks `{member}`"),
                None => "its answer to `initialize` cannot be read".to_owned(),
            }
        }
        ClientInitializeError::ConnectionClosed(_) => "the connection ended before it had answered".to_owned(),
        ClientInitializeError::ExpectedInitResult(_) | ClientInitializeError::ExpectedInitResponse(_) => {
            "it answered `initialize` with something else".to_owned()
        }
        _ => with_causes(error),
    }
}

/// A call that was rejected with a 4xx has not started; after a 408 it may have.
fn refused_by_status(error: &HttpStatusError) -> Option<ToolError> {
    let wait = error.retry_after.as_ref().and_then(|millis| millis.parse().ok());
    match error.status {
        408 => None,
        425 | 429 => Some(refused(&error.to_string()).retry_after(wait.unwrap_or(0))),
        400..500 => Some(refused(&error.to_string())),
        _ => None,
    }
}

/// Nothing was sent, or the server reported that it has not started the call.
fn unavailable(failure: &Failure) -> ToolError {
    let message = format!("The server did not take the call: {}", failure_cause(failure));
    ToolError::new(CallCode::Unavailable, message).retry_after(0)
}

fn refused(why: &str) -> ToolError {
    failed(format!("The call was refused: {why}"))
}

fn failure_of(error: &ServiceError) -> Option<&Failure> {
    match error {
        ServiceError::TransportSend(sending) => sending.error.downcast_ref(),
        _ => None,
    }
}

fn transport_cause(error: &DynamicTransportError) -> String {
    match error.error.downcast_ref::<Failure>() {
        Some(failure) => failure_cause(failure),
        None => with_causes(&*error.error),
    }
}

pub(super) fn failure_cause(failure: &Failure) -> String {
    match failure {
        StreamableHttpError::Client(error) => error.to_string(),
        StreamableHttpError::Deserialize(error) if error.is_syntax() || error.is_eof() => {
            format!("its answer is no JSON: {error}")
        }
        StreamableHttpError::Deserialize(error) => format!("its answer is no message: {error}"),
        StreamableHttpError::AuthRequired(error) => {
            format!("the credentials in `headers` are refused: {}", error.www_authenticate_header)
        }
        StreamableHttpError::HttpStatus(error) if error.status == 405 => format!(
            "{error}: it may speak the old transport with SSE, which is not supported; give the address of its streamable \
             HTTP transport, which often ends in /mcp"
        ),
        _ => with_causes(failure),
    }
}

/// At most this much of what a server says.
pub(super) fn cut(text: String, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// An error with its causes: the outer error alone says little.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(inner) = cause {
        let message = inner.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;

    use rmcp::transport::streamable_http_client::AuthRequiredError;

    use super::*;

    fn sending(failure: Failure) -> DynamicTransportError {
        DynamicTransportError::from_parts("rmcp::transport::Worker", TypeId::of::<Failure>(), Box::new(failure))
    }

    #[test]
    fn messages_say_the_cause_and_nothing_of_the_library() {
        let message = |failure| {
            let error = ServiceError::TransportSend(sending(failure));
            not_started(&error).unwrap_or_else(|| lost(&error, None)).message
        };
        let status = |status| StreamableHttpError::HttpStatus(HttpStatusError::new(status, None));
        let client = StreamableHttpError::Client;
        let unreachable = || egress::Error::Unreachable("127.0.0.1:1: connection refused".to_owned());
        assert_eq!(message(status(500)), "The server answered the call with HTTP 500");
        assert_eq!(message(status(413)), "The call was refused: HTTP 413");
        assert_eq!(
            message(client(egress::Error::Cut("reset".to_owned()))),
            "The connection to the server broke during the call: reset"
        );
        assert_eq!(
            message(client(unreachable())),
            "The server did not take the call: cannot reach 127.0.0.1:1: connection refused"
        );
        assert_eq!(message(client(egress::Error::Refused("10.0.0.1".to_owned()))), "The call was refused: 10.0.0.1");
        let error = sending(client(unreachable()));
        let error = ClientInitializeError::TransportError { error, context: "send discover request".into() };
        assert_eq!(start_cause(&error), "cannot reach 127.0.0.1:1: connection refused");
    }

    #[test]
    fn the_reason_why_no_connection_was_made_says_what_to_do() {
        let reason = |failure| {
            let context = "send initialize request".into();
            start_cause(&ClientInitializeError::TransportError { error: sending(failure), context })
        };
        let page = serde_json::from_str::<serde_json::Value>("<html>").unwrap_err();
        assert_eq!(reason(page.into()), "its answer is no JSON: expected value at line 1 column 1");
        let old = reason(StreamableHttpError::HttpStatus(HttpStatusError::new(405, None)));
        assert!(old.starts_with("HTTP 405: it may speak the old transport with SSE"), "{old}");
        let challenge = AuthRequiredError::new("Bearer error=\"invalid_token\"".to_owned());
        let refused = reason(StreamableHttpError::AuthRequired(challenge));
        assert_eq!(refused, "the credentials in `headers` are refused: Bearer error=\"invalid_token\"");
    }
}
