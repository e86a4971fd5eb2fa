//! Plans that a person edits while a run works on them.

use pes_engine::domain::model::FailureKind;
use pes_engine::domain::observation::{ObservationType, Record};
use serde_json::{Value, json};

use super::sim::*;

/// `a` is under way, `b` and `c` wait for it.
fn begun() -> Sim {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &["a"], &[]), ("c", &["a"], &[])]),
        other => says(format!("result of {other}")),
    });
    sim.ask("go").unwrap();
    sim.step();
    sim
}

#[test]
fn an_item_that_a_person_cancels_is_not_worked_on_and_the_run_is_whole_without_it() {
    let mut sim = begun();
    sim.edit_plan("ann", |list| list[1]["status"] = json!("cancelled")).unwrap();
    sim.reload();
    let told = sim.contents(ObservationType::ItemStatusChange);
    let of_b = told.iter().rfind(|told| told["itemId"] == "b").expect("it is recorded");
    let is = [&of_b["from"], &of_b["status"], &of_b["reason"]];
    assert_eq!(is, [&json!("pending"), &json!("cancelled"), &json!("cancelled by a person")]);
    sim.go();
    assert!(sim.prompts.iter().all(|prompt| !which(prompt).starts_with('b')));
    assert_eq!((&sim.item("b")["status"], &sim.item("c")["status"]), (&json!("cancelled"), &json!("completed")));
    assert_eq!(sim.contents(ObservationType::RunFinished)[0]["resultStatus"], "success");
    assert_eq!(sim.run("run_1").outcome.unwrap().errors, []);
}

fn order(sim: &Sim) -> Vec<String> {
    let view = sim.view();
    let list = view["todoList"].as_array().unwrap();
    list.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

/// The log and the stored rows give the same order.
#[test]
fn a_person_puts_items_in_another_order_and_chains_them() {
    let mut sim = begun();
    sim.edit_plan("ann", |list| {
        list.swap(1, 2);
        list.push(json!({ "id": "d", "description": "d", "dependencies": ["b"] }));
        list.push(json!({ "id": "e", "description": "e", "dependencies": ["c", "d"] }));
    })
    .unwrap();
    sim.reload();
    assert_eq!(order(&sim), ["a", "c", "b", "d", "e"]);
    let of_person =
        |record: &&Record| record.kind() == ObservationType::PlanUpdate && record.fact.content()["source"] == "user";
    let told = sim.records.iter().find(of_person).expect("it is recorded");
    assert_eq!(told.metadata.as_ref().and_then(|metadata| metadata.by.as_deref()), Some("ann"));
    sim.edit_plan("ann", |list| list.swap(2, 4)).unwrap();
    sim.reload();
    assert_eq!(order(&sim), ["a", "c", "e", "d", "b"]);
    sim.go();
    let begun: Vec<String> =
        sim.prompts.iter().filter_map(|prompt| which(prompt).strip_suffix(".1").map(str::to_owned)).collect();
    assert_eq!(begun, ["a", "c", "b", "d", "e"], "dependencies go before the order");
}

#[test]
fn an_edited_list_names_each_item_once_and_leads_nowhere_back() {
    let mut sim = begun();
    let twice = sim.edit_plan("ann", |list| list.push(json!({ "id": "b", "description": "again" }))).unwrap_err();
    assert_eq!((twice.code.as_str(), &*twice.errors[0].pointer), ("plan_invalid", "/3/id"));
    let round = sim.edit_plan("ann", |list| {
        list[1]["dependencies"] = json!(["a", "d"]);
        list.push(json!({ "id": "d", "description": "d", "dependencies": ["b"] }));
    });
    let round = round.unwrap_err();
    assert_eq!((round.code.as_str(), &*round.errors[0].pointer), ("plan_invalid", "/1/dependencies"));
    assert_eq!(order(&sim), ["a", "b", "c"]);
}

/// Its model was shown the edit: it had to wait after a failure, and a person edited the plan meanwhile.
#[test]
fn a_model_that_was_shown_an_edit_may_change_the_item_again() {
    for (is_shown, description, notes) in [(true, "the model's c", 0), (false, "a person's c", 1)] {
        let mut asked = 0;
        let mut sim = Sim::new(move |request| match which(request).as_str() {
            "planning" => plan(&[("a", &[], &[]), ("b", &[], &[]), ("c", &["b"], &[])]),
            "a.1" => {
                asked += 1;
                if is_shown && asked == 1 {
                    return fails(FailureKind::Retry);
                }
                let patch = json!({ "todoList": [{ "id": "c", "description": "the model's c" }] });
                says(json!({ "content": "", "nextStepDecision": "continue", "updatedPlan": patch }).to_string())
            }
            other => says(other),
        });
        sim.ask("go").unwrap();
        sim.step();
        if is_shown {
            sim.step();
            assert!(sim.in_flight.is_empty(), "it waits for its next attempt");
        }
        sim.edit_plan("ann", |list| list[2]["description"] = json!("a person's c")).unwrap();
        sim.go();
        assert_eq!(sim.item("c")["description"], description);
        let next = sim.prompts.iter().find(|prompt| which(prompt) == "a.2").expect("it goes on");
        let note = "Your change of item c was dropped: it was edited or removed meanwhile.";
        assert_eq!(all_text(next).matches(note).count(), notes, "{}", all_text(next));
    }
}

#[test]
fn an_item_that_a_person_removed_stays_away_whether_the_thread_was_loaded_anew_or_not() {
    for is_loaded_anew in [true, false] {
        let mut sim = Sim::new(|request| match which(request).as_str() {
            "planning" => plan(&[("a", &[], &[]), ("b", &[], &[])]),
            "a.1" => {
                let patch = json!({ "todoList": [{ "id": "b", "description": "b again" }] });
                says(json!({ "content": "done", "updatedPlan": patch }).to_string())
            }
            other => says(other),
        });
        sim.ask("go").unwrap();
        sim.step();
        sim.edit_plan("ann", |list| drop(list.remove(1))).unwrap();
        if is_loaded_anew {
            sim.reload();
        }
        sim.go();
        assert_eq!(order(&sim), ["a"], "{is_loaded_anew}");
    }
}

/// It has not begun in any run, and its cause is of this one.
#[test]
fn an_item_that_was_added_between_runs_counts_in_the_run_that_cancels_it() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        "refinement" => todo(json!([{ "id": "b" }, { "id": "c" }])),
        "b.1" => fails(FailureKind::Refused),
        other => says(other),
    });
    sim.ask("go").unwrap();
    sim.go();
    sim.edit_plan("ann", |list| {
        list.push(json!({ "id": "b", "description": "b" }));
        list.push(json!({ "id": "c", "description": "c", "dependencies": ["b"] }));
    })
    .unwrap();
    sim.ask("go on").unwrap();
    sim.go();
    let failed = sim.run("run_2").outcome.unwrap().errors;
    let failed: Vec<(&str, &str)> =
        failed.iter().map(|e| (e.code.as_str(), e.item_id.as_ref().unwrap().as_str())).collect();
    assert_eq!(failed, [("model_refused", "b"), ("cancelled", "c")]);
}

