//! Calls of tools that are made again after an error: what was of the attempt before is over.

use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::tool::{ToolError, ToolOutcome};
use pes_engine::effect::Effect;
use pes_engine::event::{Event, ToolEvent};
use pes_engine::step::Step;
use serde_json::json;

use super::questions_of_running_calls::question;
use super::sim::*;
use super::suspend::one_item;

fn returns(sim: &mut Sim, effect: &Effect, result: Result<serde_json::Value, ToolError>) -> Step {
    let Effect::CallTool { call, attempt } = effect.clone() else { panic!("{effect:?}") };
    let outcome = ToolOutcome { result, metadata: None, state_patch: None, duration_ms: 1, executed: None };
    sim.apply(Event::Tool(ToolEvent::Returned { call, attempt, outcome: Box::new(outcome) })).unwrap()
}

fn busy() -> ToolError {
    ToolError { retry_after_ms: Some(0), ..ToolError::new("busy", "try again") }
}

/// A call that may be made again runs.
fn calling() -> (Sim, Effect) {
    let mut sim = Sim::new(one_item(&[("read", "1")]));
    sim.ask("go").unwrap();
    while !matches!(sim.in_flight.first(), Some(Effect::CallTool { .. })) {
        assert!(sim.step());
    }
    let first = sim.in_flight[0].clone();
    (sim, first)
}

fn starts_again(sim: &mut Sim) -> Effect {
    sim.now = sim.steps.last().unwrap().wake_at.unwrap();
    sim.wake().unwrap();
    let [again] = &sim.in_flight[..] else { panic!("{:?}", sim.in_flight) };
    again.clone()
}

#[test]
fn an_answer_to_the_attempt_before_comes_too_late() {
    let (mut sim, first) = calling();
    returns(&mut sim, &first, Err(busy()));
    let second = starts_again(&mut sim);
    assert_ne!(second, first);
    assert!(returns(&mut sim, &first, Ok(json!("late"))).is_noop);
    returns(&mut sim, &second, Ok(json!("in time")));
    sim.go();
    let [ended] = &sim.contents(ObservationType::ToolExecution)[..] else { panic!("one call") };
    assert_eq!(ended["output"], "in time");
}

#[test]
fn its_question_is_withdrawn() {
    let (mut sim, first) = calling();
    let Effect::CallTool { call, attempt } = first.clone() else { panic!("{first:?}") };
    let asked = ToolEvent::Asked { call, attempt, number: 1, question: Box::new(question()) };
    sim.apply(Event::Tool(asked)).unwrap();
    assert_eq!(sim.suspensions().len(), 1);
    returns(&mut sim, &first, Err(busy()));
    assert_eq!(sim.suspensions().len(), 0, "nobody waits for the answer");
    sim.go();
    assert!(sim.is_idle());
}

/// They read side by side, and the one that comes first in the batch waits longer.
#[test]
fn of_calls_that_wait_the_first_that_is_due_wakes_the_thread() {
    let mut sim = Sim::new(one_item(&[("read", "1"), ("read", "2")]));
    sim.ask("go").unwrap();
    while sim.in_flight.len() < 2 {
        assert!(sim.step());
    }
    let [first, second] = &sim.in_flight.clone()[..] else { panic!("{:?}", sim.in_flight) };
    returns(&mut sim, first, Err(ToolError { retry_after_ms: Some(60_000), ..busy() }));
    returns(&mut sim, second, Err(busy()));
    let pause = sim.steps.last().unwrap().wake_at.unwrap() - sim.now;
    assert!(pause < 10_000, "{pause}");
    let Effect::CallTool { call: due, .. } = second else { panic!("{second:?}") };
    let again = starts_again(&mut sim);
    assert!(matches!(&again, Effect::CallTool { call, .. } if call == due), "{again:?}");
}
