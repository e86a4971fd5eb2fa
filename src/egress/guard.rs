//! Checks every URL that the operator did not name: first the URL itself, then every address that its name resolves to.

use std::io;
use std::net::IpAddr;

use async_trait::async_trait;
use url::{Host, Url};

use super::address::not_public;
use super::{Allow, Error};

/// Resolves host names.
#[async_trait]
pub trait DnsLookup: Send + Sync + 'static {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's resolver.
#[derive(Clone, Copy, Debug)]
pub struct SystemDns;

#[async_trait]
impl DnsLookup for SystemDns {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// What one tenant may call.
pub(super) struct Guard {
    pub(super) allow: Allow,
    /// Whether only what `allow` names is called, public or not.
    pub(super) deny: bool,
    pub(super) plain_http: bool,
}

/// Who checks the addresses of a URL that may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressCheck {
    /// Nobody: the allow-list names the host.
    None,
    /// The connection's resolver. A literal IP address in the URL has been checked already.
    ByResolver,
}

impl Guard {
    /// All checks that are possible without resolving the name.
    pub(super) fn judge(&self, url: &Url) -> Result<AddressCheck, Error> {
        let refuse = |why: &str| Err(Error::Refused(why.to_owned()));
        if !matches!(url.scheme(), "http" | "https") {
            return refuse("only http and https URLs are called");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refuse("a URL must not carry a user or a password");
        }
        if self.allow.names(url) {
            return Ok(AddressCheck::None);
        }
        if url.scheme() == "http" && !self.plain_http {
            return refuse("only https is called here");
        }
        // Lower ports belong to other protocols, whose servers may accept an HTTP request as their own commands.
        if !matches!(url.port_or_known_default(), Some(80 | 443 | 1024..)) {
            return refuse("this port is not called");
        }
        let literal = match url.host() {
            Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
            Some(Host::Domain(_)) => None,
            None => return refuse("the URL names no host"),
        };
        match literal {
            Some(address) => match self.refuses(address) {
                Some(kind) => {
                    Err(Error::Refused(format!("{kind} address is not called unless PES_EGRESS_ALLOW names it")))
                }
                None => Ok(AddressCheck::ByResolver),
            },
            // The address is checked when the name is resolved; but without ranges in the allow-list no address can be
            // admitted.
            None if self.deny && !self.allow.has_ranges() => {
                refuse("this server calls only what its operator allows: name the host in PES_EGRESS_ALLOW")
            }
            None => Ok(AddressCheck::ByResolver),
        }
    }

    /// Why an address is not called, as a phrase such as "a private"; `None` if it may be called.
    pub(super) fn refuses(&self, address: IpAddr) -> Option<&'static str> {
        if self.allow.covers(address) { None } else { not_public(address).or(self.deny.then_some("an unlisted")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_default_is_deny_only_what_is_named_is_called() {
        let judged = |allow: &[&str], url: &str| {
            let guard = Guard { allow: Allow::parse(allow).unwrap(), deny: true, plain_http: true };
            guard.judge(&url.parse().unwrap()).ok()
        };
        assert_eq!(judged(&[], "https://public.example/?q=SECRET"), None);
        assert_eq!(judged(&["a.example"], "https://b.example/"), None);
        assert_eq!(judged(&["a.example"], "https://a.example/"), Some(AddressCheck::None));
        assert_eq!(judged(&[], "https://8.8.8.8/"), None);
        assert_eq!(judged(&["8.8.8.0/24"], "https://8.8.8.8/"), Some(AddressCheck::ByResolver));
        let guard = Guard { allow: Allow::parse(&["8.8.8.0/24"]).unwrap(), deny: true, plain_http: true };
        assert_eq!(
            guard.judge(&"https://a.example/".parse().unwrap()).unwrap(),
            AddressCheck::ByResolver,
            "by where it leads"
        );
        assert!(guard.refuses("9.9.9.9".parse().unwrap()).is_some(), "and not anywhere");
        assert!(guard.refuses("8.8.8.8".parse().unwrap()).is_none());
    }

    #[test]
    fn where_only_https_is_called_a_named_host_may_still_be_called_in_the_clear() {
        let guard =
            Guard { allow: Allow::parse(&["intern.example", "10.0.0.0/8"]).unwrap(), deny: false, plain_http: false };
        let judged = |url: &str| guard.judge(&url.parse().unwrap()).ok();
        assert_eq!(judged("http://intern.example/"), Some(AddressCheck::None));
        assert_eq!(judged("https://a.example/"), Some(AddressCheck::ByResolver));
        for refused in ["http://a.example/", "http://10.1.1.1/", "ftp://intern.example/", "http://u:p@intern.example/"]
        {
            assert_eq!(judged(refused), None, "{refused}");
        }
    }
}
