//! The judge of everything that the operator did not name: first the URL, then every address that its name leads to.

use std::io;
use std::net::IpAddr;

use async_trait::async_trait;
use url::{Host, Url};

use super::address::not_public;
use super::{Allow, Error};

/// Where names lead.
#[async_trait]
pub trait Names: Send + Sync + 'static {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// As this machine resolves them.
#[derive(Clone, Copy, Debug)]
pub struct System;

#[async_trait]
impl Names for System {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// What one tenant may reach.
pub(super) struct Guard {
    pub(super) allow: Allow,
    /// Whether what `allow` does not name is not called, public or not.
    pub(super) deny: bool,
    pub(super) plain_http: bool,
}

/// Who checks the addresses of a URL that may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Nobody: the allow-list names its host.
    Named,
    /// The connection's own resolver; an address that stands in the URL has been checked.
    Checked,
}

impl Guard {
    /// Everything that can be said of an URL without looking its name up.
    pub(super) fn judge(&self, url: &Url) -> Result<Way, Error> {
        let refuse = |why: &str| Err(Error::Refused(why.to_owned()));
        if !matches!(url.scheme(), "http" | "https") {
            return refuse("only http and https URLs are called");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refuse("a URL must not carry a user or a password");
        }
        if self.allow.names(url) {
            return Ok(Way::Named);
        }
        if url.scheme() == "http" && !self.plain_http {
            return refuse("only https is called here");
        }
        // Below are the ports of other protocols, which can be spoken to in HTTP's clothes.
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
                None => Ok(Way::Checked),
            },
            // Where it leads is seen when it is looked up, but no range can let it through if there is none.
            None if self.deny && !self.allow.has_ranges() => {
                refuse("this server calls only what its operator allows: name the host in PES_EGRESS_ALLOW")
            }
            None => Ok(Way::Checked),
        }
    }

    /// What kind of address that is, if it is not called.
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
        assert_eq!(judged(&["a.example"], "https://a.example/"), Some(Way::Named));
        assert_eq!(judged(&[], "https://8.8.8.8/"), None);
        assert_eq!(judged(&["8.8.8.0/24"], "https://8.8.8.8/"), Some(Way::Checked));
        let guard = Guard { allow: Allow::parse(&["8.8.8.0/24"]).unwrap(), deny: true, plain_http: true };
        assert_eq!(guard.judge(&"https://a.example/".parse().unwrap()).unwrap(), Way::Checked, "by where it leads");
        assert!(guard.refuses("9.9.9.9".parse().unwrap()).is_some(), "and not anywhere");
        assert!(guard.refuses("8.8.8.8".parse().unwrap()).is_none());
    }

    #[test]
    fn where_only_https_is_called_a_named_host_may_still_be_called_in_the_clear() {
        let guard =
            Guard { allow: Allow::parse(&["intern.example", "10.0.0.0/8"]).unwrap(), deny: false, plain_http: false };
        let judged = |url: &str| guard.judge(&url.parse().unwrap()).ok();
        assert_eq!(judged("http://intern.example/"), Some(Way::Named));
        assert_eq!(judged("https://a.example/"), Some(Way::Checked));
        for refused in ["http://a.example/", "http://10.1.1.1/", "ftp://intern.example/", "http://u:p@intern.example/"]
        {
            assert_eq!(judged(refused), None, "{refused}");
        }
    }
}
