//! The bounds of numbers. A value beyond its bounds would refuse all work, end it, repeat it without a pause, or be too
//! large for what counts with it.

use std::ops::RangeInclusive;

use super::{Config, Error};
use crate::domain::depth::MOST_DEPTH;

/// The smallest useful limit: a request of one or two lines fits.
const MIN_BODY_BYTES: i64 = 512;
/// The headers of a plain request with a long key fit.
const MIN_HEADER_BYTES: i64 = 1_024;
const MOST_BYTES: i64 = 1 << 40;
/// Ten years.
const MOST_MS: i64 = 3_650 * 86_400_000;
const MOST_COUNT: i64 = 1_000_000_000;
/// More than any machine has processors.
const MOST_WORKER_THREADS: i64 = 1_024;
/// As long as a stop may take.
const MOST_DRAIN_MS: i64 = 86_400_000;
/// A client asks for no larger page.
const MOST_PAGE: i64 = 1_000;
/// An op of a WebSocket's client fits, such as `{"op": "ping", "id": "1"}`.
const MIN_WS_BYTES: i64 = 64;
const MOST_CONNECTIONS: i64 = 10_000;
/// The server's own ids have as many characters, such as that of a thread that nobody named.
const MIN_ID_LENGTH: i64 = 40;
/// A process renews its lease several times within it, with a database that may answer slowly.
const MIN_LEASE_MS: i64 = 100;
/// Another agent is not asked more often.
const MIN_POLL_MS: i64 = 10;

/// The range of a number.
struct Bound {
    key: &'static str,
    value: i64,
    range: RangeInclusive<i64>,
    /// What would happen beyond it; may be empty.
    consequence: &'static str,
}

impl Bound {
    fn of(key: &'static str, value: impl TryInto<i64>, range: RangeInclusive<i64>) -> Self {
        Self { key, value: value.try_into().unwrap_or(i64::MAX), range, consequence: "" }
    }

    fn timeout(key: &'static str, value: u64) -> Self {
        Self::of(key, value, 1..=MOST_MS).because("with 0 nothing would end in time")
    }

    fn permits(key: &'static str, value: usize) -> Self {
        Self::of(key, value, 1..=MOST_COUNT).because("with 0 no call would get through")
    }

    fn because(self, consequence: &'static str) -> Self {
        Self { consequence, ..self }
    }

    fn check(&self) -> Result<(), Error> {
        let Self { key, value, range, consequence } = self;
        if range.contains(value) {
            return Ok(());
        }
        let separator = if consequence.is_empty() { "" } else { "; " };
        Err(Error(format!(
            "{key}: {value} is not between {} and {}{separator}{consequence}",
            range.start(),
            range.end()
        )))
    }
}

impl Config {
    pub(super) fn check_bounds(&self) -> Result<(), Error> {
        self.bounds().iter().try_for_each(Bound::check)
    }

