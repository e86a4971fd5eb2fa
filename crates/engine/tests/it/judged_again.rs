//! Calls that waited are judged once more before they are made.

use pes_engine::domain::task::PeerFailureKind;
use pes_engine::effect::Effect;

use super::delegate::{AT_ONCE, sending_fails, sim};
use super::sim::Sim;
use super::suspend::one_item;

/// Whether the call in flight is judged once more before it is made.
fn is_judged_again(sim: &Sim) -> bool {
    let [Effect::CallTool { call, .. }] = &sim.in_flight[..] else { panic!("{:?}", sim.in_flight) };
    sim.machine.invocation(call).unwrap().judged_before.is_some()
}

/// The commit of the answer may have another clock, and the call was proposed at its `now` or later.
#[test]
fn what_a_person_approved_is_judged_again_whatever_the_clock_says() {
    let mut sim = Sim::new(one_item(&[("write", "1")]));
    sim.ask("go").unwrap();
    while !matches!(sim.in_flight.first(), Some(Effect::CallTool { .. })) {
        assert!(sim.step());
    }
    assert!(!is_judged_again(&sim), "it was judged in the same commit");
    for behind in [0, 5] {
        let mut sim = Sim::new(one_item(&[("gated", "1")]));
        sim.ask("go").unwrap();
        sim.go();
        sim.now = sim.suspensions()[0].created_at - behind;
        sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
        assert!(is_judged_again(&sim), "{behind}");
    }
}

/// Also one that may have arrived: an agent that takes a message once is sent it again.
#[test]
fn a_message_that_is_sent_later_than_it_was_decided_on_is_judged_again() {
    let mut sim = sim(&[("peer", "p")], &[("p", AT_ONCE)]);
    sim.ask("go").unwrap();
    let is_judged_again = |sim: &mut Sim| {
        while !matches!(sim.in_flight.first(), Some(Effect::Delegate { .. })) {
            assert!(sim.step());
        }
        let [Effect::Delegate { task, .. }] = &sim.in_flight[..] else { panic!("{:?}", sim.in_flight) };
        sim.peer_call_input(task).0.judged_before.is_some()
    };
    assert!(!is_judged_again(&mut sim));
    sending_fails(&mut sim, PeerFailureKind::Unreachable);
    assert!(is_judged_again(&mut sim));
    sending_fails(&mut sim, PeerFailureKind::Unknown);
    assert!(is_judged_again(&mut sim), "it is sent again");
}
