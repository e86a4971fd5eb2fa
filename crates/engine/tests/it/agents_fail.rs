//! Agents whose answers are no use: when their task ends, and what a person is told.

use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::task::{PeerFailure, PeerFailureKind, PeerState, TaskStatus};
use pes_engine::effect::Effect;
use pes_engine::event::{Event, PeerEvent};
use pes_engine::step::RowKind;

use super::agents_ask::{asked, report, reports, waiting};
use super::delegate::error_code;
use super::sim::*;

/// The request in flight fails like this.
fn fails(sim: &mut Sim, kind: PeerFailureKind, message: &str) {
    let [Effect::AskPeer { task, attempt } | Effect::Delegate { task, attempt }] = &sim.in_flight[..] else {
        panic!("{:?}", sim.in_flight)
    };
    let (task, attempt) = (task.clone(), *attempt);
    sim.in_flight.clear();
    let failure = PeerFailure { kind, message: message.into(), retry_after_ms: None };
    sim.apply(Event::Peer(PeerEvent::Failed { task, attempt, failure })).unwrap();
}

/// The poll of an agent fails like this.
fn poll_fails(sim: &mut Sim, kind: PeerFailureKind) {
    asked(sim);
    fails(sim, kind, "it has no state");
}

/// Each of the two has a bound of its own, and a reason of its own.
#[test]
fn replies_that_cannot_be_read_and_those_that_it_knows_no_such_task_are_counted_apart() {
    for (last, code) in [(PeerFailureKind::NotFound, "peer_lost"), (PeerFailureKind::Unreadable, "peer_failed")] {
        let mut sim = waiting();
        for kind in [PeerFailureKind::NotFound, PeerFailureKind::Unreadable].repeat(2) {
            poll_fails(&mut sim, kind);
        }
        assert_eq!(sim.tasks()[0].status, TaskStatus::Working);
        poll_fails(&mut sim, last);
        assert_eq!(error_code(&sim), code);
    }
}

/// It would be the same at every poll until the deadline.
#[test]
fn a_task_that_cannot_be_read_three_times_in_a_row_ends_its_call_with_the_reason() {
    let mut sim = waiting();
    for round in 0..2 {
        for kind in [PeerFailureKind::Unreadable, PeerFailureKind::Unreachable, PeerFailureKind::Unreadable] {
            asked(&mut sim);
            fails(&mut sim, kind, "it has no state");
        }
        assert_eq!(sim.tasks()[0].status, TaskStatus::Working, "{round}");
        asked(&mut sim);
        if round == 0 {
            reports(&mut sim, &report(PeerState::Working));
        }
    }
    fails(&mut sim, PeerFailureKind::Unreadable, "it has no state");
    assert_eq!(error_code(&sim), "peer_failed");
    assert_eq!(sim.contents(ObservationType::ToolExecution)[0]["error"]["message"], "it has no state");
    assert!(sim.in_flight.iter().any(|effect| matches!(effect, Effect::CancelPeer { .. })), "it is told to stop");
    let call = sim.rows().find(|row| row.kind == RowKind::Call).expect("the delegation");
    assert!(call.body.contains(r#""lost":"it has no state""#), "the agent may have done it: {}", call.body);
}
