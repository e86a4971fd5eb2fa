//! A person has one item redone or skipped.

use pes_engine::domain::fault::Code;
use pes_engine::domain::hitl::SuspensionKind;
use pes_engine::domain::model::FailureKind;
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::{OnBusy, ResultStatus, RunStatus};
use pes_engine::domain::settings::{Budget, ExecutionConfig, OnBudget, OnItemFailure, RunSettings};
use pes_engine::event::{Event, PersonEvent};
use serde_json::{Value, json};

use super::caps;
use super::sim::*;

fn retry(sim: &mut Sim, item: &str) -> Result<(), String> {
    let asked = PersonEvent::ItemRetried { item: item.into(), by: "ann".into() };
    sim.apply(Event::Person(asked)).map(drop).map_err(|fault| fault.code.as_str().to_owned())
}

fn skip(sim: &mut Sim, item: &str) -> Result<(), String> {
    let asked = PersonEvent::ItemSkipped { item: item.into(), by: "ann".into() };
    sim.apply(Event::Person(asked)).map(drop).map_err(|fault| fault.code.as_str().to_owned())
}

fn statuses(sim: &Sim) -> Vec<String> {
    let view = sim.view();
    let list = view["todoList"].as_array().unwrap();
    list.iter().map(|item| format!("{}: {}", item["id"].as_str().unwrap(), item["status"].as_str().unwrap())).collect()
}

/// The people whom records of this kind name.
fn by(sim: &Sim, kind: ObservationType) -> Vec<&str> {
    let told = sim.records.iter().filter(|record| record.kind() == kind);
    told.filter_map(|record| record.metadata.as_ref()?.by.as_deref()).collect()
}

/// `a` writes and is done, `b` fails, `c` waits for `b`; the run is suspended, as `d` asks a person.
fn at_rest() -> Sim {
    let mut begun = 0;
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &["write"]), ("b", &[], &[]), ("c", &["b"], &[]), ("d", &[], &["gated"])]),
        "a.1" => calls(&[("write", json!({ "n": 1 }))]),
        "b.1" => {
            begun += 1;
            if begun == 1 { fails(FailureKind::Refused) } else { says("b is done") }
        }
        "d.1" => calls(&[("gated", json!({}))]),
        other => says(format!("result of {other}")),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.suspensions().len(), 1, "{:?}", statuses(&sim));
    sim
}

#[test]
fn a_completed_item_is_done_again_and_asks_before_it_writes_again() {
    let mut sim = at_rest();
    let version = sim.view()["planVersion"].as_i64().unwrap();
    retry(&mut sim, "a").unwrap();
    assert_eq!(sim.view()["planVersion"], version + 1);
    let update = sim.contents(ObservationType::PlanUpdate).pop().unwrap();
    assert_eq!((&update["source"], &update["changes"][0]["itemId"]), (&json!("user"), &json!("a")));
    assert_eq!(by(&sim, ObservationType::PlanUpdate), ["ann"]);
    let moved = sim.contents(ObservationType::ItemStatusChange);
    let moved = moved.iter().rfind(|moved| moved["itemId"] == "a" && moved["status"] == "pending");
    assert_eq!(moved.expect("it is recorded")["from"], "completed");
    let changed = &update["changes"][0]["item"];
    assert_eq!((&changed["result"], &changed["validationStatus"]), (&Value::Null, &Value::Null), "{changed:#}");
    sim.go();
    let asks: Vec<SuspensionKind> = sim.suspensions().iter().map(|open| open.kind).collect();
    assert_eq!(asks, [SuspensionKind::Approval, SuspensionKind::Approval]);
    assert_eq!(sim.run("run_1").requested_by.last().map(String::as_str), Some("ann"), "who steps in shapes the run");
    assert_eq!(retry(&mut sim, "a").unwrap_err(), "item_in_progress");
}

