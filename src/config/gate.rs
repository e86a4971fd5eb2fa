//! `[models.gate]`

use super::Error;
use super::section::by_path;

section! {
    /// How much is asked of a provider at once, and when it is left alone. The demo model asks nobody and has no gate.
    Gate {
        /// Calls of one provider at the same time.
        per_provider: usize = 256, by_path();
        /// Of one of its keys: a tenant's own, or the server's.
        per_key: usize = 256, by_path();
        /// Of one tenant.
        per_tenant: usize = 128, by_path();
        /// Calls that may wait for one provider; one tenant's take no more of it than they leave to others. While there is no
        /// room, no run is accepted: provider_saturated. What was accepted waits as long as it takes.
        queue: usize = 1024, by_path();
        /// How long a call waits that has a fallback, in milliseconds; then it goes there.
        queue_ms: u64 = 30_000, by_path();
        /// Failures in a row after which a provider is left alone; a refusal is none.
        breaker_failures: u32 = 5, by_path();
        /// For how long, in milliseconds; then one call tries whether it is back.
        breaker_ms: u64 = 15_000, by_path();
    }
}

impl Gate {
    pub(super) fn check(&self) -> Result<(), Error> {
        let places = [("per_provider", self.per_provider), ("per_key", self.per_key), ("per_tenant", self.per_tenant)];
        match places.into_iter().find(|(_, places)| *places == 0) {
            Some((key, _)) => {
                Err(Error(format!("models.gate.{key}: 0 would let no call through; it must be 1 or more")))
            }
            None if self.breaker_failures == 0 => {
                Err(Error("models.gate.breaker_failures: it must be 1 or more".to_owned()))
            }
            None => Ok(()),
        }
    }
}
