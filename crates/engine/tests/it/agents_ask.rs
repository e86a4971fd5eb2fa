//! Agents that ask people questions: how often, and what happens to a message while it is being sent.

use pes_engine::domain::hitl::{InDoubtAction, Suspension, SuspensionKind, SuspensionStatus};
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::RunStatus;
use pes_engine::domain::task::{
    ActionSlot, PeerFailure, PeerFailureKind, PeerReport, PeerState, RemoteQuestion, TaskStatus,
};
use pes_engine::effect::Effect;
use pes_engine::event::{Event, PeerEvent, PersonEvent};
use pes_engine::history::unloaded_rows;
use pes_engine::step::RowKind;
use rstest::rstest;
use serde_json::{Value, json};

use super::delegate::{AT_ONCE, NEVER, error_code, sending_fails, sim, until_it_waits};
use super::peers::Way;
use super::sim::*;

/// When it is due, the agent is polled.
pub fn asked(sim: &mut Sim) {
    sim.now = sim.steps.last().unwrap().wake_at.unwrap();
    sim.wake().unwrap();
    assert!(matches!(sim.in_flight[..], [Effect::AskPeer { .. }]), "{:?}", sim.in_flight);
}

/// The agent is polled, and answers this.
fn says_that_it_is(sim: &mut Sim, state: PeerState) {
    asked(sim);
    reports(sim, &report(state));
}

/// The agent is polled, and asks this, under this id if it gives one.
pub fn asks(sim: &mut Sim, message: &str, id: Option<&str>) {
    asked(sim);
    reports(sim, &question(message, id));
}

pub fn report(state: PeerState) -> PeerReport {
    PeerReport {
        state,
        remote_task_id: None,
        remote_context_id: None,
        message: None,
        form: None,
        question: None,
        subject: None,
        output: Value::Null,
        patience_ms: None,
    }
}

pub fn question(message: &str, id: Option<&str>) -> PeerReport {
    let question = id.map(|id| RemoteQuestion { suspension_id: id.into(), kind: SuspensionKind::Input });
    PeerReport { message: Some(message.to_owned()), question, ..report(PeerState::InputRequired) }
}

/// The agent answers the request in flight like this.
pub fn reports(sim: &mut Sim, report: &PeerReport) {
    let [Effect::AskPeer { task, attempt } | Effect::Delegate { task, attempt }] = &sim.in_flight[..] else {
        panic!("{:?}", sim.in_flight)
    };
    let (task, attempt) = (task.clone(), *attempt);
    sim.in_flight.clear();
    sim.apply(Event::Peer(PeerEvent::Reported { task, attempt, report: Box::new(report.clone()) })).unwrap();
}

/// Its agent works.
pub fn waiting() -> Sim {
    let mut sim = sim(&[("peer", "p")], &[("p", NEVER)]);
    sim.ask("go").unwrap();
    until_it_waits(&mut sim);
    sim
}

/// The agent answers the message that begins its task while the cancel waits for that.
#[test]
fn nobody_is_asked_for_a_run_that_is_being_cancelled() {
    let mut sim = sim(&[("peer", "p")], &[("p", NEVER)]);
    sim.ask("go").unwrap();
    while !matches!(sim.in_flight[..], [Effect::Delegate { .. }]) {
        assert!(sim.step());
    }
    assert!(sim.cancel(None).unwrap().is_cancelling);
    reports(&mut sim, &question("Which account?", None));
    assert_eq!(sim.run("run_1").status, RunStatus::Cancelled);
    assert_eq!(sim.contents(ObservationType::AgentSuspended), Vec::<Value>::new());
}

/// Somebody answered the agent elsewhere, and it asked its next question before it was polled again.
#[rstest]
#[case::by_its_words(("Which account?", None), ("Delete the account?", None))]
#[case::by_its_id(("Are you sure?", Some("sus_1")), ("Are you sure?", Some("sus_2")))]
fn a_question_that_the_agent_has_replaced_is_withdrawn_and_takes_no_answer(
    #[case] first: (&str, Option<&str>),
    #[case] second: (&str, Option<&str>),
) {
    let mut sim = waiting();
    asks(&mut sim, first.0, first.1);
    let old = sim.suspensions().remove(0).suspension_id;
    asks(&mut sim, first.0, first.1);
    let open = |sim: &Sim| -> Vec<_> { sim.suspensions().into_iter().map(|open| open.suspension_id).collect() };
    assert_eq!(open(&sim), std::slice::from_ref(&old), "it is the same question");
    asks(&mut sim, second.0, second.1);
    let asked = sim.suspensions();
    assert_eq!((asked.len(), &*asked[0].message), (1, second.0));
    assert_ne!(asked[0].suspension_id, old);
    let stored: Suspension = serde_json::from_str(&sim.rows[&(RowKind::Suspension, old.to_string())].body).unwrap();
    assert_eq!(stored.status, SuspensionStatus::Cancelled);
    let late = sim.answer(0, |answer| (answer.suspension_id, answer.value) = (old, Some("yes".into())));
    assert_eq!(late.unwrap_err().code.as_str(), "not_found");
    assert!(sim.in_flight.is_empty(), "nothing is sent: {:?}", sim.in_flight);
    let told = sim.contents(ObservationType::A2aTask);
    assert_eq!(told.last().unwrap()["message"], second.0);
}

