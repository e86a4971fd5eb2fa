//! Everything that calls out goes through here: one HTTP client that follows no redirect, reads no proxy variable, never
//! sends anything twice, and bounds time and size. The home of `reqwest`.
//!
//! Who named an address decides what is checked: [`Destination`] says so at every call.

mod answer;
mod client;

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use url::Url;

pub use answer::Answer;
pub use client::Egress;

/// Where a call goes, and on whose word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Named by the operator's own configuration or environment: allowed as named, on any network.
    Operator(Url),
}

/// A request, sent at most once.
#[derive(Clone, Debug)]
pub struct Post {
    pub to: Destination,
    /// Mark secrets as sensitive: they never reach a log.
    pub headers: HeaderMap,
    pub body: Bytes,
    pub bounds: Bounds,
}

/// What one call may take. The answer's body is held to them while it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// From the request to the answer's headers.
    pub headers: Duration,
    /// Between two pieces of the body.
    pub stall: Duration,
    /// Request and answer whole.
    pub total: Duration,
    /// Size of the body.
    pub bytes: usize,
}

/// Why there is no answer, or no more of it, by what that says about the other side. Texts name no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It was not reached: name, route, TLS, or it took no connection in time.
    #[error("cannot reach {0}")]
    Unreachable(String),
    /// It was reached, and broke off before or in the middle of its answer.
    #[error("the connection broke: {0}")]
    Cut(String),
    #[error("no answer within {} ms", .0.as_millis())]
    NoHeaders(Duration),
    #[error("nothing came for {} ms", .0.as_millis())]
    Stalled(Duration),
    #[error("the answer took longer than {} ms", .0.as_millis())]
    Overdue(Duration),
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
}
