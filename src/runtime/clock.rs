//! The source of time and of random seeds: the only file that reads the system's clock and random source.
//!
//! Three times: what people see, what the system's clock shows, and how long something took. The first follows the system's
//! clock, but not its steps back: timers are stored by it, and a clock that is set back must not delay them.

#[cfg(any(test, feature = "internals"))]
mod manual;

use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

use crate::domain::Millis;
#[cfg(any(test, feature = "internals"))]
pub use manual::Manual;

/// Where time and seeds come from.
pub trait Clock: Send + Sync + 'static {
    /// The time that people see. It never goes back, and an interval by it is at most a tenth too long.
    fn now(&self) -> Millis;
    /// What the system's clock shows, its steps included: the time of whatever other machines judge, or are judged by.
    fn wall(&self) -> Millis {
        self.now()
    }
    /// How long the machine has been up, the time that it was suspended included.
    fn uptime(&self) -> Duration;
    /// A new seed for ids: never the same twice.
    fn seed(&self) -> u64;
}

/// The system's clock and random source.
#[derive(Debug, Default)]
pub struct System(Mutex<Option<Steady>>);

impl Clock for System {
    fn now(&self) -> Millis {
        let (time, up) = (self.wall(), millis(self.uptime()));
        self.0.lock().get_or_insert(Steady { time, up }).read(time, up)
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
}

/// The time that was read last, and how long the machine had been up then.
#[derive(Clone, Copy, Debug)]
struct Steady {
    time: Millis,
    up: Millis,
}

/// A clock that is put forward by more than this is believed at once: it was not set yet, or the machine stood still, and
/// what should have happened meanwhile is due.
const STOOD_STILL: Millis = 60_000;

impl Steady {
    /// The time at `up`, on its way to what the system's clock says: a tenth faster or slower until it is there.
    fn read(&mut self, system: Millis, up: Millis) -> Millis {
        let elapsed = (up - self.up).max(0);
        let expected = self.time + elapsed;
        let behind = system - expected;
        // A tenth of what has passed; less than ten milliseconds wait until they are ten.
        let slack = elapsed / 10;
        let time = if behind > STOOD_STILL { system } else { expected + behind.clamp(-slack, slack) };
        if slack > 0 || behind > STOOD_STILL {
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
        let mut steady = Steady { time: 1_000_000, up: 0 };
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
    fn a_small_step_forward_shortens_no_interval_by_more_than_a_tenth_and_a_large_one_is_believed() {
        let mut steady = Steady { time: 0, up: 0 };
        assert_eq!(steady.read(60_000 + 1_000, 1_000), 1_100);
        assert_eq!(steady.read(3_600_000, 2_000), 3_600_000);
    }
}
