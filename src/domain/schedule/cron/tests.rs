use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn cron(text: &str) -> Cron {
    text.parse().unwrap_or_else(|why| panic!("{text}: {why}"))
}

fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap()
}

fn at(text: &str) -> Millis {
    text.parse::<Timestamp>().unwrap().as_millisecond()
}

/// The times after `from`, in the zone's local time.
fn times(pattern: &str, name: &str, from: &str, count: usize) -> Vec<String> {
    let (cron, zone, mut time, mut times) = (cron(pattern), zone(name), at(from), Vec::new());
    for _ in 0..count {
        time = cron.next(&zone, time).unwrap();
        let shown = Timestamp::from_millisecond(time).unwrap().to_zoned(zone.clone());
        times.push(shown.strftime("%Y-%m-%d %H:%M%:z").to_string());
    }
    times
}

#[test]
fn lists_ranges_steps_and_names_are_read() {
    let same = [
        ("1,2,3 * * * *", "1-3 * * * *"),
        ("*/20 * * * *", "0,20,40 * * * *"),
        ("50/5 * * * *", "50,55 * * * *"),
        ("0 8-18/5 * * *", "0 8,13,18 * * *"),
        ("0 0 * JAN,dec Mon-fri", "0 0 * 1,12 1-5"),
        ("0 0 * * 7", "0 0 * * SUN"),
        ("0 0 * * 5-7", "0 0 * * 0,5,6"),
    ];
    for (one, other) in same {
        assert_eq!(cron(one), cron(other), "{one}");
    }
}

#[test]
fn a_refusal_says_which_names_there_are() {
    let why = "0 0 * * mon-fry".parse::<Cron>().unwrap_err();
    assert_eq!(why, "`mon-fry` is no day of the week: 0 to 7 or sun to sat, a range, or either with a step");
    let why = "61 * * * *".parse::<Cron>().unwrap_err();
    assert_eq!(why, "`61` is no minute: 0 to 59, a range, or either with a step");
}

#[test]
fn what_means_nothing_is_refused() {
    for wrong in [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "5-1 * * * *",
        "*/0 * * * *",
        "+1 * * * *",
        ", * * * *",
        "1- * * * *",
        "* * * * monday",
        "jan * * * *",
        "@daily",
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
    ] {
        assert!(wrong.parse::<Cron>().is_err(), "{wrong}");
    }
}

#[test]
fn a_day_fits_one_of_two_day_fields_or_both() {
    let either = times("0 0 13 * fri", "UTC", "2026-11-01T00:00:00Z", 3);
    assert_eq!(either, ["2026-11-06 00:00+00:00", "2026-11-13 00:00+00:00", "2026-11-20 00:00+00:00"]);
    let both = times("0 0 */2 * fri", "UTC", "2026-11-01T00:00:00Z", 2);
    assert_eq!(both, ["2026-11-13 00:00+00:00", "2026-11-27 00:00+00:00"]);
    assert_eq!(times("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", 1), ["2104-02-29 00:00+00:00"]);
    let saturday_or_sunday = times("0 0 29 2 */6", "UTC", "2076-03-01T00:00:00Z", 1);
    assert_eq!(saturday_or_sunday, ["2088-02-29 00:00+00:00"]);
}

#[test]
fn berlin() {
    let spring = times("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", 3);
    assert_eq!(spring, ["2026-03-28 02:30+01:00", "2026-03-29 03:00+02:00", "2026-03-30 02:30+02:00"]);
    let autumn = times("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2);
    assert_eq!(autumn, ["2026-10-25 02:30+02:00", "2026-10-26 02:30+01:00"]);
    // Times in a gap are due together with the time at its end, only once.
    let gap = times("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:15:00Z", 3);
    assert_eq!(gap, ["2026-03-29 01:30+01:00", "2026-03-29 03:00+02:00", "2026-03-29 03:30+02:00"]);
    let fold = times("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:15:00Z", 2);
    assert_eq!(fold, ["2026-10-25 02:30+02:00", "2026-10-25 03:00+01:00"]);
    // Starting in the hour that occurs twice.
    assert_eq!(times("45 2 * * *", "Europe/Berlin", "2026-10-25T01:30:00Z", 1), ["2026-10-26 02:45+01:00"]);
}

#[test]
fn new_york() {
    let spring = times("30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", 2);
    assert_eq!(spring, ["2026-03-08 03:00-04:00", "2026-03-09 02:30-04:00"]);
    let autumn = times("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", 2);
    assert_eq!(autumn, ["2026-11-01 01:30-04:00", "2026-11-02 01:30-05:00"]);
}

#[test]
fn lord_howe_moves_by_half_an_hour() {
    let spring = times("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", 2);
    assert_eq!(spring, ["2026-10-04 02:30+11:00", "2026-10-05 02:15+11:00"]);
    let autumn = times("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", 2);
    assert_eq!(autumn, ["2026-04-05 01:45+11:00", "2026-04-06 01:45+10:30"]);
}

const ZONES: [&str; 8] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/St_Johns",
    "Asia/Kathmandu",
    "Africa/Casablanca",
    "Pacific/Apia",
];

