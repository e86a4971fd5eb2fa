//! `OLLAMA_HOST`, in the forms that Ollama itself takes.

use std::borrow::Cow;

/// Ollama's port where no scheme says another one.
const PORT: &str = "11434";

/// With and without scheme, with and without port; an address that a server binds to mean "all" is this machine.
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
        // A bare IPv6 address is full of colons.
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
