//! An answer while it is read: every piece is held to the call's bounds.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, timeout};

use super::client::cut;
use super::connection::Connection;
use super::pool::Pool;
use super::{Bounds, Error};

/// Dropping it breaks the call off, unless it was read to its end.
pub struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Incoming,
    /// Gone once the answer was read to its end.
    connection: Option<Connection>,
    pool: Arc<Pool>,
    /// What the connection is kept under.
    place: Box<str>,
    bounds: Bounds,
    deadline: Instant,
    taken: usize,
    /// Since when nothing came, while somebody waits.
    waiting: Option<Instant>,
    /// Goes off at the latest when the wait is too long: not set anew for every piece.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Answer {
    pub(super) fn new(
        response: Response<Incoming>,
        connection: Connection,
        (pool, place): (Arc<Pool>, Box<str>),
        bounds: Bounds,
        deadline: Instant,
    ) -> Self {
        let (head, body) = response.into_parts();
        let connection = Some(connection);
        let (status, headers) = (head.status, head.headers);
        Self { status, headers, body, connection, pool, place, bounds, deadline, taken: 0, waiting: None, timer: None }
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The next piece as it came; `None` at the end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        std::future::poll_fn(|context| self.poll_chunk(context)).await
    }

    /// The same, for whoever takes all that is there before they wait.
    pub fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Error>> {
        let Some(connection) = &mut self.connection else { return Poll::Ready(Ok(None)) };
        match connection.poll_data(&mut self.body, context) {
            Poll::Ready(Some(Ok(chunk))) => {
                self.waiting = None;
                self.taken += chunk.len();
                let is_too_large = self.taken > self.bounds.bytes;
                Poll::Ready(if is_too_large { Err(Error::TooLarge(self.bounds.bytes)) } else { Ok(Some(chunk)) })
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Err(cut(&error))),
            Poll::Ready(None) => {
                if let Some(connection) = self.connection.take() {
                    self.pool.put(&self.place, connection);
                }
                Poll::Ready(Ok(None))
            }
            Poll::Pending => self.poll_too_late(context).map(Err),
        }
    }

    fn poll_too_late(&mut self, context: &mut Context<'_>) -> Poll<Error> {
        let since = *self.waiting.get_or_insert_with(Instant::now);
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

    /// What is left of the body, at most `limit` bytes of it; less if it breaks off.
    pub async fn beginning(&mut self, limit: usize) -> Vec<u8> {
        let mut body = Vec::new();
        while body.len() < limit
            && let Ok(Some(chunk)) = self.chunk().await
        {
            body.extend_from_slice(&chunk);
        }
        body.truncate(limit);
        body
    }

    /// Reads to the end if it is near, so that the connection can serve the next call.
    pub async fn let_go(mut self, patience: Duration) {
        // Whether the end came or not, there is nothing to tell.
        let _ = timeout(patience, async { while let Ok(Some(_)) = self.chunk().await {} }).await;
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("status", &self.status).field("headers", &self.headers).finish_non_exhaustive()
    }
}
