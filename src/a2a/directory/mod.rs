//! The agents that work can be delegated to: those of the configuration, which every tenant has, and each tenant's own.
//! Their cards are fetched and cached; the description of `delegate_to_agent` passes them to the planner.

mod agents;
mod cards;
mod tool;

use http::HeaderValue;
use url::Url;

use super::client::Error;
use crate::domain::ids::TenantPk;
use crate::domain::trace::CallTrace;
use crate::egress::Destination;
use crate::store::documents::{DocumentKind, Unreadable};

pub use agents::{Directory, written_spec};
pub use tool::Delegating;

/// One agent, as it was configured.
#[derive(Clone, Debug)]
pub struct Peer {
    pub id: String,
    pub card: Url,
    /// The tenant that added it; `None`: the operator configured it.
    pub owner: Option<TenantPk>,
    /// The tenant for which it is called.
    pub tenant: TenantPk,
    /// The value of `Authorization`, if it has one. An agent whose token cannot be opened is not called.
    pub token: Result<Option<HeaderValue>, Unreadable>,
    /// It processes a message only once, even if it is sent again.
    pub dedupes: bool,
    /// The trace headers of this call.
    pub trace: CallTrace,
    pub timeout_ms: Option<i64>,
    /// The version of the stored document that describes this agent; 0 for an agent of the operator's configuration.
    pub version: i64,
}

impl Peer {
    /// The credentials that it is sent. If they cannot be opened, the call fails and may be tried again later.
    pub(super) fn authorization(&self) -> Result<Option<HeaderValue>, Error> {
        self.token.clone().map_err(|why| {
            why.warn(DocumentKind::Agent.as_str(), self.tenant, &self.id);
            Error::unreachable(format!("{}: nothing was sent: {why}", Unreadable::CODE))
        })
    }

    /// How a URL of the agent is called. For the operator's agents, URLs with the card's origin are trusted; all other
    /// URLs are checked.
    pub fn destination(&self, url: Url) -> Destination {
        match self.owner {
            None if url.origin() == self.card.origin() => Destination::Operator(url),
            None | Some(_) => Destination::Untrusted { url, tenant: self.tenant },
        }
    }
}

/// An agent of the configuration, with its resolved token.
#[derive(Clone)]
pub struct OperatorAgent {
    pub id: String,
    pub card: Url,
    pub token: Option<HeaderValue>,
    pub dedupes: bool,
    pub timeout_ms: Option<i64>,
}

/// The header value for a token; `None`: it is invalid in a header.
pub fn bearer(token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}
