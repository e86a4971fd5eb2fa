//! Cron patterns with five fields, and the times that they match in a time zone.
//!
//! `minute hour day-of-month month day-of-week`: lists, ranges, steps, and names of months and days. As in other crons,
//! a day matches if one of the two day fields does, unless one of them begins with `*`; then both must match.
//!
//! A pattern matches local times. A time that a clock change skips is due at the end of the gap; a time that occurs
//! twice is due only the first time.

use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};

use crate::domain::Millis;

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// After at most this many years, February 29 has fallen on every day of the week.
const MAX_YEARS_BETWEEN_MATCHES: i16 = 41;

/// A pattern: for each field a bit for every matching value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    either_day: bool,
}

/// The valid values of a field.
struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { name: "minute", least: 0, most: 59, names: &[] },
    Field { name: "hour", least: 0, most: 23, names: &[] },
    Field { name: "day of the month", least: 1, most: 31, names: &[] },
    Field { name: "month", least: 1, most: 12, names: &MONTHS },
    Field { name: "day of the week", least: 0, most: 7, names: &DAYS },
];

impl FromStr for Cron {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split_ascii_whitespace().collect();
        let Ok(parts) = <[&str; 5]>::try_from(parts) else {
            return Err("has five fields: minute, hour, day of the month, month, day of the week".to_owned());
        };
        let mut bits = [0; 5];
        for ((field, part), bits) in FIELDS.iter().zip(parts).zip(&mut bits) {
            *bits = field.bits(part)?;
        }
        let [minutes, hours, days, months, weekdays] = bits;
        let either_day = !parts[2].starts_with('*') && !parts[4].starts_with('*');
        // Sunday is 0 and 7.
        let cron = Self { minutes, hours, days, months, weekdays: (weekdays | weekdays >> 7) & 0x7F, either_day };
        let leap_year = Date::constant(2000, 1, 1).at(0, 0, 0, 0);
        cron.next_on_the_wall(leap_year).ok_or("means no day that there is")?;
        Ok(cron)
    }
}

impl Field {
    fn bits(&self, text: &str) -> Result<u64, String> {
        text.split(',').try_fold(0, |bits, part| Ok(bits | self.part(part)?))
    }

    fn part(&self, text: &str) -> Result<u64, String> {
        let wrong = || {
            format!(
                "`{text}` is no {}: {} to {}{}, a range, or either with a step",
                self.name,
                self.least,
                self.most,
                self.names_hint()
            )
        };
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(number(step).filter(|step| *step > 0).ok_or_else(wrong)?)),
            None => (text, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (self.least, self.most),
            Some((first, last)) => (self.value(first).ok_or_else(wrong)?, self.value(last).ok_or_else(wrong)?),
            None => {
                let first = self.value(range).ok_or_else(wrong)?;
                (first, if step.is_some() { self.most } else { first })
            }
        };
        if first > last {
            return Err(wrong());
        }
        let values = (first..=last).step_by(step.unwrap_or(1) as usize);
        Ok(values.fold(0, |bits, value| bits | 1 << value))
    }

    /// A hint about the names that may be used instead of numbers.
    fn names_hint(&self) -> String {
        match (self.names.first(), self.names.last()) {
            (Some(first), Some(last)) => format!(" or {first} to {last}"),
            _ => String::new(),
        }
    }

    fn value(&self, text: &str) -> Option<u32> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let named = named.and_then(|at| u32::try_from(at).ok()).map(|at| at + self.least);
        named.or_else(|| number(text)).filter(|value| (self.least..=self.most).contains(value))
    }
}

/// Digits only.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

impl Cron {
    /// The first time after this one; `None`: the calendar ends before.
    pub fn next(&self, zone: &TimeZone, after: Millis) -> Option<Millis> {
        let mut wall = zone.to_datetime(Timestamp::from_millisecond(after).ok()?);
        loop {
            wall = self.next_on_the_wall(wall)?;
            let time = instant(zone, wall)?.as_millisecond();
            // A local time that occurs twice may have been due before.
            if time > after {
                return Some(time);
            }
        }
    }

