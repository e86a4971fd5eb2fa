//! What a run says while it says it: its answer, and what its models think. Tokens bring either earlier; the same whole text
//! comes of it without them.

use std::collections::{HashMap, HashSet};

use crate::domain::answer_text::AnswerText;
use crate::domain::frame::Token;
use crate::domain::ids::StreamId;

/// A piece of what is said. An answer and the thoughts of one stream have the same id; the variant says which of the two a
/// piece belongs to, so a wire with one space of ids must rename one of them (AG-UI: `thoughts-...`).
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Spoken {
    AnswerStart { id: String },
    Answer { id: String, delta: String },
    AnswerEnd { id: String },
    ThoughtStart { id: String },
    Thought { id: String, delta: String },
    ThoughtEnd { id: String },
}

#[derive(Clone, Debug, Default)]
pub(super) struct Speech {
    answer: Option<Answer>,
    /// Of the thoughts that are told as they come, how many bytes were.
    thinking: HashMap<StreamId, u64>,
    /// The streams whose thoughts were told whole.
    thought: HashSet<StreamId>,
}

/// The stream that the answer is told from.
#[derive(Clone, Debug)]
struct Answer {
    stream: StreamId,
    /// Of what the stream says, in bytes; `None`: another stream of events heard it.
    heard: Option<u64>,
    text: Shown,
    is_open: bool,
}

/// What of the answer was told.
#[derive(Clone, Debug)]
enum Shown {
    Here(AnswerText),
    Elsewhere(TextMark),
}

impl Shown {
    fn rest_of<'w>(&self, whole: &'w str) -> Option<&'w str> {
        match self {
            Shown::Here(text) => text.rest_of(whole),
            Shown::Elsewhere(mark) => mark.rest_of(whole),
        }
    }
}

/// The beginning of a text, known again without the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextMark {
    pub(super) bytes: usize,
    pub(super) digest: u64,
}

impl Default for TextMark {
    fn default() -> Self {
        Self { bytes: 0, digest: 0xcbf2_9ce4_8422_2325 }
    }
}

impl TextMark {
    /// Adds the next piece: FNV-1a, which goes on from piece to piece.
    pub(super) fn add(&mut self, piece: &str) {
        self.bytes += piece.len();
        for byte in piece.bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// What follows it in this text; `None`: the text begins otherwise.
    fn rest_of<'w>(&self, whole: &'w str) -> Option<&'w str> {
        let mut mark = Self::default();
        mark.add(whole.get(..self.bytes)?);
        (mark == *self).then(|| &whole[self.bytes..])
    }
}

impl Speech {
    /// After a piece that was lost, the rest waits for the whole.
    pub(super) fn speaks(&mut self, token: &Token) -> Vec<Spoken> {
        let mut spoken = Vec::new();
        if token.offset == 0 {
            spoken = self.ends_answer();
            let (stream, text) = (token.stream_id.clone(), Shown::Here(AnswerText::default()));
            self.answer = Some(Answer { stream, heard: Some(0), text, is_open: false });
        }
        let Some(answer) = &mut self.answer else { return spoken };
        let Shown::Here(text) = &mut answer.text else { return spoken };
        if answer.stream != token.stream_id || answer.heard != Some(token.offset) {
            return spoken;
        }
        answer.heard = Some(token.offset + token.data.len() as u64);
        let delta = text.push(&token.data);
        if !delta.is_empty() {
            let id = answer.stream.to_string();
            let is_first = !std::mem::replace(&mut answer.is_open, true);
            spoken.extend(is_first.then(|| Spoken::AnswerStart { id: id.clone() }));
            spoken.push(Spoken::Answer { id, delta });
        }
        spoken
    }

    /// The answer and the thoughts of these streams were told so far by another stream of events.
    pub(super) fn take_up(&mut self, answer: Option<(StreamId, TextMark)>, thoughts: Vec<(StreamId, u64)>) {
        let taken = |(stream, mark)| Answer { stream, heard: None, text: Shown::Elsewhere(mark), is_open: true };
        self.answer = answer.map(taken);
        self.thinking = thoughts.into_iter().collect();
    }

