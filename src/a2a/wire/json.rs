//! Reads and writes JSON members. An error has a pointer, which is extended at each level on the way out.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use bytes::Bytes;
use serde_json::{Map, Value};

use super::super::types::Metadata;
use crate::domain::Millis;

/// Why a document cannot be read, and where.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{pointer}` {detail}")]
pub struct Unreadable {
    /// A JSON Pointer.
    pub pointer: String,
    pub detail: String,
}

pub type Read<T> = Result<T, Unreadable>;

pub(super) fn refuse<T>(detail: impl Into<String>) -> Read<T> {
    Err(Unreadable { pointer: String::new(), detail: detail.into() })
}

impl Unreadable {
    fn below(mut self, step: impl std::fmt::Display) -> Self {
        self.pointer = format!("/{step}{}", self.pointer);
        self
    }
}

/// An object whose members are read by name.
#[derive(Clone, Copy)]
pub(super) struct Object<'v>(&'v Map<String, Value>);

impl<'v> Object<'v> {
    pub(super) fn of(value: &'v Value) -> Read<Self> {
        value.as_object().map_or_else(|| refuse("is no object"), |members| Ok(Self(members)))
    }

    /// `null` counts as absent.
    pub(super) fn get(self, name: &str) -> Option<&'v Value> {
        self.found(name).filter(|value| !value.is_null())
    }

    /// Whether the member exists, even as `null`.
    pub(super) fn has(self, name: &str) -> bool {
        self.found(name).is_some()
    }

    /// Also finds the spelling of the protobuf definition: `task_id` for `taskId`.
    fn found(self, name: &str) -> Option<&'v Value> {
        self.0.get(name).or_else(|| self.0.get(&snake(name)?))
    }

    pub(super) fn maybe<T>(self, name: &str, read: impl FnOnce(&'v Value) -> Read<T>) -> Read<Option<T>> {
        self.get(name).map(read).transpose().map_err(|error| error.below(name))
    }

    pub(super) fn need<T>(self, name: &str, read: impl FnOnce(&'v Value) -> Read<T>) -> Read<T> {
        match self.maybe(name, read)? {
            Some(read) => Ok(read),
            None => Err(Unreadable { pointer: format!("/{name}"), detail: "is missing".to_owned() }),
        }
    }

    pub(super) fn list<T>(self, name: &str, read: impl Fn(&'v Value) -> Read<T>) -> Read<Vec<T>> {
        let listed = self.maybe(name, |value| list(value, read))?;
        Ok(listed.unwrap_or_default())
    }

    /// A text that must not be empty.
    pub(super) fn name(self, name: &str) -> Read<String> {
        self.need(name, |value| match text(value)? {
            empty if empty.is_empty() => refuse("is empty"),
            text => Ok(text),
        })
    }

    /// A text; an empty one counts as absent.
    pub(super) fn word(self, name: &str) -> Read<Option<String>> {
        Ok(self.maybe(name, text)?.filter(|text| !text.is_empty()))
    }

    /// A text that is empty when absent.
    pub(super) fn text(self, name: &str) -> Read<String> {
        Ok(self.maybe(name, text)?.unwrap_or_default())
    }

    pub(super) fn texts(self, name: &str) -> Read<Vec<String>> {
        self.list(name, text)
    }

    pub(super) fn flag(self, name: &str) -> Read<bool> {
        Ok(self.maybe(name, flag)?.unwrap_or(false))
    }

    pub(super) fn map(self, name: &str) -> Read<Metadata> {
        let map = self.maybe(name, |value| value.as_object().map_or_else(|| refuse("is no object"), Ok))?;
        Ok(map.cloned().unwrap_or_default())
    }
}

/// `None`: both spellings are equal.
fn snake(name: &str) -> Option<String> {
    let is_upper = |it: char| it.is_ascii_uppercase();
    name.contains(is_upper).then(|| {
        let parts =
            name.chars().map(|it| if is_upper(it) { format!("_{}", it.to_ascii_lowercase()) } else { it.to_string() });
        parts.collect()
    })
}

pub(super) fn list<'v, T>(value: &'v Value, read: impl Fn(&'v Value) -> Read<T>) -> Read<Vec<T>> {
    let Some(values) = value.as_array() else {
        return refuse("is no list");
    };
    values.iter().enumerate().map(|(at, value)| read(value).map_err(|error| error.below(at))).collect()
}

pub(super) fn text(value: &Value) -> Read<String> {
    value.as_str().map_or_else(|| refuse("is no text"), |text| Ok(text.to_owned()))
}

/// A text is accepted, too, as in query strings.
pub(super) fn flag(value: &Value) -> Read<bool> {
    match (value.as_bool(), value.as_str()) {
        (Some(flag), _) => Ok(flag),
        (None, Some("true")) => Ok(true),
        (None, Some("false")) => Ok(false),
        (None, Some(_) | None) => refuse("is neither true nor false"),
    }
}

/// A number from 0; a text is accepted, too, as in query strings.
pub(super) fn count(value: &Value) -> Read<u32> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    number.and_then(|it| i32::try_from(it).ok()?.try_into().ok()).map_or_else(|| refuse("is no number from 0"), Ok)
}

pub(super) fn bytes(value: &Value) -> Read<Bytes> {
    let text = text(value)?;
    // Either alphabet, with or without padding.
    let plain = text.trim_end_matches('=').replace('-', "+").replace('_', "/");
    STANDARD_NO_PAD.decode(plain).map(Bytes::from).or_else(|_| refuse("is no base64"))
}

pub(super) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// A time without a zone is taken as UTC.
pub(super) fn time(value: &Value) -> Read<Millis> {
    let text = text(value)?;
    let zoned = text.parse::<jiff::Timestamp>();
    let plain = || text.parse::<jiff::civil::DateTime>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok();
    let read = zoned.ok().or_else(|| Some(plain()?.timestamp()));
    read.map_or_else(|| refuse("is no time such as 2026-01-31T12:00:00.000Z"), |time| Ok(time.as_millisecond()))
}

pub(super) fn timestamp(at: Millis) -> String {
    format!("{:.3}", jiff::Timestamp::from_millisecond(at).unwrap_or_default())
}

/// A document under construction. Absent and empty values are omitted, except with `put`.
#[derive(Default)]
pub(super) struct Doc(Map<String, Value>);

impl Doc {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn put(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    pub(super) fn maybe(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.put(name, value),
            None => self,
        }
    }

    pub(super) fn flag(self, name: &str, flag: bool) -> Self {
        self.maybe(name, flag.then_some(true))
    }

    pub(super) fn list<V: Into<Value>>(self, name: &str, values: impl IntoIterator<Item = V>) -> Self {
        let values: Vec<Value> = values.into_iter().map(Into::into).collect();
        self.maybe(name, (!values.is_empty()).then_some(values))
    }

    pub(super) fn texts(self, name: &str, texts: &[String]) -> Self {
        self.list(name, texts.iter().map(String::as_str))
    }

    pub(super) fn map(self, name: &str, map: &Metadata) -> Self {
        self.maybe(name, (!map.is_empty()).then(|| map.clone()))
    }

    pub(super) fn done(self) -> Value {
        Value::Object(self.0)
    }
}
