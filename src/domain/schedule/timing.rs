//! When a schedule is due.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use sha2::{Digest, Sha256};

use super::cron::Cron;
use super::{Overlap, ScheduleSpec, ThreadMode};
use crate::domain::Millis;
use crate::domain::fault::{Code, Fault};

/// Beyond this number, missed times are not caught up.
const MAX_CAUGHT_UP: u64 = 100;
const MIN_INTERVAL: Millis = 1_000;
const MIN_CATCH_UP: Millis = 10_000;
/// Ten years.
const MAX_INTERVAL: Millis = 10 * 365 * 86_400_000;
/// Close to the end of the year 9999.
const MAX_TIME: Millis = 253_400_000_000_000;

/// The validated times of a schedule.
#[derive(Clone, Debug)]
pub struct Timing {
    rule: Rule,
    zone: TimeZone,
    start: Millis,
    end: Millis,
    jitter: Millis,
    catch_up: Millis,
    paused: bool,
}

#[derive(Clone, Debug)]
enum Rule {
    Cron(Cron),
    Every { span: Millis, from: Millis },
    Once(Millis),
}

/// The state of the times up to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueTimes {
    /// How many are too late to be caught up.
    pub missed: u64,
    /// The oldest one that is not.
    pub first: Option<Millis>,
}

impl Timing {
    /// Rejects invalid specifications, with a pointer.
    pub fn of(spec: &ScheduleSpec) -> Result<Self, Fault> {
        let span = |name, value, least| {
            let fits = (least..=MAX_INTERVAL).contains(&value);
            if fits { Ok(value) } else { Err(invalid(name, format!("is {least} to {MAX_INTERVAL}"))) }
        };
        let time = |name, value: Option<Millis>| match value {
            Some(time) if !(0..=MAX_TIME).contains(&time) => Err(invalid(name, format!("is 0 to {MAX_TIME}"))),
            time => Ok(time),
        };
        let (start, end) = (time("startAt", spec.start_at)?, time("endAt", spec.end_at)?);
        if start.zip(end).is_some_and(|(start, end)| end < start) {
            return Err(invalid("endAt", "is not before `startAt`"));
        }
        let rule = match (&spec.cron, spec.every_ms, spec.at) {
            (Some(cron), None, None) => Rule::Cron(cron.parse().map_err(|why: String| invalid("cron", why))?),
            (None, Some(every), None) => {
                Rule::Every { span: span("everyMs", every, MIN_INTERVAL)?, from: start.unwrap_or(0) }
            }
            (None, None, Some(at)) => Rule::Once(time("at", Some(at))?.unwrap_or(at)),
            _ => return Err(invalid("cron", "give one of `cron`, `everyMs` and `at`")),
        };
        let zone = TimeZone::get(&spec.timezone);
        let unknown = |_| invalid("timezone", "is no IANA time zone; write it like Europe/Berlin");
        match (spec.thread.mode, &spec.thread.id, spec.overlap) {
            (ThreadMode::Fixed, None, _) => return Err(invalid("thread/id", "names the thread of mode `fixed`")),
            (ThreadMode::New, Some(_), _) => return Err(invalid("thread/id", "goes with mode `fixed` only")),
            (ThreadMode::Fixed, Some(_), Overlap::Allow) => {
                return Err(invalid("overlap", "`allow` needs new threads: one thread has one run at a time"));
            }
            (ThreadMode::Fixed, Some(_), Overlap::Skip | Overlap::Queue | Overlap::Cancel)
            | (ThreadMode::New, None, _) => {}
        }
        if spec.query.trim().is_empty() {
            return Err(invalid("query", "must say something"));
        }
        Ok(Self {
            rule,
            zone: zone.map_err(unknown)?,
            start: start.unwrap_or(0),
            end: end.unwrap_or(MAX_TIME),
            jitter: span("jitterMs", spec.jitter_ms, 0)?,
            catch_up: span("catchUpMs", spec.catch_up_ms, MIN_CATCH_UP)?,
            paused: spec.paused,
        })
    }

    /// The first time after this one.
    pub fn next(&self, after: Millis) -> Option<Millis> {
        let after = after.max(self.start - 1);
        let next = match &self.rule {
            Rule::Cron(cron) => cron.next(&self.zone, after)?,
            Rule::Every { span, from } => from + ((after - from).div_euclid(*span) + 1) * span,
            Rule::Once(at) => Some(*at).filter(|at| *at > after)?,
        };
        (!self.paused && next <= self.end).then_some(next)
    }

    /// When the run of a time starts, jitter included. Every process computes the same.
    pub fn starts_at(&self, id: &str, due: Millis) -> Millis {
        if self.jitter == 0 {
            return due;
        }
        let digest = Sha256::new().chain_update(id).chain_update(due.to_be_bytes()).finalize();
        let number = u64::from_be_bytes(std::array::from_fn(|at| digest[at]));
        due + (number % (self.jitter.unsigned_abs() + 1)) as i64
    }

    /// Examines the times from `due`, which is one of them, up to `now`.
    pub fn due_times(&self, due: Millis, now: Millis) -> DueTimes {
        let too_late = now - self.catch_up - self.jitter;
        let before = due.max(too_late) - 1;
        let (late, _) = self.count(due - 1, before, u64::MAX);
        let (in_time, _) = self.count(before, now, u64::MAX);
        let dropped = in_time.saturating_sub(MAX_CAUGHT_UP);
        let (_, reached) = self.count(before, now, dropped);
        DueTimes { missed: late + dropped, first: self.next(reached) }
    }

    /// Counts the times after `after` up to `until`, at most `most`; also returns a moment between the last of them and
    /// the next.
    fn count(&self, after: Millis, until: Millis, most: u64) -> (u64, Millis) {
        let until = until.min(self.end);
        if until <= after || most == 0 {
            return (0, after);
        }
        match &self.rule {
            Rule::Cron(cron) => cron.count(&self.zone, after, until, most),
            Rule::Every { span, from } => {
                let number = |time: Millis| (time - from).div_euclid(*span);
                let count = (number(until) - number(after)).unsigned_abs().min(most);
                let last = from + (number(after) + count.cast_signed()) * span;
                (count, last.max(after))
            }
            Rule::Once(at) if (after..until).contains(&(at - 1)) => (1, *at),
            Rule::Once(_) => (0, after),
        }
    }

    /// The time as a clock in the schedule's time zone shows it.
    pub fn shown(&self, time: Millis) -> String {
        let shown = Timestamp::from_millisecond(time).map(|time| time.to_zoned(self.zone.clone()));
        shown.map(|shown| shown.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()).unwrap_or_default()
    }
}

fn invalid(member: &str, why: impl Into<String>) -> Fault {
    let why = why.into();
    Fault::new(Code::Invalid, format!("`{member}`: {why}.")).at(format!("/{member}"), why)
}

#[cfg(test)]
mod tests;
