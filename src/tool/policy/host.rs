//! Hosts, and patterns for hosts.

use std::net::IpAddr;

use serde_json::Value;

use super::normal;
use crate::domain::visible::is_invisible;

/// Maximum length of a host that is examined, in bytes. An encoded name has at most 253.
const MAX_HOST_BYTES: usize = 1_024;
/// The schemes whose URLs every parser splits alike.
const SCHEMES: &[&str] = &["http", "https", "ws", "wss", "ftp"];

/// A host: a name in lower case, encoded (`xn--`) and without a trailing dot; or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Name(String),
    Address(IpAddr),
}

/// The hosts that a rule means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HostPattern {
    Is(Host),
    /// All subdomains of a name; it is stored with a leading dot.
    Subdomains(String),
}

impl HostPattern {
    /// Parses a host, or `*.` and a name.
    pub(super) fn new(text: &str) -> Option<Self> {
        let Some(name) = text.strip_prefix("*.") else { return parse_name(text).map(Self::Is) };
        match parse_name(name)? {
            Host::Name(name) => Some(Self::Subdomains(format!(".{name}"))),
            Host::Address(_) => None,
        }
    }

    pub(super) fn covers(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Is(meant), host) => meant == host,
            (Self::Subdomains(end), Host::Name(name)) => {
                name.strip_suffix(end.as_str()).is_some_and(|left| !left.is_empty())
            }
            (Self::Subdomains(_), Host::Address(_)) => false,
        }
    }
}

/// The hosts of a URL or host name, or of a list of them; `None`: some entry is not certainly one host.
pub(super) fn all(value: &Value) -> Option<Vec<Host>> {
    match value {
        Value::String(text) => Some(vec![of(text)?]),
        Value::Array(list) if !list.is_empty() => list.iter().map(|one| of(one.as_str()?)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The host of a URL (`https://host:port/…`), of `host` or of `host:port`. `None` where two programs could read
/// different hosts: user information, backslashes, whitespace, escapes, unusual spellings of addresses.
pub(super) fn of(text: &str) -> Option<Host> {
    if text.chars().any(|c| c.is_whitespace() || is_invisible(c)) {
        return None;
    }
    let Some((scheme, rest)) = text.split_once("://") else { return without_port(text) };
    if !SCHEMES.contains(&scheme.to_ascii_lowercase().as_str()) {
        return None;
    }
    without_port(&rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())])
}

/// The host in front of an optional port.
fn without_port(authority: &str) -> Option<Host> {
    let end = if authority.starts_with('[') { authority.find(']')? + 1 } else { 0 };
    let (host, port) = match authority[end..].split_once(':') {
        Some((before, port)) => (&authority[..end + before.len()], port),
        None => (authority, "0"),
    };
    let is_port = port.bytes().all(|digit| digit.is_ascii_digit()) && port.parse::<u16>().is_ok();
    if is_port { parse_name(host) } else { None }
}

/// A host without a port.
pub(super) fn parse_name(text: &str) -> Option<Host> {
    let text = text.strip_suffix('.').unwrap_or(text);
    if text.len() > MAX_HOST_BYTES || !is_plain(text) {
        return None;
    }
    match url::Host::parse(text).ok()? {
        url::Host::Domain(name) => (is_name(&name) && has_its_labels(text, &name)).then_some(Host::Name(name)),
        url::Host::Ipv4(address) => (address.to_string() == text).then_some(Host::Address(address.into())),
        url::Host::Ipv6(address) => {
            let is_itself = address.to_ipv4().is_none() || address.is_loopback();
            (is_itself && format!("[{address}]") == text.to_ascii_lowercase()).then_some(Host::Address(address.into()))
        }
    }
}

/// Whether every program reads the same text, apart from the case of letters, even with less knowledge of Unicode.
fn is_plain(text: &str) -> bool {
    !text.contains(['%', '\\']) && normal::is_folded(text)
}

/// Whether the encoded name has the same labels as the text: no other character was taken for a dot, and only labels in
/// other scripts were encoded.
fn has_its_labels(text: &str, name: &str) -> bool {
    let is_its = |(label, encoded): (&str, &str)| {
        if label.is_ascii() { label.eq_ignore_ascii_case(encoded) } else { encoded.starts_with("xn--") }
    };
    text.split('.').count() == name.split('.').count() && text.split('.').zip(name.split('.')).all(is_its)
}

fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests;
