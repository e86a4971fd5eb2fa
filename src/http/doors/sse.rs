//! Server-sent events as doors write them: data, and a name where the wire has names; and how a stream ends that cannot be
//! told to its end. Ids only where clients of the wire come back by them.

use std::fmt::Display;

use bytes::Bytes;
use serde_json::Value;

use crate::domain::fault::{Code, Fault};
use crate::http::events::sse::LastWords;

/// An event without a name.
pub(super) fn data(data: &Value) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

/// An event under an id, if it has one.
pub(super) fn numbered(id: Option<&str>, data: &Value) -> Bytes {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    Bytes::from(format!("{id}data: {data}\n\n"))
}

/// An event with a name.
pub(super) fn named(name: &str, data: &impl Display) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

/// How a stream ends that is cut: with the error of its wire, as `say` writes it. To most clients a stream that just stops is
/// one that has ended well. `stopping` says what to do when the server stops.
pub(super) fn last_words(stopping: &str, say: impl Fn(&Fault) -> Bytes) -> LastWords {
    LastWords { stopping: say(&Fault::new(Code::Draining, stopping)), revoked: say(&revoked()) }
}

/// Why a stream ends whose key counts no more.
pub(super) fn revoked() -> Fault {
    Fault::new(Code::Unauthorized, "The key of this request was revoked, or its time is over; ask with another one.")
}
