//! A completed item is redone.

use pes_engine::domain::hitl::{RiskLevel, SuspensionKind};
use pes_engine::domain::model::ModelRequest;
use pes_engine::domain::observation::ObservationType;
use serde_json::{Value, json};

use super::results::prompt_of;
use super::sim::*;

/// A first run completes `a`, which writes, and `b`, which depends on it; the follow-up refines like this. The second
/// time `a` calls these tools.
fn redone(refinement: Value, again: &'static [&'static str]) -> Sim {
    let mut begun = 0;
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &["write"]), ("b", &["a"], &[])]),
        "refinement" => todo(&refinement),
        "a.1" => {
            begun += 1;
            match begun {
                1 => calls(&[("write", json!({ "n": 1 }))]),
                _ => calls(&again.iter().map(|tool| (*tool, json!({ "n": 2 }))).collect::<Vec<_>>()),
            }
        }
        "a.2" => says(format!("result {begun} of a")),
        other => says(format!("result of {other}")),
    });
    sim.tools.risk = Some(RiskLevel::High);
    sim.ask("go").unwrap();
    sim.go();
    sim.ask("do step a again, the result was wrong").unwrap();
    sim.go();
    sim
}

fn a_again() -> Value {
    json!([
        { "id": "a", "description": "do a right", "status": "completed", "redo": true },
        { "id": "b", "description": "do b", "dependencies": ["a"], "status": "completed" },
    ])
}

fn ran(sim: &Sim) -> Vec<Value> {
    sim.tools.ran.lock().unwrap().iter().map(|(_, arguments)| arguments.clone()).collect()
}

#[test]
fn a_completed_item_marked_redo_is_a_new_attempt_and_its_writing_calls_ask_a_person() {
    let mut sim = redone(a_again(), &["write"]);
    let [open] = &sim.suspensions()[..] else { panic!("{:?}", sim.suspensions()) };
    assert_eq!((open.kind, open.tool_name.as_deref()), (SuspensionKind::Approval, Some("write")));
    assert_eq!(open.risk_level, Some(RiskLevel::High), "as its tool declares");
    assert_eq!(ran(&sim), [json!({ "n": 1 })], "nothing has its effect twice unasked");
    sim.crash();
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    sim.go();
    assert_eq!(ran(&sim), [json!({ "n": 1 }), json!({ "n": 2 })]);
    let item = sim.item("a");
    assert_eq!((&item["result"], &item["runId"]), (&json!("result 2 of a"), &json!("run_2")), "{item:#}");
    assert_eq!((&item["description"], &item["redone"]), (&json!("do a right"), &json!(true)));
    let moves = sim.contents(ObservationType::ItemStatusChange);
    let of_a: Vec<(&Value, &Value, &Value)> = moves
        .iter()
        .filter(|moved| moved["itemId"] == "a")
        .map(|moved| (&moved["status"], &moved["attempt"], &moved["stepOutput"]["rawResult"]))
        .collect();
    let [(_, one, _), (_, _, old), (pending, _, _), (_, two, _), (_, _, new)] = &of_a[..] else { panic!("{of_a:#?}") };
    assert_eq!((*one, *two, *pending), (&json!(1), &json!(2), &json!("pending")));
    assert_eq!((*old, *new), (&json!("result 1 of a"), &json!("result 2 of a")), "the log keeps the old result");
}

#[test]
fn a_redone_call_that_only_reads_does_not_ask() {
    let sim = redone(a_again(), &["read"]);
    assert_eq!(sim.suspensions().len(), 0);
    assert_eq!(ran(&sim), [json!({ "n": 1 }), json!({ "n": 2 })]);
}

#[test]
fn a_redone_delegation_asks_before_it_is_sent() {
    let sim = redone(a_again(), &["peer"]);
    let [open] = &sim.suspensions()[..] else { panic!("{:?}", sim.suspensions()) };
    assert_eq!((open.kind, open.tool_name.as_deref()), (SuspensionKind::Approval, Some("peer")));
}

#[test]
fn what_is_made_of_a_redone_result_is_marked_for_the_answer_and_for_the_next_planner() {
    let mut sim = redone(a_again(), &["read", "write"]);
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    sim.go();
    let note = "it rests on an earlier result of a, done again since";
    assert!(prompt_of(&sim, "synthesis").contains(note));
    assert!(prompt_of(&sim, "a.1").contains("is to be done again"), "and the step is told why it is asked");
    sim.ask("and now?").unwrap();
    sim.go();
    assert!(prompt_of(&sim, "refinement").contains("Item b rests on an earlier result of a"));
}

#[test]
fn a_dependant_marked_too_waits_for_the_new_result() {
    let mut list = a_again();
    list[1]["redo"] = json!(true);
    let mut sim = redone(list, &["write"]);
    assert_eq!(sim.item("b")["status"], "pending");
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    sim.go();
    assert!(prompt_of(&sim, "b.1").contains("result 2 of a"));
    assert!(!prompt_of(&sim, "synthesis").contains("rests on"));
    assert_eq!(sim.contents(ObservationType::RunFinished)[1]["resultStatus"], "success");
}

/// Many models copy `status` from the example, so it means nothing for a completed item.
#[test]
fn without_the_mark_a_completed_item_is_not_done_again() {
    let mut list = a_again();
    list[0]["redo"] = json!(false);
    list[0]["status"] = json!("pending");
    let sim = redone(list, &["write"]);
    assert_eq!((&sim.item("a")["result"], sim.suspensions().len()), (&json!("result 1 of a"), 0));
}

#[test]
fn an_updated_plan_cannot_have_anything_done_again() {
    let mut sim = Sim::new(|request: &ModelRequest| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &["a"], &[])]),
        "b.1" => {
            says(json!({ "content": "b", "updatedPlan": { "todoList": [{ "id": "a", "redo": true }] } }).to_string())
        }
        other => says(format!("result of {other}")),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.prompts.iter().filter(|prompt| which(prompt) == "a.1").count(), 1);
}

#[test]
fn the_form_of_a_refinement_has_the_mark_and_the_form_of_a_plan_has_not() {
    let sim = redone(a_again(), &["read"]);
    let has_mark = |call: &str| {
        let prompt = sim.prompts.iter().find(|prompt| which(prompt) == call).unwrap();
        let item = &prompt.response_schema.as_ref().unwrap()["properties"]["todoList"]["items"];
        item["required"].as_array().unwrap().contains(&json!("redo"))
    };
    assert_eq!((has_mark("planning"), has_mark("refinement")), (false, true));
}
