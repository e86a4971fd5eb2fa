//! Cron patterns of five fields, and the times that they mean in a time zone.
//!
//! `minute hour day-of-month month day-of-week`: lists, ranges, steps, and names of months and days. As in other crons, a
//! day fits if one of the two day fields does, when neither begins with `*`; else it must fit both.
//!
//! A pattern means times on a clock on the wall. One that the clock leaves out when it is put forward is due at the end of
//! the gap; one that it shows twice when it is put back is due the first time only.

use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};

use crate::domain::Millis;

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The 29th of February falls on each day of the week again after at most so many years.
const YEARS: i16 = 41;

/// A pattern; of each field a bit for every value that fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    either_day: bool,
}

/// What a field may have.
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
                self.also()
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

    /// The names that may stand for numbers.
    fn also(&self) -> String {
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

/// Digits and nothing else.
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
            // What the wall shows for the second time was due before.
            if time > after {
                return Some(time);
            }
        }
    }

    /// How many times lie after `after` up to `until`, at most so many; and where the counting came to: no time lies
    /// between the last one counted and that. Costs as much as there are days, not times.
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

    /// The first time on the wall after the minute of this one.
    fn next_on_the_wall(&self, after: DateTime) -> Option<DateTime> {
        let mut date = after.date();
        if let Some(time) = self.next_time(i32::from(after.hour()) * 60 + i32::from(after.minute()))
            && self.is_day(date)
        {
            return Some(date.to_datetime(time));
        }
        let first = self.next_time(-1)?;
        let last_year = after.year().saturating_add(YEARS);
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

    /// The first time of a day after this minute of it.
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

/// When the wall shows this: the first time if it does twice, the end of the gap if it never does.
fn instant(zone: &TimeZone, wall: DateTime) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(wall);
    match ambiguous.offset() {
        AmbiguousOffset::Gap { after, .. } => {
            // By the clock as it goes afterwards this was before the gap.
            let before = after.to_timestamp(wall).ok()?;
            zone.following(before).next().map(|transition| transition.timestamp())
        }
        AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => ambiguous.earlier().ok(),
    }
}

fn date_of(zone: &TimeZone, time: Millis) -> Option<Date> {
    Some(zone.to_datetime(Timestamp::from_millisecond(time).ok()?).date())
}

/// When a day begins and when it is over; and whether its clock is neither put forward nor back, not as it begins either.
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
