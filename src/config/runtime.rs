//! `[runtime]`

use std::num::NonZero;
use std::thread;
use std::time::Duration;

use super::section::{by_path, named};
use super::{Config, Environment};

section! {
    /// The execution of threads.
    Runtime {
        /// How long a process owns its threads without renewing its lease, in milliseconds.
        lease_ms: i64 = 10_000, named("PES_LEASE_MS");
        /// A name that is unique to this process and survives restarts (a StatefulSet's pod, a systemd unit). On
        /// PostgreSQL the process then resumes its threads at once after a restart, instead of waiting for its own
        /// lease to expire.
        replica: Option<String> = None, named("PES_REPLICA").example("\"pes-0\"");
        /// How long a shutdown waits for steps in progress, in milliseconds. The last 2500 are for releasing the leases
        /// and closing the store: with less, nothing in progress has time to end.
        drain_ms: u64 = 25_000, by_path();
        /// How long a server that shuts down continues to accept requests while `/readyz` fails, in milliseconds, so
        /// that load balancers can react. Unset = 5000 in production, else 0.
        drain_delay_ms: Option<u64> = None, by_path().example("5000");
        /// How long an idle thread stays in memory, in milliseconds.
        idle_ms: u64 = 100, by_path();
        /// Threads that carry out requests, runs and streams. Unset = one for each processor, but one alone on two
        /// processors: a second one is woken for nearly every event there, which costs more than it saves until the first
        /// is busy all the time.
        worker_threads: Option<usize> = None, by_path().example("2");
        /// Crashes caused by a thread, without progress in between, after which it is quarantined.
        crash_limit: i64 = 3, by_path();
    }
}

/// Longer than load balancers take to react.
const PRODUCTION_DRAIN_DELAY_MS: u64 = 5_000;

impl Config {
    /// How many threads carry out requests, runs and streams.
    pub fn worker_threads(&self) -> usize {
        let processors = || thread::available_parallelism().map_or(1, NonZero::get);
        self.runtime.worker_threads.unwrap_or_else(|| worker_threads_on(processors()))
    }

    /// How long a server that shuts down continues to accept requests while it is not ready.
    pub fn drain_delay(&self) -> Duration {
        Duration::from_millis(match (self.runtime.drain_delay_ms, self.env) {
            (Some(delay), _) => delay,
            (None, Environment::Production) => PRODUCTION_DRAIN_DELAY_MS,
            (None, Environment::Development) => 0,
        })
    }
}

fn worker_threads_on(processors: usize) -> usize {
    if processors == 2 { 1 } else { processors }
}

#[cfg(test)]
mod tests {
    use super::worker_threads_on;
    use crate::config::Config;

    #[test]
    fn the_configured_number_of_worker_threads_counts() {
        let mut config = Config::default();
        config.runtime.worker_threads = Some(5);
        assert_eq!(config.worker_threads(), 5);
    }

    #[test]
    fn a_second_worker_thread_needs_a_third_processor() {
        assert_eq!([1, 2, 3, 8].map(worker_threads_on), [1, 1, 3, 8]);
    }
}