    /// What the tokens have not said of the answer; all of it, as a part of its own, if they said something else.
    /// `id` is that of the stream which says it, where there is one, and `other` of a part besides.
    pub(super) fn answers(&mut self, id: &str, other: &str, whole: &str) -> Vec<Spoken> {
        let started = self.answer.as_ref().filter(|answer| answer.is_open);
        let rest = started.and_then(|answer| answer.text.rest_of(whole)).map(str::to_owned);
        let mut spoken = Vec::new();
        match (rest, &self.answer) {
            (Some(rest), Some(answer)) if !rest.is_empty() => {
                spoken.push(Spoken::Answer { id: answer.stream.to_string(), delta: rest });
                spoken.extend(self.ends_answer());
            }
            (Some(_), _) => spoken.extend(self.ends_answer()),
            (None, _) => {
                let ended = self.ends_answer();
                let id = if ended.is_empty() { id } else { other };
                spoken.extend(ended);
                spoken.extend(text(id, whole));
            }
        }
        spoken
    }

    /// The attempt is over: what it said of the answer stays, and another begins a part of its own.
    pub(super) fn breaks_off(&mut self, stream: &StreamId) -> Vec<Spoken> {
        let mut spoken = self.stops_thinking(stream);
        if self.answer.as_ref().is_some_and(|answer| answer.stream == *stream) {
            spoken.extend(self.ends_answer());
        }
        spoken
    }

    pub(super) fn thinks(&mut self, token: &Token) -> Vec<Spoken> {
        let stream = &token.stream_id;
        if self.thought.contains(stream) {
            return Vec::new();
        }
        let heard = self.thinking.get(stream).copied();
        if heard.unwrap_or(0) != token.offset || token.data.is_empty() {
            return Vec::new();
        }
        self.thinking.insert(stream.clone(), token.offset + token.data.len() as u64);
        let id = stream.to_string();
        let mut spoken: Vec<Spoken> =
            heard.is_none().then(|| Spoken::ThoughtStart { id: id.clone() }).into_iter().collect();
        spoken.push(Spoken::Thought { id, delta: token.data.clone() });
        spoken
    }

    /// What of the thoughts was not told as they came.
    pub(super) fn thoughts(&mut self, stream: &StreamId, whole: &str) -> Vec<Spoken> {
        if whole.is_empty() || !self.thought.insert(stream.clone()) {
            return Vec::new();
        }
        let id = stream.to_string();
        let heard = self.thinking.remove(stream);
        let mut spoken: Vec<Spoken> =
            heard.is_none().then(|| Spoken::ThoughtStart { id: id.clone() }).into_iter().collect();
        let heard = usize::try_from(heard.unwrap_or(0)).unwrap_or(usize::MAX);
        let rest = whole.get(heard..).unwrap_or_default();
        if !rest.is_empty() {
            spoken.push(Spoken::Thought { id: id.clone(), delta: rest.to_owned() });
        }
        spoken.push(Spoken::ThoughtEnd { id });
        spoken
    }

    /// Nothing stays open behind what is told.
    pub(super) fn ends(&mut self) -> Vec<Spoken> {
        let mut streams: Vec<StreamId> = self.thinking.keys().cloned().collect();
        streams.sort_unstable();
        let mut spoken: Vec<Spoken> = streams.iter().flat_map(|stream| self.stops_thinking(stream)).collect();
        spoken.extend(self.ends_answer());
        spoken
    }

    fn stops_thinking(&mut self, stream: &StreamId) -> Vec<Spoken> {
        let was_open = self.thinking.remove(stream).is_some();
        self.thought.insert(stream.clone());
        was_open.then(|| Spoken::ThoughtEnd { id: stream.to_string() }).into_iter().collect()
    }

    fn ends_answer(&mut self) -> Vec<Spoken> {
        let ended = self.answer.take().filter(|answer| answer.is_open);
        ended.map(|answer| Spoken::AnswerEnd { id: answer.stream.to_string() }).into_iter().collect()
    }
}

fn text(id: &str, whole: &str) -> Vec<Spoken> {
    if whole.is_empty() {
        return Vec::new();
    }
    let id = id.to_owned();
    vec![
        Spoken::AnswerStart { id: id.clone() },
        Spoken::Answer { id: id.clone(), delta: whole.to_owned() },
        Spoken::AnswerEnd { id },
    ]
}