/// The agent names its questions, so its response says whether it took the answer.
#[test]
fn an_answer_that_the_agent_refuses_is_asked_for_again_with_its_reason() {
    let mut sim = waiting();
    asks(&mut sim, "Which one?", Some("sus_1"));
    for why in ["Answer with a number. Which one?", "Answer with a small number. Which one?"] {
        sim.answer(0, |answer| answer.value = Some("the first".into())).unwrap();
        reports(&mut sim, &question(why, Some("sus_1")));
        assert_eq!((kinds(&sim), &*sim.suspensions()[0].message), (vec![SuspensionKind::PeerInput], why));
        asks(&mut sim, "Which one?", Some("sus_1"));
        assert_eq!((kinds(&sim).len(), &*sim.suspensions()[0].message), (1, why), "the reason stays");
    }
    sim.answer(0, |answer| answer.value = Some("1".into())).unwrap();
    reports(&mut sim, &question("And which colour?", Some("sus_2")));
    assert!(sim.suspensions().is_empty(), "the next question is asked when a poll confirms it");
    assert_eq!(sim.tasks()[0].status, TaskStatus::Working);
}

/// Somebody answered the agent elsewhere, and it works on, has ended, or asks something else.
#[test]
fn an_answer_that_comes_too_late_is_void_and_the_task_goes_on() {
    for id in [Some("sus_1"), None] {
        for is_interrupted in [false, true] {
            let mut sim = waiting();
            asks(&mut sim, "Which one?", id);
            sim.answer(0, |answer| answer.value = Some("the first".into())).unwrap();
            if is_interrupted {
                sending_fails(&mut sim, PeerFailureKind::Unknown);
            }
            sending_fails(&mut sim, PeerFailureKind::Unsupported);
            assert!(matches!(sim.in_flight[..], [Effect::AskPeer { .. }]), "{:?}", sim.in_flight);
            assert!(sim.suspensions().is_empty(), "nobody is asked what became of the answer");
            reports(&mut sim, &report(PeerState::Completed));
            let result = &sim.contents(ObservationType::ToolExecution)[0];
            assert_eq!(result["status"], "success", "{result:#}");
        }
    }
}

/// Its answer to a message may have more than the task itself, such as the history.
#[test]
fn an_agent_whose_answer_to_a_message_is_too_large_is_asked_for_the_task() {
    for is_interrupted in [false, true] {
        let mut sim = waiting();
        asks(&mut sim, "Which one?", None);
        sim.answer(0, |answer| answer.value = Some("the first".into())).unwrap();
        if is_interrupted {
            sending_fails(&mut sim, PeerFailureKind::Unknown);
        }
        sending_fails(&mut sim, PeerFailureKind::TooLarge);
        assert!(matches!(sim.in_flight[..], [Effect::AskPeer { .. }]), "{:?}", sim.in_flight);
        reports(&mut sim, &report(PeerState::Working));
        assert_eq!(
            (sim.tasks()[0].status, sim.contents(ObservationType::ToolExecution).len()),
            (TaskStatus::Working, 0)
        );
        asked(&mut sim);
        let [Effect::AskPeer { task, attempt }] = &sim.in_flight[..] else { panic!("{:?}", sim.in_flight) };
        let (task, attempt) = (task.clone(), *attempt);
        let failure = PeerFailure::new(PeerFailureKind::TooLarge, "large");
        sim.apply(Event::Peer(PeerEvent::Failed { task, attempt, failure })).unwrap();
        assert_eq!(error_code(&sim), "peer_failed", "the task itself is too large");
    }
}

/// The agent does not take messages at all: that is no answer to the first one.
#[test]
fn an_agent_that_does_not_take_the_message_that_begins_a_task_has_refused_it() {
    let mut sim = sim(&[("peer", "p")], &[("p", NEVER)]);
    sim.ask("go").unwrap();
    sending_fails(&mut sim, PeerFailureKind::Unsupported);
    assert_eq!(error_code(&sim), "peer_refused");
}

