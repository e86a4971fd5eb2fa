//! Agents that are to stop: how long they are told, and when that is settled.

use pes_engine::domain::ids::TaskId;
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::{OnBusy, RunStatus};
use pes_engine::domain::settings::{ExecutionConfig, RunSettings};
use pes_engine::domain::task::{PeerFailure, PeerFailureKind, Task, TaskStatus};
use pes_engine::effect::Effect;
use pes_engine::event::{Event, PeerEvent};
use pes_engine::step::{Keep, RowKind};

use super::delegate::{NEVER, error_code, sending_fails, sent_again, sim, stored, until_it_waits};
use super::sim::*;

const DAY: i64 = 24 * 3_600_000;

/// The run is cancelled while the agent works, and the agent is being told.
fn cancelled() -> Sim {
    let mut sim = sim(&[("peer", "p")], &[("p", NEVER)]);
    sim.ask("go").unwrap();
    until_it_waits(&mut sim);
    sim.cancel(None).unwrap();
    sim
}

/// The run is cancelled while its message is sent: the agent has not named its task.
fn cancelled_unnamed() -> Sim {
    let mut sim = sim(&[("peer", "p")], &[("p", NEVER)]);
    sim.ask("go").unwrap();
    while !matches!(sim.in_flight.first(), Some(Effect::Delegate { .. })) {
        assert!(sim.step());
    }
    sim.cancel(None).unwrap();
    sim.stop_effects().unwrap();
    sim
}

/// The cancel that is being sent.
fn told(sim: &Sim) -> (TaskId, u32) {
    let [Effect::CancelPeer { task, attempt }] = &sim.in_flight[..] else { panic!("{:?}", sim.in_flight) };
    (task.clone(), *attempt)
}

fn fails(sim: &mut Sim, kind: PeerFailureKind) {
    let (task, attempt) = told(sim);
    let failure = PeerFailure::new(kind, "the agent is away");
    sim.apply(Event::Peer(PeerEvent::Failed { task, attempt, failure })).unwrap();
}

/// The pause until it is told again, which then happens; `None`: it is not.
fn told_again(sim: &mut Sim) -> Option<i64> {
    assert!(sim.in_flight.is_empty() && sim.is_idle(), "nothing is kept in memory");
    let at = sim.steps.last().unwrap().wake_at?;
    let pause = at - sim.now;
    sim.now = at;
    sim.wake().unwrap();
    told(sim);
    Some(pause)
}

fn task(sim: &Sim) -> Task {
    let [task] = &stored(sim)[..] else { panic!("there is one task") };
    task.clone()
}

fn is_over(sim: &Sim) -> bool {
    sim.rows().all(|row| row.kind != RowKind::Task || row.keep == Keep::Never)
}

#[test]
fn an_agent_that_is_away_is_told_for_a_day_and_less_and_less_often() {
    for kind in [PeerFailureKind::Unreachable, PeerFailureKind::Unknown] {
        let mut sim = cancelled();
        assert_eq!((sim.run("run_1").status, task(&sim).status), (RunStatus::Cancelled, TaskStatus::Canceled));
        let (since, mut pauses) = (sim.now, Vec::new());
        loop {
            fails(&mut sim, kind);
            let Some(pause) = told_again(&mut sim) else { break };
            assert_eq!(task(&sim).cancel_heard, None, "it is not settled");
            pauses.push(pause);
        }
        let time = sim.now - since;
        assert!((DAY..=DAY + 301_000).contains(&time), "{time}");
        assert!((2_000..=5_000).contains(&pauses[0]), "{pauses:?}");
        assert!(pauses.iter().all(|pause| *pause <= 300_000), "{pauses:?}");
        assert!(pauses.iter().skip(6).all(|pause| *pause >= 149_000), "{pauses:?}");
        assert_eq!((task(&sim).cancel_heard, is_over(&sim)), (Some(false), true));
    }
}

/// The run has ended, so nothing else would wake the thread soon.
#[test]
fn an_agent_that_was_being_told_is_told_again_at_once_after_a_crash() {
    let mut sim = cancelled();
    let (before, _) = told(&sim);
    sim.crash();
    assert_eq!(told(&sim).0, before);
}

#[test]
fn an_agent_that_comes_back_within_a_day_is_told() {
    let mut sim = cancelled();
    while task(&sim).updated_at < task(&sim).finished_at.unwrap() + DAY - 600_000 {
        fails(&mut sim, PeerFailureKind::Unreachable);
        told_again(&mut sim).unwrap();
    }
    sim.go();
    assert_eq!((task(&sim).cancel_heard, is_over(&sim)), (Some(true), true));
    assert_eq!(sim.peers.tasks.values().map(|remote| remote.stops).sum::<u32>(), 1);
}

/// Its outages in between are no replies.
#[test]
fn a_task_that_the_agent_does_not_find_is_searched_six_times() {
    for kind in [PeerFailureKind::NotFound, PeerFailureKind::Refused] {
        let mut sim = cancelled_unnamed();
        for _ in 0..10 {
            fails(&mut sim, PeerFailureKind::Unreachable);
            told_again(&mut sim).unwrap();
        }
        for _ in 0..5 {
            fails(&mut sim, kind);
            told_again(&mut sim).unwrap();
        }
        fails(&mut sim, kind);
        assert_eq!((told_again(&mut sim), task(&sim).cancel_heard, is_over(&sim)), (None, Some(false), true));
    }
}

