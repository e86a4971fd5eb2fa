//! Serving one connection, from its first byte until it is closed.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::line::{Answering, End, Line};
use super::places::Places;
use super::refusal;
use crate::config::Limits;
use crate::domain::fault::{Code, Fault};
use crate::http::held_body::HeldBody;
use crate::http::remote_addr::RemoteAddr;

/// How long a connection may be open between two requests where there are places enough: longer than proxies keep theirs, or
/// they would send a request on one that is just being closed.
const IDLE: Duration = Duration::from_secs(75);

/// hyper's own floor for its buffer.
const LEAST_BUFFER: usize = 8192;

/// Headers of up to so many times the limit are read, so that our own refusal says what the limit is.
const READ_BEYOND_LIMIT: usize = 2;

pub(super) struct Connection {
    pub(super) app: Router,
    pub(super) limits: Arc<Limits>,
    pub(super) closing: CancellationToken,
    pub(super) places: Places,
    pub(super) peer: SocketAddr,
}

/// Whether a second request may follow the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeepAlive {
    Yes,
    No,
}

impl Connection {
    pub(super) async fn serve(self, stream: TcpStream, keep_alive: KeepAlive) {
        // Tokens are small and wanted at once. Without it they only come later.
        let _ = stream.set_nodelay(true);
        // What waits in the kernel for a slow reader counts too: left alone, it grows to megabytes per socket.
        let _ = socket2::SockRef::from(&stream).set_send_buffer_size(self.limits.socket_queue_bytes);
        let line = Line::new(stream);
        // Boxed: what hyper needs is freed while a WebSocket lives on.
        match Box::pin(self.converse(line.clone(), keep_alive)).await {
            Err(error) if (error.is_timeout() || line.is_late()) && line.is_owed() => line.write_now(&self.too_late()),
            Err(error) => tracing::trace!(%error, peer = %self.peer, "a connection ended"),
            Ok(()) => {}
        }
        line.released().await;
        self.closing.run_until_cancelled(line.linger()).await;
    }

    async fn converse(&self, line: Arc<Line>, keep_alive: KeepAlive) -> hyper::Result<()> {
        let service = service_fn(|request| self.answer(&line, request));
        let head_time = Duration::from_millis(self.limits.header_timeout_ms);
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .keep_alive(keep_alive == KeepAlive::Yes)
            .header_read_timeout(IDLE.max(head_time))
            .max_buf_size((self.limits.header_bytes * READ_BEYOND_LIMIT).max(LEAST_BUFFER));
        let end = TokioIo::new(End::new(line.clone(), head_time));
        let mut conversation = pin!(http.serve_connection(end, service).with_upgrades());
        tokio::select! {
            ended = conversation.as_mut() => return ended,
            () = self.closing.cancelled() => {}
            () = self.makes_room(&line, head_time) => tracing::trace!(peer = %self.peer, "an idle connection makes room"),
        }
        conversation.as_mut().graceful_shutdown();
        conversation.await
    }

    /// Returns where nothing was asked for as long as headers may take, and few places are left.
    async fn makes_room(&self, line: &Line, head_time: Duration) {
        let mut idle_before = None;
        loop {
            tokio::time::sleep(head_time).await;
            let idle = line.idle_behind();
            if idle.is_some() && idle == idle_before && self.places.are_few() {
                return;
            }
            idle_before = idle;
        }
    }

    async fn answer(
        &self,
        line: &Arc<Line>,
        request: hyper::Request<Incoming>,
    ) -> Result<hyper::Response<Answer>, Infallible> {
        let mut answering = line.answers();
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(RemoteAddr(self.peer));
        let response: Response = self.app.clone().oneshot(request).await?;
        answering.is_last = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        Ok(response.map(|body| HeldBody::new(body, answering)))
    }

    fn too_late(&self) -> Vec<u8> {
        let detail = format!("The headers did not arrive within {} ms.", self.limits.header_timeout_ms);
        refusal::response(&Fault::new(Code::RequestTimeout, detail))
    }
}

/// The body of an answer, which is being given until this is dropped.
type Answer = HeldBody<Answering>;
