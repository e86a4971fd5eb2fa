//! An answer while it is read: every piece is held to the call's bounds.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use tokio::time::{Instant, timeout, timeout_at};

use super::client::of;
use super::{Bounds, Error};

/// Dropping it breaks the call off.
#[derive(Debug)]
pub struct Answer {
    response: reqwest::Response,
    bounds: Bounds,
    deadline: Instant,
    taken: usize,
}

impl Answer {
    pub(super) fn new(response: reqwest::Response, bounds: Bounds, deadline: Instant) -> Self {
        Self { response, bounds, deadline, taken: 0 }
    }

    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The next piece as it came; `None` at the end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        let until = self.deadline.min(Instant::now() + self.bounds.stall);
        let chunk = match timeout_at(until, self.response.chunk()).await {
            Ok(Ok(chunk)) => chunk,
            Ok(Err(error)) => return Err(cut(error)),
            Err(_) if Instant::now() >= self.deadline => return Err(Error::Overdue(self.bounds.total)),
            Err(_) => return Err(Error::Stalled(self.bounds.stall)),
        };
        self.taken += chunk.as_ref().map_or(0, Bytes::len);
        if self.taken > self.bounds.bytes { Err(Error::TooLarge(self.bounds.bytes)) } else { Ok(chunk) }
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

fn cut(error: reqwest::Error) -> Error {
    match of(error) {
        Error::Unreachable(text) => Error::Cut(text),
        other @ (Error::Refused(_)
        | Error::Cut(_)
        | Error::NoHeaders(_)
        | Error::Stalled(_)
        | Error::Overdue(_)
        | Error::TooLarge(_)) => other,
    }
}
