//! Events of the texts that a run produces while they are written: its answer, and the thoughts of its models. Tokens
//! only bring the text earlier: without tokens the observations produce the same whole text.

use std::collections::{HashMap, HashSet};

use crate::domain::answer_text::AnswerText;
use crate::domain::frame::Token;
use crate::domain::ids::StreamId;

/// An event of a text. The answer and the thoughts of one stream have the same id, and the variant says which of the
/// two is meant. A wire format with one id space must rename one of them (AG-UI: `thoughts-...`).
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TextEvent {
    AnswerStart { id: String },
    AnswerDelta { id: String, delta: String },
    AnswerEnd { id: String },
    ThoughtStart { id: String },
    ThoughtDelta { id: String, delta: String },
    ThoughtEnd { id: String },
}

#[derive(Clone, Debug, Default)]
pub(super) struct TextEmitter {
    answer: Option<AnswerState>,
    /// For each stream whose thoughts are being sent: how many bytes were sent.
    open_thoughts: HashMap<StreamId, u64>,
    /// The streams whose thoughts were sent completely.
    sent_thoughts: HashSet<StreamId>,
}

/// The stream from which the answer is sent.
#[derive(Clone, Debug)]
struct AnswerState {
    stream: StreamId,
    /// How many bytes of the stream were received. `None` if an earlier connection received them.
    received: Option<u64>,
    text: SentAnswer,
    is_open: bool,
}

/// The part of the answer that was sent.
#[derive(Clone, Debug)]
enum SentAnswer {
    ThisStream(AnswerText),
    EarlierStream(PrefixDigest),
}

impl SentAnswer {
    fn rest_of<'w>(&self, whole: &'w str) -> Option<&'w str> {
        match self {
            SentAnswer::ThisStream(text) => text.rest_of(whole),
            SentAnswer::EarlierStream(mark) => mark.rest_of(whole),
        }
    }
}

/// Length and digest of the beginning of a text, to recognise it without storing the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PrefixDigest {
    pub(super) bytes: usize,
    pub(super) digest: u64,
}

impl Default for PrefixDigest {
    fn default() -> Self {
        Self { bytes: 0, digest: 0xcbf2_9ce4_8422_2325 }
    }
}

impl PrefixDigest {
    /// Adds the next piece. The digest is FNV-1a, which can be continued piece by piece.
    pub(super) fn add(&mut self, piece: &str) {
        self.bytes += piece.len();
        for byte in piece.bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// The rest of this text after the known beginning. `None` if the text begins differently.
    fn rest_of<'w>(&self, whole: &'w str) -> Option<&'w str> {
        let mut mark = Self::default();
        mark.add(whole.get(..self.bytes)?);
        (mark == *self).then(|| &whole[self.bytes..])
    }
}

impl TextEmitter {
    /// Handles a token of the answer. If a token was lost, the rest is sent when the whole answer is known.
    pub(super) fn answer_token(&mut self, token: &Token) -> Vec<TextEvent> {
        let mut events = Vec::new();
        if token.offset == 0 {
            events = self.end_answer();
            let (stream, text) = (token.stream_id.clone(), SentAnswer::ThisStream(AnswerText::default()));
            self.answer = Some(AnswerState { stream, received: Some(0), text, is_open: false });
        }
        let Some(answer) = &mut self.answer else { return events };
        let SentAnswer::ThisStream(text) = &mut answer.text else { return events };
        if answer.stream != token.stream_id || answer.received != Some(token.offset) {
            return events;
        }
        answer.received = Some(token.offset + token.data.len() as u64);
        let delta = text.push(&token.data);
        if !delta.is_empty() {
            let id = answer.stream.to_string();
            let is_first = !std::mem::replace(&mut answer.is_open, true);
            events.extend(is_first.then(|| TextEvent::AnswerStart { id: id.clone() }));
            events.push(TextEvent::AnswerDelta { id, delta });
        }
        events
    }

    /// Continues texts that an earlier connection has sent up to here.
    pub(super) fn resume(&mut self, answer: Option<(StreamId, PrefixDigest)>, thoughts: Vec<(StreamId, u64)>) {
        let resumed = |(stream, mark)| AnswerState {
            stream,
            received: None,
            text: SentAnswer::EarlierStream(mark),
            is_open: true,
        };
        self.answer = answer.map(resumed);
        self.open_thoughts = thoughts.into_iter().collect();
    }

