//! The example of a core from outside the crate, run: behind the same runtime, and under the driver that crashes.

use std::sync::Arc;

use pes::domain::observation::ObservationType;
use pes::domain::run::{CallerStatus, RunStatus};
use pes::domain::settings::ThreadConfig;
use pes::engine::Registered;
use pes::engine::event::Event;
use pes::runtime::{NewThreadAsk, RunSnapshotAsk};
use pes::store::PageAsk;
use pes::store::memory::Memory;
use pes::{AgentProps, Config, Instance};

use super::sim::{Sim, says};

#[path = "../../../examples/custom_core.rs"]
#[allow(dead_code)] // Its `main` is the example's.
mod example;

use example::Oneshot;

fn oneshot() -> Sim {
    Sim::of(Arc::new(Registered::<Oneshot>::new()), |request| says(format!("the answer to {}", request.context.query)))
}

#[tokio::test]
async fn the_example_answers() {
    let answer = example::answer("What is this?").await.unwrap();
    assert!(answer.contains("demo model"), "{answer}");
}

#[tokio::test]
async fn its_runs_are_listed_where_they_stand_though_it_writes_no_row_for_that() {
    let core = Arc::new(Registered::<Oneshot>::new());
    let instance = Instance::build(Config::default()).store(Arc::new(Memory::new())).core(core).open().await.unwrap();
    let config = ThreadConfig { agent_core: Some("oneshot".to_owned()), ..ThreadConfig::default() };
    let thread = NewThreadAsk { thread_id: Some("t1".into()), config, ..NewThreadAsk::default() };
    instance.runtime().create_thread(instance.caller(), thread, None).await.unwrap();
    instance.process(AgentProps::new("t1", "go")).await.unwrap();
    let listed = async |standing| {
        let page = PageAsk { cursor: None, limit: 9 };
        let ask = RunSnapshotAsk { thread: None, standings: vec![standing], since: None, with_messages: false, page };
        instance.runtime().run_snapshots(instance.caller(), ask).await.unwrap().1
    };
    assert_eq!((listed(CallerStatus::Completed).await, listed(CallerStatus::Running).await), (1, 0));
    instance.close().await;
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
    let step = sim.apply(Event::CancelAsked { run: None, by: "ann".into() }).unwrap();
    assert!(step.stop_effects && sim.run("run_1").status == RunStatus::Running);
    sim.apply(Event::EffectsStopped).unwrap();
    assert_eq!(sim.run("run_1").status, RunStatus::Cancelled);
    assert!(sim.ask("again").is_ok());
}
