//! What the operator adds to the public internet: `host`, `host:port`, an address, or a range.

use std::net::IpAddr;

use ipnet::IpNet;
use url::{Host, Url};

/// An allow-list: `PES_EGRESS_ALLOW`, or a tenant's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allow(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    /// Matches whatever address the name resolves to. Without a port it matches every port.
    Host(Host, Option<u16>),
    Range(IpNet),
}

impl Allow {
    /// The error message names the invalid entry.
    pub fn parse<T: AsRef<str>>(entries: &[T]) -> Result<Self, String> {
        entries.iter().map(|entry| rule(entry.as_ref().trim())).collect::<Result<_, _>>().map(Self)
    }

    /// Both lists together.
    pub fn and(&self, other: &Self) -> Self {
        Self(self.0.iter().chain(&other.0).cloned().collect())
    }

    /// Whether an entry names this URL's host and port. Such a URL is trusted like one from the operator's settings.
    pub(super) fn names(&self, url: &Url) -> bool {
        let host = url.host().map(|host| plain(&host));
        self.0.iter().any(|rule| match rule {
            Rule::Host(named, port) => {
                host.as_ref() == Some(named) && port.is_none_or(|port| url.port_or_known_default() == Some(port))
            }
            Rule::Range(_) => false,
        })
    }

    /// Whether a host name may be admitted by the address that it resolves to.
    pub(super) fn has_ranges(&self) -> bool {
        self.0.iter().any(|rule| matches!(rule, Rule::Range(_)))
    }

    pub(super) fn covers(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|rule| match rule {
            Rule::Range(range) => range.contains(&address),
            Rule::Host(..) => false,
        })
    }
}

/// Removes the trailing dot of a fully qualified name: `a.example.` and `a.example` are the same host.
fn plain(host: &Host<&str>) -> Host {
    match host {
        Host::Domain(name) => Host::Domain(name.trim_end_matches('.').to_owned()),
        Host::Ipv4(address) => Host::Ipv4(*address),
        Host::Ipv6(address) => Host::Ipv6(*address),
    }
}

fn rule(entry: &str) -> Result<Rule, String> {
    let wrong = || format!("`{entry}` is neither host[:port] nor an address nor a range such as 10.0.0.0/8");
    if entry.contains('*') {
        return Err(format!(
            "`{entry}` has a `*`, which stands for nothing here: name each host, or a range such as 10.0.0.0/8; \
             egress.default = \"allow\" (PES_EGRESS_DEFAULT=allow) lets the whole public internet through"
        ));
    }
    if let Ok(range) = entry.parse::<IpNet>() {
        return Ok(Rule::Range(range.trunc()));
    }
    if let Ok(address) = entry.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return Ok(Rule::Range(address.into()));
    }
    let (host, port) = match entry.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse().map_err(|_| wrong())?)),
        None => (entry, None),
    };
    let host = Host::parse(host).map_err(|_| wrong())?;
    let host = match &host {
        Host::Domain(name) => plain(&Host::Domain(name)),
        Host::Ipv4(_) | Host::Ipv6(_) => host,
    };
    Ok(Rule::Host(host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_host_a_host_and_port_an_address_or_a_range() {
        let entries =
            ["Intern.Example", "db.example:5432", "10.0.0.0/8", "192.168.1.7", "127.0.0.1:8080", "[::1]:9", "::2"];
        let allow = Allow::parse(&entries).unwrap();
        let names = |url: &str| allow.names(&url.parse().unwrap());
        assert!(names("http://intern.example/") && names("https://intern.example.:8443/"));
        assert!(names("http://db.example:5432/") && !names("http://db.example/") && !names("http://a.intern.example/"));
        assert!(names("http://127.0.0.1:8080/") && !names("http://127.0.0.1:8081/") && names("http://[::1]:9/"));
        let covers = |address: &str| allow.covers(address.parse().unwrap());
        assert!(covers("10.9.8.7") && covers("::ffff:10.9.8.7") && covers("192.168.1.7") && covers("::2"));
        assert!(!covers("192.168.1.8") && !covers("11.0.0.1") && !covers("::1"));
        for wrong in ["", "a b", "10.0.0.0/33", "host:port", "http://host"] {
            assert!(Allow::parse(&[wrong]).is_err(), "{wrong}");
        }
        for wrong in ["*", "*.example", "*:443"] {
            let why = Allow::parse(&[wrong]).unwrap_err();
            assert!(why.contains("PES_EGRESS_DEFAULT=allow"), "{wrong}: {why}");
        }
    }
}
