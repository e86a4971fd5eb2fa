//! How failures are reported, and to whom.

use pes_engine::domain::model::FailureKind;
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::{ResultStatus, RunStatus};
use serde_json::{Value, json};

use super::results::prompt_of;
use super::sim::*;

/// The first run fails because of its model; the second is answered.
fn failed_once() -> Sim {
    let mut calls = 0;
    let mut sim = Sim::new(move |_| {
        calls += 1;
        match calls {
            1 => fails(FailureKind::Refused),
            _ => says(r#"{"answer":"yes","todoList":[]}"#),
        }
    });
    sim.ask("the first").unwrap();
    sim.go();
    sim.ask("the second").unwrap();
    sim.go();
    sim
}

#[test]
fn what_says_why_a_run_failed_is_marked_and_left_out_of_contexts() {
    let sim = failed_once();
    assert_eq!(sim.run("run_1").status, RunStatus::Failed);
    let message = &sim.contents(ObservationType::FinalResponse)[0]["message"];
    assert_eq!(message["content"], "the model is away");
    assert_eq!(message["metadata"]["error"]["code"], "model_refused", "{message:#}");
    let answer = &sim.contents(ObservationType::FinalResponse)[1]["message"];
    assert_eq!(answer.get("metadata"), None, "{answer:#}");
    let told = prompt_of(&sim, "planning");
    assert!(told.contains("the first") && !told.contains("the model is away"), "{told}");
    let head: Value = serde_json::from_str(&sim.head).unwrap();
    assert_eq!(head["said"], "the firstthe secondyes".len());
}

#[test]
fn a_result_lists_what_failed() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &["write"]), ("b", &["a"], &[]), ("c", &[], &[])]),
        "a.1" | "c.1" => calls(&[("write", json!({}))]),
        _ => says("could not"),
    });
    sim.tools.failures.lock().unwrap().insert("write".into(), 9);
    sim.ask("go").unwrap();
    sim.go();
    let outcome = sim.run("run_1").outcome.unwrap();
    assert_eq!(outcome.status, ResultStatus::Partial);
    let listed: Vec<(&str, Option<&str>, Option<&str>)> = outcome
        .errors
        .iter()
        .map(|e| (e.code.as_str(), e.item_id.as_ref().map(|id| id.as_str()), e.tool_name.as_deref()))
        .collect();
    let expected = [
        ("failed", Some("a"), Some("write")),
        ("required_tools", Some("a"), None),
        ("cancelled", Some("b"), None),
        ("failed", Some("c"), Some("write")),
    ];
    assert_eq!(listed, expected);
    let why = outcome.errors[1].message.as_str();
    assert_eq!(why, "required tools did not succeed: write was called and failed (failed: it broke)");
}

#[test]
fn a_failed_run_lists_why() {
    let errors = failed_once().run("run_1").outcome.unwrap().errors;
    assert_eq!((errors.len(), errors[0].code.as_str()), (1, "model_refused"));
}

/// What a step found necessary was not done, although each item was completed.
#[test]
fn a_run_that_left_new_items_out_because_its_plan_was_full_is_partial() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        "a.1" => {
            let new = |id: &str| json!({ "id": id, "description": id });
            says(json!({ "content": "done", "updatedPlan": { "todoList": [new("b"), new("c")] } }).to_string())
        }
        _ => says("fine"),
    });
    sim.limits.items_per_plan = 2;
    sim.ask("go").unwrap();
    sim.step();
    sim.step();
    sim.crash();
    sim.go();
    let run = sim.run("run_1");
    let outcome = run.outcome.unwrap();
    assert_eq!((run.status, outcome.status), (RunStatus::Completed, ResultStatus::Partial));
    let [left_out] = &outcome.errors[..] else { panic!("{:?}", outcome.errors) };
    let why = "The plan is full with 2 items: 1 new ones were left out (c).";
    assert_eq!((left_out.code.as_str(), left_out.message.as_str()), ("too_many_items", why));
}

/// Such a call can never succeed later.
#[test]
fn a_completed_item_that_once_called_a_tool_that_does_not_exist_is_no_failure() {
    for ends_well in [true, false] {
        let mut sim = Sim::new(move |request| match which(request).as_str() {
            "planning" => plan(&[("a", &[], &["read"])]),
            "a.1" => calls(&[("nosuch", json!({}))]),
            "a.2" => calls(&[("read", json!({}))]),
            "a.3" if !ends_well => fails(FailureKind::Refused),
            _ => says("fine"),
        });
        sim.ask("go").unwrap();
        sim.go();
        let outcome = sim.run("run_1").outcome.unwrap();
        let codes: Vec<&str> = outcome.errors.iter().map(|error| error.code.as_str()).collect();
        let expected = if ends_well {
            (ResultStatus::Success, Vec::new())
        } else {
            (ResultStatus::Partial, vec!["unknown_tool", "model_refused"])
        };
        assert_eq!((outcome.status, codes), expected);
    }
}

#[test]
fn a_refusal_without_a_reason_says_that_a_person_said_no() {
    for reason in [None, Some(""), Some(" \n")] {
        let mut sim = Sim::new(|request| match which(request).as_str() {
            "planning" => plan(&[("a", &[], &["gated"])]),
            "a.1" => calls(&[("gated", json!({}))]),
            _ => says("I could not"),
        });
        sim.ask("go").unwrap();
        sim.go();
        sim.answer(0, |answer| {
            answer.approved = Some(false);
            answer.reason = reason.map(str::to_owned);
        })
        .unwrap();
        sim.go();
        let execution = &sim.contents(ObservationType::ToolExecution)[0];
        assert_eq!(execution["error"], json!({ "code": "rejected", "message": "a person said no" }), "{reason:?}");
        let expected = "rejected: gated was not carried out: a person said no";
        assert_eq!(sim.item("a")["reason"], expected, "{reason:?}");
    }
}

#[test]
fn the_failure_of_an_item_is_recorded_and_ends_nothing_else() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[])]),
        "a.1" => fails(FailureKind::Refused),
        other => says(other),
    });
    sim.ask("go").unwrap();
    sim.go();
    let record = sim.records.iter().find(|record| record.kind() == ObservationType::Error).expect("it is recorded");
    let (of, told) = (record.parent_id.as_ref().map(|id| id.as_str()), sim.content(record));
    assert_eq!((of, &told["code"], &told["fatal"]), (Some("a"), &json!("model_refused"), &json!(false)), "{told:#}");
    let of_model = [&told["provider"], &told["model"], &told["attempts"]];
    assert_eq!(of_model, [&json!("demo"), &json!("m"), &json!(1)], "{told:#}");
    assert_eq!(sim.item("b")["status"], "completed");
}
