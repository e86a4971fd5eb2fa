//! The trace that a request belongs to: W3C `traceparent`, or a new one.

use axum::http::HeaderMap;

/// 32 lower-case hex digits; goes into problems, logs and runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceId(pub(crate) String);

impl TraceId {
    /// What the caller says, or a new trace: a header that is not valid is as good as none (W3C Trace Context, 3.2).
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let told = headers.get("traceparent").and_then(|value| value.to_str().ok()).and_then(parse);
        told.map_or_else(Self::new, Self)
    }

    /// A trace that begins here.
    pub(crate) fn new() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }
}

fn parse(header: &str) -> Option<String> {
    let parts: Vec<&str> = header.trim().split('-').collect();
    let [version, trace, parent, flags, ..] = parts[..] else { return None };
    let known = version == "00" && parts.len() == 4 || is_hex(version, 2) && version > "00" && version != "ff";
    let named = |text: &str, length| is_hex(text, length) && text.bytes().any(|byte| byte != b'0');
    (known && named(trace, 32) && named(parent, 16) && is_hex(flags, 2)).then(|| trace.to_owned())
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests;
