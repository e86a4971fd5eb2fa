//! A frame as bytes: serialised once, shared by every socket, in the shape that each transport sends.

use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;
use serde::Serialize;
use serde_json::json;

use super::stream::Said;
use crate::domain::frame::{Token, ToolStarted};
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::observation::{Observation, ObservationType};
use crate::domain::run::{RunResource, RunStatus};
use crate::domain::thread::Thread;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncodedKind {
    Observation { seq: i64, kind: ObservationType, run_id: RunId },
    Token { run_id: RunId },
    Run { run_id: RunId, status: RunStatus },
    ToolStarted { run_id: RunId },
    CaughtUp,
    Gap,
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
            EncodedKind::Gap => "gap",
            EncodedKind::Draining => "draining",
            EncodedKind::Thread => "thread",
            EncodedKind::ThreadDeleted => "thread_deleted",
            EncodedKind::Suspension => "suspension",
        }
    }
}

/// One frame of the contract's live events. Clones of its bytes are references.
#[derive(Debug)]
pub struct Encoded {
    pub kind: EncodedKind,
    json: Bytes,
    data: Range<usize>,
    sse: OnceLock<Bytes>,
    told: Told,
}

/// What a frame says, for a reader in this process.
#[derive(Debug)]
enum Told {
    Observation(Box<Observation>),
    Token(Said),
    /// What nobody here reads; the bytes say it.
    Bytes,
}

impl Encoded {
    pub fn observation(observation: &Observation) -> Self {
        let kind = EncodedKind::Observation {
            seq: observation.seq,
            kind: observation.kind,
            run_id: observation.run_id.clone(),
        };
        let told = if ObservationType::STANDING.contains(&observation.kind) {
            Told::Observation(Box::new(observation.clone()))
        } else {
            Told::Bytes
        };
        Self { told, ..Self::of(kind, observation) }
    }

    pub(super) fn said(said: Said, run_id: RunId, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        Self { told: Told::Token(said), ..Self::wrap(EncodedKind::Token { run_id }, write) }
    }

    pub fn run(run: &RunResource) -> Self {
        Self::of(EncodedKind::Run { run_id: run.run_id.clone(), status: run.status }, run)
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

    pub fn draining(retry_in_ms: i64) -> Self {
        Self::of(EncodedKind::Draining, &json!({ "retryInMs": retry_in_ms }))
    }

    pub fn thread(thread: &Thread) -> Self {
        Self::of(EncodedKind::Thread, thread)
    }

    pub fn thread_deleted(thread: &ThreadId) -> Self {
        Self::of(EncodedKind::ThreadDeleted, &json!({ "threadId": thread }))
    }

    /// A question as lists show it.
    pub fn suspension(listed: &impl Serialize) -> Self {
        Self::of(EncodedKind::Suspension, listed)
    }

    fn of(kind: EncodedKind, data: &impl Serialize) -> Self {
        Self::wrap(kind, |json| {
            serde_json::to_writer(json, data).expect("frames have string keys, and a Vec takes every write");
        })
    }

    /// `write` appends the data's JSON text, on one line.
    fn wrap(kind: EncodedKind, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut json = Vec::with_capacity(512);
        json.extend_from_slice(b"{\"event\":\"");
        json.extend_from_slice(kind.event().as_bytes());
        json.extend_from_slice(b"\",\"data\":");
        let start = json.len();
        write(&mut json);
        let data = start..json.len();
        json.push(b'}');
        Self { kind, json: json.into(), data, sse: OnceLock::new(), told: Told::Bytes }
    }

    /// `{"event": …, "data": …}`, UTF-8: the text of a WebSocket message.
    pub fn json(&self) -> Bytes {
        self.json.clone()
    }

    /// The `data` alone.
    pub fn data(&self) -> Bytes {
        self.json.slice(self.data.clone())
    }

    /// The observation, if it is one of [`ObservationType::STANDING`].
    pub fn told(&self) -> Option<&Observation> {
        match &self.told {
            Told::Observation(observation) => Some(observation),
            Told::Token(_) | Told::Bytes => None,
        }
    }

    /// The token, if it is one.
    pub fn token(&self) -> Option<Token> {
        match &self.told {
            Told::Token(said) => Some(said.token()),
            Told::Observation(_) | Told::Bytes => None,
        }
    }

    /// A whole server-sent event. Made from the same serialisation when first asked for, then shared.
    pub fn sse(&self) -> Bytes {
        self.sse.get_or_init(|| self.as_event()).clone()
    }

    fn as_event(&self) -> Bytes {
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

    /// What it weighs in a socket's queue: an observation that is kept beside its bytes weighs about twice as much.
    pub(super) fn weight(&self) -> usize {
        match &self.told {
            Told::Observation(_) => 2 * self.json.len(),
            Told::Token(_) | Told::Bytes => self.json.len(),
        }
    }
}
