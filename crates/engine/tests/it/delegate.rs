//! Calls that other agents execute: what the run waits for, what ends the wait, and what remains after a crash.

use pes_engine::domain::hitl::{InDoubtAction, SuspensionKind};
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::{OnBusy, RunStatus};
use pes_engine::domain::settings::{ExecutionConfig, RunSettings};
use pes_engine::domain::task::{PeerFailure, PeerFailureKind, PeerReport, PeerState, Task, TaskStatus};
use pes_engine::effect::Effect;
use pes_engine::event::{Event, PeerEvent, PersonEvent};
use pes_engine::step::{Keep, RowKind};
use serde_json::{Value, json};

use super::peers::{End, Way};
use super::sim::*;

/// One item that makes these calls together, each to an agent with this behaviour.
pub fn sim(made: &'static [(&'static str, &'static str)], ways: &[(&str, Way)]) -> Sim {
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("i", &[], &[])]),
        "i.1" => {
            let made: Vec<(&str, Value)> =
                made.iter().map(|(tool, x)| (*tool, json!({ "agentId": "away", "taskType": "t", "x": x }))).collect();
            calls(&made)
        }
        "i.2" => says("done"),
        _ => says("the answer"),
    });
    sim.peers.ways = ways.iter().map(|(x, way)| ((*x).to_owned(), *way)).collect();
    sim
}

/// Until the run waits for an agent and no other call runs.
pub fn until_it_waits(sim: &mut Sim) {
    while !sim.in_flight.is_empty() || sim.is_active() {
        assert!(sim.step());
    }
}

pub fn stored(sim: &Sim) -> Vec<Task> {
    sim.rows().filter(|row| row.kind == RowKind::Task).map(|row| serde_json::from_str(&row.body).unwrap()).collect()
}

/// The next attempt to send the message fails like this.
pub fn sending_fails(sim: &mut Sim, kind: PeerFailureKind) {
    while !matches!(sim.in_flight.first(), Some(Effect::Delegate { .. })) {
        assert!(sim.step());
    }
    let [Effect::Delegate { task, attempt }] = &sim.in_flight[..] else { panic!("{:?}", sim.in_flight) };
    let (task, attempt) = (task.clone(), *attempt);
    let failure = PeerFailure::new(kind, "the agent is away");
    sim.apply(Event::Peer(PeerEvent::Failed { task, attempt, failure })).unwrap();
}

/// The message may have arrived, and a person has it sent again.
pub fn sent_again(sim: &mut Sim) {
    sending_fails(sim, PeerFailureKind::Unknown);
    sending_fails(sim, PeerFailureKind::Unknown);
    assert_eq!(sim.suspensions()[0].kind, SuspensionKind::InDoubt);
    sim.answer(0, |answer| answer.action = Some(InDoubtAction::Retry)).unwrap();
}

pub fn error_code(sim: &Sim) -> Value {
    sim.contents(ObservationType::ToolExecution)[0]["error"]["code"].clone()
}

pub const AT_ONCE: Way =
    Way { slow: 0, asks: false, wants_login: false, end: End::Done, lists: false, dedupes: false, flaky: 0 };
pub const NEVER: Way = Way { end: End::Never, ..AT_ONCE };

#[test]
fn a_delegation_waits_with_nothing_running_and_its_result_goes_on_in_the_batch() {
    let slow = Way { slow: 3, ..AT_ONCE };
    let mut sim = sim(&[("peer", "p"), ("read", "r"), ("gated", "g"), ("peer", "q")], &[("p", slow), ("q", slow)]);
    sim.ask("go").unwrap();
    until_it_waits(&mut sim);
    assert_eq!(sim.run("run_1").status, RunStatus::Suspended, "a person is asked first");
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    until_it_waits(&mut sim);
    assert_eq!(sim.run("run_1").status, RunStatus::Waiting);
    assert_eq!(sim.item("i")["status"], "waiting");
    let view = sim.view();
    assert_eq!(view["a2aWaits"].as_array().unwrap().len(), 2);
    assert_eq!(view["pendingA2ATasks"]["taskIds"].as_array().unwrap().len(), 2);
    assert_eq!(view["pendingA2ATasks"]["itemId"], "i");
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
    let results = sim.item("i")["toolResults"].clone();
    assert_eq!(results[0]["output"], json!({ "did": "p" }));
    assert_eq!(results[3]["output"], json!({ "did": "q" }));
    assert!(sim.view()["a2aWaits"].as_array().unwrap().is_empty());
}