    /// Counts the times after `after` up to `until`, at most `most`. Also returns where the count stopped: no time lies
    /// between the last counted one and that point. The cost depends on the number of days, not of times.
    pub fn count(&self, zone: &TimeZone, after: Millis, until: Millis, most: u64) -> (u64, Millis) {
        let (mut count, mut reached) = (0, after);
        let Some(mut date) = date_of(zone, after) else { return (count, reached) };
        let each_day = u64::from(self.hours.count_ones() * self.minutes.count_ones());
        while reached < until && count < most {
            let Some((start, end, is_plain)) = day(zone, date) else { break };
            let whole_day = if self.is_day(date) { each_day } else { 0 };
            if is_plain && reached < start && end - 1 <= until && count + whole_day <= most {
                (count, reached) = (count + whole_day, end - 1);
            }
            let last = until.min(end - 1);
            while let Some(time) = self.next(zone, reached).filter(|time| *time <= last && count < most) {
                (count, reached) = (count + 1, time);
            }
            if count < most {
                reached = reached.max(last);
            }
            let Ok(tomorrow) = date.tomorrow() else { break };
            date = tomorrow;
        }
        (count, reached)
    }

    /// The first matching local time after this minute.
    fn next_on_the_wall(&self, after: DateTime) -> Option<DateTime> {
        let mut date = after.date();
        if let Some(time) = self.next_time(i32::from(after.hour()) * 60 + i32::from(after.minute()))
            && self.is_day(date)
        {
            return Some(date.to_datetime(time));
        }
        let first = self.next_time(-1)?;
        let last_year = after.year().saturating_add(MAX_YEARS_BETWEEN_MATCHES);
        loop {
            date = match self.months >> date.month() & 1 {
                1 => date.tomorrow().ok()?,
                _ => date.last_of_month().tomorrow().ok()?,
            };
            if self.is_day(date) {
                return Some(date.to_datetime(first));
            }
            if date.year() > last_year {
                return None;
            }
        }
    }

    /// The first matching time of a day after this minute of the day.
    fn next_time(&self, after: i32) -> Option<Time> {
        let fits = |minute: &i32| self.hours >> (minute / 60) & 1 == 1 && self.minutes >> (minute % 60) & 1 == 1;
        let minute = (after + 1..24 * 60).find(fits)?;
        Time::new(i8::try_from(minute / 60).ok()?, i8::try_from(minute % 60).ok()?, 0, 0).ok()
    }

    fn is_day(&self, date: Date) -> bool {
        let day = self.days >> date.day() & 1 == 1;
        let weekday = self.weekdays >> date.weekday().to_sunday_zero_offset() & 1 == 1;
        let fits = if self.either_day { day || weekday } else { day && weekday };
        fits && self.months >> date.month() & 1 == 1
    }
}

/// The instant of a local time: the first if it occurs twice, the end of the gap if it is skipped.
fn instant(zone: &TimeZone, wall: DateTime) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(wall);
    match ambiguous.offset() {
        AmbiguousOffset::Gap { after, .. } => {
            // With the offset after the gap, this local time lies before the gap.
            let before = after.to_timestamp(wall).ok()?;
            zone.following(before).next().map(|transition| transition.timestamp())
        }
        AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => ambiguous.earlier().ok(),
    }
}

fn date_of(zone: &TimeZone, time: Millis) -> Option<Date> {
    Some(zone.to_datetime(Timestamp::from_millisecond(time).ok()?).date())
}

/// When a day begins and ends, and whether no clock change happens during it or at its beginning.
fn day(zone: &TimeZone, date: Date) -> Option<(Millis, Millis, bool)> {
    let start = instant(zone, date.to_datetime(Time::midnight()))?;
    let end = instant(zone, date.tomorrow().ok()?.to_datetime(Time::midnight()))?;
    let (start, end) = (start.as_millisecond(), end.as_millisecond());
    let offset = |time| Some(zone.to_offset(Timestamp::from_millisecond(time).ok()?));
    let is_plain =
        end - start == 86_400_000 && offset(start - 1)? == offset(start)? && offset(start)? == offset(end - 1)?;
    Some((start, end, is_plain))
}

#[cfg(test)]
mod tests;