#[test]
fn what_waited_in_vain_waits_again_when_its_cause_is_done_again() {
    let mut sim = at_rest();
    assert_eq!(statuses(&sim)[1..3], ["b: failed", "c: cancelled"]);
    retry(&mut sim, "b").unwrap();
    assert_eq!((&sim.item("b")["reason"], &sim.item("c")["reason"]), (&Value::Null, &Value::Null));
    sim.crash();
    assert_ne!(statuses(&sim)[2], "c: cancelled");
    sim.go();
    assert_eq!(statuses(&sim)[1..3], ["b: completed", "c: completed"]);
    sim.answer(0, |answer| answer.approved = Some(false)).unwrap();
    sim.go();
    assert!(sim.is_idle());
    assert_eq!(retry(&mut sim, "a").unwrap_err(), "run_finished");
    assert_eq!(skip(&mut sim, "a").unwrap_err(), "run_finished");
}

#[test]
fn a_skipped_item_ends_where_it_is_and_its_questions_with_it() {
    let mut sim = at_rest();
    skip(&mut sim, "d").unwrap();
    assert_eq!((statuses(&sim).pop().unwrap(), sim.suspensions().len()), ("d: cancelled".to_owned(), 0));
    let moved = sim.contents(ObservationType::ItemStatusChange);
    let last = moved.iter().rfind(|moved| moved["itemId"] == "d").unwrap();
    assert_eq!((&last["status"], &last["reason"]), (&json!("cancelled"), &json!("skipped by a person")));
    assert_eq!(by(&sim, ObservationType::ItemStatusChange), ["ann"]);
    assert_eq!(sim.run("run_1").requested_by, ["eve", "ann"], "who leaves a step out shapes the run");
    sim.go();
    assert!(sim.is_idle());
    let end: &Value = &sim.contents(ObservationType::RunFinished)[0];
    assert_eq!(end["status"], "completed", "{end:#}");
}

/// The run goes on.
#[test]
fn the_model_call_of_a_skipped_item_is_not_recorded_as_stopped_with_its_run() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        _ => says("the answer"),
    });
    sim.ask("go").unwrap();
    sim.step();
    skip(&mut sim, "a").unwrap();
    let [stopped] = &sim.contents(ObservationType::LlmStreamError)[..] else { panic!("one call was stopped") };
    assert_eq!(
        (&stopped["code"], &stopped["message"]),
        (&json!("interrupted"), &json!("skipped by a person")),
        "{stopped:#}"
    );
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
    let outcome = sim.run("run_1").outcome.unwrap();
    assert_eq!((outcome.status, outcome.errors), (ResultStatus::Success, Vec::new()), "nobody misses it");
}

#[test]
fn what_depends_on_a_skipped_item_is_cancelled_with_it_and_comes_back_with_it() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &["gated"]), ("b", &["a"], &[]), ("c", &["b"], &[]), ("d", &[], &["gated"])]),
        "a.1" | "d.1" => calls(&[("gated", json!({}))]),
        _ => says("fine"),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.suspensions().len(), 2);
    skip(&mut sim, "a").unwrap();
    assert_eq!(statuses(&sim), ["a: cancelled", "b: cancelled", "c: cancelled", "d: in_progress"]);
    assert_eq!(
        (&sim.item("b")["reason"], &sim.item("c")["reason"]),
        (&json!("dependency failed"), &json!("dependency failed"))
    );
    retry(&mut sim, "a").unwrap();
    assert_eq!(statuses(&sim)[1..], ["b: pending", "c: pending", "d: in_progress"]);
}

#[test]
fn only_what_is_in_the_plan_and_not_over_is_skipped() {
    let mut sim = at_rest();
    for over in ["a", "b"] {
        assert_eq!(skip(&mut sim, over).unwrap_err(), "finished_item");
    }
    assert_eq!(skip(&mut sim, "x").unwrap_err(), "not_found");
    assert_eq!(retry(&mut sim, "x").unwrap_err(), "not_found");
}

