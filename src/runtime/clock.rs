//! Time and chance, handed in: the only file that reads the system's.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::SystemTime;

use crate::domain::Millis;

/// Where time and seeds come from.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Millis;
    /// A new seed for ids: never the same twice.
    fn seed(&self) -> u64;
}

/// The system's clock and random source.
#[derive(Debug, Default)]
pub struct System;

impl Clock for System {
    #[expect(clippy::disallowed_methods, reason = "the home of the clock")]
    fn now(&self) -> Millis {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |elapsed| Millis::try_from(elapsed.as_millis()).unwrap_or(Millis::MAX))
    }

    fn seed(&self) -> u64 {
        getrandom::u64().expect("the operating system gives random bytes; without them no id is safe")
    }
}

/// A clock that stands until it is moved, with countable seeds, for tests.
#[derive(Debug)]
pub struct Manual {
    now: AtomicI64,
    seed: AtomicU64,
}

impl Manual {
    pub fn at(now: Millis) -> Self {
        Self { now: AtomicI64::new(now), seed: AtomicU64::new(1) }
    }
    pub fn advance(&self, by: Millis) {
        self.now.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for Manual {
    fn now(&self) -> Millis {
        self.now.load(Ordering::SeqCst)
    }
    fn seed(&self) -> u64 {
        self.seed.fetch_add(0x9E37_79B9, Ordering::SeqCst)
    }
}
