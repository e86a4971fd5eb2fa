//! Live fan-out: what is committed, and the tokens in between, from the runtime to every socket of a thread.
//!
//! Publishing never waits: no await, no full channel. Each frame is encoded once, and all sockets share its bytes. The queue
//! of a slow socket is bounded: waiting tokens are merged per (stream, token type), then dropped (their offsets show it),
//! then observations are dropped and the reader finds a [`Live::Gap`]. A thread with neither sockets nor an open stream
//! takes no memory.

mod changes;
mod encoded;
mod filter;
mod hub;
mod publisher;
mod queue;
mod stream;
mod subscription;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::domain::ids::{ItemId, RunId, StreamId, ThreadId};
use crate::domain::model::Phase;

pub use changes::Change;
pub use encoded::{Encoded, EncodedKind};
pub use filter::SubscriptionFilter;
pub use hub::Hub;
pub use publisher::StreamPublisher;
pub use stream::Channel;
pub use subscription::Subscription;

/// What the token frames of one stream (one attempt of one model call) have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamHead {
    pub stream_id: StreamId,
    pub phase: Phase,
    pub step_id: Option<ItemId>,
    pub step_description: Option<String>,
    pub thread_id: ThreadId,
    pub run_id: RunId,
    pub trace_id: String,
}

/// An entry that a subscriber takes from its queue.
#[derive(Clone, Debug)]
pub enum Live {
    Frame(Arc<Encoded>),
    /// Observations are missing from this queue: the subscriber reads them from the log by seq. Observations that it has read
    /// there may still come as frames, which it skips by their seq. With `overflowed` they were dropped because the
    /// subscriber was too slow; otherwise this process had no frames of them.
    Gap {
        overflowed: bool,
    },
    /// The server stops; reconnect after this many milliseconds. Sent once.
    Draining(i64),
}
