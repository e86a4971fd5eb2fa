//! The single HTTP client for all outgoing calls. It follows no redirect unless asked, reads no proxy variable, never
//! sends a request twice, and bounds time and size. Plain HTTP/1.1 on hyper, without another layer between.
//!
//! What is checked depends on who named the address; every call says so with its [`Destination`].
//!
//! - URLs from the operator's settings are called as they are.
//! - Every other URL (from a model, a tool, a tenant, a client, or a document that was fetched from one of them) is
//!   checked: first scheme, port and literal address; then, in the connection's own resolver, every address that the
//!   name resolves to. The addresses that are connected to are the ones that were checked, so DNS rebinding has no
//!   effect. An allow-list ([`Allow`], `PES_EGRESS_ALLOW`, and one per tenant) adds hosts and ranges that are not public.
//!
//! A caller builds an [`OutgoingRequest`]. [`Egress::send`] is for a known service (a webhook, a JSON-RPC call), where a
//! redirect is an error. [`Egress::follow`] is for documents (a page, a key set, an agent card). [`Egress::judge`] checks
//! a URL when it is configured, with the checks of a later call.

mod address;
mod allow;
mod client;
mod connect;
mod connection;
mod guard;
mod pool;
mod redirect;
mod request;
mod response;
mod retry_after;
mod signature;
pub(crate) mod sse;
mod trace;

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use url::Url;

use crate::domain::ids::TenantPk;

pub use allow::Allow;
pub use client::{Egress, EgressRules};
#[cfg(feature = "internals")]
pub use guard::{DnsLookup, SystemDns};
pub(crate) use redirect::is_processed;
pub use response::IncomingResponse;
pub(crate) use retry_after::{MAX_RETRY_AFTER, retry_after};
pub use signature::{SigningSecret, sign};
pub(crate) use trace::insert_trace_headers;

/// The URL of a call, and who named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Named by the operator's configuration or environment: called without checks, on any network.
    Operator(Url),
    /// Named by anybody else, on behalf of this tenant: the public internet and the entries of the allow-lists.
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
pub struct OutgoingRequest {
    pub method: Method,
    pub to: Destination,
    /// Mark secrets as sensitive, so that they are not logged.
    pub headers: HeaderMap,
    /// Empty: no body.
    pub body: Bytes,
    pub bounds: Bounds,
}

/// Limits of one call. They also apply while the response's body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Timeout from the request to the response's headers.
    pub headers: Duration,
    /// Timeout between two chunks of the body.
    pub stall: Duration,
    /// Timeout of the whole exchange.
    pub total: Duration,
    /// Maximum size of the body.
    pub bytes: usize,
}

/// Why a call failed, by what that implies for the other side. Texts contain no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The call, or an address that it was redirected to, is not allowed: nothing was processed.
    #[error("refused: {0}")]
    Refused(String),
    /// No connection: name resolution, routing, TLS, or the connect timeout; or one that was closed before anything was sent.
    #[error("cannot reach {0}")]
    Unreachable(String),
    /// The connection broke before the response or in the middle of it.
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
