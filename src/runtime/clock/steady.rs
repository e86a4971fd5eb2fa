//! The time that people see and timers are stored by, made of the readings of other clocks.

use super::MAX_OFF;
use crate::domain::Millis;

/// A smaller difference between the clocks of two machines is not worth a warning.
const UNNOTICED_SKEW: Millis = 5_000;

/// Follows the database's clock, and the system's while that is not known.
#[derive(Debug, Default)]
pub(super) struct SteadyTime {
    pub(super) last: Option<LastReading>,
    /// How far the database's clock is ahead of the uptime. A step of the system's clock does not change it.
    database: Option<Millis>,
    is_warned: bool,
}

impl SteadyTime {
    pub(super) fn read(&mut self, system: Millis, up: Millis) -> Millis {
        let followed = self.database.map_or(system, |ahead| ahead + up);
        self.last.get_or_insert(LastReading { time: followed, up }).read(followed, up)
    }

    pub(super) fn begin_at(&mut self, earliest: Millis, system: Millis, up: Millis) {
        let time = self.read(system, up).max(earliest);
        self.last = Some(LastReading { time, up });
    }

    /// The database's clock showed `time` at an uptime between `asked` and `up`. What is known of it is corrected only as far as
    /// this excludes it, so a slow answer moves nothing. Where the two clocks are too far apart, nobody knows which is right, and
    /// time goes on as before. Returns how far the system's clock is ahead.
    pub(super) fn follow(&mut self, time: Millis, asked: Millis, system: Millis, up: Millis) -> Millis {
        let known = self.database.unwrap_or(system - up);
        let shown = known.clamp(time - up, time - asked.min(up));
        let ahead = system - up - shown;
        if ahead.abs() <= MAX_OFF && self.database.replace(shown).is_none() {
            // Nothing is stored yet: it begins at the database's time, also if that is earlier than the system's.
            self.last = None;
        }
        self.report(ahead);
        ahead
    }

    fn report(&mut self, ahead: Millis) {
        let ahead_s = ahead as f64 / 1_000.0;
        metrics::gauge!("pes_clock_skew_seconds").set(ahead_s);
        let is_far = ahead.abs() > UNNOTICED_SKEW;
        match (is_far, std::mem::replace(&mut self.is_warned, is_far)) {
            (true, false) => tracing::warn!(
                ahead_s,
                "the clock of this machine and that of the database differ. Timers and schedules follow the database's; keys \
                 expire, and signatures are dated, by this machine's. If other replicas do not say the same, set the clock of \
                 this machine, otherwise that of the database"
            ),
            (false, true) => {
                tracing::info!(ahead_s, "the clock of this machine agrees with that of the database again")
            }
            (true, true) | (false, false) => {}
        }
    }
}

/// The last reading: the time, and the uptime at that moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastReading {
    pub(super) time: Millis,
    pub(super) up: Millis,
}

/// A step forward of more than this is followed at once: the clock had not been set, or the machine was suspended, and timers
/// that fell into the gap are due.
const MAX_SLEWED_STEP: Millis = 60_000;

impl LastReading {
    /// The time at `up`. It approaches the followed clock by going up to a tenth faster or slower.
    pub(super) fn read(&mut self, followed: Millis, up: Millis) -> Millis {
        let elapsed = (up - self.up).max(0);
        let expected = self.time + elapsed;
        let behind = followed - expected;
        // A tenth of the elapsed time; intervals below ten milliseconds add up until they are ten.
        let slack = elapsed / 10;
        let time = if behind > MAX_SLEWED_STEP { followed } else { expected + behind.clamp(-slack, slack) };
        if slack > 0 || behind > MAX_SLEWED_STEP {
            *self = Self { time, up };
        }
        time
    }
}
