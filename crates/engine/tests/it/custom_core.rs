//! The example of a core from outside the crate, under the driver that crashes.

use std::sync::Arc;

use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::RunStatus;

use super::sim::{Sim, says};

#[path = "../../../../examples/custom_core/oneshot.rs"]
mod oneshot;

use oneshot::Oneshot;

fn oneshot() -> Sim {
    Sim::of(Arc::new(Oneshot), |request| says(format!("the answer to {}", request.context.query)))
}

#[test]
fn it_survives_a_crash_after_any_commit() {
    for after in 0..3 {
        let mut sim = oneshot();
        sim.ask("go").unwrap();
        for _ in 0..after {
            sim.step();
        }
        sim.crash();
        sim.go();
        let answers = sim.contents(ObservationType::FinalResponse);
        assert_eq!(answers.len(), 1, "crash after {after}");
        assert_eq!(answers[0]["message"]["content"], "the answer to go");
    }
}

#[test]
fn whoever_holds_no_lease_starts_nothing() {
    let mut sim = oneshot();
    sim.holds = false;
    sim.ask("go").unwrap();
    assert!(sim.in_flight.is_empty() && sim.steps[0].wake_at.is_some());
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}

#[test]
fn a_cancel_waits_for_what_runs() {
    let mut sim = oneshot();
    sim.ask("go").unwrap();
    let step = sim.cancel(None).unwrap();
    assert!(step.is_cancelling && sim.run("run_1").status == RunStatus::Running);
    sim.stop_effects().unwrap();
    assert_eq!(sim.run("run_1").status, RunStatus::Cancelled);
    assert!(sim.ask("again").is_ok());
}
