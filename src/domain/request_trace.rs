//! The trace that a request belongs to.

use super::trace::TraceOrigin;

/// A trace as problems, logs and runs name it, and what the caller sent with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTrace {
    /// 32 lower-case hex digits.
    pub id: String,
    pub origin: TraceOrigin,
}