#[test]
fn what_is_done_again_goes_on_where_a_failure_had_stopped_the_plan() {
    let mut begun = 0;
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[]), ("c", &[], &[]), ("d", &["a", "c"], &[])]),
        "a.1" => {
            begun += 1;
            if begun == 1 { fails(FailureKind::Refused) } else { says("a is done") }
        }
        _ => says("fine"),
    });
    let execution =
        ExecutionConfig { on_item_failure: OnItemFailure::Stop, max_parallel_items: 2, ..ExecutionConfig::default() };
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
    sim.step();
    sim.step();
    assert_eq!(statuses(&sim), ["a: failed", "b: in_progress", "c: cancelled", "d: cancelled"]);
    retry(&mut sim, "a").unwrap();
    sim.go();
    assert_eq!(statuses(&sim), ["a: completed", "b: completed", "c: completed", "d: completed"]);
    assert_eq!(sim.contents(ObservationType::RunFinished)[0]["resultStatus"], "success");
}

/// A run whose failed items are planned around; `b` fails once, `e` always, while `d` is in progress.
fn planned_around(items: &'static [(&'static str, &'static [&'static str], &'static [&'static str])]) -> Sim {
    let mut begun = 0;
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(items),
        "refinement" => plan(&[("b", &[], &[]), ("d", &[], &[])]),
        "b.1" => {
            begun += 1;
            if begun == 1 { fails(FailureKind::Refused) } else { says("b is done") }
        }
        "e.1" => fails(FailureKind::Refused),
        _ => says("fine"),
    });
    let execution =
        ExecutionConfig { on_item_failure: OnItemFailure::Replan, max_parallel_items: 3, ..ExecutionConfig::default() };
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
    sim.step();
    sim.step();
    sim
}

fn refinements(sim: &Sim) -> Vec<String> {
    let asked = sim.prompts.iter().filter(|prompt| which(prompt) == "refinement");
    asked.map(|prompt| format!("{:?}", prompt.messages)).collect()
}

#[test]
fn what_is_done_again_is_not_planned_around() {
    let mut sim = planned_around(&[("b", &[], &[]), ("c", &["b"], &[]), ("d", &[], &[])]);
    assert_eq!(statuses(&sim), ["b: failed", "c: cancelled", "d: in_progress"]);
    retry(&mut sim, "b").unwrap();
    assert_eq!(statuses(&sim)[0], "b: in_progress", "nothing holds it up");
    sim.go();
    assert_eq!(statuses(&sim), ["b: completed", "c: completed", "d: completed"]);
    assert_eq!(refinements(&sim), Vec::<String>::new());
    assert_eq!(sim.contents(ObservationType::RunFinished)[0]["resultStatus"], "success");
}

#[test]
fn what_else_failed_is_planned_around_all_the_same() {
    let mut sim = planned_around(&[("b", &[], &[]), ("e", &[], &[]), ("d", &[], &[])]);
    sim.step();
    assert_eq!(statuses(&sim), ["b: failed", "e: failed", "d: in_progress"]);
    retry(&mut sim, "b").unwrap();
    sim.go();
    let [told] = &refinements(&sim)[..] else { panic!("{} refinements", refinements(&sim).len()) };
    assert!(told.contains("Item e failed (model_refused): plan around it if you can."), "{told}");
    assert!(!told.contains("Item b failed"), "{told}");
    assert_eq!(sim.item("b")["status"], "completed");
}

#[test]
fn the_call_of_a_skipped_item_is_told_to_have_ended() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[])]),
        _ => says("fine"),
    });
    sim.ask("go").unwrap();
    sim.step();
    skip(&mut sim, "a").unwrap();
    sim.go();
    assert!(sim.is_idle());
    let streams =
        |kind| -> Vec<Value> { sim.contents(kind).into_iter().map(|mut content| content["streamId"].take()).collect() };
    let failed = streams(ObservationType::LlmStreamError);
    assert_eq!(failed.len(), 1, "{failed:?}");
    let mut over = [failed, streams(ObservationType::LlmStreamEnd)].concat();
    let mut started = streams(ObservationType::LlmStreamStart);
    over.sort_by_key(Value::to_string);
    started.sort_by_key(Value::to_string);
    assert_eq!(over, started);
}

