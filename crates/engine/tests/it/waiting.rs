//! Requests that arrive during an active run: what the runs know of each other, and what the planner is shown.

use pes_engine::domain::hitl::{ExpiryPolicy, SuspensionKind};
use pes_engine::domain::model::ModelRequest;
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::{OnBusy, RunStatus};
use pes_engine::domain::settings::{Budget, ExecutionConfig, OnItemFailure, RunSettings};
use pes_engine::event::{CancelEvent, Event, PersonEvent};
use serde_json::{Value, json};

use super::sim::*;

fn text(request: &ModelRequest) -> String {
    format!("{:?}", request.messages)
}

fn answers_at_once() -> Sim {
    Sim::new(|_| says(r#"{"answer":"yes","todoList":[]}"#))
}

/// The size of all messages in bytes, according to the head.
fn said(sim: &Sim) -> usize {
    let head: Value = serde_json::from_str(&sim.head).unwrap();
    head["said"].as_u64().unwrap() as usize
}

#[test]
fn a_run_hears_nothing_of_what_still_waits() {
    let mut sim = answers_at_once();
    for query in ["the first", "the second", "the third"] {
        sim.ask(query).unwrap();
    }
    sim.go();
    let [_, second, third] = &sim.prompts[..] else { panic!("{} prompts", sim.prompts.len()) };
    assert!(text(second).contains("the first") && text(second).contains("the second"));
    assert!(!text(second).contains("the third"), "{second:#?}");
    assert!(text(third).contains("the second") && text(third).contains("the third"));
    assert_eq!(said(&sim), "the firstthe secondthe third".len() + 3 * "yes".len(), "each is counted once");
}

#[test]
fn who_interrupts_hears_nothing_of_what_still_waits() {
    let mut sim = answers_at_once();
    sim.ask("the first").unwrap();
    sim.ask("the second").unwrap();
    sim.ask_with("now", OnBusy::Interrupt, RunSettings::default()).unwrap();
    sim.stop_effects().unwrap();
    sim.go();
    let [now, second] = &sim.prompts[..] else { panic!("{} prompts", sim.prompts.len()) };
    assert!(text(now).contains("now") && !text(now).contains("the second"), "{now:#?}");
    assert!(text(second).contains("the second"));
}

#[test]
fn a_pause_goes_on_with_the_next_run() {
    let mut sim = answers_at_once();
    sim.ask("the first").unwrap();
    sim.ask("the second").unwrap();
    sim.apply(Event::Person(PersonEvent::PauseAsked { by: "bob".into() })).unwrap();
    sim.go();
    assert_eq!((sim.run("run_1").status, sim.run("run_2").status), (RunStatus::Completed, RunStatus::Suspended));
    assert_eq!(sim.prompts.len(), 1, "nothing new starts");
    let [open] = &sim.suspensions()[..] else { panic!("{:?}", sim.suspensions()) };
    assert_eq!(
        (open.kind, open.run_id.as_str(), open.message.as_str()),
        (SuspensionKind::Pause, "run_2", "Paused by bob.")
    );
    sim.reload();
    sim.answer(0, |_| ()).unwrap();
    sim.go();
    assert_eq!(sim.run("run_2").status, RunStatus::Completed);
}

#[test]
fn a_pause_outlasts_a_run_that_its_deadline_ends() {
    let mut sim = answers_at_once();
    let budget = Budget { deadline_ms: Some(5_000), ..Budget::default() };
    sim.ask_with("the first", OnBusy::Enqueue, RunSettings { budget: Some(budget), ..RunSettings::default() }).unwrap();
    sim.ask("the second").unwrap();
    sim.apply(Event::Person(PersonEvent::PauseAsked { by: "bob".into() })).unwrap();
    sim.now = sim.steps[0].wake_at.unwrap();
    sim.wake().unwrap();
    sim.stop_effects().unwrap();
    sim.go();
    assert_eq!((sim.run("run_1").status, sim.run("run_2").status), (RunStatus::Completed, RunStatus::Suspended));
    let [open] = &sim.suspensions()[..] else { panic!("{:?}", sim.suspensions()) };
    assert_eq!((open.kind, open.run_id.as_str()), (SuspensionKind::Pause, "run_2"));
}

#[test]
fn whoever_cancels_a_run_ends_its_pause() {
    let mut sim = answers_at_once();
    sim.ask("the first").unwrap();
    sim.ask("the second").unwrap();
    sim.apply(Event::Person(PersonEvent::PauseAsked { by: "bob".into() })).unwrap();
    sim.apply(Event::Cancel(CancelEvent::Asked { run: Some("run_1".into()), by: "bob".into() })).unwrap();
    sim.stop_effects().unwrap();
    sim.go();
    assert_eq!((sim.run("run_1").status, sim.run("run_2").status), (RunStatus::Cancelled, RunStatus::Completed));
}

/// Three items; a refinement leaves them as they are.
fn steered(queries: &[&str]) -> Sim {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" | "refinement" => plan(&[("a", &[], &[]), ("b", &[], &[]), ("c", &[], &[])]),
        _ => says("fine"),
    });
    sim.ask("go").unwrap();
    for query in queries {
        sim.step();
        sim.ask_with(query, OnBusy::Steer, RunSettings::default()).unwrap();
        while which_runs(&sim) != "refinement" {
            assert!(sim.step());
        }
    }
    sim
}

