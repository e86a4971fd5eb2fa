//! Runs that wait until fewer runs of their tenant are active.

use pes_engine::RunAdmission;
use pes_engine::domain::hitl::SuspensionKind;
use pes_engine::domain::message::HistoryRole;
use pes_engine::domain::model::{ModelFailure, ModelReply, ModelRequest};
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::{OnBusy, QueuedReason, RunStatus};
use pes_engine::domain::settings::RunSettings;
use pes_engine::domain::thread::ThreadStatus;
use pes_engine::event::{Event, PersonEvent, SystemEvent};
use pes_engine::step::{RowKind, Step};
use serde_json::json;

use super::sim::*;

fn one_item(request: &ModelRequest) -> Result<ModelReply, ModelFailure> {
    match which(request).as_str() {
        "planning" | "refinement" => plan(&[("a", &[], &[])]),
        _ => says("fine"),
    }
}

/// A thread whose run waits.
fn waiting() -> Sim {
    let mut sim = Sim::new(one_item);
    sim.admission = RunAdmission::Later;
    sim.ask("first").unwrap();
    sim
}

fn wake(sim: &mut Sim) -> Step {
    sim.wake().unwrap()
}

fn cancel(sim: &mut Sim, run: Option<&str>) {
    sim.cancel(run).unwrap();
}

fn waits_since(sim: &Sim) -> i64 {
    sim.rows[&(RowKind::WaitsToBegin, String::new())].ord
}

#[test]
fn it_waits_with_nothing_under_way_and_begins_when_it_may() {
    let mut sim = waiting();
    let step = sim.steps.last().unwrap();
    assert_eq!((step.status, step.wake_at), (ThreadStatus::Waiting, None));
    assert!(sim.machine.waits_to_begin() && !sim.is_active() && sim.in_flight.is_empty());
    assert_eq!(waits_since(&sim), sim.now);
    let run = sim.run("run_1");
    assert_eq!((run.status, run.reason, run.started_at), (RunStatus::Queued, Some(QueuedReason::TenantBusy), None));
    assert!(wake(&mut sim).is_noop, "it still may not");

    sim.reload();
    sim.admission = RunAdmission::Now;
    wake(&mut sim);
    let run = sim.run("run_1");
    assert_eq!((run.status, run.reason, run.started_at), (RunStatus::Running, None, Some(sim.now)));
    assert_eq!((waits_since(&sim), sim.in_flight.len()), (0, 1));
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
    assert_eq!(sim.contents(ObservationType::RunStarted).len(), 1);
}

#[test]
fn what_is_asked_meanwhile_stands_behind_it_whatever_it_wants() {
    let mut sim = waiting();
    let since = waits_since(&sim);
    let refused = sim.ask_with("no", OnBusy::Reject, RunSettings::default()).unwrap_err();
    assert_eq!(refused.code.as_str(), "thread_busy");
    sim.ask_with("second", OnBusy::Steer, RunSettings::default()).unwrap();
    sim.ask_with("before", OnBusy::Interrupt, RunSettings::default()).unwrap();
    assert_eq!(waits_since(&sim), since, "it keeps its turn");
    assert_eq!(sim.run("run_4").reason, Some(QueuedReason::TenantBusy));

    sim.admission = RunAdmission::Now;
    wake(&mut sim);
    assert_eq!(sim.run("run_4").status, RunStatus::Running);
    for waits in ["run_1", "run_3"] {
        let run = sim.run(waits);
        assert_eq!((run.status, run.reason), (RunStatus::Queued, None), "{waits} waits for this thread now");
    }
    sim.go();
    let begun: Vec<_> = sim.contents(ObservationType::RunStarted).iter().map(|body| body["query"].clone()).collect();
    assert_eq!(begun, [json!("before"), json!("first"), json!("second")]);
}

#[test]
fn the_next_of_a_thread_waits_too_when_its_turn_comes() {
    let mut sim = Sim::new(one_item);
    sim.ask("first").unwrap();
    sim.ask("second").unwrap();
    assert_eq!(sim.run("run_2").reason, None);
    sim.admission = RunAdmission::Later;
    sim.go();
    let (first, second) = (sim.run("run_1"), sim.run("run_2"));
    assert_eq!((first.status, second.status), (RunStatus::Completed, RunStatus::Queued));
    assert_eq!((second.reason, waits_since(&sim)), (Some(QueuedReason::TenantBusy), sim.now));
    sim.admission = RunAdmission::Now;
    wake(&mut sim);
    sim.go();
    assert_eq!(sim.run("run_2").status, RunStatus::Completed);
}

#[test]
fn it_is_cancelled_without_having_begun() {
    let mut sim = waiting();
    sim.ask("second").unwrap();
    cancel(&mut sim, Some("run_1"));
    assert_eq!((sim.run("run_1").status, sim.run("run_1").reason), (RunStatus::Cancelled, None));
    assert!(sim.machine.waits_to_begin(), "the other one still waits");
    cancel(&mut sim, None);
    assert_eq!((sim.run("run_2").status, waits_since(&sim)), (RunStatus::Cancelled, 0));
    assert_eq!(sim.steps.last().unwrap().status, ThreadStatus::Idle);
    assert_eq!(sim.contents(ObservationType::RunStarted).len(), 0);
}

#[test]
fn where_too_many_wait_nothing_of_it_is_kept() {
    let mut sim = Sim::new(one_item);
    sim.admission = RunAdmission::Refused { most: 7 };
    let refused = sim.ask_after(&[(HistoryRole::User, "before")], "first").unwrap_err();
    assert_eq!((refused.code.as_str(), refused.code.status()), ("queue_full", 429));
    assert!(refused.detail.contains("At most 7 threads") && refused.retry_after_ms.is_some());
    assert!(sim.rows.is_empty() && sim.records.is_empty());

    sim.admission = RunAdmission::Now;
    sim.ask("first").unwrap();
    sim.admission = RunAdmission::Refused { most: 7 };
    sim.ask("second").unwrap();
    assert_eq!(sim.run("run_3").status, RunStatus::Queued, "a run of its own thread is what this one waits for");
}

#[test]
fn after_a_restored_backup_a_person_is_asked_before_it_begins() {
    let mut sim = waiting();
    sim.apply(Event::System(SystemEvent::Restored { message: "of Monday".into() })).unwrap();
    assert!(sim.in_flight.is_empty() && !sim.machine.waits_to_begin());
    assert_eq!(sim.suspensions()[0].kind, SuspensionKind::Pause);
    assert_eq!(sim.suspensions()[0].message, "of Monday");
    assert_eq!(sim.run("run_1").status, RunStatus::Suspended);
}

#[test]
fn a_pause_goes_on_with_the_next_run_which_is_held_back_by_it() {
    let mut sim = Sim::new(one_item);
    sim.ask("first").unwrap();
    sim.ask("second").unwrap();
    sim.step();
    sim.step();
    sim.apply(Event::Person(PersonEvent::PauseAsked { by: "ann".into() })).unwrap();
    sim.admission = RunAdmission::Later;
    sim.step();
    assert_eq!(sim.run("run_1").status, RunStatus::Completed, "it was writing its answer");
    assert_eq!((sim.suspensions().len(), sim.run("run_2").status), (1, RunStatus::Suspended));
    assert!(sim.in_flight.is_empty());
}

#[test]
fn a_quarantined_thread_has_none_that_waits() {
    let mut sim = waiting();
    sim.apply(Event::System(SystemEvent::Quarantined { crashes: 3 })).unwrap();
    assert_eq!((sim.run("run_1").status, waits_since(&sim)), (RunStatus::Failed, 0));
}
