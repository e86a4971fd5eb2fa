//! The source of time and of random seeds: the only file that reads the system's clock and random source.
//!
//! There are three times: the time that people see and timers are stored by, the system's clock, and the uptime. The first
//! follows the database's clock if processes of several machines share it, so that they agree on what is due; otherwise the
//! system's. It never steps back, so that a clock that is set back delays no timer; nor does it begin before what an earlier
//! process has stored.

#[cfg(any(test, feature = "internals"))]
mod manual;
#[cfg(feature = "internals")]
mod shifted;
mod steady;
mod stored;

use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

use crate::domain::Millis;
#[cfg(any(test, feature = "internals"))]
pub use manual::Manual;
#[cfg(feature = "internals")]
pub use shifted::Shifted;
use steady::SteadyTime;
pub(crate) use stored::begin_at_stored_times;

/// How far another clock, or a stored time, may be off to be followed. A clock that was set in a wrong time zone is less than a
/// day off. By a time that is further ahead, everything would look old and be deleted.
pub(crate) const MAX_OFF: Millis = 24 * 3_600_000;

/// Where time and seeds come from.
pub trait Clock: Send + Sync + 'static {
    /// The time that people see. It never goes back, and an interval by it is at most a tenth too long.
    fn now(&self) -> Millis;
    /// The system's clock, with its steps: for times that are compared with those of other machines.
    fn wall(&self) -> Millis {
        self.now()
    }
    /// How long the machine has been up, the time that it was suspended included.
    fn uptime(&self) -> Duration;
    /// A new seed for ids: never the same twice.
    fn seed(&self) -> u64;
    /// From now on `now` is at least this. Called when the process starts, with a stored time. Without effect on a clock that
    /// does not implement it.
    fn begin_at(&self, _earliest: Millis) {}
    /// From now on `now` follows the database's clock, which has shown `time` since the uptime was `asked`. Called when the
    /// process starts, before it has stored anything, and with each renewal of its lease. Returns how far the system's clock is
    /// ahead of the database's. `None`: this clock follows no other.
    fn follow(&self, _time: Millis, _asked: Duration) -> Option<Millis> {
        None
    }
}

/// The system's clock and random source.
#[derive(Debug, Default)]
pub struct System(Mutex<SteadyTime>);

impl Clock for System {
    fn now(&self) -> Millis {
        self.0.lock().read(self.wall(), millis(self.uptime()))
    }

    #[expect(clippy::disallowed_methods, reason = "the home of the clock")]
    fn wall(&self) -> Millis {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, millis)
    }

    fn uptime(&self) -> Duration {
        #[cfg(target_os = "linux")]
        let clock = ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        let clock = ClockId::Monotonic;
        clock_gettime(clock).try_into().unwrap_or_default()
    }

    fn seed(&self) -> u64 {
        getrandom::u64().expect("the operating system gives random bytes; without them no id is safe")
    }

    fn begin_at(&self, earliest: Millis) {
        self.0.lock().begin_at(earliest, self.wall(), millis(self.uptime()));
    }

    fn follow(&self, time: Millis, asked: Duration) -> Option<Millis> {
        Some(self.0.lock().follow(time, millis(asked), self.wall(), millis(self.uptime())))
    }
}

fn millis(span: Duration) -> Millis {
    Millis::try_from(span.as_millis()).unwrap_or(Millis::MAX)
}

#[cfg(test)]
mod tests;
