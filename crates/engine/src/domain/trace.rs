//! W3C trace context: which trace a run belongs to, and the trace headers of the calls that it makes.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::hex;

/// The flags of a trace that begins here: it is sampled.
const SAMPLED: &str = "01";

/// The trace context that the caller of a run sent, besides the trace id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceOrigin {
    /// The caller's own span: 16 hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Two hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<String>,
    /// `tracestate`: passed on unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The client's own name of the trace, which is no W3C trace id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_trace_id: Option<String>,
}

/// The trace headers of one call: `traceparent` and `tracestate`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallTrace {
    /// Empty: there is no valid trace to pass on.
    pub parent: String,
    /// The caller's `tracestate`, passed on unchanged; not sent without a parent.
    pub state: Option<String>,
}

impl TraceOrigin {
    /// The headers of the call with this key. Its span id depends on trace id and key only.
    pub fn call(&self, trace_id: &str, key: &str) -> CallTrace {
        if !is_trace_id(trace_id) {
            return CallTrace::default();
        }
        let digest = Sha256::new().chain_update(trace_id).chain_update(key).finalize();
        let span = hex::of(&digest[..8]);
        let flags = self.flags.as_deref().unwrap_or(SAMPLED);
        CallTrace { parent: format!("00-{trace_id}-{span}-{flags}"), state: self.state.clone() }
    }
}

impl CallTrace {
    /// The headers to send, by name: none if there is no valid trace.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let parent = (!self.parent.is_empty()).then_some(("traceparent", self.parent.as_str()));
        let state = self.state.as_deref().filter(|_| parent.is_some());
        parent.into_iter().chain(state.map(|state| ("tracestate", state)))
    }
}

/// Whether it is a valid W3C trace id: 32 lower-case hex digits, not all zero.
pub fn is_trace_id(text: &str) -> bool {
    is_hex(text, 32) && text.bytes().any(|byte| byte != b'0')
}

/// Whether the text consists of `length` hexadecimal digits in lower case.
pub fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn every_call_has_a_span_of_its_own_and_the_callers_flags() {
        let origin = TraceOrigin { flags: Some("00".into()), state: Some("a=b".into()), ..TraceOrigin::default() };
        let (one, other) = (origin.call(TRACE, "t:call_1"), origin.call(TRACE, "t:call_2"));
        assert!(one.parent != other.parent && one == origin.call(TRACE, "t:call_1"));
        let parts: Vec<&str> = one.parent.split('-').collect();
        assert!(parts[..2] == ["00", TRACE] && is_hex(parts[2], 16) && parts[3] == "00", "{parts:?}");
        assert_eq!(one.headers().count(), 2);
        assert!(TraceOrigin::default().call(TRACE, "t:call_1").parent.ends_with("-01"));
    }

    #[test]
    fn nothing_is_told_of_a_trace_that_is_none() {
        for id in ["order 4711", "", &"0".repeat(32), &TRACE.to_uppercase()] {
            assert_eq!(
                TraceOrigin { state: Some("a=b".into()), ..TraceOrigin::default() }.call(id, "k").headers().count(),
                0
            );
        }
    }
}