/// Otherwise whoever skips and retries a step would pass every cap.
#[test]
fn the_call_of_a_skipped_item_counts_what_it_had_reserved() {
    let mut sim = caps::capped();
    caps::ask(&mut sim, OnBudget::Stop);
    sim.step();
    let before = sim.machine.reservations();
    skip(&mut sim, "a").unwrap();
    let after = sim.machine.reservations();
    assert_eq!((before.len(), after.len()), (3, 2));
    let skipped = before.iter().find(|one| !after.iter().any(|other| other.stream == one.stream)).unwrap();
    let took = caps::counted(&sim);
    let (_, took) = took.iter().find(|(stream, _)| stream == skipped.stream.as_str()).unwrap();
    assert_eq!(i64::try_from(took.usage.input_tokens + took.usage.output_tokens), Ok(skipped.tokens));
    assert_eq!((took.usage.output_tokens, took.cost_nanos), (4_096, Some(skipped.cost)));
    assert_eq!(took.item.as_ref().map(|id| id.as_str()), Some("a"));
    sim.go();
    let counters = sim.run("run_1").counters;
    assert_eq!(counters.usage.output_tokens, 4_096 + 4 * 500, "the other calls count besides");
    assert_eq!((counters.cost_nanos, caps::held(&sim)), (Some(skipped.cost + 4 * 1_500_000), 0));
}

/// Otherwise whoever skips and retries steps would pass every budget of calls.
#[test]
fn the_call_of_a_skipped_item_is_one_of_the_budgets_calls() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[])]),
        _ => says("fine"),
    });
    let budget = Some(Budget { max_llm_calls: Some(3), ..Budget::default() });
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { budget, ..RunSettings::default() }).unwrap();
    sim.step();
    skip(&mut sim, "a").unwrap();
    skip(&mut sim, "b").unwrap();
    assert!(sim.is_idle(), "no call is left for the answer");
    let run = sim.run("run_1");
    assert_eq!((run.counters.llm_calls, run.outcome.unwrap().error.unwrap().code), (3, Code::BudgetExceeded));
}

#[test]
fn the_arguments_of_a_call_that_asks_because_its_step_is_done_again_can_be_edited() {
    let mut sim = at_rest();
    retry(&mut sim, "a").unwrap();
    sim.go();
    sim.answer(1, |answer| (answer.approved, answer.modified_args) = (Some(true), Some(json!({ "n": 2 })))).unwrap();
    sim.go();
    let ran = sim.tools.ran.lock().unwrap().clone();
    let of_a: Vec<_> = ran.iter().filter(|(tool, _)| tool == "write").map(|(_, arguments)| arguments).collect();
    assert_eq!(of_a, [&json!({ "n": 1 }), &json!({ "n": 2 })]);
}

/// `d` was shown the plan before.
#[test]
fn a_model_that_saw_an_item_as_failed_does_not_cancel_what_a_person_has_done_again() {
    let mut begun = 0;
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("b", &[], &[]), ("d", &[], &[])]),
        "b.1" => {
            begun += 1;
            if begun == 1 { fails(FailureKind::Refused) } else { says("b is done") }
        }
        "d.1" => {
            let patch = json!({ "todoList": [{ "id": "b", "status": "cancelled" }] });
            says(json!({ "content": "d is done", "updatedPlan": patch }).to_string())
        }
        other => says(other),
    });
    sim.ask("go").unwrap();
    while statuses(&sim) != ["b: failed", "d: in_progress"] {
        assert!(sim.step());
    }
    retry(&mut sim, "b").unwrap();
    sim.go();
    assert_eq!(statuses(&sim), ["b: completed", "d: completed"]);
}
