//! Keys that find a run for a client that names neither run nor thread: digests of what the client sent.

use super::Millis;
use super::ids::{RunId, ThreadId};

/// The key of a run. Each kind is a separate namespace. Clients that may not find the run must not produce the same
/// digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupKey {
    pub kind: &'static str,
    /// SHA-256, hex.
    pub digest: String,
}

/// The lookup keys of a query, or of an answer. If a query joins another run, its keys lead to that run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLookups {
    /// The run that is answered, or the id that a new run gets.
    pub run: RunId,
    pub keys: Vec<LookupKey>,
}

/// A run that was found under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRun {
    pub thread_id: ThreadId,
    pub run_id: RunId,
    /// When the run was requested.
    pub created_at: Millis,
    /// Until when a client declared that it is listening; 0: no client did.
    pub listening_until: Millis,
}
