//! A span of OpenTelemetry. Only ended spans are exported.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

use crate::domain::{Millis, hex};

/// About how large a span is without its attributes: ids, times, its name.
const FIXED_BYTES: usize = 96;

/// The id of a span within its trace. The ids of a run's spans are derived, so that a span that is sent again has the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SpanId(pub(super) [u8; 8]);

impl SpanId {
    /// The id that belongs to this key. The run's outgoing calls name the same span in their `traceparent`.
    pub(super) fn derived(trace_id: &str, key: &str) -> Self {
        let digest = Sha256::new().chain_update(trace_id).chain_update(key).finalize();
        Self(std::array::from_fn(|at| digest[at]))
    }

    pub(super) fn random() -> Self {
        let random = uuid::Uuid::new_v4().into_bytes();
        Self(std::array::from_fn(|at| random[at]))
    }

    /// Parses sixteen hex digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        hex::read(text)?.try_into().ok().map(Self)
    }
}

impl std::fmt::Display for SpanId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpanKind {
    Internal,
    /// It answers a request from outside.
    Server,
    /// It waits for another service.
    Client,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Attribute {
    Text(Cow<'static, str>),
    Integer(i64),
    Float(f64),
    TextList(Vec<String>),
}

impl Attribute {
    fn bytes(&self) -> usize {
        match self {
            Attribute::Text(text) => text.len(),
            Attribute::TextList(texts) => texts.iter().map(String::len).sum(),
            Attribute::Integer(_) | Attribute::Float(_) => size_of::<i64>(),
        }
    }
}

impl From<&'static str> for Attribute {
    fn from(text: &'static str) -> Self {
        Attribute::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Attribute {
    fn from(text: String) -> Self {
        Attribute::Text(Cow::Owned(text))
    }
}

impl From<i64> for Attribute {
    fn from(number: i64) -> Self {
        Attribute::Integer(number)
    }
}

impl From<u64> for Attribute {
    fn from(number: u64) -> Self {
        Attribute::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Attribute {
    fn from(number: u32) -> Self {
        Attribute::Integer(number.into())
    }
}

impl From<f64> for Attribute {
    fn from(number: f64) -> Self {
        Attribute::Float(number)
    }
}

pub(super) type Attributes = Vec<(Cow<'static, str>, Attribute)>;

/// The capacity for attributes; most spans have no more.
const ATTRIBUTE_CAPACITY: usize = 12;

/// An event at one moment of a span.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SpanEvent {
    pub(super) name: &'static str,
    pub(super) at: Millis,
    pub(super) attributes: Attributes,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) id: SpanId,
    pub(super) parent: Option<SpanId>,
    pub(super) name: Cow<'static, str>,
    pub(super) kind: SpanKind,
    pub(super) start: Millis,
    pub(super) end: Millis,
    pub(super) attributes: Attributes,
    pub(super) events: Vec<SpanEvent>,
    /// The span of the same trace that this one continues.
    pub(super) link: Option<SpanId>,
    /// The description of the failure, if it failed.
    pub(super) failure: Option<String>,
}

impl Span {
    /// A span that starts and ends at `at`; the end is set later.
    pub(super) fn new(id: SpanId, name: impl Into<Cow<'static, str>>, kind: SpanKind, at: Millis) -> Self {
        Self {
            id,
            parent: None,
            name: name.into(),
            kind,
            start: at,
            end: at,
            attributes: Vec::with_capacity(ATTRIBUTE_CAPACITY),
            events: Vec::new(),
            link: None,
            failure: None,
        }
    }

    pub(super) fn set(&mut self, name: &'static str, value: impl Into<Attribute>) {
        self.attributes.push((Cow::Borrowed(name), value.into()));
    }

    pub(super) fn set_some(&mut self, name: &'static str, value: Option<impl Into<Attribute>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// About how large it is when exported.
    pub(super) fn bytes(&self) -> usize {
        let all = self.events.iter().flat_map(|event| &event.attributes).chain(&self.attributes);
        let texts: usize = all.map(|(name, value)| name.len() + value.bytes()).sum();
        FIXED_BYTES + texts + self.failure.as_ref().map_or(0, String::len)
    }

    /// Marks it as failed, with a code for statistics and a description.
    pub(super) fn fail(&mut self, code: &str, message: &str) {
        self.set(super::names::ERROR, code.to_owned());
        self.failure = Some(message.to_owned());
    }
}
