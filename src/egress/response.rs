//! A response whose body is being read. The call's bounds are enforced on every chunk.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, timeout};

use super::client::broken;
use super::connection::Connection;
use super::pool::{Pool, max_idle};
use super::{Bounds, Error};

/// Dropping it aborts the call, unless the body was read to its end.
pub struct IncomingResponse {
    status: StatusCode,
    headers: HeaderMap,
    body: Incoming,
    /// `None` after the body was read to its end: the connection is back in the pool.
    connection: Option<Connection>,
    pool: Arc<Pool>,
    /// The pool's key of the connection: scheme, host and port.
    origin: Box<str>,
    bounds: Bounds,
    deadline: Instant,
    bytes_read: usize,
    /// When the current wait for a chunk began; `None` while data arrives.
    idle_since: Option<Instant>,
    /// Fires when the wait may have become too long. It is reset only when it fires, not for every chunk.
    timer: Option<Pin<Box<Sleep>>>,
}

impl IncomingResponse {
    pub(super) fn new(
        response: Response<Incoming>,
        connection: Connection,
        (pool, origin): (Arc<Pool>, Box<str>),
        bounds: Bounds,
        deadline: Instant,
    ) -> Self {
        let (head, body) = response.into_parts();
        let connection = Some(connection);
        let (status, headers) = (head.status, head.headers);
        Self {
            status,
            headers,
            body,
            connection,
            pool,
            origin,
            bounds,
            deadline,
            bytes_read: 0,
            idle_since: None,
            timer: None,
        }
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The next chunk as it arrived; `None` at the end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        std::future::poll_fn(|context| self.poll_chunk(context)).await
    }

    /// The polling form of [`chunk`](Self::chunk), for callers that drain what is buffered before they wait.
    pub fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Error>> {
        let Some(connection) = &mut self.connection else { return Poll::Ready(Ok(None)) };
        match connection.poll_data(&mut self.body, context) {
            Poll::Ready(Some(Ok(chunk))) => {
                self.idle_since = None;
                self.bytes_read += chunk.len();
                let is_too_large = self.bytes_read > self.bounds.bytes;
                Poll::Ready(if is_too_large { Err(Error::TooLarge(self.bounds.bytes)) } else { Ok(Some(chunk)) })
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Err(broken(&error))),
            Poll::Ready(None) => {
                if let Some(connection) = self.connection.take() {
                    self.pool.put(&self.origin, connection, max_idle(&self.headers));
                }
                Poll::Ready(Ok(None))
            }
            Poll::Pending => self.poll_timeout(context).map(Err),
        }
    }

    fn poll_timeout(&mut self, context: &mut Context<'_>) -> Poll<Error> {
        let since = *self.idle_since.get_or_insert_with(Instant::now);
        let until = self.deadline.min(since + self.bounds.stall);
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        loop {
            ready!(timer.as_mut().poll(context));
            let now = Instant::now();
            if now >= self.deadline {
                return Poll::Ready(Error::Overdue(self.bounds.total));
            }
            if now >= until {
                return Poll::Ready(Error::Stalled(self.bounds.stall));
            }
            timer.as_mut().reset(until);
        }
    }

    /// The rest of the body; an error if it exceeds the call's bounds.
    pub async fn read_all(&mut self) -> Result<Vec<u8>, Error> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// The rest of the body, at most `limit` bytes; less if the connection breaks.
    pub async fn read_up_to(&mut self, limit: usize) -> Vec<u8> {
        let mut body = Vec::new();
        while body.len() < limit
            && let Ok(Some(chunk)) = self.chunk().await
        {
            body.extend_from_slice(&chunk);
        }
        body.truncate(limit);
        body
    }

    /// Reads the rest of the body for at most `patience`, so that the connection can be reused.
    pub async fn drain(mut self, patience: Duration) {
        // Only the reuse of the connection depends on the result, so it is ignored.
        let _ = timeout(patience, async { while let Ok(Some(_)) = self.chunk().await {} }).await;
    }
}

impl fmt::Debug for IncomingResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IncomingResponse")
            .field("status", &self.status)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}
