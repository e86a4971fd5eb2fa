//! Calls that need only their arguments and the time are not effects.

use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::{OnBusy, RunStatus};
use pes_engine::domain::settings::{ExecutionConfig, RunSettings};
use pes_engine::effect::Effect;
use serde_json::{Value, json};

use super::sim::*;

/// One item, whose first reply makes these calls.
fn with(batch: &'static [(&str, &str)]) -> Sim {
    Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        "a.1" => {
            let calls: Vec<(&str, Value)> = batch.iter().map(|(name, x)| (*name, json!({ "x": x }))).collect();
            super::script::calls(&calls)
        }
        other => says(format!("result of {other}")),
    })
}

fn running_calls(sim: &Sim) -> usize {
    sim.in_flight.iter().filter(|effect| matches!(effect, Effect::CallTool { .. })).count()
}

/// The tools whose calls have ended, in order.
fn ended(sim: &Sim) -> Vec<String> {
    let results = sim.contents(ObservationType::ToolExecution);
    results.iter().map(|result| result["toolName"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn they_are_answered_in_the_decision_that_makes_them() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &["sum"]), ("b", &["a"], &["sum"]), ("c", &["b"], &["sum"])]),
        "a.1" | "b.1" | "c.1" => calls(&[("sum", json!({ "of": which(request) }))]),
        other => says(format!("result of {other}")),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.steps.len(), 9, "with an effect for each call they are twelve");
    assert!(sim.started.is_empty());
    let told = sim.kinds();
    let at = told.iter().position(|kind| kind == "TOOL_CALL[a]").unwrap();
    assert_eq!(told[at..at + 3], ["TOOL_CALL[a]", "TOOL_EXECUTION[a]", "LLM_STREAM_START[a]"]);
    let finished = &sim.contents(ObservationType::RunFinished)[0];
    assert_eq!((&finished["resultStatus"], &finished["toolCalls"]), (&json!("success"), &json!(3)));
    assert_eq!(
        sim.contents(ObservationType::ToolExecution)[0]["output"],
        json!({ "tool": "sum", "of": { "of": "a.1" } })
    );
}

#[test]
fn each_waits_for_its_turn() {
    let mut sim = with(&[("sum", "1"), ("write", "2"), ("sum", "3")]);
    sim.ask("go").unwrap();
    while running_calls(&sim) == 0 {
        assert!(sim.step());
    }
    assert_eq!(ended(&sim), ["sum"], "the last one comes after the effect before it");
    sim.go();
    assert_eq!(ended(&sim), ["sum", "write", "sum"]);
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}

#[test]
fn one_that_waited_for_its_turn_is_not_answered_if_a_rule_denies_it_by_then() {
    let mut sim = with(&[("write", "1"), ("sum", "2")]);
    sim.ask("go").unwrap();
    while running_calls(&sim) == 0 {
        assert!(sim.step());
    }
    sim.tools.denies = Some("sum");
    sim.now += 1;
    sim.go();
    let results = sim.contents(ObservationType::ToolExecution);
    let [written, denied] = &results[..] else { panic!("{results:?}") };
    assert_eq!((&written["status"], &denied["error"]["code"]), (&json!("success"), &json!("denied")));
    assert_eq!(denied["error"]["message"], "denied Nothing was done.");
}

#[test]
fn a_call_that_waits_for_a_person_does_not_hold_them_up_and_is_an_effect_once_it_is_approved() {
    let mut sim = with(&[("gated", "1"), ("sum", "2")]);
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(ended(&sim), ["sum"]);
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    assert_eq!(running_calls(&sim), 1, "what runs is compared with what was approved");
    sim.go();
    assert_eq!(ended(&sim), ["sum", "gated"]);
}

#[test]
fn one_with_large_arguments_is_an_effect() {
    let large: &'static str = "x".repeat(2_000).leak();
    let batch: &'static [(&str, &str)] = vec![("sum", large)].leak();
    let mut sim = with(batch);
    sim.ask("go").unwrap();
    while running_calls(&sim) == 0 {
        assert!(sim.step());
    }
    sim.go();
    assert_eq!(ended(&sim), ["sum"]);
}

#[test]
fn whoever_does_not_hold_the_thread_answers_none() {
    let mut sim = with(&[("write", "1"), ("sum", "2")]);
    sim.ask("go").unwrap();
    while running_calls(&sim) == 0 {
        assert!(sim.step());
    }
    let write = sim.in_flight[0].clone();
    sim.holds = false;
    sim.perform(&write);
    assert_eq!(ended(&sim), ["write"]);
    sim.go();
    assert_eq!(ended(&sim), ["write", "sum"]);
}

#[test]
fn an_item_that_ends_by_them_lets_the_next_begin() {
    let execution = ExecutionConfig { max_iterations: 1, ..ExecutionConfig::default() };
    let settings = RunSettings { execution, ..RunSettings::default() };
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[])]),
        "a.1" => calls(&[("sum", json!({}))]),
        other => says(format!("result of {other}")),
    });
    sim.ask_with("go", OnBusy::Enqueue, settings).unwrap();
    sim.go();
    assert_eq!(
        (sim.item("a")["status"].as_str(), sim.item("b")["status"].as_str()),
        (Some("failed"), Some("completed"))
    );
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}