#[test]
fn an_item_that_a_person_added_is_worked_on_in_a_copy_too_although_the_planner_answers_at_once() {
    let answers = || {
        Sim::new(|request| match which(request).as_str() {
            "planning" | "refinement" => says(r#"{"answer":"yes","todoList":[]}"#),
            other => says(other),
        })
    };
    let mut sim = answers();
    sim.ask("go").unwrap();
    sim.go();
    sim.edit_plan("ann", |list| list.push(json!({ "id": "b", "description": "b" }))).unwrap();
    let copy = sim.fork_into(answers(), sim.records.len());
    for mut thread in [sim, copy] {
        thread.reload();
        thread.ask("go on").unwrap();
        thread.go();
        assert_eq!(thread.item("b")["status"], "completed");
    }
}

/// Plans "mail" after "a" for "go", and answers every other query at once.
fn mailing() -> Sim {
    Sim::new(|request| match (which(request).as_str(), request.context.query.as_str()) {
        ("planning" | "refinement", "go") => plan(&[("a", &[], &[]), ("mail", &["a"], &[])]),
        ("planning" | "refinement", _) => says(r#"{"answer":"yes","todoList":[]}"#),
        (other, _) => says(other),
    })
}

fn edits_mail(list: &mut [Value]) {
    list[1]["description"] = json!("mail ann");
}

/// What the person wanted instead is not in the plan of that place.
#[test]
fn what_a_person_edited_or_removed_after_the_place_is_not_done_in_a_copy_unasked() {
    let changes: [fn(&mut Vec<Value>); 2] = [|list| edits_mail(list), |list| list.truncate(1)];
    for change in changes {
        let mut sim = mailing();
        sim.ask("go").unwrap();
        sim.step();
        let place = sim.records.len();
        sim.edit_plan("bob", change).unwrap();
        sim.go();
        let mut copy = sim.fork_into(mailing(), place);
        copy.ask("hello").unwrap();
        copy.go();
        assert!(copy.is_idle());
        assert_eq!(copy.item("mail")["status"], "pending");
    }
}

#[test]
fn what_a_person_edited_after_the_place_is_not_done_where_the_thread_goes_back_unasked() {
    let mut sim = mailing();
    sim.ask("go").unwrap();
    sim.step();
    // A copy has the step without the run.
    let mut copy = sim.fork_into(mailing(), sim.records.len());
    copy.ask("hello").unwrap();
    copy.go();
    let said = copy.conversation().len();
    copy.ask("go").unwrap();
    copy.step();
    copy.edit_plan("bob", |list| edits_mail(list)).unwrap();
    copy.go();
    assert_eq!(copy.item("mail")["status"], "completed");
    let back = copy.back_to(said);
    copy.ask_again("hello", back).unwrap();
    copy.go();
    let mail = copy.item("mail");
    assert_eq!((&mail["status"], &mail["description"] == "mail ann"), (&json!("pending"), false));
}
