//! Agents that ask people something: how often, and what becomes of an answer on its way.

use pes_engine::domain::task::{PeerState, Seen};
use pes_engine::effect::Effect;
use pes_engine::event::{Event, PeerEvent, SystemEvent};
use serde_json::Value;

use super::delegate::{NEVER, error_code, sim, until_it_waits};
use super::sim::*;

/// When it is due, the agent is asked.
fn asked(sim: &mut Sim) {
    sim.now = sim.steps.last().unwrap().wake_at.unwrap();
    sim.apply(Event::System(SystemEvent::Woke)).unwrap();
    assert!(matches!(sim.in_flight[..], [Effect::AskPeer { .. }]), "{:?}", sim.in_flight);
}

/// The agent is asked, and says this.
fn says_that_it_is(sim: &mut Sim, state: PeerState) {
    asked(sim);
    let [Effect::AskPeer { task, attempt }] = &sim.in_flight[..] else { panic!("it is asked") };
    let (task, attempt) = (task.clone(), *attempt);
    let seen = Seen {
        state,
        remote_task_id: None,
        remote_context_id: None,
        message: None,
        form: None,
        output: Value::Null,
        patience_ms: None,
    };
    sim.apply(Event::Peer(PeerEvent::Seen { task, attempt, seen: Box::new(seen) })).unwrap();
}

/// It takes back its question by itself, and has another one, time and again.
#[test]
fn an_agent_that_goes_back_and_forth_is_asked_less_and_less_often_and_given_up_at_last() {
    let mut sim = sim(&[("peer", "p")], &[("p", NEVER)]);
    sim.ask("go").unwrap();
    until_it_waits(&mut sim);
    for _ in 0..50 {
        says_that_it_is(&mut sim, PeerState::InputRequired);
        assert_eq!(sim.suspensions().len(), 1);
        says_that_it_is(&mut sim, PeerState::Working);
        assert!(sim.suspensions().is_empty());
    }
    let pause = sim.steps.last().unwrap().wake_at.unwrap() - sim.now;
    assert!(pause >= 149_000, "{pause}");
    says_that_it_is(&mut sim, PeerState::InputRequired);
    assert_eq!((error_code(&sim), sim.suspensions().len()), ("peer_failed".into(), 0));
    assert!(sim.in_flight.iter().any(|effect| matches!(effect, Effect::CancelPeer { .. })), "it is told to stop");
}
