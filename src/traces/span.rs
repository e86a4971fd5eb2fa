//! A span, as OpenTelemetry has it, of what is over.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

use crate::domain::Millis;

/// What a span has beside its attributes: ids, times, its name.
const FIXED_BYTES: usize = 96;

/// Its id within its trace: of what a run does it is derived, so that a span that is sent again is the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SpanId(pub(super) [u8; 8]);

impl SpanId {
    /// Of what this key names; the calls that the run makes name the same span in their `traceparent`.
    pub(super) fn of(trace_id: &str, key: &str) -> Self {
        let digest = Sha256::new().chain_update(trace_id).chain_update(key).finalize();
        Self(std::array::from_fn(|at| digest[at]))
    }

    /// Another one than any before.
    pub(super) fn new() -> Self {
        let random = uuid::Uuid::new_v4().into_bytes();
        Self(std::array::from_fn(|at| random[at]))
    }

    /// Sixteen hex digits.
    pub(super) fn read(text: &str) -> Option<Self> {
        u64::from_str_radix(text, 16).ok().filter(|_| text.len() == 16).map(|id| Self(id.to_be_bytes()))
    }
}

impl std::fmt::Display for SpanId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Internal,
    /// It answers somebody outside.
    Server,
    /// It waits for somebody outside.
    Client,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Attribute {
    Text(Cow<'static, str>),
    Whole(i64),
    Number(f64),
    Texts(Vec<String>),
}

impl Attribute {
    fn bytes(&self) -> usize {
        match self {
            Attribute::Text(text) => text.len(),
            Attribute::Texts(texts) => texts.iter().map(String::len).sum(),
            Attribute::Whole(_) | Attribute::Number(_) => size_of::<i64>(),
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
        Attribute::Whole(number)
    }
}

impl From<u64> for Attribute {
    fn from(number: u64) -> Self {
        Attribute::Whole(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Attribute {
    fn from(number: u32) -> Self {
        Attribute::Whole(number.into())
    }
}

impl From<f64> for Attribute {
    fn from(number: f64) -> Self {
        Attribute::Number(number)
    }
}

pub(super) type Attributes = Vec<(Cow<'static, str>, Attribute)>;

/// As many attributes as most spans have.
const MOST: usize = 12;

/// Something that happened at a moment of a span.
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
    pub(super) kind: Kind,
    pub(super) start: Millis,
    pub(super) end: Millis,
    pub(super) attributes: Attributes,
    pub(super) events: Vec<SpanEvent>,
    /// A span of the same trace that it goes on from.
    pub(super) link: Option<SpanId>,
    /// What failed, in words.
    pub(super) failure: Option<String>,
}

impl Span {
    /// One that begins now, and is over as soon as it is.
    pub(super) fn begun(id: SpanId, name: impl Into<Cow<'static, str>>, kind: Kind, at: Millis) -> Self {
        Self {
            id,
            parent: None,
            name: name.into(),
            kind,
            start: at,
            end: at,
            attributes: Vec::with_capacity(MOST),
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

    /// About how large it is, as it is sent.
    pub(super) fn bytes(&self) -> usize {
        let all = self.events.iter().flat_map(|event| &event.attributes).chain(&self.attributes);
        let texts: usize = all.map(|(name, value)| name.len() + value.bytes()).sum();
        FIXED_BYTES + texts + self.failure.as_ref().map_or(0, String::len)
    }

    /// It failed: by a code that may be counted, and in words.
    pub(super) fn fail(&mut self, code: &str, message: &str) {
        self.set(super::names::ERROR, code.to_owned());
        self.failure = Some(message.to_owned());
    }
}
