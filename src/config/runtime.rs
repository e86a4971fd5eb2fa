//! `[runtime]`

use super::section::{by_path, named};

section! {
    /// How threads are run.
    Runtime {
        /// How long a process owns its threads without a sign of life, in milliseconds.
        lease_ms: i64 = 10_000, named("PES_LEASE_MS");
        /// How long a stop waits for steps under way, in milliseconds.
        drain_ms: u64 = 25_000, by_path();
        /// How long an idle thread stays in memory, in milliseconds.
        idle_ms: u64 = 100, by_path();
        /// Crashes without progress after which a thread is quarantined.
        crash_limit: i32 = 3, by_path();
    }
}
