//! The absolute URLs of this server, and the proxies whose forwarded headers it trusts.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;
use axum::http::header::HOST;
use ipnet::IpNet;

use super::header_list::entries;
use crate::config::{Server, cidr};
use crate::domain::console_urls::OwnUrl;
use crate::domain::fault::{Code, Fault};

/// The base of absolute URLs: `public_url`, else what a trusted proxy says, else the bound address.
pub(crate) struct Links {
    public: Option<String>,
    bound: SocketAddr,
    /// The prefix of this server's own paths: empty, or for example `/agents`.
    pub(crate) base_path: String,
    trusted: Vec<IpNet>,
}

impl Links {
    pub(crate) fn new(server: &Server, bound: SocketAddr) -> Result<Self, Fault> {
        let base_path = match server.base_path.trim_matches('/') {
            "" => String::new(),
            path => format!("/{path}"),
        };
        let unusable = |what: String| Fault::new(Code::Invalid, what);
        let trusted = server.trusted_proxies.iter().map(|range| cidr::range(range).map_err(unusable));
        let public = server.public_url.as_deref().map(|url| public(url, &base_path)).transpose()?;
        Ok(Self { public, bound, base_path, trusted: trusted.collect::<Result<_, _>>()? })
    }

    /// Whether this peer may forward requests for others. An IPv4-mapped IPv6 address counts as IPv4.
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.trusted.iter().any(|range| range.contains(&peer))
    }

    /// The address of the client. `peer` is the other end of the connection. Trusted proxies name their clients, each
    /// appending to what it received.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let forwarded: Vec<&str> = entries(headers, "x-forwarded-for").collect();
        let mut client = peer;
        for before in forwarded.into_iter().rev() {
            match address(before) {
                Some(before) if self.trusts(client) => client = before,
                Some(_) | None => break,
            }
        }
        client.to_canonical()
    }

    /// The URL prefix of this server, without a slash at the end.
    pub(crate) fn base(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> String {
        if let Some(public) = &self.public {
            return public.clone();
        }
        let forwarded = |name: &str| headers.get(name)?.to_str().ok().map(first);
        if peer.is_some_and(|peer| self.trusts(peer))
            && let Some(host) = forwarded_host(headers)
        {
            let scheme = if forwarded("x-forwarded-proto") == Some("https") { "https" } else { "http" };
            let prefix = forwarded("x-forwarded-prefix").filter(|prefix| is_path(prefix)).unwrap_or(&self.base_path);
            return format!("{scheme}://{host}{}", prefix.trim_end_matches('/'));
        }
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).filter(|host| is_authority(host));
        match host {
            Some(host) if self.bound.ip().is_unspecified() => format!("http://{host}{}", self.base_path),
            Some(_) | None => format!("http://{}{}", self.bound, self.base_path),
        }
    }

    /// The path of that URL, as browsers see it: empty, or for example `/agents`. A proxy may remove it before this
    /// server sees the request.
    pub(crate) fn path(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> String {
        let base = url::Url::parse(&self.base(peer, headers)).ok();
        let path = base.as_ref().map_or("", url::Url::path).trim_matches('/');
        if path.is_empty() { String::new() } else { format!("/{path}") }
    }

    /// The path without the base path. A path outside of it is returned whole.
    pub(crate) fn below_base<'p>(&self, path: &'p str) -> &'p str {
        match path.strip_prefix(self.base_path.as_str()) {
            Some("") => "/",
            Some(below) if below.starts_with('/') => below,
            Some(_) | None => path,
        }
    }

    /// The request headers on which [`base`](Self::base) depends, for `Vary`. `None` if it is the same for every
    /// request.
    pub(crate) fn vary(&self) -> Option<&'static str> {
        match (&self.public, self.trusted.is_empty()) {
            (Some(_), _) => None,
            (None, false) => Some("host, x-forwarded-host, x-forwarded-proto, x-forwarded-prefix"),
            (None, true) => self.bound.ip().is_unspecified().then_some("host"),
        }
    }

    /// The URL prefix outside of a request.
    pub(crate) fn own(&self) -> OwnUrl {
        OwnUrl { base: self.base(None, &HeaderMap::new()), is_public: self.public.is_some() }
    }

    /// Whether this is one of the server's own host names, without a port.
    pub(crate) fn is_own_host(&self, host: &str) -> bool {
        let public = self.public.as_deref().and_then(|url| url::Url::parse(url).ok());
        public.is_some_and(|url| url.host_str() == Some(host)) || self.bound.ip().to_string() == host
    }

    /// The origin of `public_url`, if there is one.
    pub(crate) fn public_origin(&self) -> Option<String> {
        let url = url::Url::parse(self.public.as_deref()?).ok()?;
        Some(url.origin().ascii_serialization())
    }
}

/// The URL of a server whose listener is bound to `address`, outside of a request.
pub(crate) fn own_url(server: &Server, address: SocketAddr) -> Result<OwnUrl, Fault> {
    Ok(Links::new(server, address)?.own())
}

/// The public URL with the base path, which the URL may already contain.
fn public(url: &str, base_path: &str) -> Result<String, Fault> {
    let parsed = url::Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let Some(parsed) = parsed else {
        return Err(Fault::new(Code::Invalid, format!("public_url `{url}` is not an http or https URL.")));
    };
    let url = url.trim_end_matches('/');
    let is_named = parsed.path().trim_end_matches('/').ends_with(base_path);
    Ok(if is_named { url.to_owned() } else { format!("{url}{base_path}") })
}

