use metrics_exporter_prometheus::PrometheusBuilder;

use super::steady::LastReading;
use super::*;

const HOUR: Millis = 3_600_000;

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
    let LastReading { time, up } = clock.0.lock().last.expect("it was read");
    let mut slewed = LastReading { time, up };
    assert_eq!(slewed.read(stored - 7_200_000, up + 1_000), time + 900);
}

#[test]
fn a_small_step_forward_shortens_no_interval_by_more_than_a_tenth_and_a_large_one_is_believed() {
    let mut steady = LastReading { time: 0, up: 0 };
    assert_eq!(steady.read(60_000 + 1_000, 1_000), 1_100);
    assert_eq!(steady.read(3_600_000, 2_000), 3_600_000);
}

/// The database's clock shows 10 hours when the machine has been up for a second; that of the machine is ahead, or behind.
#[test]
fn the_databases_clock_is_followed_whatever_the_machines_shows() {
    for ahead in [2 * HOUR, -2 * HOUR] {
        let mut time = SteadyTime::default();
        assert_eq!(time.read(10 * HOUR + ahead, 1_000), 10 * HOUR + ahead, "nobody else was asked yet");
        assert_eq!(time.follow(10 * HOUR, 1_000, 10 * HOUR + ahead, 1_000), ahead);
        assert_eq!(time.read(10 * HOUR + ahead, 1_000), 10 * HOUR);
        let jumped = 20 * HOUR + ahead;
        assert_eq!(time.read(jumped + 1_000, 2_000), 10 * HOUR + 1_000, "a step of the machine's clock");
        assert_eq!(time.follow(10 * HOUR + 2_000, 3_000, jumped + 2_000, 3_000), 10 * HOUR + ahead);
        assert_eq!(time.read(jumped + 2_000, 3_000), 10 * HOUR + 2_000);
    }
}

#[test]
fn a_slow_answer_of_the_database_moves_nothing_and_one_that_contradicts_is_approached() {
    let mut time = SteadyTime::default();
    time.follow(HOUR, 0, HOUR, 0);
    // Asked at 10 s and answered at 14 s: its clock may have shown this at 10 s, or at 14 s.
    for shown in [10_000, 14_000] {
        assert_eq!(time.follow(HOUR + shown, 10_000, HOUR + 14_000, 14_000), 0);
    }
    assert_eq!(time.read(HOUR + 14_000, 14_000), HOUR + 14_000);
    // It is at least a second further than was known: its clock was put forward.
    assert_eq!(time.follow(HOUR + 16_000, 14_000, HOUR + 15_000, 15_000), -1_000);
    assert_eq!(time.read(HOUR + 16_000, 16_000), HOUR + 16_200, "a tenth faster");
    // It is set back by a minute.
    assert_eq!(time.follow(HOUR - 43_000, 17_000, HOUR + 17_000, 17_000), 60_000);
    assert_eq!(time.read(HOUR + 26_000, 26_000), HOUR + 25_200, "a tenth slower, and never back");
}

#[test]
fn a_clock_that_is_more_than_a_day_off_is_not_followed() {
    let mut time = SteadyTime::default();
    assert_eq!(time.follow(30 * HOUR, 0, 0, 0), -30 * HOUR);
    assert_eq!(time.read(0, 0), 0);
    time.follow(HOUR, 0, 0, 0);
    assert_eq!(time.follow(30 * HOUR, 0, 0, 0), -30 * HOUR);
    assert_eq!(time.read(0, 0), HOUR);
    assert_eq!(time.follow(30 * HOUR, 0, 29 * HOUR, 0), -HOUR, "the machine stood still for as long");
    assert_eq!(time.read(29 * HOUR, 0), 30 * HOUR);
}

#[test]
fn the_metrics_say_how_far_the_clocks_differ() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let metrics = recorder.handle();
    let _local = metrics::set_default_local_recorder(&recorder);
    let mut time = SteadyTime::default();
    for (ahead, shown) in [(7_500, "7.5"), (0, "0"), (-7_500, "-7.5")] {
        time.follow(HOUR, 1_000, HOUR + ahead, 1_000);
        assert!(metrics.render().contains(&format!("pes_clock_skew_seconds {shown}\n")), "{}", metrics.render());
    }
}
