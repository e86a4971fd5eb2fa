//! `[runtime]`

use std::time::Duration;

use super::section::{by_path, named};
use super::{Config, Environment};

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
        /// How long a server that is to stop goes on serving while `/readyz` says that it stops, in milliseconds: time for
        /// a load balancer to send nobody here any more. Unset = 5000 in production, else 0.
        drain_delay_ms: Option<u64> = None, by_path().example("5000");
        /// How long an idle thread stays in memory, in milliseconds.
        idle_ms: u64 = 100, by_path();
        /// Crashes that point at a thread, without progress in between, after which it is quarantined.
        crash_limit: i64 = 3, by_path();
    }
}

/// Longer than load balancers take to hear of it.
const PRODUCTION_DRAIN_DELAY_MS: u64 = 5_000;

impl Config {
    /// How long a server that is to stop goes on serving, not ready any more.
    pub fn drain_delay(&self) -> Duration {
        Duration::from_millis(match (self.runtime.drain_delay_ms, self.env) {
            (Some(delay), _) => delay,
            (None, Environment::Production) => PRODUCTION_DRAIN_DELAY_MS,
            (None, Environment::Development) => 0,
        })
    }
}
