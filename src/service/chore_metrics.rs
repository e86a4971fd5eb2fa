//! What the chores did, and how far behind they are.

use metrics::{counter, gauge};

/// So many of a kind were deleted.
pub(super) fn deleted(kind: &'static str, count: u64) {
    counter!("pes_chore_deleted_total", "kind" => kind).increment(count);
}

/// How long the oldest of what must be done is overdue, in milliseconds.
pub(super) fn lags(kind: &'static str, millis: i64) {
    gauge!("pes_chore_lag_seconds", "kind" => kind).set(millis.max(0) as f64 / 1_000.0);
}
