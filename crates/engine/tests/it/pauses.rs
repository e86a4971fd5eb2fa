//! Paused runs: nothing starts until a person ends the pause, whatever happens meanwhile.

use pes_engine::domain::hitl::SuspensionKind;
use pes_engine::domain::run::RunStatus;
use pes_engine::effect::Effect;
use pes_engine::event::{Event, PersonEvent, SystemEvent};
use pes_engine::step::Step;

use super::sim::*;
use super::suspend::{one_item, ran};

/// The run is paused while its call runs.
fn paused_during(batch: &'static [(&'static str, &'static str)]) -> Sim {
    let mut sim = Sim::new(one_item(batch));
    sim.ask("go").unwrap();
    while !matches!(sim.in_flight.first(), Some(Effect::CallTool { .. })) {
        assert!(sim.step());
    }
    sim.apply(Event::Person(PersonEvent::PauseAsked { by: "ann".into() })).unwrap();
    sim
}

#[test]
fn a_no_does_not_end_a_pause() {
    let mut sim = paused_during(&[("write", "1"), ("write", "2")]);
    sim.go();
    let refused = sim.answer(0, |answer| answer.approved = Some(false)).unwrap_err();
    assert_eq!((refused.code.as_str(), refused.errors[0].pointer.as_str()), ("invalid", "/approved"));
    sim.go();
    assert_eq!((ran(&sim), sim.run("run_1").status), (vec!["write:1".to_owned()], RunStatus::Suspended));
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    sim.go();
    assert_eq!(ran(&sim), ["write:1", "write:2"]);
}

/// The process stops during the call.
#[test]
fn a_call_that_may_be_repeated_waits_for_the_end_of_the_pause() {
    let mut sim = paused_during(&[("read", "1")]);
    sim.crash();
    assert!(sim.in_flight.is_empty(), "{:?}", sim.in_flight);
    let open: Vec<SuspensionKind> = sim.suspensions().iter().map(|open| open.kind).collect();
    assert_eq!((open, sim.run("run_1").status), (vec![SuspensionKind::Pause], RunStatus::Suspended));
    sim.answer(0, |_| ()).unwrap();
    sim.go();
    assert_eq!((ran(&sim), sim.run("run_1").status), (vec!["read:1".to_owned()], RunStatus::Completed));
}

fn restored(sim: &mut Sim) -> Step {
    let restored = SystemEvent::Restored { message: "Restored as of Monday.".to_owned() };
    sim.apply(Event::System(restored)).unwrap()
}

/// Whatever it did after the backup was made may be done once more, so a person looks first.
#[test]
fn a_run_of_a_restored_thread_is_paused_once_and_says_why() {
    let mut sim = Sim::new(one_item(&[("gated", "1")]));
    sim.ask("go").unwrap();
    sim.go();
    restored(&mut sim);
    assert!(restored(&mut sim).is_noop, "it is paused already");
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    sim.go();
    assert_eq!((ran(&sim).len(), sim.run("run_1").status), (0, RunStatus::Suspended));
    let [pause] = &sim.suspensions()[..] else { panic!("{:?}", sim.suspensions()) };
    assert_eq!((pause.kind, &*pause.message), (SuspensionKind::Pause, "Restored as of Monday."));
    sim.answer(0, |_| ()).unwrap();
    sim.go();
    assert_eq!((ran(&sim), sim.run("run_1").status), (vec!["gated:1".to_owned()], RunStatus::Completed));
    assert!(restored(&mut sim).is_noop, "there is nothing to pause");
}

#[test]
fn a_run_that_is_being_cancelled_is_not_paused() {
    let mut sim = Sim::new(one_item(&[("write", "1")]));
    sim.ask("go").unwrap();
    sim.cancel(None).unwrap();
    assert!(restored(&mut sim).is_noop);
    let refused = sim.apply(Event::Person(PersonEvent::PauseAsked { by: "ann".into() })).unwrap_err();
    assert_eq!((refused.code.as_str(), sim.suspensions().len()), ("nothing_to_pause", 0));
}
