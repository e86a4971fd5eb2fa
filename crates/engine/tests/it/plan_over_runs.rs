//! A thread's plan over many runs: what is dropped, what is kept, and that people can still change it.

use std::collections::BTreeSet;

use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::{OnBusy, RunStatus};
use pes_engine::domain::settings::RunSettings;
use pes_engine::step::RowKind;
use serde_json::{Value, json};

use super::sim::*;

/// Each run adds this many items, named after it.
fn adding(count: usize) -> Sim {
    Sim::new(move |request| match which(request).as_str() {
        "planning" | "refinement" | "repair" => {
            let run = request.context.run_id.clone();
            let item = |n| json!({ "id": format!("{run}-{n}"), "description": "more" });
            todo((0..count).map(item).collect::<Value>())
        }
        other => says(format!("result of {other}")),
    })
}

fn ids(sim: &Sim) -> Vec<String> {
    let view = sim.view();
    view["todoList"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_thread_does_not_wear_out() {
    let mut sim = adding(2);
    sim.limits.items_per_plan = 5;
    for n in 1..=8 {
        sim.ask("two more").unwrap();
        sim.go();
        assert_eq!(sim.contents(ObservationType::RunFinished)[n - 1]["resultStatus"], "success");
        sim.reload();
    }
    assert_eq!(ids(&sim), ["run_6-1", "run_7-0", "run_7-1", "run_8-0", "run_8-1"]);
    assert!(sim.contents(ObservationType::Error).is_empty());
    let update = &sim.contents(ObservationType::Plan)[2];
    let removed: Vec<&Value> =
        update["changes"].as_array().unwrap().iter().filter(|it| it["type"] == "removed").collect();
    assert_eq!((removed.len(), &removed[0]["itemId"]), (1, &json!("run_1-0")), "{update:#}");
    let first = sim.records.iter().find(|record| record.kind() == ObservationType::ItemStatusChange).unwrap();
    assert_eq!(first.parent_id.as_ref().unwrap().as_str(), "run_1-0", "the log keeps it");
}

/// It is shown beside the questions that the item had.
#[test]
fn the_row_of_an_item_that_was_dropped_keeps_its_description() {
    let mut sim = adding(1);
    sim.limits.items_per_plan = 1;
    for _ in 0..2 {
        sim.ask("one more").unwrap();
        sim.go();
    }
    assert_eq!(ids(&sim), ["run_2-0"]);
    let row = sim.rows().find(|row| row.kind == RowKind::Item && row.id == "run_1-0").unwrap();
    let body: Value = serde_json::from_str(&row.body).unwrap();
    assert_eq!(body, json!({ "removed": 2, "description": "more" }));
}

#[test]
fn a_long_plan_forgets_what_was_done_before_the_last_run() {
    let mut sim = adding(45);
    for _ in 0..4 {
        sim.ask("more").unwrap();
        sim.go();
    }
    let runs: BTreeSet<String> = ids(&sim).iter().map(|id| id.split('-').next().unwrap().to_owned()).collect();
    assert_eq!((ids(&sim).len(), runs), (100, ["run_2", "run_3", "run_4"].map(str::to_owned).into()));
    let mut sim = adding(120);
    for _ in 0..3 {
        sim.ask("more").unwrap();
        sim.go();
    }
    assert_eq!(ids(&sim).len(), 240, "what the last run did is kept as long as there is room");
}

#[test]
fn what_the_last_run_did_again_is_kept_although_it_is_the_oldest_item() {
    let many = |from: usize, to: usize| {
        (from..to).map(|n| json!({ "id": format!("i{n}"), "description": "d" })).collect::<Value>()
    };
    let mut sim = Sim::new(move |request| match (which(request).as_str(), request.context.run_id.as_str()) {
        ("planning", _) => todo(many(0, 60)),
        ("refinement", "run_2") => todo(many(60, 105)),
        ("refinement", "run_3") => todo(json!([{ "id": "i0", "redo": true }])),
        ("refinement", _) => todo(many(105, 106)),
        (other, _) => says(format!("result of {other}")),
    });
    for _ in 0..4 {
        sim.ask("go on").unwrap();
        sim.go();
    }
    assert_eq!(ids(&sim)[..2], ["i0", "i7"], "six others went");
    assert_eq!((ids(&sim).len(), &sim.item("i0")["runId"]), (100, &json!("run_3")));
}

#[test]
fn what_something_open_depends_on_is_kept_and_what_did_not_end_goes_with_it() {
    let mut sim = Sim::new(|request| match (which(request).as_str(), request.context.run_id.as_str()) {
        ("planning", _) => plan(&[("a", &[], &[]), ("b", &["a"], &[]), ("c", &["b"], &[]), ("d", &[], &[])]),
        ("b.1", _) => fails(pes_engine::domain::model::FailureKind::Refused),
        ("refinement", "run_2") => todo(json!([{ "id": "e", "description": "e", "dependencies": ["d"] }])),
        ("refinement", _) => {
            let new = |id| json!({ "id": id, "description": "new" });
            todo(json!([new("f"), new("g"), { "id": "e2", "description": "e2", "dependencies": ["e"] }]))
        }
        (other, _) => says(format!("result of {other}")),
    });
    sim.limits.items_per_plan = 4;
    sim.ask("go").unwrap();
    sim.go();
    sim.ask("and e").unwrap();
    sim.go();
    assert_eq!(ids(&sim), ["d", "e"], "b and c cannot be done any more without a");
    sim.ask("and more").unwrap();
    sim.go();
    assert_eq!(ids(&sim), ["e", "f", "g", "e2"], "d is done, e is needed");
    assert_eq!(sim.run("run_3").status, RunStatus::Completed);
}

#[test]
fn calls_without_a_list_find_room_or_are_asked_for_again() {
    let script = |request: &pes_engine::domain::model::ModelRequest| match which(request).as_str() {
        "planning" => plan(&[("1", &[], &[]), ("2", &[], &[])]),
        "refinement" => calls(&[("read", json!({}))]),
        "repair" => says(r#"{"answer":"there is no room","todoList":[]}"#),
        _ => says("fine"),
    };
    let mut sim = Sim::new(script);
    sim.limits.items_per_plan = 2;
    sim.ask("go").unwrap();
    sim.go();
    sim.ask("look").unwrap();
    sim.go();
    assert_eq!((ids(&sim), sim.tools.ran.lock().unwrap().len()), (vec!["2".to_owned(), "3".to_owned()], 1));
    let mut sim = Sim::new(script);
    sim.limits.items_per_plan = 2;
    sim.ask("go").unwrap();
    sim.step();
    sim.ask_with("look", OnBusy::Steer, RunSettings::default()).unwrap();
    sim.go();
    let repair = sim.prompts.iter().find(|it| which(it) == "repair").expect("it is asked for again");
    assert!(format!("{:?}", repair.messages).contains("at most 2 are allowed"));
}

#[test]
fn items_without_ids_are_never_taken_for_others() {
    let mut sim = Sim::new(|request| match (which(request).as_str(), request.context.run_id.as_str()) {
        ("planning", _) => todo(json!(["first", { "description": "then", "dependencies": [1] }])),
        ("1.1", _) => says(
            json!({ "content": "one", "updatedPlan": { "todoList": [{ "description": "by a step" }] } }).to_string(),
        ),
        ("refinement", _) => todo(json!([{ "description": "by a refinement" }, { "id": "4", "description": "four" }])),
        (other, _) => says(format!("result of {other}")),
    });
    sim.ask("go").unwrap();
    sim.go();
    sim.ask("more").unwrap();
    sim.go();
    let told = |id: &str| sim.item(id)["description"].as_str().unwrap().to_owned();
    let list: Vec<String> = ids(&sim).iter().map(|id| format!("{id} {}", told(id))).collect();
    assert_eq!(list, ["1 first", "2 then", "3 by a step", "5 by a refinement", "4 four"]);
    assert_eq!(sim.item("2")["dependencies"], json!(["1"]));
    assert!(sim.view()["todoList"].as_array().unwrap().iter().all(|item| item["status"] == "completed"));
}

#[test]
fn what_is_over_keeps_nobody_from_changing_the_plan() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" | "repair" => plan(&[("a", &["b"], &[]), ("b", &["a"], &[]), ("c", &["nowhere"], &[])]),
        _ => says("fine"),
    });
    sim.ask("go").unwrap();
    sim.go();
    let mut edit = |dependencies: Value| {
        let more = json!({ "id": "d", "description": "d", "dependencies": dependencies });
        sim.edit_plan("ann", |list| list.push(more)).map(|_| ()).map_err(|fault| fault.code.as_str().to_owned())
    };
    assert_eq!(edit(json!(["d"])), Err("plan_invalid".to_owned()));
    assert_eq!(edit(json!(["nowhere"])), Err("plan_invalid".to_owned()));
    assert_eq!(edit(json!(["a"])), Ok(()));
}
