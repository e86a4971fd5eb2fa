//! Metrics of the background chores: how many rows they deleted, and how far behind they are.

use metrics::{counter, gauge};

/// Adds `count` deleted rows of this kind.
pub(super) fn count_deleted(kind: &'static str, count: u64) {
    counter!("pes_chore_deleted_total", "kind" => kind).increment(count);
}

/// Sets how long the oldest pending work of this kind is overdue, in milliseconds.
pub(super) fn set_lag(kind: &'static str, millis: i64) {
    gauge!("pes_chore_lag_seconds", "kind" => kind).set(millis.max(0) as f64 / 1_000.0);
}