/// An address as proxies write it: bare, an IPv6 one also in brackets, or with a port.
fn address(text: &str) -> Option<IpAddr> {
    let of_socket = || text.parse().ok().map(|socket: SocketAddr| socket.ip());
    let in_brackets = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    text.parse().ok().or_else(of_socket).or_else(in_brackets)
}

/// The host that the client called, as a proxy says. Many pass `Host` on as it is, and add only `X-Forwarded-Proto`.
fn forwarded_host(headers: &HeaderMap) -> Option<&str> {
    let says = |name: &str| headers.get(name)?.to_str().ok().map(first);
    let passed_on = || says("x-forwarded-proto").and_then(|_| says(HOST.as_str()));
    says("x-forwarded-host").or_else(passed_on).filter(|host| is_authority(host))
}

/// Proxies append, so the first entry is the outermost one.
fn first(list: &str) -> &str {
    list.split(',').next().unwrap_or_default().trim()
}

fn is_authority(host: &str) -> bool {
    !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte))
}

fn is_path(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/.-_~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(server: Server) -> Links {
        Links::new(&server, "127.0.0.1:7070".parse().unwrap()).unwrap()
    }

    fn forwarded() -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-host", "agents.example.com, inner".parse().unwrap());
        headers.insert("x-forwarded-proto", "https".parse().unwrap());
        headers
    }

    #[test]
    fn a_proxy_is_believed_only_when_it_is_trusted() {
        let links = links(Server { trusted_proxies: vec!["10.0.0.0/8".into()], ..Server::default() });
        let trusted = links.base(Some("10.1.1.1".parse().unwrap()), &forwarded());
        assert_eq!(trusted, "https://agents.example.com");
        assert_eq!(links.base(Some("11.1.1.1".parse().unwrap()), &forwarded()), "http://127.0.0.1:7070");
        assert_eq!(links.base(None, &forwarded()), "http://127.0.0.1:7070");
    }

    #[test]
    fn a_proxy_that_passes_the_host_on_need_not_forward_it() {
        let links = links(Server { trusted_proxies: vec!["10.0.0.0/8".into()], ..Server::default() });
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "agents.example.com".parse().unwrap());
        let base = |peer: &str, headers: &HeaderMap| links.base(Some(peer.parse().unwrap()), headers);
        assert_eq!(base("10.1.1.1", &headers), "http://127.0.0.1:7070", "nothing says that a proxy passed it on");
        headers.insert("x-forwarded-proto", "https".parse().unwrap());
        assert_eq!(base("10.1.1.1", &headers), "https://agents.example.com");
        assert_eq!(base("11.1.1.1", &headers), "http://127.0.0.1:7070");
    }

    #[test]
    fn the_client_is_the_one_that_the_outermost_trusted_proxy_names() {
        let links = links(Server { trusted_proxies: vec!["10.0.0.0/8".into()], ..Server::default() });
        let client = |peer: &str, forwarded: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-for", forwarded.parse().unwrap());
            links.client(peer.parse().unwrap(), &headers).to_string()
        };
        assert_eq!(client("10.0.0.1", "203.0.113.7"), "203.0.113.7");
        assert_eq!(client("::ffff:10.0.0.1", "203.0.113.7"), "203.0.113.7");
        assert_eq!(client("10.0.0.1", "203.0.113.7, 10.0.0.2"), "203.0.113.7");
        assert_eq!(client("10.0.0.1", "203.0.113.7:5555, 10.0.0.2:80"), "203.0.113.7", "with ports");
        assert_eq!(client("10.0.0.1", "[2001:db8::7]:5555"), "2001:db8::7");
        assert_eq!(client("10.0.0.1", "[2001:db8::7]"), "2001:db8::7");
        assert_eq!(client("10.0.0.1", "198.51.100.1, 203.0.113.7"), "203.0.113.7", "the client may send one itself");
        assert_eq!(client("10.0.0.1", "nobody, 203.0.113.7"), "203.0.113.7", "or what is no address");
        assert_eq!(client("203.0.113.9", "198.51.100.1"), "203.0.113.9", "nobody trusts it");
        assert_eq!(client("::ffff:203.0.113.9", ""), "203.0.113.9");
    }

    #[test]
    fn the_public_url_goes_before_everything() {
        let public = |url: &str, base_path: &str| {
            let server = Server { public_url: Some(url.into()), base_path: base_path.into(), ..Server::default() };
            links(server).base(None, &forwarded())
        };
        assert_eq!(public("https://a.example/", ""), "https://a.example");
        assert_eq!(public("https://a.example", "agents/"), "https://a.example/agents");
        assert_eq!(public("https://a.example/agents", "/agents"), "https://a.example/agents");
        assert_eq!(public("http://agents", "/agents"), "http://agents/agents");
    }

    #[test]
    fn browsers_see_the_path_that_a_proxy_takes_away() {
        let links = links(Server { trusted_proxies: vec!["10.0.0.0/8".into()], ..Server::default() });
        let path = |prefix: &str| {
            let mut headers = forwarded();
            headers.insert("x-forwarded-prefix", prefix.parse().unwrap());
            links.path(Some("10.1.1.1".parse().unwrap()), &headers)
        };
        assert_eq!([path("/agents"), path("/agents/"), path("/"), path("/a;b")], ["/agents", "/agents", "", ""]);
        assert_eq!(path("//evil.example"), "/evil.example", "never another host's");
    }
}
