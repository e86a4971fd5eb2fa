//! When a schedule is due.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use sha2::{Digest, Sha256};

use super::cron::Cron;
use super::{Overlap, ScheduleSpec, ThreadMode};
use crate::domain::Millis;
use crate::domain::fault::{Code, Fault};

/// More times than this are not made up for.
const MOST_CAUGHT_UP: u64 = 100;
const SHORTEST: Millis = 1_000;
const SHORTEST_CATCH_UP: Millis = 10_000;
/// Ten years.
const LONGEST: Millis = 10 * 365 * 86_400_000;
/// The year 9999 is about to end.
const LATEST: Millis = 253_400_000_000_000;

/// The times of a schedule, checked.
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

/// What of the times up to now has a run yet to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// How many came too late.
    pub missed: u64,
    /// The oldest that did not.
    pub first: Option<Millis>,
}

impl Timing {
    /// Refuses what cannot be, with a pointer.
    pub fn of(spec: &ScheduleSpec) -> Result<Self, Fault> {
        let span = |name, value, least| {
            let fits = (least..=LONGEST).contains(&value);
            if fits { Ok(value) } else { Err(wrong(name, format!("is {least} to {LONGEST}"))) }
        };
        let time = |name, value: Option<Millis>| match value {
            Some(time) if !(0..=LATEST).contains(&time) => Err(wrong(name, format!("is 0 to {LATEST}"))),
            time => Ok(time),
        };
        let (start, end) = (time("startAt", spec.start_at)?, time("endAt", spec.end_at)?);
        if start.zip(end).is_some_and(|(start, end)| end < start) {
            return Err(wrong("endAt", "is not before `startAt`"));
        }
        let rule = match (&spec.cron, spec.every_ms, spec.at) {
            (Some(cron), None, None) => Rule::Cron(cron.parse().map_err(|why: String| wrong("cron", why))?),
            (None, Some(every), None) => {
                Rule::Every { span: span("everyMs", every, SHORTEST)?, from: start.unwrap_or(0) }
            }
            (None, None, Some(at)) => Rule::Once(time("at", Some(at))?.unwrap_or(at)),
            _ => return Err(wrong("cron", "give one of `cron`, `everyMs` and `at`")),
        };
        let zone = TimeZone::get(&spec.timezone);
        let unknown = |_| wrong("timezone", "is no IANA time zone; write it like Europe/Berlin");
        match (spec.thread.mode, &spec.thread.id, spec.overlap) {
            (ThreadMode::Fixed, None, _) => return Err(wrong("thread/id", "names the thread of mode `fixed`")),
            (ThreadMode::New, Some(_), _) => return Err(wrong("thread/id", "goes with mode `fixed` only")),
            (ThreadMode::Fixed, Some(_), Overlap::Allow) => {
                return Err(wrong("overlap", "`allow` needs new threads: one thread has one run at a time"));
            }
            (ThreadMode::Fixed, Some(_), Overlap::Skip | Overlap::Queue | Overlap::Cancel)
            | (ThreadMode::New, None, _) => {}
        }
        if spec.query.trim().is_empty() {
            return Err(wrong("query", "must say something"));
        }
        Ok(Self {
            rule,
            zone: zone.map_err(unknown)?,
            start: start.unwrap_or(0),
            end: end.unwrap_or(LATEST),
            jitter: span("jitterMs", spec.jitter_ms, 0)?,
            catch_up: span("catchUpMs", spec.catch_up_ms, SHORTEST_CATCH_UP)?,
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

    /// When the run of a time begins: the same for every process that works it out.
    pub fn begins(&self, id: &str, due: Millis) -> Millis {
        if self.jitter == 0 {
            return due;
        }
        let digest = Sha256::new().chain_update(id).chain_update(due.to_be_bytes()).finalize();
        let number = u64::from_be_bytes(std::array::from_fn(|at| digest[at]));
        due + (number % (self.jitter.unsigned_abs() + 1)) as i64
    }

    /// Looks at the times from `due` on, which is one, up to `now`.
    pub fn passed(&self, due: Millis, now: Millis) -> Passed {
        let too_late = now - self.catch_up - self.jitter;
        let before = due.max(too_late) - 1;
        let (late, _) = self.count(due - 1, before, u64::MAX);
        let (in_time, _) = self.count(before, now, u64::MAX);
        let dropped = in_time.saturating_sub(MOST_CAUGHT_UP);
        let (_, reached) = self.count(before, now, dropped);
        Passed { missed: late + dropped, first: self.next(reached) }
    }

    /// How many times lie after `after` up to `until`, at most so many; and a moment between the last of them and the one
    /// after it.
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

    /// As a clock in its time zone shows it.
    pub fn shown(&self, time: Millis) -> String {
        let shown = Timestamp::from_millisecond(time).map(|time| time.to_zoned(self.zone.clone()));
        shown.map(|shown| shown.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()).unwrap_or_default()
    }
}

fn wrong(member: &str, why: impl Into<String>) -> Fault {
    let why = why.into();
    Fault::new(Code::Invalid, format!("`{member}`: {why}.")).at(format!("/{member}"), why)
}

#[cfg(test)]
mod tests;
