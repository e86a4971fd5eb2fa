//! A clock for tests of several machines.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::steady::SteadyTime;
use super::{Clock, System, millis};
use crate::domain::Millis;

/// The clock of a machine whose time is wrong. It runs, and follows a database's clock, as [`System`] does.
#[derive(Debug)]
pub struct Shifted {
    system: System,
    ahead: AtomicI64,
    time: Mutex<SteadyTime>,
}

impl Shifted {
    pub fn by(ahead: Millis) -> Self {
        Self { system: System::default(), ahead: AtomicI64::new(ahead), time: Mutex::default() }
    }
    /// Puts the machine's clock forward.
    pub fn put_forward(&self, by: Millis) {
        self.ahead.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for Shifted {
    fn now(&self) -> Millis {
        self.time.lock().read(self.wall(), millis(self.uptime()))
    }
    fn wall(&self) -> Millis {
        self.system.wall() + self.ahead.load(Ordering::SeqCst)
    }
    fn uptime(&self) -> Duration {
        self.system.uptime()
    }
    fn seed(&self) -> u64 {
        self.system.seed()
    }
    fn begin_at(&self, earliest: Millis) {
        self.time.lock().begin_at(earliest, self.wall(), millis(self.uptime()));
    }
    fn follow(&self, time: Millis, asked: Duration) -> Option<Millis> {
        Some(self.time.lock().follow(time, millis(asked), self.wall(), millis(self.uptime())))
    }
}
