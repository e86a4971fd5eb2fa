//! Parses `OLLAMA_HOST`, in all forms that Ollama accepts.

use std::borrow::Cow;

/// Ollama's port if the scheme implies no other.
const PORT: &str = "11434";

/// With or without scheme and port. An unspecified address such as 0.0.0.0, which a server binds to, means this
/// machine.
pub(crate) fn base_url(host: &str) -> Cow<'_, str> {
    let host = host.trim();
    if host.contains("://") {
        return Cow::Borrowed(host);
    }
    let (place, path) = match host.find('/') {
        Some(at) => host.split_at(at),
        None => (host, ""),
    };
    let (name, port) = match place.rsplit_once(':') {
        // A bare IPv6 address contains colons.
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, port),
        Some(_) | None => (place, ""),
    };
    let name = match name {
        "" | "0.0.0.0" => Cow::Borrowed("127.0.0.1"),
        "::" | "[::]" => Cow::Borrowed("[::1]"),
        name if name.contains(':') && !name.starts_with('[') => Cow::Owned(format!("[{name}]")),
        name => Cow::Borrowed(name),
    };
    let port = if port.is_empty() { PORT } else { port };
    Cow::Owned(format!("http://{name}:{port}{path}"))
}

#[cfg(test)]
mod tests;
