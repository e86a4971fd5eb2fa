//! Which of an agent's interfaces is spoken to.

use url::Url;

use super::super::types::AgentCard;
use super::super::wire::Version;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    JsonRpc,
    HttpJson,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub url: Url,
    pub binding: Binding,
    pub version: Version,
    /// Goes into every request, where the interface names one.
    pub tenant: Option<String>,
}

impl Line {
    /// The agent's order is kept, except that a newer version of the protocol comes first.
    pub fn of(card: &AgentCard) -> Option<Self> {
        let mut lines = card.interfaces.iter().filter_map(|interface| {
            let binding = match interface.binding.as_str() {
                "JSONRPC" => Binding::JsonRpc,
                "HTTP+JSON" => Binding::HttpJson,
                _ => return None,
            };
            let version = Version::named(&interface.version)?;
            Some(Line { url: interface.url.parse().ok()?, binding, version, tenant: interface.tenant.clone() })
        });
        let first = lines.next()?;
        let newer = std::iter::once(first.clone()).chain(lines).find(|line| line.version == Version::V1);
        Some(newer.unwrap_or(first))
    }

    /// Whether whoever listens there is on this very machine.
    pub fn is_loopback(&self) -> bool {
        match self.url.host() {
            Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
            Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
            Some(url::Host::Domain(name)) => name == "localhost",
            None => false,
        }
    }
}