#[test]
fn replies_to_a_cancel_that_cannot_be_read_are_counted_apart_from_refusals() {
    for last in [PeerFailureKind::NotFound, PeerFailureKind::Unreadable] {
        let mut sim = cancelled_unnamed();
        for kind in [PeerFailureKind::NotFound, PeerFailureKind::Unreadable].repeat(5) {
            fails(&mut sim, kind);
            told_again(&mut sim).unwrap();
        }
        fails(&mut sim, last);
        assert_eq!((told_again(&mut sim), task(&sim).cancel_heard, is_over(&sim)), (None, Some(false), true));
    }
}

/// The agent does not find the task by our message, and its report names the task meanwhile.
#[test]
fn an_agent_that_names_the_task_during_the_search_is_told_under_that_name() {
    for kind in [PeerFailureKind::NotFound, PeerFailureKind::Refused] {
        let mut sim = cancelled_unnamed();
        let (id, _) = told(&sim);
        let named = PeerEvent::CalledBack { task: id.clone(), remote_task_id: Some("theirs".into()) };
        sim.apply(Event::Peer(named)).unwrap();
        fails(&mut sim, kind);
        assert_eq!((task(&sim).cancel_heard, is_over(&sim)), (None, false));
        let pause = told_again(&mut sim).unwrap();
        assert!((1..=1_000).contains(&pause), "{pause}");
        let named = sim.machine.peer_call_input(&id).unwrap().task.remote_task_id;
        assert_eq!(named.as_deref(), Some("theirs"));
        fails(&mut sim, kind);
        assert_eq!((task(&sim).cancel_heard, is_over(&sim)), (Some(kind == PeerFailureKind::NotFound), true));
    }
}

/// The message may have arrived, a person had it sent again, and now the agent is away.
#[test]
fn an_agent_that_may_have_an_earlier_message_is_told_of_a_cancel() {
    let mut sim = sim(&[("peer", "p")], &[("p", NEVER)]);
    sim.ask("go").unwrap();
    sent_again(&mut sim);
    sending_fails(&mut sim, PeerFailureKind::Unreachable);
    assert!(task(&sim).may_have_arrived, "the erasure of the thread cancels it, too");
    sim.cancel(None).unwrap();
    told(&sim);
    assert_eq!(task(&sim).status, TaskStatus::Canceled);
}

/// Without such a doubt there is nobody to tell.
#[test]
fn an_agent_that_no_message_has_reached_is_told_nothing() {
    let mut sim = sim(&[("peer", "p")], &[("p", NEVER)]);
    sim.ask("go").unwrap();
    sending_fails(&mut sim, PeerFailureKind::Unreachable);
    assert!(!task(&sim).may_have_arrived);
    sim.cancel(None).unwrap();
    assert_eq!((sim.in_flight.len(), is_over(&sim)), (0, true));
}

/// The answer to the message says no more than that the agent has it; that to the cancel, that it was accepted.
#[test]
fn an_agent_whose_answers_are_too_large_is_told_to_stop() {
    let mut sim = sim(&[("peer", "p")], &[("p", NEVER)]);
    sim.ask("go").unwrap();
    sending_fails(&mut sim, PeerFailureKind::TooLarge);
    assert_eq!(error_code(&sim), "peer_failed");
    let told = sim.in_flight.iter().find_map(|effect| {
        let Effect::CancelPeer { task, attempt } = effect else { return None };
        Some((task.clone(), *attempt))
    });
    let (id, attempt) = told.expect("it is told");
    let failure = PeerFailure::new(PeerFailureKind::TooLarge, "large");
    sim.apply(Event::Peer(PeerEvent::Failed { task: id, attempt, failure })).unwrap();
    assert_eq!((task(&sim).cancel_heard, task(&sim).is_over()), (Some(true), true));
}

#[test]
fn a_deadline_is_met_between_two_polls_and_then_the_agent_is_told_as_any_other() {
    let mut sim = sim(&[("peer", "p")], &[("p", NEVER)]);
    let execution = ExecutionConfig { delegation_timeout_ms: Some(100_000), ..ExecutionConfig::default() };
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
    let mut wakes = Vec::new();
    while sim.contents(ObservationType::ToolExecution).is_empty() {
        wakes.extend(sim.steps.last().and_then(|step| step.wake_at));
        assert!(sim.step());
    }
    let task = task(&sim);
    assert_eq!(wakes.last(), Some(&task.deadline), "not at the next poll");
    assert_eq!((error_code(&sim), task.status), ("timeout".into(), TaskStatus::Canceled));
    while !sim.is_idle() {
        let call = sim.in_flight.iter().find(|effect| matches!(effect, Effect::CallModel { .. })).cloned();
        sim.perform(&call.expect("the run goes on"));
    }
    fails(&mut sim, PeerFailureKind::Unreachable);
    assert!(told_again(&mut sim).unwrap() > 0, "the deadline is over");
}

/// A user of the thread's next run has nothing to do with the task.
#[test]
fn an_agent_is_told_nothing_of_the_user_of_another_run() {
    let mut sim = sim(&[("peer", "p")], &[("p", NEVER)]);
    let user = |sim: &mut Sim, id: &str| {
        sim.ask_more("go", RunSettings::default(), None, |ask| ask.user_id = Some(id.to_owned())).unwrap();
    };
    user(&mut sim, "ann");
    until_it_waits(&mut sim);
    let id = task(&sim).task_id;
    let of_user = |sim: &Sim| sim.machine.peer_call_input(&id).unwrap().user_id;
    assert_eq!(of_user(&sim).as_deref(), Some("ann"));
    sim.cancel(None).unwrap();
    assert_eq!(of_user(&sim), None, "its run has ended");
    user(&mut sim, "bob");
    assert_eq!(of_user(&sim), None);
}
