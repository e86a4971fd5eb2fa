use serde_json::{Value, json};

use super::*;

fn timing(spec: Value) -> Result<Timing, Fault> {
    let mut whole = json!({ "id": "s", "query": "q" });
    json_patch::merge(&mut whole, &spec);
    Timing::of(&serde_json::from_value(whole).unwrap())
}

fn times(spec: Value, after: Millis, count: usize) -> Vec<Millis> {
    let timing = timing(spec).unwrap();
    std::iter::successors(timing.next(after), |time| timing.next(*time)).take(count).collect()
}

#[test]
fn times_lie_between_the_first_and_the_last() {
    assert_eq!(times(json!({ "everyMs": 1_000 }), 1_500, 3), [2_000, 3_000, 4_000]);
    assert_eq!(times(json!({ "everyMs": 1_000, "startAt": 5_300 }), 0, 2), [5_300, 6_300]);
    assert_eq!(times(json!({ "everyMs": 1_000, "endAt": 3_000 }), 1_000, 9), [2_000, 3_000]);
    assert_eq!(times(json!({ "at": 7_000 }), 6_999, 9), [7_000]);
    assert_eq!(times(json!({ "at": 7_000 }), 7_000, 9), [0_i64; 0]);
    assert_eq!(times(json!({ "cron": "* * * * *", "startAt": 60_000, "endAt": 120_000 }), 0, 9), [60_000, 120_000]);
    assert_eq!(times(json!({ "everyMs": 1_000, "paused": true }), 0, 9), [0_i64; 0]);
}

#[test]
fn what_cannot_be_is_pointed_at() {
    for (spec, pointer) in [
        (json!({}), "/cron"),
        (json!({ "cron": "* * * * *", "everyMs": 1_000 }), "/cron"),
        (json!({ "cron": "61 * * * *" }), "/cron"),
        (json!({ "cron": "* * * * *", "timezone": "Mars/Olympus" }), "/timezone"),
        (json!({ "everyMs": 999 }), "/everyMs"),
        (json!({ "everyMs": 1_000, "jitterMs": -1 }), "/jitterMs"),
        (json!({ "everyMs": 1_000, "catchUpMs": 0 }), "/catchUpMs"),
        (json!({ "everyMs": 1_000, "startAt": 2, "endAt": 1 }), "/endAt"),
        (json!({ "everyMs": 1_000, "startAt": i64::MAX }), "/startAt"),
        (json!({ "at": -1 }), "/at"),
        (json!({ "everyMs": 1_000, "query": " " }), "/query"),
        (json!({ "everyMs": 1_000, "thread": { "mode": "fixed" } }), "/thread/id"),
        (json!({ "everyMs": 1_000, "thread": { "id": "t" } }), "/thread/id"),
        (json!({ "everyMs": 1_000, "overlap": "allow", "thread": { "mode": "fixed", "id": "t" } }), "/overlap"),
    ] {
        let fault = timing(spec.clone()).unwrap_err();
        assert_eq!((fault.code, fault.errors[0].pointer.as_str()), (Code::Invalid, pointer), "{spec}");
    }
}

#[test]
fn what_came_too_late_is_counted_and_at_most_a_hundred_are_made_up_for() {
    let passed = |spec: Value, due, now| timing(spec).unwrap().due_times(due, now);
    let every = |catch_up: Millis| json!({ "everyMs": 1_000, "catchUpMs": catch_up });
    assert_eq!(passed(every(10_000), 5_000, 5_000), DueTimes { missed: 0, first: Some(5_000) });
    assert_eq!(passed(every(10_000), 5_000, 15_000), DueTimes { missed: 0, first: Some(5_000) });
    assert_eq!(passed(every(10_000), 5_000, 15_001), DueTimes { missed: 1, first: Some(6_000) });
    assert_eq!(passed(every(10_000), 5_000, 1_000_000), DueTimes { missed: 985, first: Some(990_000) });
    assert_eq!(passed(every(600_000), 1_000, 200_000), DueTimes { missed: 100, first: Some(101_000) });
    // As many for a pattern as for an interval.
    let minutes = |rule: Value| {
        let mut spec = json!({ "catchUpMs": 7_200_000, "endAt": 50_000_000 });
        json_patch::merge(&mut spec, &rule);
        [20_000_000, 40_000_000, 60_000_000].map(|now| passed(spec.clone(), 60_000, now))
    };
    let of_pattern = minutes(json!({ "cron": "* * * * *" }));
    assert_eq!(of_pattern, minutes(json!({ "everyMs": 60_000 })));
    assert_eq!(of_pattern[0], DueTimes { missed: 233, first: Some(14_040_000) });
    assert_eq!(of_pattern[2], DueTimes { missed: 833, first: None });
    // A server that was down for years.
    let years = passed(json!({ "cron": "* * * * *" }), 60_000, 100_000 * 600_000);
    assert_eq!(years, DueTimes { missed: 999_939, first: Some(100_000 * 600_000 - 3_600_000) });
    // The number of times that are still in time does not matter either.
    let lenient = passed(json!({ "cron": "* * * * *", "catchUpMs": 315_360_000_000_i64 }), 60_000, 60_000_000_000);
    assert_eq!(lenient, DueTimes { missed: 999_900, first: Some(60_000_000_000 - 99 * 60_000) });
}

#[test]
fn a_run_begins_later_by_what_its_time_says() {
    let timing = timing(json!({ "everyMs": 1_000, "jitterMs": 500 })).unwrap();
    let begins: Vec<Millis> = (1..100).map(|n| timing.starts_at("s", n * 1_000) - n * 1_000).collect();
    assert!(begins.iter().all(|later| (0..=500).contains(later)));
    assert!(begins.iter().collect::<std::collections::BTreeSet<_>>().len() > 50);
    assert_eq!(timing.starts_at("s", 1_000), timing.starts_at("s", 1_000));
    assert_eq!(begins[..3], [3, 194, 26], "replicas of other builds work out the same");
}
