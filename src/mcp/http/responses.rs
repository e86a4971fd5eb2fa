//! What a response says of the message that it answers.

use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderName, StatusCode};
use rmcp::ErrorData;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{HttpStatusError, StreamableHttpError};
use url::Url;

use super::super::call_errors::cut;
use super::{CALL_REFUSED, Failure};
use crate::egress::{self, Destination, IncomingResponse};

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

/// The response, unless it redirects. Redirects are not followed, because a request has a body and credentials: whoever
/// configured the address is told of the other one. A request that must be sent again as it is was not carried out.
pub(super) fn not_moved(
    answer: IncomingResponse,
    to: &Destination,
    is_call: bool,
) -> Result<IncomingResponse, Failure> {
    let status = answer.status();
    let place = answer.headers().get(LOCATION).and_then(|place| place.to_str().ok());
    let Some(place) = place.filter(|_| status.is_redirection()) else { return Ok(answer) };
    let place = to.url().join(place).map_or_else(|_| place.to_owned(), |place| without_secrets(place).into());
    let error = HttpStatusError::new(status.as_u16(), None);
    let why = match to {
        // Models and tenants are shown the errors of calls, and the path of such an address may be a secret.
        Destination::Operator(_) if is_call => {
            tracing::warn!(place, "an MCP server redirects a call; if it has moved, set its `url` to that");
            format!("{error}: it redirects elsewhere, which is not followed")
        }
        Destination::Operator(_) | Destination::Untrusted { .. } => {
            format!("{error}: it redirects to {place}, which is not followed; if it has moved, set its `url` to that")
        }
    };
    Err(match status {
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => {
            StreamableHttpError::Client(egress::Error::Refused(why))
        }
        _ => StreamableHttpError::UnexpectedServerResponse(why.into()),
    })
}

/// User, password and query may be those of the address that was called, and the text is logged.
fn without_secrets(mut url: Url) -> Url {
    let _: [Result<(), ()>; 2] = [url.set_username(""), url.set_password(None)];
    url.set_query(None);
    url
}

/// The whole body, if it is not too large.
pub(super) async fn read_all(answer: &mut IncomingResponse, most: usize) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(StreamableHttpError::Client)? {
        body.extend_from_slice(&chunk);
        if body.len() > most {
            return Err(StreamableHttpError::ResponseBodyTooLarge { max_size: most });
        }
    }
    Ok(body)
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
