//! Item ids that people write, and how models copy them.

use std::collections::HashSet;

use pes_engine::domain::fault::Fault;
use pes_engine::domain::thread::{AgentState, ForkedFrom};
use pes_engine::event::{Event, PersonEvent};
use pes_engine::history::ShownPlan;
use pes_engine::step::Step;
use serde_json::{Value, json};

use super::sim::*;

fn list(sim: &Sim) -> Vec<Value> {
    sim.view()["todoList"].as_array().unwrap().clone()
}

fn edit(sim: &mut Sim, list: Vec<Value>) -> Result<Step, Fault> {
    sim.edit_plan("ann", |shown| *shown = list)
}

/// A copy of a thread whose list has items with these ids, all pending.
fn copied(ids: &[&str], script: impl Fn(&str) -> Value + 'static) -> Sim {
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        phase @ ("refinement" | "planning") => says(script(phase).to_string()),
        "one step.1" => says(script("step").to_string()),
        other => says(format!("result of {other}")),
    });
    let item = |id: &&str| json!({ "id": id, "description": "do it", "status": "pending", "createdTimestamp": 1, "updatedTimestamp": 1 });
    let view = json!({
        "intent": "", "title": "", "plan": "p", "planVersion": 3, "lastSeq": 0, "stepOutputs": {},
        "todoList": ids.iter().map(item).collect::<Vec<_>>(),
    });
    let state = Box::new(ShownPlan::of(&view).unwrap());
    let from = ForkedFrom { thread_id: "t0".into(), seq: 1 };
    let (messages, agent_state) = (Vec::new(), AgentState::default());
    sim.apply(Event::Person(PersonEvent::Forked {
        from,
        state,
        messages,
        superseded: HashSet::new(),
        agent_state,
        summary: None,
        shapers: Vec::new(),
        later: Vec::new(),
    }))
    .unwrap();
    sim
}

fn ids(sim: &Sim) -> Vec<String> {
    list(sim).iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_new_item_whose_id_no_model_can_write_is_refused_with_one_that_it_can() {
    let mut sim = copied(&["a"], |_| json!({ "todoList": [] }));
    let before = list(&sim);
    for (id, better) in [("my step", "my_step"), (" b", "b"), ("b\u{a0}c", "b_c")] {
        let new = json!({ "id": id, "description": "new" });
        let refused = edit(&mut sim, [before.clone(), vec![new]].concat()).unwrap_err();
        assert_eq!((refused.code.as_str(), refused.errors[0].pointer.as_str()), ("plan_invalid", "/1/id"));
        let why = &refused.errors[0].detail;
        assert!(why.contains(&format!("`{better}`")), "{why}");
    }
    assert_eq!(ids(&sim), ["a"]);
    edit(&mut sim, [before, vec![json!({ "id": "my_step", "description": "new" })]].concat()).unwrap();
    assert_eq!(ids(&sim), ["a", "my_step"]);
}

#[test]
fn an_item_that_has_such_an_id_already_stays_editable_and_is_not_added_again_by_a_refinement() {
    let mut sim = copied(&["a", "one step"], |phase| match phase {
        "step" => {
            json!({ "content": "done", "updatedPlan": { "todoList": [{ "id": "one step", "description": "x" }] } })
        }
        _ => json!({ "title": "t", "intent": "i", "plan": "p", "todoList": [
            { "id": "a", "description": "do it", "status": "pending" },
            { "id": "one step", "description": "do it well", "dependencies": ["a"] },
            { "id": "c", "description": "after that", "dependencies": ["one step"] },
        ] }),
    });
    let mut edited = list(&sim);
    edited[1]["description"] = json!("do it better");
    edit(&mut sim, edited).unwrap();
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(ids(&sim), ["a", "one step", "c"]);
    assert_eq!(sim.item("one step")["description"], "do it well");
    assert_eq!(sim.item("c")["dependencies"], json!(["one step"]));
    for item in list(&sim) {
        assert_eq!(item["status"], "completed", "{item:#}");
    }
}

#[test]
fn an_item_of_just_that_id_is_meant_before_one_that_is_like_it() {
    let mut sim = copied(
        &["one step", "one_step"],
        |_| json!({ "title": "t", "intent": "i", "plan": "p", "todoList": [{ "id": "one_step", "description": "changed" }] }),
    );
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!((&sim.item("one_step")["description"], ids(&sim).len()), (&json!("changed"), 2));
}
