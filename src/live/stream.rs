//! A stream that is open: its whole text so far, for those who join late and for those who read slowly.

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::StreamHead;
use super::encoded::Encoded;
use crate::domain::frame::{Token, TokenKind, TokenType};

/// What a token frame weighs besides its text, roughly.
pub(super) const ENVELOPE: usize = 512;

#[derive(Debug)]
pub(super) struct OpenStream {
    /// The parts of a token's JSON between its text and its offset, by [`Channel`].
    middle: [Vec<u8>; 2],
    /// What follows the offset.
    tail: Vec<u8>,
    head: StreamHead,
    texts: Mutex<[String; 2]>,
}

/// One of a stream's two texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Channel {
    Response = 0,
    Thinking = 1,
}

impl Channel {
    pub(super) const ALL: [Channel; 2] = [Channel::Thinking, Channel::Response];

    pub(super) fn of(thinking: bool) -> Self {
        if thinking { Channel::Thinking } else { Channel::Response }
    }
}

impl OpenStream {
    pub(super) fn new(head: &StreamHead) -> Self {
        Self {
            middle: [middle(head, Channel::Response), middle(head, Channel::Thinking)],
            tail: tail(head),
            head: head.clone(),
            texts: Mutex::default(),
        }
    }

    /// Appends, and gives the range of the new piece.
    pub(super) fn append(&self, channel: Channel, text: &str) -> Range<usize> {
        let mut texts = self.texts.lock();
        let whole = &mut texts[channel as usize];
        let from = whole.len();
        whole.push_str(text);
        from..whole.len()
    }

    pub(super) fn length(&self, channel: Channel) -> usize {
        self.texts.lock()[channel as usize].len()
    }

    /// The token frame of a range made of whole pieces.
    pub(super) fn encode(self: &Arc<Self>, channel: Channel, range: Range<usize>) -> Encoded {
        let texts = self.texts.lock();
        let text = &texts[channel as usize][range.clone()];
        let said = Said { stream: self.clone(), channel, range: range.clone() };
        Encoded::said(said, self.head.run_id.clone(), |json| {
            json.extend_from_slice(b"{\"type\":\"TOKEN\",\"data\":");
            write_json(json, text);
            json.extend_from_slice(&self.middle[channel as usize]);
            write!(json, "{}", range.start).expect("a Vec takes every write");
            json.extend_from_slice(&self.tail);
        })
    }
}

/// A piece of a stream's text, which all frames of it share.
#[derive(Debug)]
pub(super) struct Said {
    stream: Arc<OpenStream>,
    channel: Channel,
    range: Range<usize>,
}

impl Said {
    pub(super) fn token(&self) -> Token {
        let head = &self.stream.head;
        Token {
            kind: TokenKind::Token,
            data: self.stream.texts.lock()[self.channel as usize][self.range.clone()].to_owned(),
            token_type: TokenType::of(head.phase, self.channel == Channel::Thinking),
            phase: head.phase,
            step_id: head.step_id.clone(),
            step_description: head.step_description.clone(),
            stream_id: head.stream_id.clone(),
            offset: self.range.start as u64,
            thread_id: head.thread_id.clone(),
            run_id: head.run_id.clone(),
            trace_id: head.trace_id.clone(),
        }
    }
}

fn middle(head: &StreamHead, channel: Channel) -> Vec<u8> {
    let mut json = Vec::new();
    field(&mut json, "tokenType", &TokenType::of(head.phase, channel == Channel::Thinking));
    field(&mut json, "phase", &head.phase);
    if let Some(step) = &head.step_id {
        field(&mut json, "stepId", step);
    }
    if let Some(description) = &head.step_description {
        field(&mut json, "stepDescription", description);
    }
    field(&mut json, "streamId", &head.stream_id);
    json.extend_from_slice(b",\"offset\":");
    json
}

fn tail(head: &StreamHead) -> Vec<u8> {
    let mut json = Vec::new();
    field(&mut json, "threadId", &head.thread_id);
    field(&mut json, "runId", &head.run_id);
    field(&mut json, "traceId", &head.trace_id);
    json.push(b'}');
    json
}

fn field(json: &mut Vec<u8>, name: &str, value: &(impl serde::Serialize + ?Sized)) {
    json.extend_from_slice(b",\"");
    json.extend_from_slice(name.as_bytes());
    json.extend_from_slice(b"\":");
    write_json(json, value);
}

fn write_json(json: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    serde_json::to_writer(json, value).expect("text and names serialise, and a Vec takes every write");
}
