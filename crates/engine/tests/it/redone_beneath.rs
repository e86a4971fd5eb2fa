//! A dependency of an item is redone while that item is running.

use pes_engine::Prompt;
use pes_engine::domain::model::{ModelFailure, ModelReply};
use pes_engine::domain::run::OnBusy;
use pes_engine::domain::settings::{ExecutionConfig, RunSettings};
use pes_engine::effect::Effect;
use pes_engine::event::{Event, ModelEvent, PersonEvent};
use serde_json::json;

use super::results::prompt_of;
use super::sim::*;

const NOTE: &str = "Item a, on which this depends, is done again";
const MARK: &str = "it rests on an earlier result of a, done again since";

/// `a` is done, and `b`, which depends on it, is running its first step when a person has `a` redone. Then `b` gives
/// this reply to its earlier prompt.
fn redone_beneath(reply: Result<ModelReply, ModelFailure>) -> Sim {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &["a"], &[])]),
        "b.2" => calls(&[("read", json!({}))]),
        other => says(format!("result of {other}")),
    });
    let execution = ExecutionConfig { max_parallel_items: 2, ..ExecutionConfig::default() };
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
    // Planned, and `a` done.
    (0..2).for_each(|_| assert!(sim.step()));
    let (stream, attempt) = sim.stream();
    sim.apply(Event::Person(PersonEvent::ItemRetried { item: "a".into(), by: "ann".into() })).unwrap();
    sim.reload();
    let reply = Box::new(reply.unwrap());
    sim.apply(Event::Model(ModelEvent::Replied { stream, attempt, reply })).unwrap();
    sim
}

/// The prompt of `b`'s running call, once its tools have been called.
fn next_prompt(sim: &mut Sim) -> (Effect, String) {
    loop {
        for effect in sim.in_flight.clone() {
            if let Effect::CallTool { .. } = effect {
                sim.perform(&effect);
            } else if let Prompt::Call(request) = sim.prompt(&effect)
                && request.context.item_id.as_deref() == Some("b")
            {
                return (effect, format!("{:?}", request.messages));
            }
        }
    }
}

#[test]
fn a_reply_to_a_prompt_without_the_note_leaves_it_for_the_next_one() {
    let mut sim = redone_beneath(calls(&[("read", json!({}))]));
    let (effect, prompt) = next_prompt(&mut sim);
    assert!(prompt.contains(NOTE));
    sim.perform(&effect);
    let (_, prompt) = next_prompt(&mut sim);
    assert!(!prompt.contains(NOTE), "once is enough");
}

#[test]
fn what_is_completed_on_a_result_that_is_void_is_marked() {
    let mut sim = redone_beneath(says("result of b"));
    assert_eq!(sim.item("b")["status"], "completed");
    sim.crash();
    sim.go();
    assert_eq!(sim.item("a")["status"], "completed");
    assert!(prompt_of(&sim, "synthesis").contains(MARK));
}

#[test]
fn what_saw_the_new_result_is_not_marked() {
    let mut sim = redone_beneath(calls(&[("read", json!({}))]));
    let of_a = sim.in_flight.iter().find(|effect| matches!(effect, Effect::CallModel { .. })).cloned().unwrap();
    sim.perform(&of_a);
    assert_eq!((&sim.item("a")["status"], &sim.item("b")["status"]), (&json!("completed"), &json!("in_progress")));
    sim.go();
    assert!(prompt_of(&sim, "b.2").contains("result of a.1"));
    assert!(!prompt_of(&sim, "synthesis").contains(MARK));
}
