//! A clock for tests.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use super::Clock;
use crate::domain::Millis;

/// A clock that stands until it is moved, with countable seeds, for tests.
#[derive(Debug)]
pub struct Manual {
    now: AtomicI64,
    /// How far the system's clock is ahead of it.
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
    /// The system's clock is put forward, which the time that people see does not follow.
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
