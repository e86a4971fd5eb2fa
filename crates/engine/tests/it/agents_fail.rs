//! Agents whose answers are no use: when their task ends, and what a person is told.

use pes_engine::domain::hitl::{InDoubtAction, SuspensionKind};
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::RunStatus;
use pes_engine::domain::task::{PeerFailure, PeerFailureKind, PeerState, TaskStatus};
use pes_engine::effect::Effect;
use pes_engine::event::{Event, PeerEvent};
use pes_engine::step::RowKind;
use rstest::rstest;

use super::agents_ask::{asked, asks, question, report, reports, waiting};
use super::delegate::{NEVER, error_code, sending_fails, sent_again, sim as delegating, stored};
use super::sim::*;

/// The request in flight fails like this.
fn fails(sim: &mut Sim, kind: PeerFailureKind, message: &str) {
    let [Effect::AskPeer { task, attempt } | Effect::Delegate { task, attempt }] = &sim.in_flight[..] else {
        panic!("{:?}", sim.in_flight)
    };
    let (task, attempt) = (task.clone(), *attempt);
    sim.in_flight.clear();
    let failure = PeerFailure::new(kind, message);
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

/// A person answers, and the agent refuses the answer with an error.
fn refuses_an_answer(sim: &mut Sim, why: &str) {
    sim.answer(0, |answer| answer.value = Some("the first".into())).unwrap();
    fails(sim, PeerFailureKind::Refused, why);
}

/// It waits still, so the answer is not the end.
#[rstest]
#[case::that_gives_questions_no_ids(None)]
#[case::that_gives_them_ids(Some("sus_1"))]
fn an_agent_that_refuses_an_answer_with_an_error_gets_another_to_the_same_question(#[case] id: Option<&str>) {
    let mut sim = waiting();
    asks(&mut sim, "Which one?", id);
    for why in ["Say a number.", "Say a small number."] {
        refuses_an_answer(&mut sim, why);
        reports(&mut sim, &question("Which one?", id));
        let open = sim.suspensions();
        let message = format!("Which one?\naway refused the last answer: {why}");
        assert_eq!((open.len(), open[0].kind, &*open[0].message), (1, SuspensionKind::PeerInput, &*message));
        assert_eq!(open[0].feedback_schema.prompt, message);
        asks(&mut sim, "Which one?", id);
        assert_eq!(sim.suspensions()[0].suspension_id, open[0].suspension_id, "it is the same question");
    }
    sim.answer(0, |answer| answer.value = Some("1".into())).unwrap();
    reports(&mut sim, &report(PeerState::Working));
    asks(&mut sim, "Which one?", id);
    assert_eq!(&*sim.suspensions()[0].message, "Which one?", "that is another one");
}

/// Two programs that never agree come to an end.
#[test]
fn an_agent_that_refuses_every_answer_is_given_up_after_fifty_questions() {
    let mut sim = waiting();
    asks(&mut sim, "Which one?", None);
    for n in 1..=50 {
        assert_eq!(sim.suspensions().len(), 1, "{n}");
        refuses_an_answer(&mut sim, "Say a number.");
        reports(&mut sim, &question("Which one?", None));
    }
    assert_eq!((error_code(&sim), sim.suspensions().len()), ("peer_failed".into(), 0));
    assert!(sim.in_flight.iter().any(|effect| matches!(effect, Effect::CancelPeer { .. })), "it is told to stop");
}

/// As with a key that was revoked after the question.
#[test]
fn an_agent_that_refuses_an_answer_and_the_poll_after_it_ends_the_call_with_the_reason() {
    let mut sim = waiting();
    asks(&mut sim, "Which one?", None);
    refuses_an_answer(&mut sim, "Say a number.");
    reports(&mut sim, &question("Which one?", None));
    poll_fails(&mut sim, PeerFailureKind::Refused);
    assert_eq!((sim.tasks()[0].status, sim.suspensions().len()), (TaskStatus::InputRequired, 1), "a person is asked");
    refuses_an_answer(&mut sim, "The key is not valid.");
    fails(&mut sim, PeerFailureKind::Refused, "not valid");
    assert_eq!(error_code(&sim), "peer_refused");
    let told = sim.contents(ObservationType::ToolExecution);
    assert_eq!(told[0]["error"]["message"], "The key is not valid.");
}

/// It has named the task, so it would be asked meanwhile, and nobody waits for the answer any more.
#[test]
fn a_task_in_doubt_that_a_person_calls_done_is_over() {
    let mut sim = waiting();
    asks(&mut sim, "Which one?", None);
    sim.answer(0, |answer| answer.value = Some("the first".into())).unwrap();
    sending_fails(&mut sim, PeerFailureKind::Unknown);
    sending_fails(&mut sim, PeerFailureKind::Unknown);
    assert_eq!((sim.suspensions()[0].kind, sim.tasks()[0].action.is_some()), (SuspensionKind::InDoubt, true));
    sim.answer(0, |answer| answer.action = Some(InDoubtAction::Done)).unwrap();
    let task = stored(&sim).remove(0);
    assert_eq!((task.status, task.action, task.reason), (TaskStatus::Completed, None, None));
    sim.go();
    assert!(sim.is_idle() && sim.peers.tasks.values().all(|remote| remote.stops == 0));
}

/// Its report names the task, so the message has arrived.
#[test]
fn a_task_in_doubt_that_the_agent_reports_by_itself_is_waited_for() {
    let mut sim = delegating(&[("peer", "p")], &[("p", NEVER)]);
    sim.ask("go").unwrap();
    sending_fails(&mut sim, PeerFailureKind::Unknown);
    sending_fails(&mut sim, PeerFailureKind::Unknown);
    assert_eq!((sim.suspensions()[0].kind, sim.tasks()[0].reason.is_some()), (SuspensionKind::InDoubt, true));
    let task = sim.tasks()[0].task_id.clone();
    sim.apply(Event::Peer(PeerEvent::CalledBack { task, remote_task_id: Some("theirs".into()) })).unwrap();
    let task = sim.tasks().remove(0);
    assert_eq!((task.status, task.reason, task.remote_task_id.as_deref()), (TaskStatus::Working, None, Some("theirs")));
    assert!(sim.suspensions().is_empty() && matches!(sim.in_flight[..], [Effect::AskPeer { .. }]));
    reports(&mut sim, &report(PeerState::Working));
    assert_eq!(sim.run("run_1").status, RunStatus::Waiting, "for the agent");
    assert_eq!(sim.item("i")["status"], "waiting");
}

/// Each time the message may have been sent.
#[test]
fn a_message_is_looked_for_after_so_many_crashes_and_then_a_person_decides() {
    let mut sim = delegating(&[("peer", "p")], &[("p", NEVER)]);
    sim.ask("go").unwrap();
    while !matches!(sim.in_flight[..], [Effect::Delegate { .. }]) {
        assert!(sim.step());
    }
    let mut crashes = 0;
    while sim.suspensions().is_empty() {
        crashes += 1;
        assert!(crashes < 20, "it is sent for ever");
        sim.crash();
    }
    let open = sim.suspensions().remove(0);
    assert_eq!((crashes, open.kind, sim.in_flight.len()), (7, SuspensionKind::InDoubt, 0));
    assert!(open.message.contains("the process stopped again and again"), "{}", open.message);
}

/// An earlier message may have arrived: the call's result is unknown, and the agent is told to stop.
#[test]
fn a_message_that_cannot_be_sent_again_leaves_the_call_unknown() {
    let mut sim = delegating(&[("peer", "p")], &[("p", NEVER)]);
    sim.ask("go").unwrap();
    sent_again(&mut sim);
    sending_fails(&mut sim, PeerFailureKind::Refused);
    let told = sim.contents(ObservationType::ToolExecution).remove(0);
    assert_eq!(told["error"]["code"], "unknown");
    assert!(told["error"]["message"].as_str().unwrap().ends_with("may have received it earlier"), "{told:#}");
    let task = stored(&sim).remove(0);
    assert_eq!((task.status, task.may_have_arrived), (TaskStatus::Canceled, true));
    assert!(sim.in_flight.iter().any(|effect| matches!(effect, Effect::CancelPeer { .. })), "{:?}", sim.in_flight);
}

/// What an earlier message began is not undone by not sending this one: a person decides again.
#[rstest]
fn a_message_that_may_not_be_sent_again_is_in_doubt(
    #[values(PeerFailureKind::Denied, PeerFailureKind::NotApproved)] kind: PeerFailureKind,
) {
    let mut sim = delegating(&[("peer", "p")], &[("p", NEVER)]);
    sim.ask("go").unwrap();
    sent_again(&mut sim);
    sending_fails(&mut sim, kind);
    assert_eq!((sim.suspensions()[0].kind, sim.suspensions().len()), (SuspensionKind::InDoubt, 1));
    assert!(sim.contents(ObservationType::ToolExecution).is_empty(), "the call has not ended");
    let task = stored(&sim).remove(0);
    assert_eq!((task.status, task.earlier_may_have_arrived), (TaskStatus::InDoubt, true));
}

/// The agent has not received anything, so it is told nothing, and nothing is sent to it any more.
#[test]
fn a_message_that_the_agent_refuses_ends_the_task() {
    let mut sim = delegating(&[("peer", "p")], &[("p", NEVER)]);
    sim.ask("go").unwrap();
    sending_fails(&mut sim, PeerFailureKind::Refused);
    assert_eq!(error_code(&sim), "peer_refused");
    let task = stored(&sim).remove(0);
    assert_eq!((task.status, task.action, task.may_have_arrived), (TaskStatus::Failed, None, false));
    assert_eq!(task.reason.as_deref(), Some("the agent is away"));
    assert!(matches!(sim.in_flight[..], [Effect::CallModel { .. }]), "{:?}", sim.in_flight);
}