#[test]
fn an_agent_is_asked_less_and_less_often_until_it_calls_back() {
    let mut sim = sim(&[("peer", "p")], &[("p", NEVER)]);
    sim.ask("go").unwrap();
    until_it_waits(&mut sim);
    let mut waits = Vec::new();
    for _ in 0..9 {
        let wake = sim.steps.last().unwrap().wake_at.unwrap();
        waits.push(wake - sim.now);
        sim.step();
        until_it_waits(&mut sim);
    }
    assert!((2_000..=5_000).contains(&waits[0]), "{waits:?}");
    assert!(waits.iter().all(|wait| *wait <= 300_000) && *waits.last().unwrap() >= 149_000, "{waits:?}");
    let task = sim.tasks()[0].task_id.clone();
    let called = |sim: &mut Sim| {
        sim.apply(Event::Peer(PeerEvent::CalledBack { task: task.clone(), remote_task_id: None })).unwrap()
    };
    assert!(!called(&mut sim).is_noop);
    assert!(matches!(sim.in_flight[..], [Effect::AskPeer { .. }]), "it is asked at once");
    assert!(!called(&mut sim).is_noop, "and once more after that: the answer may be older than the call");
    assert!(called(&mut sim).is_noop, "and not more often");
    let effect = sim.in_flight[0].clone();
    sim.perform(&effect);
    let soon = sim.steps.last().unwrap().wake_at.unwrap() - sim.now;
    assert!(sim.in_flight.is_empty() && (1..=1_000).contains(&soon), "in a moment: it may call all the time");
    sim.step();
    assert!(matches!(sim.in_flight[..], [Effect::AskPeer { .. }]));
}

#[test]
fn a_report_on_another_task_of_the_agent_is_no_reason_to_ask() {
    let mut sim = sim(&[("peer", "p")], &[("p", NEVER)]);
    sim.ask("go").unwrap();
    until_it_waits(&mut sim);
    let task = sim.tasks()[0].clone();
    let mut called = |remote_task_id| {
        let event = Event::Peer(PeerEvent::CalledBack { task: task.task_id.clone(), remote_task_id });
        sim.apply(event).unwrap().is_noop
    };
    assert!(called(Some("another".into())));
    assert!(!called(task.remote_task_id.clone()));
}

#[test]
fn an_agent_whose_answer_never_came_is_asked_again() {
    let mut sim = sim(&[("peer", "p")], &[("p", NEVER)]);
    let asked = |sim: &Sim| match sim.in_flight[..] {
        [Effect::AskPeer { attempt, .. }] => attempt,
        _ => panic!("it is asked: {:?}", sim.in_flight),
    };
    sim.ask("go").unwrap();
    until_it_waits(&mut sim);
    sim.step();
    let first = asked(&sim);
    sim.in_flight.clear();
    sim.now += 120_000;
    sim.wake().unwrap();
    assert_eq!(asked(&sim), first + 1, "whoever performs it has given up by now");
    sim.crash();
    assert_eq!(asked(&sim), first + 2, "so has one that is gone");
}

#[test]
fn a_task_that_takes_too_long_ends_its_call_and_the_agent_is_told() {
    let mut sim = sim(&[("peer", "p")], &[("p", NEVER)]);
    let execution = ExecutionConfig { delegation_timeout_ms: Some(60_000), ..ExecutionConfig::default() };
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
    sim.go();
    assert_eq!(error_code(&sim), "timeout");
    assert_eq!(sim.peers.tasks.values().map(|remote| remote.stops).sum::<u32>(), 1);
    let task = &stored(&sim)[0];
    assert_eq!((task.status, task.cancel_heard), (TaskStatus::Canceled, Some(true)));
}

#[test]
fn a_cancelled_run_tells_the_agent_after_its_end() {
    let mut sim = sim(&[("peer", "p")], &[("p", NEVER)]);
    sim.ask("go").unwrap();
    until_it_waits(&mut sim);
    sim.holds = false;
    sim.cancel(None).unwrap();
    assert!(sim.is_idle() && sim.in_flight.is_empty());
    assert!(sim.steps.last().unwrap().wake_at.is_some(), "the holder is to look");
    sim.reload();
    sim.go();
    assert_eq!(sim.peers.tasks.values().map(|remote| remote.stops).sum::<u32>(), 1);
    let told: Vec<String> = sim.kinds();
    assert_eq!(told.last().unwrap(), "RUN_FINISHED");
    assert!(sim.rows().all(|row| row.kind != RowKind::Task || row.keep == Keep::Never));
}

#[test]
fn an_agent_that_does_not_know_the_task_three_times_has_lost_it() {
    let mut sim = sim(&[("peer", "p")], &[("p", Way { end: End::Forgotten, ..AT_ONCE })]);
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(error_code(&sim), "peer_lost");
    assert_eq!(sim.peers.tasks.values().map(|remote| remote.looked).sum::<u32>(), 3);
}

