//! An open stream with its whole text so far, for subscribers that join late or read slowly.

use std::collections::VecDeque;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::StreamHead;
use super::encoded::Encoded;
use crate::domain::frame::{Token, TokenKind, TokenType};

/// About how large a token frame is besides its text.
pub(super) const TOKEN_ENVELOPE_BYTES: usize = 512;

#[derive(Debug)]
pub(super) struct OpenStream {
    /// The parts of a token's JSON between its text and its offset, by [`Channel`].
    middle: [Vec<u8>; 2],
    /// The JSON after the offset.
    tail: Vec<u8>,
    head: Arc<StreamHead>,
    texts: Arc<Mutex<[String; 2]>>,
    /// The frames that were encoded last: subscribers at the same position share them.
    encoded: Mutex<VecDeque<EncodedRange>>,
}

#[derive(Debug)]
struct EncodedRange {
    channel: Channel,
    range: Range<usize>,
    frame: Arc<Encoded>,
}

/// Bounds the frames of a stream that are kept for other subscribers.
const MAX_SHARED_FRAMES: usize = 8;

/// One of a stream's two texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    Response = 0,
    Thinking = 1,
}

impl Channel {
    pub(super) const ALL: [Channel; 2] = [Channel::Thinking, Channel::Response];
}

impl OpenStream {
    pub(super) fn new(head: StreamHead) -> Self {
        Self {
            middle: [middle(&head, Channel::Response), middle(&head, Channel::Thinking)],
            tail: tail(&head),
            head: Arc::new(head),
            texts: Arc::default(),
            encoded: Mutex::default(),
        }
    }

    /// Appends `text` and returns its range.
    pub(super) fn append(&self, channel: Channel, text: &str) -> Range<usize> {
        let mut texts = self.texts.lock();
        let whole = &mut texts[channel as usize];
        let from = whole.len();
        whole.push_str(text);
        from..whole.len()
    }

    pub(super) fn text(&self, channel: Channel) -> String {
        self.texts.lock()[channel as usize].clone()
    }

    pub(super) fn length(&self, channel: Channel) -> usize {
        self.texts.lock()[channel as usize].len()
    }

    /// The token frame of a range of whole pieces, encoded once for all subscribers that take the same range.
    pub(super) fn frame(&self, channel: Channel, range: Range<usize>) -> Arc<Encoded> {
        let mut encoded = self.encoded.lock();
        if let Some(known) = encoded.iter().find(|known| known.channel == channel && known.range == range) {
            return known.frame.clone();
        }
        let frame = Arc::new(self.encode(channel, range.clone()));
        encoded.truncate(MAX_SHARED_FRAMES - 1);
        encoded.push_front(EncodedRange { channel, range, frame: frame.clone() });
        frame
    }

    fn encode(&self, channel: Channel, range: Range<usize>) -> Encoded {
        let texts = self.texts.lock();
        let text = &texts[channel as usize][range.clone()];
        let piece = TokenPiece { head: self.head.clone(), channel, range: range.clone(), texts: self.texts.clone() };
        Encoded::token_frame(piece, self.head.run_id.clone(), |json| {
            json.extend_from_slice(b"{\"type\":\"TOKEN\",\"data\":");
            write_json(json, text);
            json.extend_from_slice(&self.middle[channel as usize]);
            write!(json, "{}", range.start).expect("a Vec takes every write");
            json.extend_from_slice(&self.tail);
        })
    }
}

/// A piece of a stream's text. It refers to the texts, not to the stream, because the stream holds the frames of its pieces.
#[derive(Debug)]
pub(super) struct TokenPiece {
    head: Arc<StreamHead>,
    channel: Channel,
    range: Range<usize>,
    texts: Arc<Mutex<[String; 2]>>,
}

impl TokenPiece {
    pub(super) fn token(&self) -> Token {
        let head = &self.head;
        Token {
            kind: TokenKind::Token,
            data: self.texts.lock()[self.channel as usize][self.range.clone()].to_owned(),
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
