//! `[models.gate]`

use super::section::by_path;

section! {
    /// Limits on the calls to each model provider, counted per process. They do not apply to the demo model.
    Gate {
        /// Concurrent calls to one provider.
        per_provider: usize = 256, by_path();
        /// Concurrent calls with one of its keys: a tenant's own, or the server's.
        per_key: usize = 256, by_path();
        /// Concurrent calls of one tenant.
        per_tenant: usize = 128, by_path();
        /// How many calls may wait for one provider; a single tenant can use at most half of it. While the queue is
        /// full, no run is accepted: provider_saturated. Calls of accepted runs wait without a limit.
        queue: usize = 1024, by_path();
        /// How long a call with a fallback waits, in milliseconds; then the fallback is used.
        queue_ms: u64 = 30_000, by_path();
        /// Consecutive failures after which no calls are sent for a while; rejected requests do not count.
        breaker_failures: u32 = 5, by_path();
        /// How long a provider that keeps failing gets no calls, in milliseconds; then one call probes whether it works
        /// again. While it hangs, another one follows each time that this has passed, at most one a second.
        breaker_ms: u64 = 15_000, by_path();
    }
}