    fn bounds(&self) -> Vec<Bound> {
        let Self { limits, models, outbox, delegation, runtime, a2a, mcp, .. } = self;
        let gate = &models.gate;
        let mut bounds = vec![
            Bound::of("limits.json_depth", limits.json_depth, 1..=MOST_DEPTH as i64)
                .because("what is deeper could not be stored"),
            Bound::of("limits.id_length", limits.id_length, MIN_ID_LENGTH..=MOST_BYTES)
                .because("the ids that the server makes would be too long"),
            Bound::of("limits.body_bytes", limits.body_bytes, MIN_BODY_BYTES..=MOST_BYTES)
                .because("no query would fit in less"),
            Bound::of("limits.header_bytes", limits.header_bytes, MIN_HEADER_BYTES..=MOST_BYTES)
                .because("few requests would fit in less"),
            Bound::of("limits.calls_per_reply", limits.calls_per_reply, 1..=MOST_COUNT)
                .because("with 0 no tool could be called"),
            Bound::of("limits.tool_output_bytes", limits.tool_output_bytes, 0..=MOST_BYTES),
            Bound::of("limits.connections", limits.connections, 1..=MOST_COUNT).because("with 0 nobody could connect"),
            Bound::of("limits.mailbox", limits.mailbox, 0..=MOST_COUNT),
            Bound::of("limits.ws_message_bytes", limits.ws_message_bytes, MIN_WS_BYTES..=MOST_BYTES)
                .because("no op would fit in less"),
            Bound::of("limits.socket_queue_bytes", limits.socket_queue_bytes, 0..=MOST_BYTES),
            Bound::of("limits.queued_runs", limits.queued_runs, 0..=MOST_COUNT),
            Bound::of("limits.history_messages", limits.history_messages, 0..=MOST_COUNT),
            Bound::of("limits.items_per_plan", limits.items_per_plan, 1..=MOST_COUNT)
                .because("with 0 no plan could be made"),
            Bound::of("limits.state_bytes", limits.state_bytes, 0..=MOST_BYTES),
            Bound::of("limits.requests_at_once_per_key", limits.requests_at_once_per_key, 1..=MOST_COUNT)
                .because("with 0 every request would be refused"),
            Bound::of("limits.documents", limits.documents, 0..=MOST_COUNT),
            Bound::of("limits.keys_per_tenant", limits.keys_per_tenant, 0..=MOST_COUNT),
            Bound::of("limits.page", limits.page, 1..=MOST_PAGE).because("with 0 every list would be empty"),
            Bound::timeout("limits.header_timeout_ms", limits.header_timeout_ms),
            Bound::timeout("limits.body_timeout_ms", limits.body_timeout_ms),
            Bound::of("store.connections", self.store.connections, 1..=MOST_CONNECTIONS)
                .because("with 0 nothing could be read"),
            Bound::of("runtime.lease_ms", runtime.lease_ms, MIN_LEASE_MS..=MOST_MS)
                .because("a shorter lease would end before it is renewed"),
            Bound::of("runtime.worker_threads", runtime.worker_threads.unwrap_or(1), 1..=MOST_WORKER_THREADS),
            Bound::of("runtime.crash_limit", runtime.crash_limit, 1..=MOST_COUNT)
                .because("with 0 every thread would be quarantined"),
            Bound::of("runtime.drain_ms", runtime.drain_ms, 0..=MOST_DRAIN_MS).because("a stop would not end"),
            Bound::of("runtime.drain_delay_ms", runtime.drain_delay_ms.unwrap_or(0), 0..=MOST_DRAIN_MS)
                .because("a stop would not end"),
            Bound::of("runtime.idle_ms", runtime.idle_ms, 0..=MOST_MS),
            Bound::timeout("models.connect_timeout_ms", models.connect_timeout_ms),
            Bound::timeout("models.header_timeout_ms", models.header_timeout_ms),
            Bound::timeout("models.stall_timeout_ms", models.stall_timeout_ms),
            Bound::timeout("models.total_timeout_ms", models.total_timeout_ms),
            Bound::of("models.retry_ms", models.retry_ms, 0..=MOST_MS),
            Bound::of("models.connect_retry_ms", models.connect_retry_ms, 0..=MOST_MS),
            Bound::of("models.reply_bytes", models.reply_bytes, 1..=MOST_BYTES)
                .because("with 0 every reply would be too large"),
            Bound::of("models.context_window", models.context_window, 1..=MOST_COUNT)
                .because("with 0 no prompt would fit"),
            Bound::of("models.ollama.num_ctx", models.ollama.num_ctx, 1..=MOST_COUNT)
                .because("with 0 no prompt would fit"),
            Bound::of("models.demo.pace_ms", models.demo.pace_ms, 0..=MOST_MS),
            Bound::permits("models.gate.per_provider", gate.per_provider),
            Bound::permits("models.gate.per_key", gate.per_key),
            Bound::permits("models.gate.per_tenant", gate.per_tenant),
            Bound::of("models.gate.breaker_failures", gate.breaker_failures, 1..=MOST_COUNT),
            Bound::of("models.gate.breaker_ms", gate.breaker_ms, 0..=MOST_MS),
            Bound::of("models.gate.queue", gate.queue, 0..=MOST_COUNT),
            Bound::of("models.gate.queue_ms", gate.queue_ms, 0..=MOST_MS),
            Bound::of("delegation.poll_ms", delegation.poll_ms, MIN_POLL_MS..=MOST_MS),
            Bound::of("delegation.poll_most_ms", delegation.poll_most_ms, MIN_POLL_MS..=MOST_MS),
            Bound::timeout("delegation.call_ms", delegation.call_ms),
            Bound::timeout("egress.connect_timeout_ms", self.egress.connect_timeout_ms),
            Bound::timeout("mcp.start_timeout_ms", mcp.start_timeout_ms),
            Bound::of("mcp.message_bytes", mcp.message_bytes, 1..=MOST_BYTES)
                .because("with 0 every server would be restarted"),
            Bound::of("mcp.tools_per_server", mcp.tools_per_server, 0..=MOST_COUNT),
            Bound::of("a2a.hold_ms", a2a.hold_ms, 0..=MOST_MS),
            Bound::of("a2a.part_bytes", a2a.part_bytes, 1..=MOST_BYTES).because("with 0 no message would be taken"),
            Bound::of("a2a.body_bytes", a2a.body_bytes, MIN_BODY_BYTES..=MOST_BYTES)
                .because("no message would fit in less"),
            Bound::timeout("outbox.attempt_timeout_ms", outbox.attempt_timeout_ms),
            Bound::of("outbox.push_for_ms", outbox.push_for_ms, 0..=MOST_MS),
            Bound::of("outbox.kept_ms", outbox.kept_ms, 0..=MOST_MS),
            Bound::of("doors.chat_grace_ms", self.doors.chat_grace_ms, -1..=MOST_MS),
            Bound::timeout("telemetry.timeout_ms", self.telemetry.timeout_ms),
        ];
        let delays = |key, delays: &[i64]| -> Vec<Bound> {
            delays.iter().map(|delay| Bound::of(key, *delay, 1..=MOST_MS)).collect()
        };
        bounds.extend(delays("outbox.backoff_ms", &outbox.backoff_ms));
        bounds.extend(delays("outbox.push_backoff_ms", &outbox.push_backoff_ms));
        bounds
    }
}