fn field(least: u32, most: u32) -> impl Strategy<Value = String> {
    let one = (least..=most).prop_map(|one| one.to_string());
    let range = (least..=most, least..=most).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b)));
    let stepped = (least..=most, 1u32..20).prop_map(|(first, step)| format!("{first}/{step}"));
    let every = (1u32..30).prop_map(|step| format!("*/{step}"));
    let part = prop_oneof![one, range, stepped, every.clone()];
    prop_oneof![4 => Just("*".to_owned()), 3 => proptest::collection::vec(part, 1..4).prop_map(|parts| parts.join(","))]
}

/// All times that a pattern matches in some days, found by testing every minute of local time.
fn by_looking(cron: &Cron, zone: &TimeZone, from: Millis, until: Millis) -> BTreeSet<Millis> {
    let day = jiff::Span::new().days(2);
    let mut wall = zone.to_datetime(Timestamp::from_millisecond(from).unwrap()).checked_sub(day).unwrap();
    wall = wall.date().at(wall.hour(), wall.minute(), 0, 0);
    let last = zone.to_datetime(Timestamp::from_millisecond(until).unwrap()).checked_add(day).unwrap();
    let mut found = BTreeSet::new();
    while wall < last {
        let (hour, minute) = (wall.hour(), wall.minute());
        if cron.minutes >> minute & 1 == 1 && cron.hours >> hour & 1 == 1 && cron.is_day(wall.date()) {
            let ambiguous = zone.to_ambiguous_timestamp(wall);
            let mut time = ambiguous.earlier().unwrap().as_millisecond();
            if matches!(ambiguous.offset(), AmbiguousOffset::Gap { .. }) {
                // The first instant with a later local time.
                while zone.to_datetime(Timestamp::from_millisecond(time).unwrap()) < wall {
                    time += 60_000;
                }
            }
            if time > from && time <= until {
                found.insert(time);
            }
        }
        wall = wall.checked_add(jiff::Span::new().minutes(1)).unwrap();
    }
    found
}

/// A time close to a clock change somewhere, or any time.
fn begins() -> impl Strategy<Value = Millis> {
    let near = prop_oneof![
        Just(at("2026-03-28T00:00:00Z")),
        Just(at("2026-10-24T00:00:00Z")),
        Just(at("2026-03-07T00:00:00Z")),
        Just(at("2026-10-31T00:00:00Z")),
        Just(at("2026-10-02T20:00:00Z")),
        Just(at("2026-04-03T20:00:00Z")),
        Just(at("2011-12-29T00:00:00Z")),
    ];
    (near, 0i64..86_400_000).prop_map(|(near, more)| near + more)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn the_next_time_is_the_first_that_a_clock_on_the_wall_shows(
        fields in (field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 7)),
        name in proptest::sample::select(&ZONES[..]),
        from in begins(),
    ) {
        let pattern = format!("{} {} {} {} {}", fields.0, fields.1, fields.2, fields.3, fields.4);
        let Ok(cron) = pattern.parse::<Cron>() else { return Ok(()) };
        let (zone, until) = (zone(name), from + 3 * 86_400_000);
        let mut found = BTreeSet::new();
        let mut time = from;
        while let Some(next) = cron.next(&zone, time).filter(|next| *next <= until) {
            found.insert(next);
            time = next;
        }
        prop_assert_eq!(found, by_looking(&cron, &zone, from, until), "{} in {}", pattern, name);
    }
    #[test]
    fn as_many_are_counted_as_come_one_after_the_other(
        fields in (field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 7)),
        name in proptest::sample::select(&ZONES[..]),
        from in begins(),
        days in 0i64..40,
        most in 1u64..3_000,
    ) {
        let pattern = format!("{} {} {} {} {}", fields.0, fields.1, fields.2, fields.3, fields.4);
        let Ok(cron) = pattern.parse::<Cron>() else { return Ok(()) };
        let (zone, until) = (zone(name), from + days * 43_200_000);
        let each = std::iter::successors(cron.next(&zone, from), |time| cron.next(&zone, *time));
        let each: Vec<Millis> = each.take_while(|time| *time <= until).take(most as usize).collect();
        let (count, reached) = cron.count(&zone, from, until, most);
        prop_assert_eq!(count, each.len() as u64, "{} in {}", &pattern, name);
        let following = each.last().map_or(cron.next(&zone, from), |last| cron.next(&zone, *last));
        prop_assert_eq!(cron.next(&zone, reached), following, "{} in {}", pattern, name);
    }
}
