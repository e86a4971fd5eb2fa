//! The streamable HTTP transport. All requests are sent through `egress`.

mod responses;

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ErrorCode, RequestId, ServerJsonRpcMessage};
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use serde_json::json;
use sse_stream::{Sse, SseStream};
use tokio::time::timeout;

use self::responses::{
    answers, correlated, id_of, is_call, is_discovery, is_request_header, is_type, not_moved, read_all, refusal,
    refuses_call,
};
use super::call_errors::failure_cause;
use super::credentials::{Credentials, Refusal};
use super::incoming::Reader;
use super::session::SessionEnd;
use crate::egress::{self, Bounds, Destination, Egress, IncomingResponse, OutgoingRequest, retry_after};

/// The code of the error that stands for an HTTP status that refuses a call.
pub(super) const CALL_REFUSED: ErrorCode = ErrorCode(-32_099);
/// How much of an error's body is read.
const MAX_ERROR_BYTES: usize = 4 << 10;
/// How long a server may take to answer whether it knows a session.
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a stream for the server's own messages stays open.
const STREAM_LIFETIME: Duration = Duration::from_secs(3_600);
/// How long the stream of a response stays open: a call may have to wait for a person. It is closed earlier if the
/// caller gives up.
const RESPONSE_LIFETIME: Duration = Duration::from_secs(30 * 24 * 3_600);

pub(super) type Failure = StreamableHttpError<egress::Error>;

/// The transport to one server.
#[derive(Clone)]
pub(super) struct HttpTransport {
    pub(super) egress: Arc<Egress>,
    pub(super) to: Destination,
    /// The timeout of a request.
    pub(super) request_timeout: Duration,
    /// Maximum size of one message.
    pub(super) message_bytes: usize,
    pub(super) credentials: Arc<Credentials>,
    pub(super) refusal: Refusal,
    pub(super) session: SessionEnd,
    pub(super) reader: Reader,
}

/// The headers of a request.
#[derive(Clone)]
struct RequestHeaders {
    session: Option<Arc<str>>,
    last_event: Option<String>,
    authorization: Option<String>,
    headers: HashMap<HeaderName, HeaderValue>,
}

impl HttpTransport {
    async fn send(
        &self,
        method: Method,
        body: Vec<u8>,
        extra: RequestHeaders,
        bounds: Bounds,
    ) -> Result<IncomingResponse, Failure> {
        let answer = self.exchange(method, body, extra, bounds).await?;
        self.check_credentials(not_moved(answer, &self.to, false)?)
    }

    /// The response, whatever its status.
    async fn exchange(
        &self,
        method: Method,
        body: Vec<u8>,
        extra: RequestHeaders,
        bounds: Bounds,
    ) -> Result<IncomingResponse, Failure> {
        let headers = extra.headers().map_err(|why| StreamableHttpError::UnexpectedServerResponse(why.into()))?;
        let request = OutgoingRequest { method, to: self.to.clone(), headers, body: Bytes::from(body), bounds };
        self.egress.send(request).await.map_err(StreamableHttpError::Client)
    }

