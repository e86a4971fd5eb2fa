//! Server-sent events as doors write them: data, and a name where the wire has names. No ids: clients of these wires do not
//! come back by them.

use bytes::Bytes;
use serde_json::Value;

/// An event without a name.
pub(super) fn data(data: &Value) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

/// An event with a name.
pub(super) fn named(name: &str, data: &Value) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}
