//! What a run says while it says it: its answer, and what its models think. Tokens bring either earlier; the same whole text
//! comes of it without them.

use std::collections::{HashMap, HashSet};

use crate::domain::answer_text::AnswerText;
use crate::domain::frame::Token;
use crate::domain::ids::StreamId;

/// A piece of what is said; answers and thoughts are told apart by their ids, which may be the same.
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
    heard: u64,
    text: AnswerText,
}

impl Speech {
    /// After a piece that was lost, the rest waits for the whole.
    pub(super) fn speaks(&mut self, token: &Token) -> Vec<Spoken> {
        let mut spoken = Vec::new();
        if token.offset == 0 {
            spoken = self.ends_answer();
            self.answer = Some(Answer { stream: token.stream_id.clone(), heard: 0, text: AnswerText::default() });
        }
        let Some(answer) = &mut self.answer else { return spoken };
        if answer.stream != token.stream_id || answer.heard != token.offset {
            return spoken;
        }
        answer.heard += token.data.len() as u64;
        let is_first = answer.text.sent().is_empty();
        let delta = answer.text.push(&token.data);
        if !delta.is_empty() {
            let id = answer.stream.to_string();
            spoken.extend(is_first.then(|| Spoken::AnswerStart { id: id.clone() }));
            spoken.push(Spoken::Answer { id, delta });
        }
        spoken
    }

    /// What the tokens have not said of the answer; all of it, as a part of its own, if they said something else.
    pub(super) fn answers(&mut self, id: &str, whole: &str) -> Vec<Spoken> {
        let started = self.answer.as_ref().filter(|answer| !answer.text.sent().is_empty());
        let rest = started.and_then(|answer| answer.text.rest_of(whole)).map(str::to_owned);
        let mut spoken = Vec::new();
        match (rest, &self.answer) {
            (Some(rest), Some(answer)) if !rest.is_empty() => {
                spoken.push(Spoken::Answer { id: answer.stream.to_string(), delta: rest });
                spoken.extend(self.ends_answer());
            }
            (Some(_), _) => spoken.extend(self.ends_answer()),
            (None, _) => {
                spoken.extend(self.ends_answer());
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
        let ended = self.answer.take().filter(|answer| !answer.text.sent().is_empty());
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
