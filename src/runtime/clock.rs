//! The source of time and of random seeds: the only file that reads the system's clock and random source.
//!
//! There are three times: the time that people see and timers are stored by, the system's clock, and the uptime. The first
//! follows the system's clock but never steps back, so that a clock that is set back delays no timer; nor does it begin before
//! what an earlier process has stored.

#[cfg(any(test, feature = "internals"))]
mod manual;
mod stored;

use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

use crate::domain::Millis;
#[cfg(any(test, feature = "internals"))]
pub use manual::Manual;
pub(crate) use stored::begin_at_stored_times;

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
}

/// The system's clock and random source.
#[derive(Debug, Default)]
pub struct System(Mutex<Option<LastReading>>);

impl Clock for System {
    fn now(&self) -> Millis {
        let (time, up) = (self.wall(), millis(self.uptime()));
        self.0.lock().get_or_insert(LastReading { time, up }).read(time, up)
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
        let (system, up) = (self.wall(), millis(self.uptime()));
        let mut last = self.0.lock();
        let now = last.get_or_insert(LastReading { time: system, up }).read(system, up);
        *last = Some(LastReading { time: now.max(earliest), up });
    }
}

/// The last reading: the time, and the uptime at that moment.
#[derive(Clone, Copy, Debug)]
struct LastReading {
    time: Millis,
    up: Millis,
}

/// A step forward of more than this is followed at once: the clock had not been set, or the machine was suspended, and timers
/// that fell into the gap are due.
const MAX_SLEWED_STEP: Millis = 60_000;

impl LastReading {
    /// The time at `up`. It approaches the system's clock by going up to a tenth faster or slower.
    fn read(&mut self, system: Millis, up: Millis) -> Millis {
        let elapsed = (up - self.up).max(0);
        let expected = self.time + elapsed;
        let behind = system - expected;
        // A tenth of the elapsed time; intervals below ten milliseconds add up until they are ten.
        let slack = elapsed / 10;
        let time = if behind > MAX_SLEWED_STEP { system } else { expected + behind.clamp(-slack, slack) };
        if slack > 0 || behind > MAX_SLEWED_STEP {
            *self = Self { time, up };
        }
        time
    }
}

fn millis(span: Duration) -> Millis {
    Millis::try_from(span.as_millis()).unwrap_or(Millis::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_back_delays_nothing_and_is_followed_in_time() {
        let mut steady = LastReading { time: 1_000_000, up: 0 };
        let (mut up, mut before) = (0, 1_000_000);
        for _ in 0..7_000 {
            up += 100;
            let now = steady.read(1_000_000 + up - 60_000, up);
            assert!((90..=100).contains(&(now - before)), "{}", now - before);
            before = now;
        }
        assert_eq!(before, 1_000_000 + up - 60_000, "after ten minutes it is right");
    }

    #[test]
    fn a_clock_that_begins_behind_a_stored_time_begins_at_it_and_is_followed_in_time() {
        let clock = System::default();
        let stored = clock.now() + 7_200_000;
        clock.begin_at(stored);
        clock.begin_at(0);
        assert!((stored..stored + 60_000).contains(&clock.now()), "{}", clock.now());
        let LastReading { time, up } = clock.0.lock().expect("it was read");
        let mut slewed = LastReading { time, up };
        assert_eq!(slewed.read(stored - 7_200_000, up + 1_000), time + 900);
    }

    #[test]
    fn a_small_step_forward_shortens_no_interval_by_more_than_a_tenth_and_a_large_one_is_believed() {
        let mut steady = LastReading { time: 0, up: 0 };
        assert_eq!(steady.read(60_000 + 1_000, 1_000), 1_100);
        assert_eq!(steady.read(3_600_000, 2_000), 3_600_000);
    }
}
