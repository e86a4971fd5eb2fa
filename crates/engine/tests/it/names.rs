//! Plans that name unknown tools or dependencies.

use pes_engine::domain::run::{OnBusy, RunStatus};
use pes_engine::domain::settings::{ExecutionConfig, OnItemFailure, RunSettings};
use serde_json::json;

use super::results::prompt_of;
use super::sim::*;

/// The plan names `first`, and then `told` once the model was told of its mistake.
fn planned(first: (&'static str, &'static str), told: (&'static str, &'static str)) -> Sim {
    run(planning(first, told))
}

fn run(mut sim: Sim) -> Sim {
    sim.ask("go").unwrap();
    sim.go();
    sim
}

fn planning(first: (&'static str, &'static str), told: (&'static str, &'static str)) -> Sim {
    let list = |(tool, need): (&'static str, &'static str)| {
        says(
            json!({ "title": "t", "intent": "i", "plan": "p", "todoList": [
                { "id": "a", "description": "do a", "requiredTools": [tool] },
                { "id": "b", "description": "do b", "dependencies": [need] },
            ]})
            .to_string(),
        )
    };
    Sim::new(move |request| match which(request).as_str() {
        "planning" => list(first),
        "repair" => list(told),
        "a.1" => calls(&[("read", json!({}))]),
        other => says(format!("result of {other}")),
    })
}

#[test]
fn a_plan_with_an_unknown_tool_or_dependency_is_told_the_names_that_exist() {
    let sim = planned(("raed", "z"), ("read", "a"));
    let told = prompt_of(&sim, "repair");
    assert!(told.contains("There is no tool raed; requiredTools may only name: denied, fetch, form,"), "{told}");
    assert!(told.contains("There is no item z; dependencies may only name: a, b."), "{told}");
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
    assert_eq!((&sim.item("a")["status"], &sim.item("b")["status"]), (&json!("completed"), &json!("completed")));
}

#[test]
fn a_tool_that_is_off_is_told_from_one_that_nobody_knows() {
    let mut sim = planning(("raed", "a"), ("raed", "a"));
    sim.tools.why_off = Some("its server is disabled");
    let sim = run(sim);
    assert_eq!(sim.item("a")["reason"], "unknown_tool: it requires raed, which is off: its server is disabled");
}

#[test]
fn it_is_told_once_and_nothing_is_spent_on_what_cannot_be_done() {
    let sim = planned(("raed", "z"), ("raed", "z"));
    assert_eq!(sim.prompts.iter().map(which).collect::<Vec<_>>(), ["planning", "repair", "synthesis"]);
    assert!(sim.item("a")["reason"].as_str().unwrap().starts_with("unknown_tool: it requires raed"));
    assert_eq!(sim.item("b")["reason"], "unknown dependency: z");
}

#[test]
fn an_item_that_requires_a_tool_which_is_not_enabled_says_so() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" | "repair" => plan(&[("a", &[], &["look"])]),
        _ => says("fine"),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.item("a")["reason"], "disabled_tool: it requires look, which is not enabled for this thread");
}

#[test]
fn what_cannot_be_done_is_planned_around_before_anything_else_begins() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" | "repair" => plan(&[("a", &[], &["raed"]), ("b", &[], &[])]),
        "refinement" => plan(&[("b", &[], &[]), ("c", &[], &[])]),
        _ => says("fine"),
    });
    let execution = ExecutionConfig { on_item_failure: OnItemFailure::Replan, ..ExecutionConfig::default() };
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
    sim.go();
    let made: Vec<String> = sim.prompts.iter().map(which).collect();
    assert_eq!(made, ["planning", "repair", "refinement", "b.1", "c.1", "synthesis"]);
}