    /// The response, unless it refuses the credentials.
    fn check_credentials(&self, answer: IncomingResponse) -> Result<IncomingResponse, Failure> {
        if matches!(answer.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            if self.credentials.have_changed() {
                return Err(self.end_session("its credentials were replaced"));
            }
            let asked = answer.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
            let asked = asked.unwrap_or("it does not say why").to_owned();
            return Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(asked)));
        }
        Ok(answer)
    }

    /// Records whether the server has refused a call for its credentials, or has carried it out. A 403 may be about one
    /// tool.
    fn record_refusal(&self, status: StatusCode, checked: Result<&IncomingResponse, &Failure>) {
        match checked {
            Err(error @ StreamableHttpError::AuthRequired(_)) if status == StatusCode::UNAUTHORIZED => {
                self.refusal.record(Some(failure_cause(error)));
            }
            Ok(_) if status.is_success() => self.refusal.record(None),
            Ok(_) | Err(_) => {}
        }
    }

    fn bounds(&self) -> Bounds {
        let request_timeout = self.request_timeout;
        Bounds { headers: request_timeout, stall: request_timeout, total: request_timeout, bytes: self.message_bytes }
    }

    fn events(&self, answer: IncomingResponse) -> BoxStream<'static, Result<Sse, SseError>> {
        let reader = self.reader.clone();
        let readable = move |mut event: Sse| {
            if let Some(data) = &mut event.data
                && let Some(readable) = reader.readable(data)
            {
                *data = readable;
            }
            event
        };
        events(answer, self.message_bytes).map(move |event| event.map(&readable)).boxed()
    }

    fn stream_bounds(&self, open: Duration) -> Bounds {
        Bounds { headers: self.request_timeout, stall: open, total: open, bytes: usize::MAX }
    }

    /// Reports that the session has ended; the next request opens a new one.
    fn end_session(&self, why: &'static str) -> Failure {
        self.session.end(why);
        StreamableHttpError::SessionExpired
    }

    fn session_lost(&self) -> Failure {
        self.end_session("it has forgotten the session")
    }

    /// Whether the server no longer knows the session of a request that it rejected unread. This sends a ping in that
    /// session, because other calls share the session and one rejection alone does not say that it has ended.
    async fn has_lost_session(&self, refused: impl Display, mut extra: RequestHeaders) -> bool {
        extra.headers.retain(|name, _| !is_request_header(name));
        extra.headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON_MIME_TYPE));
        let id = RequestId::String(format!("ping-{refused}").into());
        let ping = json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }).to_string();
        let wait = self.request_timeout.min(PING_TIMEOUT);
        let bounds = Bounds { headers: wait, stall: wait, total: wait, bytes: self.message_bytes };
        let Ok(mut answer) = self.send(Method::POST, ping.into_bytes(), extra, bounds).await else { return false };
        match answer.status() {
            StatusCode::NOT_FOUND => true,
            StatusCode::BAD_REQUEST => {
                let said = answer.read_up_to(MAX_ERROR_BYTES).await;
                !answers(serde_json::from_slice(&said).ok().as_ref(), &id)
            }
            _ => false,
        }
    }

    /// The error of a stream that the server did not open. One that broke before is given up if the server knows it, or
    /// its session, no longer: its call is lost. In all other cases the library tries again.
    async fn not_opened(&self, status: StatusCode, mut extra: RequestHeaders) -> Failure {
        let is_passing = matches!(status.as_u16(), 408 | 409 | 425 | 429);
        if extra.last_event.take().is_none() || !status.is_client_error() || is_passing {
            return HttpStatusError::new(status.as_u16(), None).into();
        }
        if matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND)
            && extra.session.is_some()
            && self.has_lost_session("stream", extra).await
        {
            self.session_lost();
        }
        // Of the errors that make the library stop, this one says it best.
        StreamableHttpError::ServerDoesNotSupportSse
    }

    /// The body of a response that is no stream; only its beginning if the status is no success.
    async fn body(&self, answer: &mut IncomingResponse) -> Result<Vec<u8>, Failure> {
        let read = async {
            if answer.status().is_success() {
                read_all(answer, self.message_bytes).await
            } else {
                Ok(answer.read_up_to(MAX_ERROR_BYTES).await)
            }
        };
        let endless = |_| Err(StreamableHttpError::UnexpectedServerResponse("it does not end".into()));
        timeout(self.request_timeout, read).await.unwrap_or_else(endless)
    }
}