#[test]
fn an_agent_that_was_removed_is_given_up_whatever_it_was_at() {
    let removed = Way { end: End::Removed, slow: 1, ..AT_ONCE };
    let mut waiting = sim(&[("peer", "p")], &[("p", removed)]);
    waiting.ask("go").unwrap();
    waiting.go();
    let mut in_doubt = sim(&[("peer", "p")], &[("p", removed)]);
    in_doubt.ask("go").unwrap();
    while !matches!(in_doubt.in_flight.first(), Some(Effect::Delegate { .. })) {
        assert!(in_doubt.step());
    }
    in_doubt.crash();
    in_doubt.go();
    for sim in [waiting, in_doubt] {
        assert_eq!(error_code(&sim), "peer_removed");
        assert_eq!(sim.run("run_1").status, RunStatus::Completed, "the model is told, and goes on");
        let task = &stored(&sim)[0];
        assert_eq!(
            (task.status, task.action, &task.reason),
            (TaskStatus::Failed, None, &Some("the agent is away".into()))
        );
        assert!(sim.contents(ObservationType::AgentSuspended).is_empty(), "nobody is asked");
    }
    let mut cancelled = sim(&[("peer", "p")], &[("p", removed)]);
    cancelled.ask("go").unwrap();
    until_it_waits(&mut cancelled);
    cancelled.cancel(None).unwrap();
    cancelled.go();
    assert_eq!(stored(&cancelled)[0].cancel_heard, Some(false));
    assert_eq!(cancelled.peers.tasks.values().map(|remote| remote.looked).sum::<u32>(), 0);
}

#[test]
fn what_an_agent_asks_is_asked_here_and_the_answer_goes_back_to_it() {
    let mut sim = sim(&[("peer", "p")], &[("p", Way { asks: true, ..AT_ONCE })]);
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.suspensions()[0].kind, SuspensionKind::PeerInput);
    sim.answer(0, |answer| answer.value = Some("yes".into())).unwrap();
    sim.go();
    let remote = sim.peers.tasks.values().next().unwrap();
    assert_eq!((remote.heard.len(), remote.twice), (1, 0));
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}

#[test]
fn what_the_agent_asked_before_it_heard_our_answer_is_not_asked_again() {
    let mut sim = sim(&[("peer", "p")], &[("p", Way { asks: true, ..AT_ONCE })]);
    sim.ask("go").unwrap();
    sim.go();
    sim.answer(0, |answer| answer.value = Some("yes".into())).unwrap();
    let [Effect::Delegate { task, attempt }] = &sim.in_flight[..] else { panic!("it is sent") };
    let (task, attempt) = (task.clone(), *attempt);
    let seen = PeerReport {
        state: PeerState::InputRequired,
        remote_task_id: None,
        remote_context_id: None,
        message: None,
        form: None,
        question: None,
        subject: None,
        output: Value::Null,
        patience_ms: None,
    };
    sim.in_flight.clear();
    sim.apply(Event::Peer(PeerEvent::Reported { task, attempt, report: Box::new(seen) })).unwrap();
    assert!(sim.suspensions().is_empty());
    assert_eq!(sim.tasks()[0].status, TaskStatus::Working);
}

#[test]
fn what_an_agent_asked_is_withdrawn_when_it_goes_on_by_itself() {
    let mut sim = sim(&[("peer", "p")], &[("p", Way { asks: true, ..AT_ONCE })]);
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.suspensions().len(), 1);
    let task = sim.tasks()[0].task_id.clone();
    sim.apply(Event::Peer(PeerEvent::CalledBack { task, remote_task_id: None })).unwrap();
    sim.peers.ways.insert("p".into(), NEVER);
    let effect = sim.in_flight[0].clone();
    sim.perform(&effect);
    assert!(sim.suspensions().is_empty());
    assert_eq!(sim.run("run_1").status, RunStatus::Waiting);
}

#[test]
fn a_task_that_is_over_is_not_cancelled() {
    let mut sim = sim(&[("peer", "p")], &[("p", NEVER)]);
    sim.ask("go").unwrap();
    until_it_waits(&mut sim);
    let task = sim.tasks()[0].task_id.clone();
    let mut cancelled = || {
        let event = Event::Person(PersonEvent::TaskCancelAsked { task: task.clone(), by: "ann".into() });
        sim.apply(event).unwrap().is_noop
    };
    assert_eq!([cancelled(), cancelled()], [false, true]);
}

#[test]
fn a_person_who_does_not_want_to_answer_ends_the_task() {
    let mut sim = sim(&[("peer", "p")], &[("p", Way { wants_login: true, ..AT_ONCE })]);
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.suspensions()[0].kind, SuspensionKind::PeerAuth);
    sim.answer(0, |answer| answer.approved = Some(false)).unwrap();
    sim.go();
    assert_eq!(error_code(&sim), "rejected");
    assert_eq!(sim.peers.tasks.values().map(|remote| remote.stops).sum::<u32>(), 1);
}

