//! What a response says of the message that it answers.

use http::header::CONTENT_TYPE;
use http::{HeaderName, StatusCode};
use rmcp::ErrorData;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::HttpStatusError;

use super::super::call_errors::cut;
use super::CALL_REFUSED;
use crate::egress::IncomingResponse;

/// How much of an error's body is told.
const MAX_REFUSAL_CHARS: usize = 1_000;

pub(super) fn is_type(answer: &IncomingResponse, mime: &str) -> bool {
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().starts_with(mime))
}

pub(super) fn is_discovery(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Request(asked) if matches!(asked.request, ClientRequest::DiscoverRequest(_)))
}

pub(super) fn is_call(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Request(asked) if matches!(asked.request, ClientRequest::CallToolRequest(_)))
}

/// Whether a response with this status says that a call was refused for good; `call_errors` knows the others.
pub(super) fn refuses_call(status: StatusCode) -> bool {
    status.is_client_error() && !matches!(status.as_u16(), 408 | 425 | 429)
}

/// The error of a call that was refused with this status, with what the body says. A page in HTML is for people with a
/// browser.
pub(super) fn refusal(status: StatusCode, body: &[u8]) -> ErrorData {
    let said = String::from_utf8_lossy(body);
    let said = said.trim();
    let mut message = format!("The call was refused: {}", HttpStatusError::new(status.as_u16(), None));
    if !said.is_empty() && !said.starts_with('<') {
        message = format!("{message}: {}", cut(said.to_owned(), MAX_REFUSAL_CHARS));
    }
    ErrorData::new(CALL_REFUSED, message, None)
}

/// The id of a message that expects a response.
pub(super) fn id_of(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    match message {
        ClientJsonRpcMessage::Request(asked) => Some(&asked.id),
        _ => None,
    }
}

/// Whether a header describes a single request (since protocol version 2026-07-28) and not the session.
pub(super) fn is_request_header(name: &HeaderName) -> bool {
    let name = name.as_str();
    matches!(name, "mcp-method" | "mcp-name") || name.starts_with("mcp-param-")
}

/// Whether this message answers that request. An error from a server that did not read the request has another id or
/// none.
pub(super) fn answers(said: Option<&ServerJsonRpcMessage>, asked: &RequestId) -> bool {
    match said {
        Some(ServerJsonRpcMessage::Error(error)) => error.id.as_ref() == Some(asked),
        Some(ServerJsonRpcMessage::Response(response)) => response.id == *asked,
        Some(_) | None => false,
    }
}

/// Sets the request's id: a proxy that rejects a request cannot know it.
pub(super) fn correlated(said: ServerJsonRpcMessage, asked: &ClientJsonRpcMessage) -> ServerJsonRpcMessage {
    match (said, asked) {
        (ServerJsonRpcMessage::Error(error), ClientJsonRpcMessage::Request(request)) => {
            ServerJsonRpcMessage::error(error.error, Some(request.id.clone()))
        }
        (said, _) => said,
    }
}
