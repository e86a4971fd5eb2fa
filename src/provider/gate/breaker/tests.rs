use super::*;

const OPEN_FOR: Duration = Duration::from_secs(10);

fn opened(now: Instant) -> Breaker {
    let mut breaker = Breaker::new(3, OPEN_FOR);
    for _ in 0..3 {
        let role = breaker.start_call(now).unwrap();
        breaker.end_call(role, Outcome::Failure, now);
    }
    breaker
}

#[test]
fn a_call_that_the_model_wrote_wrongly_says_that_the_provider_works() {
    let broken = ModelFailure::new(FailureKind::Broken, "no call");
    assert_eq!(Outcome::of(&broken), Outcome::Failure);
    assert_eq!(Outcome::of(&ModelFailure { is_models_fault: true, ..broken }), Outcome::Success);
}

#[tokio::test]
async fn it_opens_after_failures_in_a_row_only() {
    let now = Instant::now();
    let mut breaker = Breaker::new(3, OPEN_FOR);
    for outcome in
        [Outcome::Failure, Outcome::Failure, Outcome::Success, Outcome::Failure, Outcome::Failure, Outcome::Unknown]
    {
        breaker.end_call(CallRole::Regular, outcome, now);
    }
    assert_eq!(breaker.state(now), BreakerState::Closed);
    assert_eq!(opened(now).start_call(now), Err(OPEN_FOR));
}

#[tokio::test]
async fn one_call_at_a_time_tries_whether_the_provider_is_back() {
    let now = Instant::now();
    let later = now + OPEN_FOR;
    let mut breaker = opened(now);
    assert_eq!((breaker.state(later), breaker.start_call(later)), (BreakerState::HalfOpen, Ok(CallRole::Probe(later))));
    assert!(breaker.start_call(later).is_err(), "another one tries already");
    breaker.end_call(CallRole::Probe(later), Outcome::Unknown, later);
    assert_eq!(breaker.start_call(later), Ok(CallRole::Probe(later)), "a try that was given up blocks nobody");
    breaker.end_call(CallRole::Probe(later), Outcome::Failure, later);
    assert_eq!(breaker.start_call(later), Err(OPEN_FOR));
    assert_eq!(breaker.start_call(later + OPEN_FOR), Ok(CallRole::Probe(later + OPEN_FOR)));
    breaker.end_call(CallRole::Probe(later + OPEN_FOR), Outcome::Success, later + OPEN_FOR);
    assert_eq!(breaker.start_call(later + OPEN_FOR), Ok(CallRole::Regular));
}

#[tokio::test]
async fn a_try_that_hangs_keeps_others_from_trying_only_for_a_while() {
    let later = Instant::now() + OPEN_FOR;
    let mut breaker = opened(later - OPEN_FOR);
    assert_eq!(breaker.start_call(later), Ok(CallRole::Probe(later)));
    assert!(breaker.start_call(later + OPEN_FOR / 2).is_err());
    assert_eq!(breaker.start_call(later + OPEN_FOR), Ok(CallRole::Probe(later + OPEN_FOR)));
    assert!(breaker.start_call(later + OPEN_FOR).is_err());
}

#[tokio::test]
async fn a_try_of_the_outage_that_fails_late_keeps_nobody_from_a_provider_that_works() {
    let now = Instant::now();
    let mut breaker = opened(now);
    let [first, second, third, fourth] = [1, 2, 3, 4].map(|n| now + OPEN_FOR * n);
    for at in [first, second, third] {
        assert_eq!(breaker.start_call(at), Ok(CallRole::Probe(at)));
    }
    breaker.end_call(CallRole::Probe(first), Outcome::Failure, third);
    assert!(breaker.start_call(third).is_err(), "the last one still tries");
    assert_eq!(breaker.start_call(fourth), Ok(CallRole::Probe(fourth)), "a late failure delays no other try");
    breaker.on_probe_answered();
    breaker.end_call(CallRole::Probe(second), Outcome::Failure, fourth);
    assert_eq!(breaker.start_call(fourth), Ok(CallRole::Regular), "its reply has begun");
    breaker.end_call(CallRole::Regular, Outcome::Success, fourth);
    breaker.end_call(CallRole::Probe(third), Outcome::Failure, fourth);
    // The reply to another one that was late.
    breaker.on_probe_answered();
    breaker.end_call(CallRole::Regular, Outcome::Failure, fourth);
    breaker.end_call(CallRole::Regular, Outcome::Failure, fourth);
    assert_eq!(breaker.state(fourth), BreakerState::Closed, "three failures in a row open it, as ever");
    breaker.end_call(CallRole::Regular, Outcome::Failure, fourth);
    assert_eq!(breaker.state(fourth), BreakerState::Open);
}

#[tokio::test]
async fn tries_that_fail_late_say_that_the_provider_still_fails() {
    let now = Instant::now();
    let mut breaker = opened(now);
    let [first, second] = [1, 8].map(|n| now + OPEN_FOR * n);
    assert_eq!([first, second].map(|at| breaker.start_call(at).is_ok()), [true, true]);
    assert!(!breaker.is_failing(second), "nothing is known for long");
    breaker.end_call(CallRole::Probe(first), Outcome::Failure, second);
    assert!(breaker.is_failing(second));
}

#[tokio::test]
async fn without_a_pause_one_call_at_a_time_tries_as_well() {
    let (now, second) = (Instant::now(), Duration::from_secs(1));
    let mut breaker = Breaker::new(1, Duration::ZERO);
    breaker.end_call(CallRole::Regular, Outcome::Failure, now);
    assert_eq!(breaker.start_call(now), Ok(CallRole::Probe(now)));
    assert!(breaker.start_call(now).is_err());
    assert_eq!(breaker.start_call(now + second), Ok(CallRole::Probe(now + second)));
}
