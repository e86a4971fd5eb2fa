//! Everything that calls out goes through here: one HTTP client that follows no redirect by itself, reads no proxy
//! variable, never sends anything twice, and bounds time and size. Plain HTTP/1.1 on hyper: no layer stands between.
//!
//! Who named an address decides what is checked: [`Destination`] says so at every call.
//!
//! - What the operator's settings name goes where it is named.
//! - Everything else (from a model, a tool, a tenant, a client, or a document fetched from one of them) is judged: scheme,
//!   port and address in the URL first; then, in the resolver of the connection itself, every address that the name leads
//!   to. So what is connected to is what was checked, however often a name changes its mind. An allow-list
//!   ([`Allow`], `PES_EGRESS_ALLOW`, and one per tenant) adds hosts and ranges that are not public.
//!
//! A caller makes a [`Post`] and chooses: [`Egress::send`] for an exchange whose other side is known (a webhook, a
//! JSON-RPC call: a redirect is an error there), [`Egress::follow`] for a document (a page, a key set, an agent card).
//! [`Egress::judge`] checks a URL when it is configured, as every call would.

mod address;
mod allow;
mod answer;
mod client;
mod connect;
mod connection;
mod guard;
mod pool;
mod redirect;
mod request;
mod retry_after;
mod signature;
pub(crate) mod sse;
mod trace;

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use url::Url;

use crate::domain::ids::TenantPk;

pub use allow::Allow;
pub use answer::Answer;
pub use client::{Egress, Walls};
#[cfg(feature = "internals")]
pub use guard::{Names, System};
pub(crate) use retry_after::{LONGEST_WAIT, retry_after};
pub use signature::{SigningSecret, sign};
pub(crate) use trace::insert_trace_headers;

/// Where a call goes, and on whose word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Named by the operator's own configuration or environment: allowed as named, on any network.
    Operator(Url),
    /// Named by anybody else, on behalf of this tenant: the public internet, and what the allow-lists add.
    Untrusted { url: Url, tenant: TenantPk },
}

impl Destination {
    pub fn url(&self) -> &Url {
        match self {
            Self::Operator(url) | Self::Untrusted { url, .. } => url,
        }
    }

    fn into_url(self) -> Url {
        match self {
            Self::Operator(url) | Self::Untrusted { url, .. } => url,
        }
    }
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
    /// It may not be called: nothing was sent.
    #[error("refused: {0}")]
    Refused(String),
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
