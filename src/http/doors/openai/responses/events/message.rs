//! The answer: a message whose text is sent in pieces.

use serde::Serialize;
use serde_json::{Value, json};

use super::{ResponseEvents, merged};
use crate::domain::answer_text::AnswerText;
use crate::domain::facts::FinalResponseBody;
use crate::domain::frame::{Token, TokenType};
use crate::domain::ids::StreamId;
use crate::domain::model::FailureKind;
use crate::http::doors::openai::responses::words::WordSplitter;
use crate::http::doors::openai::sources::{self, Citation};
use crate::http::doors::run_stream::Projection;

/// Each failed attempt at the answer moves the sequence numbers to the next multiple of this, because a later read
/// cannot know how much of the attempt was sent.
const NUMBERS_PER_ATTEMPT: u64 = 1_000_000;

/// The answer while it is written.
pub(super) struct OpenMessage {
    stream: Option<StreamId>,
    /// How many bytes arrived as tokens.
    received: u64,
    text: AnswerText,
    words: WordSplitter,
    id: String,
    /// The sources of the answer.
    sources: Vec<Citation>,
}

/// Serialized for each word.
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
            received: 0,
            text: AnswerText::default(),
            words: WordSplitter::default(),
            id: String::new(),
            sources: Vec::new(),
        }
    }
}

impl ResponseEvents {
    /// Handles a token of the answer. If a token was lost, the rest is sent when the whole answer is known. A reader that
    /// subscribed during an attempt may receive its tokens after its end, which it has read from the log.
    pub(super) fn token(&mut self, token: &Token) {
        let is_of_answer = token.token_type == TokenType::SynthesisResponse && token.run_id == self.head.run;
        if !is_of_answer || self.is_finished() || !self.is_answer_stream(&token.stream_id) {
            return;
        }
        if token.offset == 0 && self.message.is_none() {
            // The message is opened with its first word, so whitespace alone does not open one.
            self.message = Some(OpenMessage::new(Some(token.stream_id.clone())));
        }
        let Some(message) = &mut self.message else { return };
        if message.stream.as_ref() != Some(&token.stream_id) || message.received != token.offset {
            return;
        }
        message.received += token.data.len() as u64;
        let next = message.text.push(&token.data);
        let pieces = message.words.push(&next);
        self.deltas(pieces);
    }

    /// Handles the whole text of a stream, of which tokens may have brought a part.
    pub(super) fn whole_text(&mut self, text: &str) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let message = self.message.get_or_insert_with(|| OpenMessage::new(None));
        let rest = message.text.rest_of(text).unwrap_or_default().to_owned();
        // Whitespace that was held back is part of the rest.
        message.text = AnswerText::default();
        message.text.push(text);
        let mut pieces = message.words.push(&rest);
        pieces.extend(message.words.rest());
        self.deltas(pieces);
    }

    /// Handles the failure of an attempt. A later read cannot know what was shown of it, so it always ends as an empty
    /// message.
    pub(super) fn attempt_failed(&mut self, failure: FailureKind) {
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
        self.number = (self.number / NUMBERS_PER_ATTEMPT + 1) * NUMBERS_PER_ATTEMPT;
    }

    pub(super) fn final_response(&mut self, body: &FinalResponseBody) {
        if body.message.is_error() {
            return self.close("incomplete");
        }
        let whole = body.message.content.as_str().unwrap_or_default();
        if self.message.as_ref().is_some_and(|message| message.text.rest_of(whole).is_none()) {
            self.close("incomplete");
        }
        if !whole.is_empty() {
            self.whole_text(whole);
        }
        if let Some(message) = &mut self.message {
            message.sources = sources::of(body);
        }
        self.close("completed");
    }

    /// Sends pieces of the answer. The first one opens the message.
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
            self.emit("response.output_text.delta", members);
        }
    }

    fn open_message(&mut self) {
        let id = self.item_added(
            "msg",
            |id| json!({ "type": "message", "id": id, "role": "assistant", "status": "in_progress", "content": [] }),
        );
        let index = self.state.index();
        self.emit(
            "response.content_part.added",
            json!({ "item_id": id, "output_index": index, "content_index": 0, "part": text_part("", &[]) }),
        );
        if let Some(message) = &mut self.message {
            message.id = id;
        }
    }

    /// Ends the open message.
    pub(super) fn close(&mut self, status: &str) {
        let Some(message) = &mut self.message else { return };
        let rest: Vec<String> = message.words.rest().into_iter().collect();
        self.deltas(rest);
        let Some(message) = self.message.take().filter(|message| !message.id.is_empty()) else { return };
        let text = message.text.sent();
        let (id, index) = (self.state.last_id(), self.state.index());
        let place = json!({ "item_id": id, "output_index": index, "content_index": 0 });
        for (at, source) in message.sources.iter().enumerate() {
            let annotation = json!({ "annotation_index": at, "annotation": source.flat() });
            self.emit("response.output_text.annotation.added", merged(&place, annotation));
        }
        let part = text_part(text, &message.sources);
        self.emit("response.output_text.done", merged(&place, json!({ "text": text, "logprobs": [] })));
        self.emit("response.content_part.done", merged(&place, json!({ "part": part })));
        self.item_done(json!({
            "type": "message", "id": id, "role": "assistant", "status": status, "content": [part],
        }));
    }
}

fn text_part(text: &str, sources: &[Citation]) -> Value {
    let annotations: Vec<Value> = sources.iter().map(Citation::flat).collect();
    json!({ "type": "output_text", "text": text, "annotations": annotations, "logprobs": [] })
}