fn which_runs(sim: &Sim) -> String {
    match sim.in_flight.first().map(|effect| sim.prompt(effect)) {
        Some(pes_engine::Prompt::Call(request)) => which(&request),
        Some(pes_engine::Prompt::Overflows(_)) | None => String::new(),
    }
}

#[test]
fn what_was_said_by_steering_stays_part_of_what_was_asked_for() {
    let mut sim = steered(&["rather in French", "and shorter"]);
    sim.go();
    let heard = |phase: &str| sim.prompts.iter().filter(|it| which(it) == phase).map(text).collect::<Vec<_>>();
    let [first, second] = &heard("refinement")[..] else { panic!("{:?}", sim.prompts.len()) };
    assert!(first.contains("rather in French") && !first.contains("and shorter"));
    assert!(second.contains("rather in French") && second.contains("and shorter"));
    let synthesis = heard("synthesis").remove(0);
    assert!(synthesis.contains("rather in French") && synthesis.contains("and shorter"), "{synthesis}");
}

#[test]
fn so_many_messages_change_the_course_of_one_run_and_no_more() {
    let mut sim = steered(&["first", "second"]);
    sim.limits.queued_runs = 2;
    let refused = sim.ask_with("third", OnBusy::Steer, RunSettings::default()).unwrap_err();
    assert_eq!(refused.code.as_str(), "queue_full");
}

#[test]
fn a_refusal_does_not_throw_away_what_the_planner_has_not_seen() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => says(r#"{"refuse":"not mine to do","todoList":[]}"#),
        "refinement" => says(r#"{"answer":"that I can do","todoList":[]}"#),
        other => panic!("{other}"),
    });
    sim.ask("fly").unwrap();
    sim.ask_with("or rather walk", OnBusy::Steer, RunSettings::default()).unwrap();
    sim.go();
    assert!(text(&sim.prompts[1]).contains("or rather walk"));
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
    assert_eq!(sim.contents(ObservationType::FinalResponse)[0]["message"]["content"], "that I can do");
}

#[test]
fn what_people_wrote_while_the_thread_was_idle_is_done_although_the_planner_answers_at_once() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        "refinement" => says(r#"{"answer":"hello again","todoList":[]}"#),
        other => says(format!("result of {other}")),
    });
    sim.ask("go").unwrap();
    sim.go();
    sim.edit_plan("ann", |list| list.push(json!({ "id": "mine", "description": "a person's item" }))).unwrap();
    sim.ask("hello").unwrap();
    sim.go();
    assert_eq!((&sim.item("mine")["status"], &sim.item("mine")["runId"]), (&json!("completed"), &json!("run_2")));
    sim.ask("hello").unwrap();
    sim.go();
    assert_eq!(sim.contents(ObservationType::FinalResponse)[2]["message"]["content"], "hello again");
}

#[test]
fn what_fails_while_the_plan_is_refined_is_told_to_the_refinement_that_it_asks_for() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" | "refinement" => plan(&[("a", &[], &[]), ("b", &[], &[])]),
        "a.1" => calls(&[("gated", json!({}))]),
        _ => says("fine"),
    });
    let execution = ExecutionConfig {
        on_item_failure: OnItemFailure::Replan,
        suspension_timeout_ms: Some(50_000),
        suspension_expiry: ExpiryPolicy::Fail,
        ..ExecutionConfig::default()
    };
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
    sim.step();
    sim.ask_with("rather that", OnBusy::Steer, RunSettings::default()).unwrap();
    while which_runs(&sim) != "refinement" {
        assert!(sim.step());
    }
    sim.now += 60_000;
    sim.wake().unwrap();
    sim.go();
    let refinements: Vec<String> = sim.prompts.iter().filter(|it| which(it) == "refinement").map(text).collect();
    assert_eq!(refinements.len(), 2);
    assert!(refinements[1].contains("Item a failed (suspension_timed_out)"), "{}", refinements[1]);
}
