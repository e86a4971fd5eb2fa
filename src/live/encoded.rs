//! A frame as bytes: serialised once, shared by all sockets, in the shape that each transport sends.

use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;
use serde::Serialize;
use serde_json::json;

use super::stream::TokenPiece;
use crate::domain::frame::{Token, ToolStarted};
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::observation::{Observation, ObservationType};
use crate::domain::run::{RunResource, RunStatus};
use crate::domain::thread::Thread;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncodedKind {
    Observation {
        seq: i64,
        kind: ObservationType,
        run_id: RunId,
    },
    Token {
        run_id: RunId,
    },
    /// `after`: the last seq of the log before the commit that changed the run, or of the log as of which the run was read.
    Run {
        run_id: RunId,
        status: RunStatus,
        after: i64,
    },
    ToolStarted {
        run_id: RunId,
    },
    CaughtUp,
    Gap,
    /// A gap because the log could not be read.
    LogUnreadable,
    Draining,
    Thread,
    ThreadDeleted,
    Suspension,
}

impl EncodedKind {
    fn event(&self) -> &'static str {
        match self {
            EncodedKind::Observation { .. } => "observation",
            EncodedKind::Token { .. } => "token",
            EncodedKind::Run { .. } => "run",
            EncodedKind::ToolStarted { .. } => "tool_started",
            EncodedKind::CaughtUp => "caught_up",
            EncodedKind::Gap | EncodedKind::LogUnreadable => "gap",
            EncodedKind::Draining => "draining",
            EncodedKind::Thread => "thread",
            EncodedKind::ThreadDeleted => "thread_deleted",
            EncodedKind::Suspension => "suspension",
        }
    }
}

/// One frame of the contract's live events. Clones of its bytes are references. One of a thread's feed is read by
/// `serde_json::from_slice::<Frame>(&frame.json())`.
#[derive(Debug)]
pub struct Encoded {
    pub kind: EncodedKind,
    json: Bytes,
    data: Range<usize>,
    sse: OnceLock<Bytes>,
    content: FrameContent,
}

/// The frame's value, kept beside its bytes for readers in this process.
#[derive(Debug)]
enum FrameContent {
    Observation(Box<Observation>),
    Token(TokenPiece),
    /// No reader in this process needs the value.
    BytesOnly,
}

impl Encoded {
    pub fn observation(observation: Observation) -> Self {
        let kind = EncodedKind::Observation {
            seq: observation.seq,
            kind: observation.kind,
            run_id: observation.run_id.clone(),
        };
        let encoded = Self::of(kind, &observation);
        if ObservationType::OF_CALLER_STATUS.contains(&observation.kind) {
            Self { content: FrameContent::Observation(Box::new(observation)), ..encoded }
        } else {
            encoded
        }
    }

    pub(super) fn token_frame(piece: TokenPiece, run_id: RunId, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        Self { content: FrameContent::Token(piece), ..Self::wrap(EncodedKind::Token { run_id }, write) }
    }

    pub fn run(run: &RunResource, after: i64) -> Self {
        Self::of(EncodedKind::Run { run_id: run.run_id.clone(), status: run.status, after }, run)
    }

    pub fn tool_started(started: &ToolStarted) -> Self {
        Self::of(EncodedKind::ToolStarted { run_id: started.run_id.clone() }, started)
    }

    pub fn caught_up(seq: i64) -> Self {
        Self::of(EncodedKind::CaughtUp, &json!({ "seq": seq }))
    }

    pub fn gap(from_seq: i64) -> Self {
        Self::of(EncodedKind::Gap, &json!({ "fromSeq": from_seq }))
    }

    /// A gap from this seq on, because the log could not be read.
    pub fn log_unreadable(from_seq: i64) -> Self {
        Self::of(EncodedKind::LogUnreadable, &json!({ "fromSeq": from_seq }))
    }

    pub fn draining(retry_in_ms: i64) -> Self {
        Self::of(EncodedKind::Draining, &json!({ "retryInMs": retry_in_ms }))
    }

    pub fn thread(thread: &Thread) -> Self {
        Self::of(EncodedKind::Thread, thread)
    }

    pub fn thread_deleted(thread: &ThreadId) -> Self {
        Self::of(EncodedKind::ThreadDeleted, &json!({ "threadId": thread }))
    }

    /// A suspension, in the shape in which lists show it.
    pub fn suspension(listed: &impl Serialize) -> Self {
        Self::of(EncodedKind::Suspension, listed)
    }

    fn of(kind: EncodedKind, data: &impl Serialize) -> Self {
        Self::wrap(kind, |json| {
            serde_json::to_writer(json, data).expect("frames have string keys, and a Vec takes every write");
        })
    }

    /// `write` appends the JSON text of `data`, on one line.
    fn wrap(kind: EncodedKind, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut json = Vec::with_capacity(512);
        json.extend_from_slice(b"{\"event\":\"");
        json.extend_from_slice(kind.event().as_bytes());
        json.extend_from_slice(b"\",\"data\":");
        let start = json.len();
        write(&mut json);
        let data = start..json.len();
        json.push(b'}');
        Self { kind, json: json.into(), data, sse: OnceLock::new(), content: FrameContent::BytesOnly }
    }

    /// `{"event": …, "data": …}`, UTF-8: the text of a WebSocket message.
    pub fn json(&self) -> Bytes {
        self.json.clone()
    }

    /// The `data` alone.
    pub fn data(&self) -> Bytes {
        self.json.slice(self.data.clone())
    }

    /// The observation, if its type is one of [`ObservationType::OF_CALLER_STATUS`].
    pub fn as_observation(&self) -> Option<&Observation> {
        match &self.content {
            FrameContent::Observation(observation) => Some(observation),
            FrameContent::Token(_) | FrameContent::BytesOnly => None,
        }
    }

    /// The token, if it is one.
    pub fn token(&self) -> Option<Token> {
        match &self.content {
            FrameContent::Token(piece) => Some(piece.token()),
            FrameContent::Observation(_) | FrameContent::BytesOnly => None,
        }
    }

    /// A whole server-sent event. It is built from the same JSON on the first call, then shared.
    pub fn sse(&self) -> Bytes {
        self.sse.get_or_init(|| self.encode_sse()).clone()
    }

    fn encode_sse(&self) -> Bytes {
        let mut text = Vec::with_capacity(self.data.len() + 64);
        text.extend_from_slice(b"event: ");
        text.extend_from_slice(self.kind.event().as_bytes());
        if let EncodedKind::Observation { seq, .. } = self.kind {
            text.extend_from_slice(format!("\nid: {seq}").as_bytes());
        }
        text.extend_from_slice(b"\ndata: ");
        text.extend_from_slice(&self.json[self.data.clone()]);
        text.extend_from_slice(b"\n\n");
        text.into()
    }

    /// Its size in a socket's queue. An observation that is kept beside its bytes takes about twice as much.
    pub(super) fn weight(&self) -> usize {
        match &self.content {
            FrameContent::Observation(_) => 2 * self.json.len(),
            FrameContent::Token(_) | FrameContent::BytesOnly => self.json.len(),
        }
    }
}
