//! A clock for tests.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use super::Clock;
use crate::domain::Millis;

/// A clock that only moves when a test moves it. Its seeds are predictable.
#[derive(Debug)]
pub struct Manual {
    now: AtomicI64,
    /// How far the system's clock is ahead of the time that people see.
    ahead: AtomicI64,
    seed: AtomicU64,
}

impl Manual {
    pub fn at(now: Millis) -> Self {
        Self { now: AtomicI64::new(now), ahead: AtomicI64::new(0), seed: AtomicU64::new(1) }
    }
    pub fn advance(&self, by: Millis) {
        self.now.fetch_add(by, Ordering::SeqCst);
    }
    /// Puts the system's clock forward, but not the time that people see.
    pub fn put_forward(&self, by: Millis) {
        self.ahead.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for Manual {
    fn now(&self) -> Millis {
        self.now.load(Ordering::SeqCst)
    }
    fn wall(&self) -> Millis {
        self.now() + self.ahead.load(Ordering::SeqCst)
    }
    fn uptime(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.now()).unwrap_or(0))
    }
    fn seed(&self) -> u64 {
        self.seed.fetch_add(0x9E37_79B9, Ordering::SeqCst)
    }
}
