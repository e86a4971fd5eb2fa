//! Hosts, and which hosts a rule means.

use std::net::IpAddr;

use serde_json::Value;

use super::normal;

/// The longest host that is looked at, in bytes; a name has 253 once it is encoded.
const LONGEST: usize = 1_024;
/// The schemes whose addresses every parser divides alike.
const SCHEMES: &[&str] = &["http", "https", "ws", "wss", "ftp"];

/// A host: its name in lower case, encoded (`xn--`) and without the dot at its end; or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Name(String),
    Address(IpAddr),
}

/// Which hosts are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    Is(Host),
    /// Everything below a name, which stands here with a dot before it.
    Below(String),
}

impl Pattern {
    /// From a host, or from `*.` and a name.
    pub(super) fn new(text: &str) -> Option<Self> {
        let Some(name) = text.strip_prefix("*.") else { return named(text).map(Self::Is) };
        match named(name)? {
            Host::Name(name) => Some(Self::Below(format!(".{name}"))),
            Host::Address(_) => None,
        }
    }

    pub(super) fn covers(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Is(meant), host) => meant == host,
            (Self::Below(end), Host::Name(name)) => {
                name.strip_suffix(end.as_str()).is_some_and(|left| !left.is_empty())
            }
            (Self::Below(_), Host::Address(_)) => false,
        }
    }
}

/// The hosts of a URL or host name, or of a list of them; `None`: not each is certainly one host.
pub(super) fn all(value: &Value) -> Option<Vec<Host>> {
    match value {
        Value::String(text) => Some(vec![of(text)?]),
        Value::Array(list) if !list.is_empty() => list.iter().map(|one| of(one.as_str()?)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The host of a URL (`https://host:port/…`), or of `host` or `host:port`; `None` where two programs could read another
/// one there: user information, backslashes, blanks, escapes, other ways to write an address.
pub(super) fn of(text: &str) -> Option<Host> {
    if text.chars().any(|c| c.is_whitespace() || normal::is_invisible(c)) {
        return None;
    }
    let Some((scheme, rest)) = text.split_once("://") else { return at(text) };
    if !SCHEMES.contains(&scheme.to_ascii_lowercase().as_str()) {
        return None;
    }
    at(&rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())])
}

/// The host before a port.
fn at(authority: &str) -> Option<Host> {
    let end = if authority.starts_with('[') { authority.find(']')? + 1 } else { 0 };
    let (host, port) = match authority[end..].split_once(':') {
        Some((before, port)) => (&authority[..end + before.len()], port),
        None => (authority, "0"),
    };
    let is_port = port.bytes().all(|digit| digit.is_ascii_digit()) && port.parse::<u16>().is_ok();
    if is_port { named(host) } else { None }
}

/// A host by itself.
pub(super) fn named(text: &str) -> Option<Host> {
    let text = text.strip_suffix('.').unwrap_or(text);
    if text.len() > LONGEST || !is_plain(text) {
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

/// Whether nothing in it is read otherwise by a program that knows less of Unicode, but for the case of its letters.
fn is_plain(text: &str) -> bool {
    !text.contains(['%', '\\']) && normal::is_folded(text)
}

/// Whether the encoded name has the labels of the text: no other character than the dot was taken for one, and only labels
/// of other scripts were encoded.
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
