//! `[runtime]`

use super::section::{by_path, named};

section! {
    /// How threads are run.
    Runtime {
        /// How long a process owns its threads without a sign of life, in milliseconds.
        lease_ms: i64 = 10_000, named("PES_LEASE_MS");
        /// A name that this process alone has, and keeps when it is started again (a StatefulSet's pod, a systemd unit):
        /// on PostgreSQL it then takes up at once what it had in hand, instead of waiting for its own lease to end.
        replica: Option<String> = None, named("PES_REPLICA").example("\"pes-0\"");
        /// How long a stop waits for steps under way, in milliseconds.
        drain_ms: u64 = 25_000, by_path();
        /// How long an idle thread stays in memory, in milliseconds.
        idle_ms: u64 = 100, by_path();
        /// Crashes that point at a thread, without progress in between, after which it is quarantined.
        crash_limit: i64 = 3, by_path();
    }
}
