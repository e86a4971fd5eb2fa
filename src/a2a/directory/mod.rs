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

    /// The credentials for a URL that its card names. Without TLS, none are sent to an agent whose card came over TLS:
    /// then the agent is not called.
    pub(super) fn authorization_at(&self, url: &Url) -> Result<Option<HeaderValue>, Error> {
        let token = self.authorization()?;
        if token.is_some() && self.card.scheme() == "https" && url.scheme() != "https" {
            let why = format!("its card names {}, and its token is not sent without TLS", shown(url));
            return Err(Error::Refused(why));
        }
        Ok(token)
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

/// A URL without the parts that may be secrets.
pub(super) fn shown(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The agent's own host has the token anyway, as it is sent with the request for the card; everybody on the way has it
    /// where there is no TLS.
    #[test]
    fn a_token_whose_card_came_over_tls_is_sent_nowhere_without() {
        let at = |card: &str, url: &str, token: Option<&str>| {
            let peer = Peer {
                id: "helper".to_owned(),
                card: card.parse().unwrap(),
                owner: None,
                tenant: TenantPk::NONE,
                token: Ok(token.and_then(bearer)),
                dedupes: false,
                trace: CallTrace::default(),
                timeout_ms: None,
                version: 0,
            };
            peer.authorization_at(&url.parse().unwrap())
        };
        let (secure, plain) = ("https://a.example/card", "http://a.example/card");
        let refused = "its card names http://b.example/rpc, and its token is not sent without TLS";
        let sent_to = "http://me:hush@b.example/rpc?key=hush";
        assert_eq!(at(secure, sent_to, Some("x")), Err(Error::Refused(refused.to_owned())));
        assert_eq!(at(secure, "https://b.example/rpc", Some("x")), Ok(bearer("x")));
        assert_eq!(at(plain, sent_to, Some("x")), Ok(bearer("x")));
        assert_eq!(at(secure, sent_to, None), Ok(None));
    }
}
