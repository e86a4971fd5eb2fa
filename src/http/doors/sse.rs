//! Writes the server-sent events of the doors: the data, and the event's name where the wire format has names. Also
//! writes the last event of a stream that the server must cut. Event ids are sent only where clients of the wire format
//! reconnect with them.

use std::fmt::Display;

use bytes::Bytes;
use serde_json::Value;

use crate::domain::fault::{Code, Fault};
use crate::http::events::sse::ClosingEvents;

/// An event with data only.
pub(super) fn data(data: &Value) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

/// An event with an id, if there is one.
pub(super) fn numbered(id: Option<&str>, data: &Value) -> Bytes {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    Bytes::from(format!("{id}data: {data}\n\n"))
}

/// An event with a name.
pub(super) fn named(name: &str, data: &impl Display) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

/// The events that end a stream which the server cuts, written by `write` as errors of the wire format. Most clients
/// take a stream that just stops for one that ended well. `stopping` says what to do when the server stops.
pub(super) fn closing_events(stopping: &str, write: impl Fn(&Fault) -> Bytes) -> ClosingEvents {
    ClosingEvents { stopping: write(&Fault::new(Code::Draining, stopping)), revoked: write(&revoked_fault()) }
}

/// The fault of a stream whose key is no longer valid.
pub(super) fn revoked_fault() -> Fault {
    Fault::new(Code::Unauthorized, "The key of this request was revoked, or its time is over; ask with another one.")
}
