//! Serves one connection, from its first byte until it is closed.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONNECTION, EXPECT};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::client_socket::{AnswerGuard, ClientSocket, HyperIo};
use super::connection_slots::ConnectionSlots;
use super::{refusal, unread_body};
use crate::config::Limits;
use crate::domain::fault::{Code, Fault};
use crate::http::held_body::HeldBody;
use crate::http::remote_addr::RemoteAddr;

/// How long a connection may be idle between two requests while enough connection slots are free. This is longer than
/// proxies keep theirs; otherwise they would send a request on a connection that is just being closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(75);

/// hyper's minimum for its buffer.
const MIN_BUFFER_BYTES: usize = 8192;

/// Headers of up to this multiple of the limit are read, so that our own error response can state the limit.
const HEADER_READ_FACTOR: usize = 2;

pub(super) struct Connection {
    pub(super) app: Router,
    pub(super) limits: Arc<Limits>,
    pub(super) closing: CancellationToken,
    pub(super) slots: ConnectionSlots,
    pub(super) peer: SocketAddr,
}

/// Whether a second request may follow the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeepAlive {
    Yes,
    No,
}

impl Connection {
    pub(super) async fn serve(self, stream: TcpStream, keep_alive: KeepAlive) {
        // Tokens are small and must be sent at once. If this fails, they only arrive later.
        let _ = stream.set_nodelay(true);
        // Data that waits in the kernel for a slow reader uses memory too. Without a limit it grows to megabytes per
        // socket.
        let _ = socket2::SockRef::from(&stream).set_send_buffer_size(self.limits.socket_queue_bytes);
        let socket = ClientSocket::new(stream);
        // Boxed, so that hyper's memory is freed while a WebSocket lives on.
        match Box::pin(self.serve_http(socket.clone(), keep_alive)).await {
            Err(error) if (error.is_timeout() || socket.are_headers_late()) && socket.has_unanswered() => {
                socket.write_now(&self.late_headers_response())
            }
            Err(error) => tracing::trace!(%error, peer = %self.peer, "a connection ended"),
            Ok(()) => {}
        }
        socket.released().await;
        self.closing.run_until_cancelled(socket.linger()).await;
    }

    async fn serve_http(&self, socket: Arc<ClientSocket>, keep_alive: KeepAlive) -> hyper::Result<()> {
        let service = service_fn(|request| self.answer(&socket, request));
        let header_timeout = Duration::from_millis(self.limits.header_timeout_ms);
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .keep_alive(keep_alive == KeepAlive::Yes)
            .header_read_timeout(IDLE_TIMEOUT.max(header_timeout))
            .max_buf_size((self.limits.header_bytes * HEADER_READ_FACTOR).max(MIN_BUFFER_BYTES));
        let end = TokioIo::new(HyperIo::new(socket.clone(), header_timeout));
        let mut http_connection = pin!(http.serve_connection(end, service).with_upgrades());
        tokio::select! {
            ended = http_connection.as_mut() => return ended,
            () = self.closing.cancelled() => {}
            () = self.wait_for_scarce_slots(&socket, header_timeout) => {
                tracing::trace!(peer = %self.peer, "an idle connection makes room");
            }
        }
        http_connection.as_mut().graceful_shutdown();
        http_connection.await
    }

    /// Returns when the connection was idle for as long as headers may take, and few connection slots are free.
    async fn wait_for_scarce_slots(&self, socket: &ClientSocket, header_timeout: Duration) {
        let mut idle_before = None;
        loop {
            tokio::time::sleep(header_timeout).await;
            let idle = socket.idle_after();
            if idle.is_some() && idle == idle_before && self.slots.are_scarce() {
                return;
            }
            idle_before = idle;
        }
    }

    async fn answer(
        &self,
        socket: &Arc<ClientSocket>,
        request: hyper::Request<Incoming>,
    ) -> Result<hyper::Response<GuardedBody>, Infallible> {
        let mut guard = socket.begin_answer();
        let (head, incoming) = request.into_parts();
        let is_announced = head.headers.contains_key(EXPECT);
        let (body, unread) = if incoming.is_end_stream() {
            (Body::empty(), None)
        } else {
            let (body, unread) = unread_body::split(incoming);
            (Body::new(body), Some(unread))
        };
        let mut request = Request::from_parts(head, body);
        request.extensions_mut().insert(RemoteAddr(self.peer));
        let mut response: Response = self.app.clone().oneshot(request).await?;
        if let Some(unread) = unread
            && !unread.discard(is_announced).await
        {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        guard.is_last = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        Ok(response.map(|body| HeldBody::new(body, guard)))
    }

    fn late_headers_response(&self) -> Vec<u8> {
        let detail = format!("The headers did not arrive within {} ms.", self.limits.header_timeout_ms);
        refusal::response(&Fault::new(Code::RequestTimeout, detail))
    }
}

/// A response body that marks its request as answered when it is dropped.
type GuardedBody = HeldBody<AnswerGuard>;