/// The agent withdraws its question and asks another one, again and again.
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

/// The time that is left for the answer is in its words.
#[test]
fn a_question_whose_time_runs_out_is_asked_once() {
    let mut sim = waiting();
    let ends = sim.now + 3_600_000;
    for _ in 0..5 {
        asked(&mut sim);
        let left = (ends - sim.now) / 1_000;
        reports(&mut sim, &question(&format!("Go on? {left} s are left."), None));
        assert_eq!((kinds(&sim).len(), sim.contents(ObservationType::AgentSuspended).len()), (1, 1));
    }
    asks(&mut sim, "Go on? 60 s are left.", None);
    assert_eq!(sim.contents(ObservationType::AgentSuspended).len(), 2, "the time begins anew");
}

/// It may be one question: the time of day may be in its words.
#[test]
fn an_agent_that_words_its_question_differently_each_time_keeps_its_task() {
    let mut sim = waiting();
    for left in 0..60 {
        asks(&mut sim, &format!("Go on? {left} s are left."), None);
        assert_eq!(kinds(&sim), [SuspensionKind::PeerInput]);
    }
    assert_eq!(&*sim.suspensions()[0].message, "Go on? 49 s are left.", "the fiftieth stays");
    sim.answer(0, |answer| answer.value = Some("yes".into())).unwrap();
    assert!(matches!(sim.in_flight[..], [Effect::Delegate { .. }]), "{:?}", sim.in_flight);
}

/// Those are different questions, and an answer to the last one would name the next.
#[test]
fn an_agent_that_replaces_questions_with_ids_is_given_up_after_fifty() {
    let mut sim = waiting();
    for n in 0..50 {
        asks(&mut sim, "Go on?", Some(&format!("sus_{n}")));
        assert_eq!(kinds(&sim), [SuspensionKind::PeerInput]);
    }
    asks(&mut sim, "Go on?", Some("sus_50"));
    assert_eq!((error_code(&sim), sim.suspensions().len()), ("peer_failed".into(), 0));
}

/// A person's answer was sent, and it is unknown whether the agent received it.
fn answer_in_doubt() -> Sim {
    let mut sim = sim(&[("peer", "p")], &[("p", Way { asks: true, ..AT_ONCE })]);
    sim.ask("go").unwrap();
    sim.go();
    sim.answer(0, |answer| answer.value = Some("yes".into())).unwrap();
    // A poll does not clear it up either.
    for _ in 0..2 {
        let [Effect::Delegate { task, attempt }] = &sim.in_flight[..] else { panic!("{:?}", sim.in_flight) };
        let (task, attempt) = (task.clone(), *attempt);
        let failure = PeerFailure::new(PeerFailureKind::Unknown, "it broke off");
        sim.apply(Event::Peer(PeerEvent::Failed { task, attempt, failure })).unwrap();
    }
    assert_eq!(kinds(&sim), [SuspensionKind::InDoubt]);
    sim
}

fn kinds(sim: &Sim) -> Vec<SuspensionKind> {
    sim.suspensions().iter().map(|open| open.kind).collect()
}

#[test]
fn what_the_agent_does_next_settles_whether_an_answer_reached_it() {
    for reached in [true, false] {
        let mut sim = answer_in_doubt();
        if reached {
            sim.peers.tasks.values_mut().for_each(|remote| _ = remote.heard.insert("ours".to_owned()));
        }
        asked(&mut sim);
        assert_eq!(kinds(&sim), [SuspensionKind::InDoubt], "until it has said something");
        sim.go();
        if reached {
            assert_eq!(sim.run("run_1").status, RunStatus::Completed);
        } else {
            assert_eq!(kinds(&sim), [SuspensionKind::PeerInput], "it waits for an answer still");
            assert_eq!(sim.tasks()[0].status, TaskStatus::InputRequired);
        }
    }
}

#[test]
fn a_report_of_the_agent_is_heard_while_an_answer_is_in_doubt() {
    let mut sim = answer_in_doubt();
    let task = sim.tasks()[0].clone();
    let report = PeerEvent::CalledBack { task: task.task_id, remote_task_id: task.remote_task_id };
    assert!(!sim.apply(Event::Peer(report)).unwrap().is_noop);
    assert!(matches!(sim.in_flight[..], [Effect::AskPeer { .. }]));
    assert_eq!(kinds(&sim), [SuspensionKind::InDoubt], "a report is no answer");
}