    /// Sends what the tokens did not bring of the answer. If they brought a different text, sends the whole answer as a
    /// new part. `id` is the id of the stream that wrote the answer, if one did; `other` is the id to use if a part of
    /// that id was already sent.
    pub(super) fn finish_answer(&mut self, id: &str, other: &str, whole: &str) -> Vec<TextEvent> {
        let started = self.answer.as_ref().filter(|answer| answer.is_open);
        let rest = started.and_then(|answer| answer.text.rest_of(whole)).map(str::to_owned);
        let mut events = Vec::new();
        match (rest, &self.answer) {
            (Some(rest), Some(answer)) if !rest.is_empty() => {
                events.push(TextEvent::AnswerDelta { id: answer.stream.to_string(), delta: rest });
                events.extend(self.end_answer());
            }
            (Some(_), _) => events.extend(self.end_answer()),
            (None, _) => {
                let ended = self.end_answer();
                let id = if ended.is_empty() { id } else { other };
                events.extend(ended);
                events.extend(whole_answer(id, whole));
            }
        }
        events
    }

    /// Handles the failure of an attempt. The text that it sent stays, and the next attempt begins a new part.
    pub(super) fn fail_attempt(&mut self, stream: &StreamId) -> Vec<TextEvent> {
        let mut events = self.end_thoughts(stream);
        if self.answer.as_ref().is_some_and(|answer| answer.stream == *stream) {
            events.extend(self.end_answer());
        }
        events
    }

    pub(super) fn thought_token(&mut self, token: &Token) -> Vec<TextEvent> {
        let stream = &token.stream_id;
        if self.sent_thoughts.contains(stream) {
            return Vec::new();
        }
        let received = self.open_thoughts.get(stream).copied();
        if received.unwrap_or(0) != token.offset || token.data.is_empty() {
            return Vec::new();
        }
        self.open_thoughts.insert(stream.clone(), token.offset + token.data.len() as u64);
        let id = stream.to_string();
        let mut events: Vec<TextEvent> =
            received.is_none().then(|| TextEvent::ThoughtStart { id: id.clone() }).into_iter().collect();
        events.push(TextEvent::ThoughtDelta { id, delta: token.data.clone() });
        events
    }

    /// Sends the rest of the thoughts, which the tokens did not bring.
    pub(super) fn finish_thoughts(&mut self, stream: &StreamId, whole: &str) -> Vec<TextEvent> {
        if whole.is_empty() || !self.sent_thoughts.insert(stream.clone()) {
            return Vec::new();
        }
        let id = stream.to_string();
        let received = self.open_thoughts.remove(stream);
        let mut events: Vec<TextEvent> =
            received.is_none().then(|| TextEvent::ThoughtStart { id: id.clone() }).into_iter().collect();
        let received = usize::try_from(received.unwrap_or(0)).unwrap_or(usize::MAX);
        let rest = whole.get(received..).unwrap_or_default();
        if !rest.is_empty() {
            events.push(TextEvent::ThoughtDelta { id: id.clone(), delta: rest.to_owned() });
        }
        events.push(TextEvent::ThoughtEnd { id });
        events
    }

    /// Ends every text that is still open.
    pub(super) fn end_all(&mut self) -> Vec<TextEvent> {
        let mut streams: Vec<StreamId> = self.open_thoughts.keys().cloned().collect();
        streams.sort_unstable();
        let mut events: Vec<TextEvent> = streams.iter().flat_map(|stream| self.end_thoughts(stream)).collect();
        events.extend(self.end_answer());
        events
    }

    fn end_thoughts(&mut self, stream: &StreamId) -> Vec<TextEvent> {
        let was_open = self.open_thoughts.remove(stream).is_some();
        self.sent_thoughts.insert(stream.clone());
        was_open.then(|| TextEvent::ThoughtEnd { id: stream.to_string() }).into_iter().collect()
    }

    fn end_answer(&mut self) -> Vec<TextEvent> {
        let ended = self.answer.take().filter(|answer| answer.is_open);
        ended.map(|answer| TextEvent::AnswerEnd { id: answer.stream.to_string() }).into_iter().collect()
    }
}

fn whole_answer(id: &str, whole: &str) -> Vec<TextEvent> {
    if whole.is_empty() {
        return Vec::new();
    }
    let id = id.to_owned();
    vec![
        TextEvent::AnswerStart { id: id.clone() },
        TextEvent::AnswerDelta { id: id.clone(), delta: whole.to_owned() },
        TextEvent::AnswerEnd { id },
    ]
}
