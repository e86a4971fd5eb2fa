//! The answer: a message whose text comes in pieces.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{ResponseEvents, merged};
use crate::domain::answer_text::AnswerText;
use crate::domain::facts::FinalResponseBody;
use crate::domain::frame::{Token, TokenType};
use crate::domain::ids::StreamId;
use crate::domain::message::ConversationMessage;
use crate::domain::model::FailureKind;
use crate::http::doors::openai::responses::words::Words;
use crate::http::doors::openai::sources::{self, Citation};

/// Where numbers go on after an attempt at the answer that failed: how much of it was shown is not known later.
const AFTER_A_FAILURE: u64 = 1_000_000;

/// The answer while it is written.
pub(super) struct OpenMessage {
    stream: Option<StreamId>,
    /// How many bytes of it came as tokens.
    heard: u64,
    text: AnswerText,
    words: Words,
    id: String,
    /// What it rests on.
    sources: Vec<Citation>,
}

/// Written for each word.
#[derive(Serialize)]
struct TextDelta<'a> {
    item_id: &'a str,
    output_index: usize,
    content_index: u32,
    delta: &'a str,
    logprobs: [(); 0],
}

impl OpenMessage {
    fn new(stream: Option<StreamId>) -> Self {
        Self {
            stream,
            heard: 0,
            text: AnswerText::default(),
            words: Words::default(),
            id: String::new(),
            sources: Vec::new(),
        }
    }
}

impl ResponseEvents {
    /// A piece of the answer. After one that was lost, the rest waits for the whole.
    pub(in super::super) fn token(&mut self, token: &Token) {
        let is_of_answer = token.token_type == TokenType::SynthesisResponse && token.run_id == self.head.run;
        if !is_of_answer || self.is_over() || !self.writing.contains(&token.stream_id) {
            return;
        }
        if token.offset == 0 && self.message.is_none() {
            // Opened with its first word, so that blanks alone open nothing.
            self.message = Some(OpenMessage::new(Some(token.stream_id.clone())));
        }
        let Some(message) = &mut self.message else { return };
        if message.stream.as_ref() != Some(&token.stream_id) || message.heard != token.offset {
            return;
        }
        message.heard += token.data.len() as u64;
        let next = message.text.push(&token.data);
        let pieces = message.words.push(&next);
        self.deltas(pieces);
    }

    /// The whole text of a stream, of which tokens may have brought some.
    pub(super) fn written(&mut self, text: &str) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let message = self.message.get_or_insert_with(|| OpenMessage::new(None));
        let rest = message.text.rest_of(text).unwrap_or_default().to_owned();
        // Blanks that are held back are part of the rest.
        message.text = AnswerText::default();
        message.text.push(text);
        let mut pieces = message.words.push(&rest);
        pieces.extend(message.words.rest());
        self.deltas(pieces);
    }

    /// What was shown of a failed attempt is not known later, so what is told of it is always the same: that it was nothing.
    pub(super) fn broke_off(&mut self, failure: FailureKind) {
        if !failure.was_sent() {
            return;
        }
        let has_words = self.message.as_ref().is_some_and(|message| !message.id.is_empty());
        if !has_words {
            self.message = None;
            self.open_message();
        }
        self.message = None;
        let id = self.state.last_id();
        self.item_done(json!({
            "type": "message", "id": id, "role": "assistant", "status": "incomplete", "content": [],
        }));
        self.number = (self.number / AFTER_A_FAILURE + 1) * AFTER_A_FAILURE;
    }

    pub(super) fn answered(&mut self, body: &FinalResponseBody) {
        let is_error = |metadata: &Map<String, Value>| metadata.contains_key(ConversationMessage::ERROR);
        if body.message.metadata.as_ref().is_some_and(is_error) {
            return self.close("incomplete");
        }
        let whole = body.message.content.as_str().unwrap_or_default();
        if self.message.as_ref().is_some_and(|message| message.text.rest_of(whole).is_none()) {
            self.close("incomplete");
        }
        if !whole.is_empty() {
            self.written(whole);
        }
        if let Some(message) = &mut self.message {
            message.sources = sources::of(body);
        }
        self.close("completed");
    }

    /// The pieces of the answer, which begins with the first of them.
    fn deltas(&mut self, pieces: Vec<String>) {
        if pieces.is_empty() {
            return;
        }
        if self.message.as_ref().is_some_and(|message| message.id.is_empty()) {
            self.open_message();
        }
        let (item_id, output_index) = (self.state.last_id(), self.state.index());
        for delta in &pieces {
            let members = TextDelta { item_id: &item_id, output_index, content_index: 0, delta, logprobs: [] };
            self.say("response.output_text.delta", members);
        }
    }

    fn open_message(&mut self) {
        let id = self.item_added(
            "msg",
            |id| json!({ "type": "message", "id": id, "role": "assistant", "status": "in_progress", "content": [] }),
        );
        let index = self.state.index();
        self.say(
            "response.content_part.added",
            json!({ "item_id": id, "output_index": index, "content_index": 0, "part": text_part("", &[]) }),
        );
        if let Some(message) = &mut self.message {
            message.id = id;
        }
    }

    /// Ends the message that is open.
    pub(super) fn close(&mut self, status: &str) {
        let Some(mut message) = self.message.take() else { return };
        let rest: Vec<String> = message.words.rest().into_iter().collect();
        let text = message.text.sent().to_owned();
        self.message = Some(message);
        self.deltas(rest);
        let Some(message) = self.message.take().filter(|message| !message.id.is_empty()) else { return };
        let (id, index) = (self.state.last_id(), self.state.index());
        let place = json!({ "item_id": id, "output_index": index, "content_index": 0 });
        for (at, source) in message.sources.iter().enumerate() {
            let annotation = json!({ "annotation_index": at, "annotation": source.flat() });
            self.say("response.output_text.annotation.added", merged(&place, annotation));
        }
        let part = text_part(&text, &message.sources);
        self.say("response.output_text.done", merged(&place, json!({ "text": text, "logprobs": [] })));
        self.say("response.content_part.done", merged(&place, json!({ "part": part })));
        self.item_done(json!({
            "type": "message", "id": id, "role": "assistant", "status": status, "content": [part],
        }));
    }
}

fn text_part(text: &str, sources: &[Citation]) -> Value {
    let annotations: Vec<Value> = sources.iter().map(Citation::flat).collect();
    json!({ "type": "output_text", "text": text, "annotations": annotations, "logprobs": [] })
}
