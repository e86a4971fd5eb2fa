//! What models may change of items that have not begun.

use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::OnBusy;
use pes_engine::domain::settings::RunSettings;
use serde_json::{Value, json};

use super::sim::*;

/// `a` runs, then a steering message has the rest planned again like this.
fn refined(first: Value, then: Value) -> Sim {
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => todo(&first),
        "refinement" => todo(&then),
        other => says(format!("result of {other}")),
    });
    sim.ask("go").unwrap();
    sim.step();
    sim.ask_with("not like this", OnBusy::Steer, RunSettings::default()).unwrap();
    sim.go();
    sim
}

/// The items in the order in which they began.
fn begun(sim: &Sim) -> Vec<String> {
    sim.prompts.iter().filter_map(|prompt| which(prompt).strip_suffix(".1").map(str::to_owned)).collect()
}

#[test]
fn a_refinement_changes_what_it_names_of_an_item_and_keeps_the_rest() {
    let first = json!({ "id": "b", "description": "b", "requiredTools": ["write"], "stepType": "tool",
        "expectedOutcome": "a file", "toolValidationMode": "advisory" });
    let (plain, changed) = (
        json!({ "id": "b", "description": "another b" }),
        json!({ "id": "b", "description": "another b", "dependencies": ["c"], "requiredTools": [], "stepType": "reasoning",
            "expectedOutcome": "a text", "toolValidationMode": "strict" }),
    );
    let members = ["description", "dependencies", "requiredTools", "stepType", "expectedOutcome", "toolValidationMode"];
    let of = |then: &Value| {
        let a = json!({ "id": "a", "description": "a" });
        let sim = refined(json!([a, first]), json!([a, then, { "id": "c", "description": "c" }]));
        members.map(|member| sim.item("b")[member].clone())
    };
    let kept = [json!("another b"), Value::Null, json!(["write"]), json!("tool"), json!("a file"), json!("advisory")];
    assert_eq!(of(&plain), kept);
    let is = [json!("another b"), json!(["c"]), Value::Null, json!("reasoning"), json!("a text"), json!("strict")];
    assert_eq!(of(&changed), is);
}

#[test]
fn an_item_waits_for_what_a_refinement_makes_it_depend_on() {
    let item = |id: &str, needs: &[&str]| json!({ "id": id, "description": id, "dependencies": needs });
    let sim = refined(
        json!([item("a", &[]), item("b", &[]), item("c", &[])]),
        json!([item("a", &[]), item("b", &["c", "d"]), item("c", &[]), item("d", &["c"])]),
    );
    assert_eq!(begun(&sim), ["a", "c", "d", "b"]);
    let sim = refined(
        json!([item("a", &[]), item("b", &[]), item("c", &[])]),
        json!([item("a", &[]), item("b", &["c"]), item("c", &[])]),
    );
    assert_eq!(begun(&sim), ["a", "c", "b"], "also if no item is new");
}

/// A person may still be overruled by a planner that saw the edit.
#[test]
fn an_item_that_a_person_edited_before_is_cancelled_if_the_planner_leaves_it_out() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[])]),
        "refinement" => todo(json!([{ "id": "a" }, { "id": "c", "description": "c" }])),
        other => says(other),
    });
    sim.ask("go").unwrap();
    sim.step();
    sim.edit_plan("ann", |list| list[1]["description"] = json!("b of ann")).unwrap();
    sim.ask_with("only c", OnBusy::Steer, RunSettings::default()).unwrap();
    sim.go();
    let b = sim.item("b");
    assert_eq!((&b["status"], &b["reason"]), (&json!("cancelled"), &json!("left out of the refined plan")));
}

#[test]
fn a_plan_gives_its_thread_a_title() {
    let a = json!([{ "id": "a", "description": "a" }]);
    let sim = refined(a.clone(), a);
    let titles: Vec<&str> = sim.steps.iter().filter_map(|step| step.title.as_deref()).collect();
    assert_eq!(titles, ["t", "t"]);
    assert_eq!(sim.contents(ObservationType::Title).len(), 2);
}

#[test]
fn what_a_planner_answers_without_a_list_is_recorded_as_it_was_said() {
    let reply = r#"{"plan":"I know it.","answer":"yes","todoList":[]}"#;
    let mut sim = Sim::new(move |_| says(reply));
    sim.ask("go").unwrap();
    sim.go();
    let [plan] = &sim.contents(ObservationType::Plan)[..] else { panic!("{:?}", sim.kinds()) };
    assert_eq!((&plan["plan"], &plan["rawOutput"]), (&json!("I know it."), &json!(reply)));
}

/// The steps go on, and their results become the answer of the run.
#[test]
fn what_a_planner_answers_to_a_message_meanwhile_is_said_in_the_conversation() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[])]),
        "refinement" => says(r#"{"answer":"It takes an hour.","todoList":[]}"#),
        "synthesis" => says("all done"),
        other => says(other),
    });
    sim.ask("go").unwrap();
    sim.step();
    sim.ask_with("how long?", OnBusy::Steer, RunSettings::default()).unwrap();
    sim.go();
    let said: Vec<String> = sim.conversation().into_iter().map(|(_, message)| message.content).collect();
    assert_eq!(said, ["go", "how long?", "It takes an hour.", "all done"]);
    let runs = sim.conversation().into_iter().map(|(_, message)| message.run_id);
    assert!(runs.into_iter().all(|run| run == Some("run_1".into())), "all of them are of this run");
    assert_eq!(begun(&sim), ["a", "b"]);
}
