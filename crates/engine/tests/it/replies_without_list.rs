//! Replies of the planner that are not a list, in a thread that already has a plan.

use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::{OnBusy, RunStatus};
use pes_engine::domain::settings::{ExecutionConfig, OnItemFailure, RunSettings};
use serde_json::json;

use super::sim::*;

#[test]
fn calls_without_a_list_are_made_although_the_plan_has_an_item_of_that_number() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("1", &[], &[]), ("2", &[], &[])]),
        "refinement" => calls(&[("read", json!({ "x": "asked for" }))]),
        _ => says("fine"),
    });
    sim.ask("go").unwrap();
    sim.go();
    sim.ask("and this").unwrap();
    sim.go();
    assert_eq!(*sim.tools.ran.lock().unwrap(), [("read".to_owned(), json!({ "x": "asked for" }))]);
    assert_eq!((&sim.item("3")["status"], &sim.item("3")["runId"]), (&json!("completed"), &json!("run_2")));
    assert_eq!(sim.item("1")["runId"], "run_1", "what was done stays as it is");
}

#[test]
fn calls_without_a_list_cancel_nothing_of_the_plan() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("1", &[], &[]), ("2", &[], &[])]),
        "refinement" => calls(&[("read", json!({}))]),
        _ => says("fine"),
    });
    sim.ask("go").unwrap();
    sim.step();
    sim.ask_with("look first", OnBusy::Steer, RunSettings::default()).unwrap();
    sim.go();
    assert_eq!(sim.tools.ran.lock().unwrap().len(), 1);
    for id in ["1", "2", "3"] {
        assert_eq!(sim.item(id)["status"], "completed");
    }
}

#[test]
fn a_message_that_steers_is_heard_although_the_planner_answered_at_once() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => says(r#"{"answer":"forty-two","todoList":[]}"#),
        "refinement" => {
            assert!(format!("{:?}", request.messages).contains("and why?"));
            says(r#"{"answer":"because","todoList":[]}"#)
        }
        other => panic!("{other}"),
    });
    sim.ask("what is it?").unwrap();
    sim.ask_with("and why?", OnBusy::Steer, RunSettings::default()).unwrap();
    sim.go();
    let updates = sim.contents(ObservationType::StateUpdate);
    assert_eq!(updates.last().unwrap()["message"]["content"], "forty-two");
    assert_eq!(sim.contents(ObservationType::FinalResponse)[0]["message"]["content"], "because");
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}

#[test]
fn who_steers_after_a_failure_that_stopped_the_plan_makes_it_go_on() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[])]),
        "refinement" => plan(&[("c", &[], &[])]),
        "a.1" => fails(pes_engine::domain::model::FailureKind::Refused),
        _ => says("fine"),
    });
    let execution = ExecutionConfig { on_item_failure: OnItemFailure::Stop, ..ExecutionConfig::default() };
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
    sim.step();
    sim.ask_with("then do c", OnBusy::Steer, RunSettings::default()).unwrap();
    sim.go();
    assert_eq!((&sim.item("b")["status"], &sim.item("c")["status"]), (&json!("cancelled"), &json!("completed")));
}

/// The first message that steers arrives while the plan is made, the second one during the refinement.
#[test]
fn calls_that_come_with_a_plan_wait_until_every_message_was_considered() {
    for steers in [1, 2] {
        let mut refinements = 0;
        let mut sim = Sim::new(move |request| match which(request).as_str() {
            "planning" if steers == 1 => calls(&[("write", json!({ "to": "the team" }))]),
            "planning" => plan(&[("a", &[], &[])]),
            "refinement" => {
                refinements += 1;
                let is_last = refinements == steers;
                if is_last { plan(&[("b", &[], &[])]) } else { calls(&[("write", json!({ "to": "the team" }))]) }
            }
            other => says(format!("result of {other}")),
        });
        sim.ask("e-mail the team").unwrap();
        for _ in 0..steers {
            sim.ask_with("stop, do not send", OnBusy::Steer, RunSettings::default()).unwrap();
            sim.step();
        }
        sim.go();
        assert!(sim.tools.ran.lock().unwrap().is_empty(), "{steers}: {:?}", sim.tools.ran);
        let listed = sim.view()["todoList"].as_array().unwrap().clone();
        let ends: Vec<_> = listed.iter().map(|item| (item["id"].as_str(), item["status"].as_str())).collect();
        assert!(ends.contains(&(Some("1"), Some("cancelled"))), "{ends:?}");
        assert!(ends.contains(&(Some("b"), Some("completed"))), "{ends:?}");
    }
}

#[test]
fn a_title_of_more_than_ten_words_is_cut_with_an_ellipsis() {
    for (title, told) in [
        ("one two three  four five six seven eight nine ten", "one two three four five six seven eight nine ten"),
        (
            "one two three four five six seven eight nine ten eleven",
            "one two three four five six seven eight nine ten…",
        ),
    ] {
        let mut sim = Sim::new(move |_| says(json!({ "title": title, "todoList": [], "answer": "42" }).to_string()));
        sim.ask("go").unwrap();
        sim.go();
        assert_eq!(sim.contents(ObservationType::Title)[0]["title"], told);
    }
}
