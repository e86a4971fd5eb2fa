//! Conversion between stored texts and values, the same for every database.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, IntoDeserializer as _};
use serde_json::Value;

use super::{Error, Result};
use crate::domain::ids::PayloadId;
use crate::domain::message::ConversationMessage;
use crate::domain::thread::ThreadProfile;
use crate::engine::step::{Keep, Row, RowKind};

/// An enum that is stored as a word.
macro_rules! words {
    ($(#[$about:meta])* $enum:ident { $($(#[$doc:meta])* $name:ident = $text:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Deserialize)]
        pub enum $enum { $($(#[$doc])* #[serde(rename = $text)] $name,)+ }

        impl $enum {
            pub const ALL: &'static [$enum] = &[$($enum::$name,)+];

            /// As it is stored.
            pub fn as_str(self) -> &'static str {
                match self { $($enum::$name => $text,)+ }
            }
        }
    };
}
pub(super) use words;

pub(crate) fn of_profile(profile: &ThreadProfile) -> String {
    serde_json::to_string(profile).expect("a thread profile is plain data")
}

pub(crate) fn read_profile(text: &str) -> Result<ThreadProfile> {
    read("thread profile", text)
}

/// The profile for lists: if it cannot be read, the thread is listed without it.
pub(crate) fn shown_profile(text: &str) -> ThreadProfile {
    let read =
        read_profile(text).inspect_err(|error| tracing::error!(%error, "a thread is listed without its settings"));
    read.unwrap_or_default()
}

/// Normalises a text for a search by `ThreadFilter::q`: lower case, and without NUL, which a text column may refuse. `q`
/// itself is normalised in the same way.
pub(crate) fn folded(text: &str) -> String {
    text.to_lowercase().replace('\0', " ")
}

/// The title for a search by `ThreadFilter::q`. Ids are ASCII and need no column of their own.
pub(crate) fn folded_title(profile: &ThreadProfile) -> String {
    folded(profile.title.as_deref().unwrap_or_default())
}

pub(crate) fn row(kind: i16, id: String, ord: i64, keep: i16, body: String) -> Result<Row> {
    let kind = RowKind::of_code(kind).ok_or_else(|| damaged("row", "unknown kind"))?;
    let keep = Keep::of_code(keep).ok_or_else(|| damaged("row", "unknown keep"))?;
    Ok(Row { kind, id, ord, keep, body })
}

/// A row of a thread that is loaded. `None` for a kind that a newer release added.
pub(crate) fn known_row(kind: i16, id: String, ord: i64, keep: i16, body: String) -> Option<Result<Row>> {
    RowKind::of_code(kind).map(|_| row(kind, id, ord, keep, body))
}

/// A message that cannot be read is left out, so that the rest of the conversation remains readable.
pub(crate) fn message(body: &str) -> Option<ConversationMessage> {
    legible("message", body)
}

/// A payload that cannot be read is left out: its reference remains in place.
pub(crate) fn payload(id: &str, body: &str) -> Option<(PayloadId, Arc<Value>)> {
    Some((PayloadId::from(id), Arc::new(legible("payload", body)?)))
}

/// The detail of an audit line, or `null` if it cannot be read: the line still says who did what.
pub(crate) fn audit_detail(body: &str) -> Value {
    legible("audit", body).unwrap_or_default()
}

/// The body of a document, or `null` if it cannot be read. `null` is not a valid body of any kind, so only this document
/// fails.
pub(crate) fn document(body: &str) -> Value {
    legible("document", body).unwrap_or_default()
}

/// Reads a row of a list. One that cannot be read is logged and left out.
pub(crate) fn legible<'t, T: Deserialize<'t>>(what: &str, text: &'t str) -> Option<T> {
    read(what, text).inspect_err(|error| tracing::error!(%error, "a stored row cannot be read and is left out")).ok()
}

pub(super) fn read<'t, T: Deserialize<'t>>(what: &str, text: &'t str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| damaged(what, error))
}

pub(crate) fn damaged(what: &str, why: impl std::fmt::Display) -> Error {
    Error::Damaged(format!("{what}: {why}"))
}

/// Reads a word that this server stored.
pub(super) fn word<T: DeserializeOwned>(text: &str) -> Result<T> {
    let word: StrDeserializer<'_, serde::de::value::Error> = text.into_deserializer();
    T::deserialize(word).map_err(|why| damaged("stored word", why))
}
