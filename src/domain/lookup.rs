//! Keys under which a run is found again by a client that names neither run nor thread: digests of what it sent.

use super::Millis;
use super::ids::{RunId, ThreadId};

/// What a run is to be found under. Another kind is another name space; whoever may not find the run must not come to the
/// same digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupKey {
    pub kind: &'static str,
    /// SHA-256, hex.
    pub digest: String,
}

/// A run that was found under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRun {
    pub thread_id: ThreadId,
    pub run_id: RunId,
    /// When the run was asked for.
    pub created_at: Millis,
    /// Until when somebody said that it listens; 0: nobody did.
    pub listening_until: Millis,
}