#[test]
fn a_sending_that_a_crash_interrupted_is_in_doubt_until_the_agent_calls_back() {
    let mut sim = sim(&[("peer", "p")], &[("p", NEVER)]);
    sim.ask("go").unwrap();
    while !matches!(sim.in_flight.first(), Some(Effect::Delegate { .. })) {
        assert!(sim.step());
    }
    sim.crash();
    sim.go();
    assert_eq!(sim.suspensions()[0].kind, SuspensionKind::InDoubt);
    assert_eq!(stored(&sim)[0].status, TaskStatus::InDoubt);
    let task = sim.tasks()[0].task_id.clone();
    sim.apply(Event::Peer(PeerEvent::CalledBack { task: task.clone(), remote_task_id: None })).unwrap();
    assert_eq!(sim.suspensions().len(), 1, "who cannot name the task proves nothing");
    sim.apply(Event::Peer(PeerEvent::CalledBack { task, remote_task_id: Some("theirs".into()) })).unwrap();
    assert!(sim.suspensions().is_empty());
    assert!(matches!(sim.in_flight[..], [Effect::AskPeer { .. }]));
    assert_eq!(sim.tasks()[0].remote_task_id.as_deref(), Some("theirs"));
}

#[test]
fn what_a_report_calls_the_task_is_told_before_the_agent_has_answered() {
    let mut sim = sim(&[("peer", "p")], &[("p", NEVER)]);
    sim.ask("go").unwrap();
    while !matches!(sim.in_flight.first(), Some(Effect::Delegate { .. })) {
        assert!(sim.step());
    }
    let task = sim.tasks()[0].task_id.clone();
    sim.apply(Event::Peer(PeerEvent::CalledBack { task, remote_task_id: Some("theirs".into()) })).unwrap();
    let told = sim.contents(ObservationType::A2aTask);
    assert_eq!((&told.last().unwrap()["remoteTaskId"], told.len()), (&json!("theirs"), 2));
    assert_eq!(sim.view()["a2aWaits"][0]["remoteTaskId"], "theirs");
}

#[test]
fn an_agent_that_takes_a_message_once_is_sent_it_again() {
    let mut sim = sim(&[("peer", "p")], &[("p", Way { dedupes: true, ..AT_ONCE })]);
    sim.ask("go").unwrap();
    while !matches!(sim.in_flight.first(), Some(Effect::Delegate { .. })) {
        assert!(sim.step());
    }
    let message = sim.tasks()[0].message_id.clone();
    sim.crash();
    assert_eq!(sim.tasks()[0].message_id, message, "under the same id");
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
    assert!(sim.contents(ObservationType::AgentSuspended).is_empty());
}

#[test]
fn what_is_in_doubt_is_done_when_a_person_says_so_and_late_answers_change_nothing() {
    let mut sim = sim(&[("peer", "p")], &[("p", AT_ONCE)]);
    sim.ask("go").unwrap();
    while !matches!(sim.in_flight.first(), Some(Effect::Delegate { .. })) {
        assert!(sim.step());
    }
    let late = sim.in_flight[0].clone();
    sim.crash();
    sim.go();
    sim.answer(0, |answer| {
        answer.action = Some(InDoubtAction::Done);
        answer.value = Some(json!("by hand"));
    })
    .unwrap();
    sim.go();
    assert_eq!(sim.item("i")["toolResults"][0]["output"], "by hand");
    assert_eq!(stored(&sim)[0].status, TaskStatus::Completed);
    let Effect::Delegate { task, attempt } = late else { panic!("it was being sent") };
    let failure = PeerFailure::new(PeerFailureKind::Refused, "late");
    assert!(sim.apply(Event::Peer(PeerEvent::Failed { task, attempt, failure })).unwrap().is_noop);
}

#[test]
fn an_answer_to_an_earlier_action_changes_nothing() {
    let mut sim = sim(&[("peer", "p")], &[("p", NEVER)]);
    sim.ask("go").unwrap();
    until_it_waits(&mut sim);
    sim.step();
    let [Effect::AskPeer { task, attempt }] = &sim.in_flight[..] else { panic!("it is asked") };
    let (task, attempt) = (task.clone(), *attempt);
    let failure = PeerFailure::new(PeerFailureKind::NotFound, "late");
    let late = Event::Peer(PeerEvent::Failed { task: task.clone(), attempt: attempt - 1, failure: failure.clone() });
    assert!(sim.apply(late).unwrap().is_noop);
    assert!(!sim.apply(Event::Peer(PeerEvent::Failed { task, attempt, failure })).unwrap().is_noop);
    assert_eq!(sim.tasks()[0].negative_replies, 1);
}
