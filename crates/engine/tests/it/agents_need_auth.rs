//! Agents that need a person to authorise them elsewhere.

use pes_engine::domain::hitl::{Suspension, SuspensionKind};
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::RunStatus;
use pes_engine::domain::task::{PeerFailureKind, PeerReport, PeerState, RemoteQuestion, TaskStatus};
use pes_engine::effect::Effect;
use rstest::rstest;
use serde_json::{Value, json};

use super::agents_ask::{asked, report, reports, waiting};
use super::delegate::{error_code, sending_fails};
use super::sim::*;

/// The agent says this and waits.
fn demand(message: &str, id: Option<&str>) -> PeerReport {
    let question = id.map(|id| RemoteQuestion { suspension_id: id.into(), kind: SuspensionKind::PeerAuth });
    PeerReport { message: Some(message.to_owned()), question, ..report(PeerState::AuthRequired) }
}

/// The agent is polled, and says this.
fn demands(sim: &mut Sim, message: &str) {
    asked(sim);
    reports(sim, &demand(message, None));
}

fn open(sim: &Sim) -> Vec<Suspension> {
    sim.suspensions()
}

/// The answer that is being sent.
fn sent(sim: &Sim) -> Option<Value> {
    let is_sent = matches!(sim.in_flight[..], [Effect::Delegate { .. }]);
    is_sent.then(|| sim.tasks()[0].reply.clone().unwrap())
}

fn times_asked(sim: &Sim) -> usize {
    sim.contents(ObservationType::AgentSuspended).len()
}

#[rstest]
#[case::a_yes(None, json!(true))]
#[case::words(Some(json!("code 7")), json!("code 7"))]
fn an_agent_that_gives_its_demand_an_id_gets_the_answer_at_once(#[case] value: Option<Value>, #[case] reply: Value) {
    let mut sim = waiting();
    asked(&mut sim);
    reports(&mut sim, &demand("Sign in.", Some("sus_1")));
    assert_eq!(open(&sim)[0].kind, SuspensionKind::PeerAuth);
    sim.answer(0, |answer| (answer.approved, answer.value) = (Some(true), value)).unwrap();
    assert_eq!(sent(&sim), Some(reply));
    reports(&mut sim, &demand("And there.", Some("sus_2")));
    assert!(open(&sim).is_empty(), "the next demand is asked when a poll confirms it");
    asked(&mut sim);
    reports(&mut sim, &demand("And there.", Some("sus_2")));
    assert_eq!(&*open(&sim)[0].message, "And there.");
}

#[rstest]
#[case::a_yes(None, json!("done"))]
#[case::words(Some(json!("code 7")), json!("code 7"))]
fn another_agent_gets_the_answer_once_if_it_does_not_notice_by_itself(
    #[case] value: Option<Value>,
    #[case] reply: Value,
) {
    let mut sim = waiting();
    demands(&mut sim, "Sign in.");
    sim.answer(0, |answer| (answer.approved, answer.value) = (Some(true), value)).unwrap();
    assert_eq!(sent(&sim), None, "it is asked first");
    demands(&mut sim, "Sign in.");
    assert_eq!(sent(&sim), Some(reply));
    reports(&mut sim, &demand("Sign in.", None));
    let mut pauses = Vec::new();
    for _ in 0..8 {
        pauses.push(sim.steps.last().unwrap().wake_at.unwrap() - sim.now);
        demands(&mut sim, "Sign in.");
        assert!(open(&sim).is_empty() && sim.in_flight.is_empty(), "{:?}", sim.in_flight);
    }
    assert!(pauses[7] >= 10 * pauses[0], "less and less often: {pauses:?}");
    assert_eq!((sim.tasks()[0].status, times_asked(&sim)), (TaskStatus::Working, 1));
    demands(&mut sim, "Sign in elsewhere.");
    assert_eq!((&*open(&sim)[0].message, times_asked(&sim)), ("Sign in elsewhere.", 2));
}

#[test]
fn a_demand_whose_time_runs_out_stays_answered() {
    let mut sim = waiting();
    let ends = sim.now + 3_600_000;
    let demands = |sim: &mut Sim| {
        asked(sim);
        let left = (ends - sim.now) / 1_000;
        reports(sim, &demand(&format!("Sign in within {left} s."), None));
    };
    demands(&mut sim);
    sim.now += 10_000;
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    demands(&mut sim);
    assert_eq!((sent(&sim), times_asked(&sim)), (Some(json!("done")), 1));
}

