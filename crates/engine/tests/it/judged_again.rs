//! Calls that waited are judged once more before they are made.

use pes_engine::domain::hitl::SuspensionKind;
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::policy::{RuleScope, Ruling, Terms};
use pes_engine::domain::settings::PolicyAction;
use pes_engine::domain::task::{PeerFailure, PeerFailureKind, TaskStatus};
use pes_engine::effect::Effect;
use pes_engine::event::{Event, PeerEvent};

use super::delegate::{AT_ONCE, error_code, sending_fails, sent_again, sim, stored};
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

/// The message in flight is denied by this rule just before it is sent.
fn is_denied(sim: &mut Sim) {
    while !matches!(sim.in_flight.first(), Some(Effect::Delegate { .. })) {
        assert!(sim.step());
    }
    let [Effect::Delegate { task, attempt }] = &sim.in_flight[..] else { panic!("{:?}", sim.in_flight) };
    let (task, attempt) = (task.clone(), *attempt);
    sim.in_flight.clear();
    let ruling = Ruling {
        action: PolicyAction::Deny,
        rule: "stop".to_owned(),
        scope: RuleScope::Tenant,
        version: None,
        reason: None,
        when: Vec::new(),
        terms: Terms::default(),
    };
    let failure = PeerFailure::denied("Policy denies it (stop).", Some(Box::new(ruling)));
    sim.apply(Event::Peer(PeerEvent::Failed { task, attempt, failure })).unwrap();
}

#[test]
fn a_message_that_is_denied_by_then_ends_its_call_as_denied_by_that_rule() {
    let mut sim = sim(&[("peer", "p")], &[("p", AT_ONCE)]);
    sim.ask("go").unwrap();
    sending_fails(&mut sim, PeerFailureKind::Unreachable);
    is_denied(&mut sim);
    assert_eq!((error_code(&sim), sim.suspensions().len()), ("denied".into(), 0));
    let ended = sim.records.iter().find(|record| record.kind() == ObservationType::ToolExecution).unwrap();
    let ruling = ended.metadata.as_ref().and_then(|metadata| metadata.policy.as_ref()).unwrap();
    assert_eq!((ruling.rule.as_str(), ruling.action), ("stop", PolicyAction::Deny));
    let task = stored(&sim).remove(0);
    assert_eq!((task.status, task.action, task.may_have_arrived), (TaskStatus::Failed, None, false));
    sim.go();
    assert!(sim.is_idle() && sim.peers.tasks.is_empty(), "the agent never heard of it");
}

/// As a call to a tool does.
#[test]
fn a_message_in_doubt_that_is_denied_when_it_is_to_be_sent_again_stays_in_doubt() {
    for is_first in [true, false] {
        let mut sim = sim(&[("peer", "p")], &[("p", AT_ONCE)]);
        sim.ask("go").unwrap();
        if is_first {
            sending_fails(&mut sim, PeerFailureKind::Unknown);
        } else {
            sent_again(&mut sim);
        }
        is_denied(&mut sim);
        let open = sim.suspensions();
        assert_eq!((open.len(), open[0].kind), (1, SuspensionKind::InDoubt), "{is_first}");
        assert!(open[0].message.contains("Policy denies it (stop)."), "{}", open[0].message);
        assert!(sim.contents(ObservationType::ToolExecution).is_empty());
    }
}