impl RequestHeaders {
    fn headers(self) -> Result<HeaderMap, String> {
        let text = |value: &str| HeaderValue::from_str(value).map_err(|_| "a header cannot be sent".to_owned());
        let mut headers: HeaderMap = self.headers.into_iter().collect();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        if let Some(session) = &self.session {
            headers.insert(HeaderName::from_static("mcp-session-id"), text(session)?);
        }
        if let Some(event) = &self.last_event {
            headers.insert(HeaderName::from_static("last-event-id"), text(event)?);
        }
        if let Some(token) = &self.authorization {
            let mut value = text(&format!("Bearer {token}"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        debug_assert!(HEADER_SESSION_ID.eq_ignore_ascii_case("mcp-session-id"));
        debug_assert!(HEADER_LAST_EVENT_ID.eq_ignore_ascii_case("last-event-id"));
        Ok(headers)
    }
}

impl StreamableHttpClient for HttpTransport {
    type Error = egress::Error;

    async fn post_message(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        authorization: Option<String>,
        mut headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON_MIME_TYPE));
        let extra = RequestHeaders { session, last_event: None, authorization, headers };
        // The response to a request may be a stream that lasts as long as the call; the size limit applies to each
        // message.
        let id = id_of(&message);
        let expects_response = id.is_some();
        let in_session = extra.session.is_some().then(|| extra.clone());
        let bounds = self.stream_bounds(if expects_response { RESPONSE_LIFETIME } else { STREAM_LIFETIME });
        let answer = self.exchange(Method::POST, serde_json::to_vec(&message)?, extra, bounds).await?;
        let answer = not_moved(answer, &self.to, is_call(&message))?;
        let status = answer.status();
        let checked = self.check_credentials(answer);
        if is_call(&message) {
            self.record_refusal(status, checked.as_ref());
        }
        let mut answer = checked?;
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && in_session.is_some() {
            return Err(self.session_lost());
        }
        let session = answer.headers().get(HEADER_SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        if status.is_success() && is_type(&answer, EVENT_STREAM_MIME_TYPE) {
            return Ok(StreamableHttpPostResponse::Sse(self.events(answer), session));
        }
        // In milliseconds, as `client.rs` expects.
        let wait = retry_after(answer.headers()).map(|millis| millis.to_string());
        let body = self.body(&mut answer).await?;
        let said = self.reader.read(&body);
        let is_about_request = id.is_some_and(|id| answers(said.as_ref().ok(), id));
        // Many servers reject unknown sessions with 400, but servers and gateways also reject single calls with it.
        if status == StatusCode::BAD_REQUEST
            && !is_about_request
            && let (Some(id), Some(extra)) = (id, in_session)
            && self.has_lost_session(id, extra).await
        {
            return Err(self.session_lost());
        }
        let is_answer = is_about_request || status.is_success() || matches!(said, Ok(ServerJsonRpcMessage::Error(_)));
        match said {
            Ok(said) if is_answer => Ok(StreamableHttpPostResponse::Json(correlated(said, &message), session)),
            Err(_) if status.is_success() && !expects_response => Ok(StreamableHttpPostResponse::Accepted),
            Err(_) if status.is_client_error() && is_discovery(&message) => {
                let error = rmcp::ErrorData::invalid_request(format!("HTTP {status}"), None);
                let said = ServerJsonRpcMessage::error(error, None);
                Ok(StreamableHttpPostResponse::Json(correlated(said, &message), session))
            }
            Err(error) if status.is_success() => Err(error.into()),
            Err(_) if is_call(&message) && refuses_call(status) => {
                let said = ServerJsonRpcMessage::error(refusal(status, &body), None);
                Ok(StreamableHttpPostResponse::Json(correlated(said, &message), session))
            }
            Ok(_) | Err(_) => Err(HttpStatusError::new(status.as_u16(), wait).into()),
        }
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        session: Arc<str>,
        authorization: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        let extra = RequestHeaders { session: Some(session), last_event: None, authorization, headers };
        self.send(Method::DELETE, Vec::new(), extra, self.bounds()).await.map(drop)
    }

    async fn get_stream(
        &self,
        _: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        authorization: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let extra = RequestHeaders { session, last_event, authorization, headers };
        let bounds = self.stream_bounds(STREAM_LIFETIME);
        let answer = self.send(Method::GET, Vec::new(), extra.clone(), bounds).await?;
        match answer.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status if !status.is_success() => Err(self.not_opened(status, extra).await),
            _ if !is_type(&answer, EVENT_STREAM_MIME_TYPE) => Err(StreamableHttpError::UnexpectedContentType(None)),
            _ => Ok(self.events(answer)),
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum EventError {
    #[error(transparent)]
    Egress(#[from] egress::Error),
    #[error("an event of more than {0} bytes")]
    TooLarge(usize),
}

/// The events of a response; none may be larger than `most`.
fn events(answer: IncomingResponse, most: usize) -> BoxStream<'static, Result<Sse, SseError>> {
    let pieces = stream::unfold(Some(answer), async |answer| {
        let mut answer = answer?;
        match answer.chunk().await.transpose()? {
            Ok(piece) => Some((Ok(piece), Some(answer))),
            Err(error) => Some((Err(error), None)),
        }
    });
    events_in(pieces, most)
}

/// Decodes events from chunks that are split anywhere.
fn events_in(
    pieces: impl Stream<Item = Result<Bytes, egress::Error>> + Send + 'static,
    most: usize,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let bounded = stream::unfold(Some((Box::pin(pieces), EventSize::default())), move |state| async move {
        let (mut pieces, mut size) = state?;
        match pieces.next().await? {
            Ok(piece) if size.count(&piece, most) => Some((Ok(piece), Some((pieces, size)))),
            Ok(_) => Some((Err(EventError::TooLarge(most)), None)),
            Err(error) => Some((Err(error.into()), None)),
        }
    });
    SseStream::from_bytes_stream(bounded).boxed()
}

/// Measures the current event, which an empty line ends.
#[derive(Default)]
struct EventSize {
    read: usize,
    is_at_line_start: bool,
}

impl EventSize {
    fn count(&mut self, piece: &[u8], most: usize) -> bool {
        for byte in piece {
            match byte {
                b'\n' if self.is_at_line_start => self.read = 0,
                b'\n' => self.is_at_line_start = true,
                b'\r' => {}
                _ => self.is_at_line_start = false,
            }
            self.read += 1;
            if self.read > most {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