#[test]
fn an_agent_that_notices_by_itself_is_sent_nothing() {
    let mut sim = waiting();
    demands(&mut sim, "Sign in.");
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    asked(&mut sim);
    reports(&mut sim, &report(PeerState::Working));
    demands(&mut sim, "Sign in.");
    assert_eq!((sent(&sim), open(&sim).len()), (None, 1), "that is another demand");
}

#[rstest]
#[case(PeerFailureKind::Refused)]
#[case(PeerFailureKind::Unsupported)]
fn an_agent_that_takes_no_message_keeps_its_task(#[case] kind: PeerFailureKind) {
    let mut sim = waiting();
    demands(&mut sim, "Sign in.");
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    demands(&mut sim, "Sign in.");
    sending_fails(&mut sim, kind);
    reports(&mut sim, &demand("Sign in.", None));
    assert!(open(&sim).is_empty() && sim.in_flight.is_empty(), "{:?}", sim.in_flight);
    asked(&mut sim);
    reports(&mut sim, &report(PeerState::Failed));
    assert_eq!(error_code(&sim), "peer_failed");
}

#[test]
fn an_answer_that_may_be_lost_is_asked_for_once_more() {
    for is_found in [true, false] {
        let mut sim = waiting();
        demands(&mut sim, "Sign in.");
        sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
        demands(&mut sim, "Sign in.");
        sending_fails(&mut sim, PeerFailureKind::Unknown);
        if is_found {
            reports(&mut sim, &demand("Sign in.", None));
        } else {
            sending_fails(&mut sim, PeerFailureKind::Unknown);
            assert_eq!(open(&sim)[0].kind, SuspensionKind::InDoubt);
        }
        demands(&mut sim, "Sign in.");
        let kinds: Vec<SuspensionKind> = open(&sim).iter().map(|open| open.kind).collect();
        assert_eq!(kinds, [SuspensionKind::PeerAuth], "{is_found}");
    }
}

/// `false` is a no, whichever member it is in. No words of a plain answer reach a model or the agent.
#[rstest]
#[case::no(Some(false), None, None, "rejected", false)]
#[case::no_and_why(Some(false), None, Some("use mine"), "rejected", true)]
#[case::a_false_value(None, Some(json!(false)), None, "rejected", false)]
#[case::a_false_value_and_why(None, Some(json!(false)), Some("use mine"), "rejected", true)]
#[case::yes(None, Some(json!(true)), Some("fine"), "answered", false)]
#[case::words(Some(true), Some(json!("code 7")), None, "answered", true)]
fn who_says_more_than_yes_or_no_to_a_demand_has_shaped_the_run(
    #[case] approved: Option<bool>,
    #[case] value: Option<Value>,
    #[case] reason: Option<&str>,
    #[case] decision: &str,
    #[case] shapes: bool,
) {
    let mut sim = waiting();
    demands(&mut sim, "Sign in.");
    let reason = reason.map(str::to_owned);
    sim.answer(0, |answer| (answer.approved, answer.value, answer.reason) = (approved, value, reason)).unwrap();
    assert_eq!(sim.contents(ObservationType::AgentResumed)[0]["decision"], decision);
    let expected: &[&str] = if shapes { &["eve", "ann"] } else { &["eve"] };
    assert_eq!(sim.run("run_1").requested_by, expected);
}

/// It may have looked at it often before, and less and less often.
#[test]
fn after_a_yes_the_agent_is_asked_soon() {
    let mut sim = waiting();
    for _ in 0..8 {
        asked(&mut sim);
        reports(&mut sim, &report(PeerState::Working));
    }
    let pause = |sim: &Sim| sim.steps.last().unwrap().wake_at.unwrap() - sim.now;
    let before = pause(&sim);
    demands(&mut sim, "Sign in.");
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    assert!(10 * pause(&sim) <= before, "{} of {before}", pause(&sim));
    assert_eq!((sim.tasks()[0].status, sim.run("run_1").status), (TaskStatus::Working, RunStatus::Waiting));
    assert_eq!(sim.item("i")["status"], "waiting");
}
