//! A message steers a run, and the planner's refinement fails.

use pes_engine::domain::model::FailureKind;
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::{OnBusy, ResultStatus};
use pes_engine::domain::settings::{ExecutionConfig, OnItemFailure, RunSettings};
use serde_json::json;

use super::results::prompt_of;
use super::sim::*;

/// `a` is running when the message arrives; the planner is then called again, and its replies depend on the number of
/// calls.
fn steered(said: &[&str], mut replies: impl FnMut(usize) -> Reply + 'static) -> Sim {
    let mut asked = 0;
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[])]),
        "refinement" | "repair" => {
            asked += 1;
            replies(asked)
        }
        other => says(format!("result of {other}")),
    });
    sim.ask("go").unwrap();
    sim.step();
    for said in said {
        steer(&mut sim, said);
    }
    sim
}

fn steer(sim: &mut Sim, said: &str) {
    sim.ask_with(said, OnBusy::Steer, RunSettings::default()).unwrap();
}

fn refined() -> Reply {
    plan(&[("a", &[], &[]), ("b", &[], &[]), ("c", &[], &[])])
}

/// How often the planner was called for a refinement, without repairs.
fn refinements(sim: &Sim) -> usize {
    sim.prompts.iter().filter(|prompt| which(prompt) == "refinement").count()
}

#[test]
fn a_refinement_that_fails_is_tried_once_more() {
    // One call, two repairs, one new call.
    let mut sim = steered(&["do c too"], |asked| if asked <= 3 { says("I do not plan") } else { refined() });
    sim.go();
    assert_eq!((refinements(&sim), &sim.item("c")["status"]), (2, &json!("completed")));
    let outcome = sim.run("run_1").outcome.unwrap();
    assert_eq!((outcome.status, outcome.errors), (ResultStatus::Success, Vec::new()));
}

#[test]
fn a_message_that_no_planner_could_take_into_account_leaves_the_run_partial() {
    let fail: [fn(usize) -> Reply; 2] = [|_| says("I do not plan"), |_| fails(FailureKind::Refused)];
    for (replies, code) in fail.into_iter().zip(["plan_unreadable", "model_refused"]) {
        let mut sim = steered(&["do c too"], replies);
        while !sim.is_idle() {
            sim.crash();
            assert!(sim.step());
        }
        assert_eq!(refinements(&sim), 2, "and no oftener");
        let outcome = sim.run("run_1").outcome.unwrap();
        assert_eq!(outcome.status, ResultStatus::Partial);
        let listed: Vec<&str> = outcome.errors.iter().map(|error| error.code.as_str()).collect();
        assert_eq!(listed, [code]);
        assert_eq!(sim.item("b")["status"], "completed", "the plan went on as it was");
        assert!(prompt_of(&sim, "synthesis").contains("do c too"), "whoever answers knows what was said");
        assert_eq!(sim.contents(ObservationType::RunFinished)[0]["resultStatus"], "partial");
        sim.ask("well?").unwrap();
        sim.go();
        let last = sim.prompts.iter().rfind(|prompt| which(prompt) == "refinement").unwrap();
        assert!(format!("{:?}", last.messages).contains("do c too"), "and so does the next planner");
    }
}

#[test]
fn a_later_refinement_takes_the_message_into_account() {
    let mut sim = steered(&["do c too"], |asked| if asked <= 6 { says("I do not plan") } else { refined() });
    while refinements(&sim) < 2 || sim.prompts.len() < 8 {
        assert!(sim.step());
    }
    assert!(!sim.is_idle());
    steer(&mut sim, "please");
    sim.go();
    assert!(prompt_of(&sim, "refinement").contains("do c too"));
    assert_eq!(sim.item("c")["status"], "completed");
    assert_eq!(sim.run("run_1").outcome.unwrap().status, ResultStatus::Success);
}

#[test]
fn what_was_taken_into_account_is_not_told_anew_when_the_next_message_fails() {
    let mut sim = steered(&["do c too"], |asked| if asked == 1 { refined() } else { says("I do not plan") });
    while refinements(&sim) < 1 {
        assert!(sim.step());
    }
    steer(&mut sim, "and quickly");
    sim.go();
    assert_eq!(refinements(&sim), 3, "one for the first, two for the second");
    assert_eq!(sim.run("run_1").outcome.unwrap().status, ResultStatus::Partial);
}

/// The first refinement took the message into account; the second one is about a failed step.
#[test]
fn what_was_taken_into_account_is_not_missing_when_the_plan_around_a_failure_fails() {
    let mut asked = 0;
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[])]),
        "refinement" => {
            asked += 1;
            if asked == 1 { refined() } else { fails(FailureKind::Refused) }
        }
        "b.1" => fails(FailureKind::Refused),
        other => says(format!("result of {other}")),
    });
    let execution = ExecutionConfig { on_item_failure: OnItemFailure::Replan, ..ExecutionConfig::default() };
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
    sim.step();
    steer(&mut sim, "do c too");
    sim.go();
    assert_eq!(refinements(&sim), 2);
    let errors = sim.contents(ObservationType::Error);
    let planning = errors.iter().find(|error| error["phase"] == "planning").expect("it is recorded");
    assert_eq!((&planning["code"], &planning["fatal"]), (&json!("model_refused"), &json!(false)), "{planning:#}");
    let failed = sim.run("run_1").outcome.unwrap().errors;
    assert!(failed.iter().all(|failure| failure.item_id.is_some()), "{failed:#?}");
    assert_eq!(sim.item("c")["status"], "completed", "the plan went on as it was");
}