/// The failed attempts in between were polls.
#[test]
fn an_answer_that_a_person_sends_again_is_tried_as_often_as_a_new_one() {
    let mut sim = answer_in_doubt();
    let unreachable = || PeerFailure::new(PeerFailureKind::Unreachable, "nobody is there");
    for _ in 0..6 {
        asked(&mut sim);
        let [Effect::AskPeer { task, attempt }] = &sim.in_flight[..] else { panic!("it is asked") };
        let (task, attempt) = (task.clone(), *attempt);
        sim.apply(Event::Peer(PeerEvent::Failed { task, attempt, failure: unreachable() })).unwrap();
    }
    sim.answer(0, |answer| answer.action = Some(InDoubtAction::Retry)).unwrap();
    let [Effect::Delegate { task, attempt }] = &sim.in_flight[..] else { panic!("{:?}", sim.in_flight) };
    let (task, attempt) = (task.clone(), *attempt);
    sim.apply(Event::Peer(PeerEvent::Failed { task, attempt, failure: unreachable() })).unwrap();
    assert!(sim.contents(ObservationType::ToolExecution).is_empty(), "the call is open");
    let task = sim.tasks()[0].clone();
    assert!(matches!(task.send_slot(), Some(ActionSlot::Ready { at }) if at > sim.now), "{task:?}");
}

/// The names in the log identify the rows that must be deleted with it.
#[test]
fn a_long_answer_to_an_agent_is_stored_under_a_name_that_the_log_tells() {
    let mut sim = sim(&[("peer", "p")], &[("p", Way { asks: true, ..AT_ONCE })]);
    sim.ask("go").unwrap();
    sim.go();
    sim.answer(0, |answer| answer.value = Some("a long answer ".repeat(100).into())).unwrap();
    sim.go();
    let mut told = std::collections::BTreeSet::new();
    sim.records.iter().for_each(|record| unloaded_rows::names_of(record.fact.content(), &mut told));
    let named: Vec<_> = told.iter().flat_map(|name| unloaded_rows::rows_named(name)).collect();
    let is_answer = |body: &str| body.contains("a long answer");
    let stored = sim.rows().filter(|row| row.kind == RowKind::Payload && is_answer(&row.body));
    let stored: Vec<_> = stored.map(|row| (row.kind, row.id.clone())).collect();
    assert_eq!(stored.len(), 1, "{stored:?}");
    assert!(named.contains(&stored[0]), "{stored:?}");
}

/// Threads that wait for an agent are loaded by the member names with which they were stored.
#[test]
fn the_stored_names_of_a_task_stay() {
    let mut sim = sim(&[("peer", "p")], &[("p", NEVER)]);
    sim.ask("go").unwrap();
    until_it_waits(&mut sim);
    let row = sim.rows().find(|row| row.kind == RowKind::Task).unwrap();
    let body: Value = serde_json::from_str(&row.body).unwrap();
    assert_eq!((&body["errand"]["what"], &body["isOut"]), (&json!("ask"), &json!(true)), "{body:#}");
}

/// Something between this server and the agent answers that the agent is too busy, although the agent has the message.
#[test]
fn a_message_whose_task_the_agent_has_reported_is_not_sent_again() {
    let mut sim = sim(&[("peer", "p")], &[("p", NEVER)]);
    sim.ask("go").unwrap();
    while !matches!(sim.in_flight.first(), Some(Effect::Delegate { .. })) {
        assert!(sim.step());
    }
    let task = sim.tasks()[0].task_id.clone();
    sim.apply(Event::Peer(PeerEvent::CalledBack { task, remote_task_id: Some("theirs".into()) })).unwrap();
    sending_fails(&mut sim, PeerFailureKind::Unreachable);
    assert!(matches!(sim.in_flight[..], [Effect::AskPeer { .. }]), "{:?}", sim.in_flight);
    reports(&mut sim, &report(PeerState::Working));
    assert_eq!(sim.tasks()[0].status, TaskStatus::Working);
}

#[test]
fn an_answer_is_a_message_of_its_own_and_waits_for_the_end_of_a_pause() {
    let mut sim = waiting();
    let first = sim.tasks()[0].message_id.clone();
    asks(&mut sim, "Which one?", None);
    sim.apply(Event::Person(PersonEvent::PauseAsked { by: "ann".into() })).unwrap();
    sim.answer(0, |answer| answer.value = Some("the first".into())).unwrap();
    assert!(sim.in_flight.is_empty(), "{:?}", sim.in_flight);
    assert_ne!(sim.tasks()[0].message_id, first, "an agent drops what it has received already");
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    assert!(matches!(sim.in_flight[..], [Effect::Delegate { .. }]), "{:?}", sim.in_flight);
}
