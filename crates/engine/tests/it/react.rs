//! The core without a plan, on the same machine: one loop, then the answer.

use std::sync::Arc;

use pes_engine::domain::hitl::{ExpiryPolicy, InDoubtAction};
use pes_engine::domain::model::{FailureKind, ModelFailure, ModelReply, ModelRequest, StopReason};
use pes_engine::domain::observation::{Observation, ObservationType};
use pes_engine::domain::prompt::PromptMessage;
use pes_engine::domain::run::{OnBusy, ResultStatus, RunStatus};
use pes_engine::domain::settings::{ExecutionConfig, OnItemFailure, RunSettings};
use pes_engine::event::{Event, PersonEvent};
use pes_engine::history::fold::Fold;
use pes_engine::pes::Pes;
use pes_engine::step::{Keep, RowKind};
use serde_json::json;

use super::peers::Way;
use super::sim::*;

fn react(script: impl FnMut(&ModelRequest) -> Result<ModelReply, ModelFailure> + 'static) -> Sim {
    Sim::of(Arc::new(Pes::react()), script)
}

/// Calls `tool` once, then answers.
fn calls_once(tool: &'static str) -> impl FnMut(&ModelRequest) -> Result<ModelReply, ModelFailure> {
    move |request| match request.context.iteration {
        1 => calls(&[(tool, json!({ "n": 1 }))]),
        _ => says(format!("the answer to {}", request.context.query)),
    }
}

fn answers(sim: &Sim) -> Vec<String> {
    let finals = sim.contents(ObservationType::FinalResponse);
    finals.iter().map(|content| content["message"]["content"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_loops_last_word_is_the_answer() {
    let mut sim = react(calls_once("read"));
    sim.ask("go").unwrap();
    sim.go();
    let run = sim.run("run_1");
    assert_eq!((run.status, run.outcome.unwrap().status), (RunStatus::Completed, ResultStatus::Success));
    assert_eq!((run.counters.llm_calls, run.counters.tool_calls), (2, 1));
    assert_eq!(answers(&sim), ["the answer to go"]);
    let kinds = sim.kinds();
    for planned in ["PLAN", "PLAN_UPDATE", "INTENT", "SYNTHESIS"] {
        assert!(!kinds.iter().any(|kind| kind == planned), "{kinds:?}");
    }
}

/// Forks and compacted logs begin with what the log says.
#[test]
fn the_log_says_what_the_item_is_about_from_its_beginning() {
    let mut sim = react(calls_once("read"));
    sim.ask("go").unwrap();
    sim.go();
    let mut fold = Fold::default();
    let mut described = Vec::new();
    for (seq, record) in (1..).zip(&sim.records) {
        fold.apply(&Observation::of(record.clone(), "t1".into(), seq)).unwrap();
        if let Some(item) = fold.view()["todoList"].get(0) {
            described.push(item["description"].clone());
        }
    }
    assert!(!described.is_empty() && described.iter().all(|said| said == "go"), "{described:?}");
    assert_eq!(sim.item("run_1")["description"], "go");
}

#[test]
fn an_answer_that_stays_cut_off_is_shown_and_named() {
    let mut sim =
        react(|_| says("The answer is fort").map(|reply| ModelReply { stop: StopReason::MaxTokens, ..reply }));
    sim.ask("go").unwrap();
    sim.go();
    let run = sim.run("run_1");
    let outcome = run.outcome.unwrap();
    assert_eq!((run.status, outcome.status, sim.prompts.len()), (RunStatus::Completed, ResultStatus::Partial, 3));
    assert_eq!(outcome.error.unwrap().code.as_str(), "synthesis_failed");
    assert!(answers(&sim)[0].starts_with("The answer is fort\n\nThe answer was cut off"), "{:?}", answers(&sim));
    assert_eq!(sim.item("run_1")["status"], "failed");
}

/// The prompt is a conversation: earlier messages, the query, the loop so far.
#[test]
fn a_follow_up_sees_the_conversation() {
    let mut sim = react(calls_once("read"));
    sim.ask("one").unwrap();
    sim.go();
    sim.ask("two").unwrap();
    sim.go();
    let said: Vec<&str> = sim.prompts[3]
        .messages
        .iter()
        .filter_map(|message| match message {
            PromptMessage::User { content } | PromptMessage::Assistant { content, .. } => Some(content.as_str()),
            PromptMessage::System { .. } | PromptMessage::Tool { .. } => None,
        })
        .collect();
    assert_eq!(said, ["one", "the answer to one", "two", ""]);
    assert_eq!(first_line(&sim.prompts[3]), "Phase: execution run_2");
    assert_eq!(sim.view()["todoList"].as_array().unwrap().len(), 1);
}

#[test]
fn a_gated_call_waits_for_a_person() {
    let mut sim = react(calls_once("gated"));
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Suspended);
    assert!(!sim.is_active() && sim.tools.ran.lock().unwrap().is_empty());
    sim.answer(0, |answer| answer.modified_args = Some(json!({ "n": 2 }))).unwrap_err();
    sim.answer(0, |answer| {
        answer.approved = Some(true);
        answer.modified_args = Some(json!({ "n": 2 }));
    })
    .unwrap();
    sim.go();
    assert_eq!(*sim.tools.ran.lock().unwrap(), [("gated".to_owned(), json!({ "n": 2 }))]);
    assert_eq!(answers(&sim), ["the answer to go"]);
}

#[test]
fn a_crash_after_any_commit_changes_no_answer() {
    for after in 0..6 {
        let mut sim = react(calls_once("read"));
        sim.ask("go").unwrap();
        for _ in 0..after {
            sim.step();
        }
        sim.crash();
        sim.go();
        assert_eq!(answers(&sim), ["the answer to go"], "crash after {after}");
    }
}

#[test]
fn queued_runs_follow_and_a_cancel_ends_one() {
    let mut sim = react(calls_once("read"));
    sim.ask("one").unwrap();
    sim.ask("two").unwrap();
    sim.ask_with("three", OnBusy::Steer, RunSettings::default()).unwrap();
    sim.cancel(Some("run_1")).unwrap();
    sim.stop_effects().unwrap();
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Cancelled);
    assert_eq!(answers(&sim), ["the answer to two", "the answer to three"]);
}

#[test]
fn another_agent_carries_out_a_call() {
    let mut sim = react(|request| match request.context.iteration {
        1 => calls(&[("peer", json!({ "agentId": "away", "taskType": "t", "x": "p" }))]),
        _ => says("the answer"),
    });
    sim.peers.ways = [("p".to_owned(), Way::default())].into();
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.contents(ObservationType::ToolExecution)[0]["status"], "success");
    assert_eq!(answers(&sim), ["the answer"]);
}

/// There is no plan: nothing can change it, and a failure ends the run.
#[test]
fn there_is_no_plan_to_change() {
    let patch = r#"{"content":"done","updatedPlan":{"todoList":[{"id":"new","description":"x"}]}}"#;
    let mut sim = react(move |_| says(patch));
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(answers(&sim), ["done"]);
    assert_eq!(sim.view()["todoList"].as_array().unwrap().len(), 1);
    let edit = Event::Person(PersonEvent::PlanEdited {
        expected: 0,
        list: vec![],
        by: "ann".into(),
        settings: Default::default(),
    });
    assert_eq!(sim.apply(edit).unwrap_err().code.as_str(), "plan_not_editable");

    let mut settings = RunSettings::default();
    settings.execution.on_item_failure = OnItemFailure::Replan;
    let mut sim = react(|_| calls(&[("read", json!({}))]));
    sim.ask_with("go", OnBusy::Enqueue, settings).unwrap();
    sim.go();
    let run = sim.run("run_1");
    assert_eq!((run.status, run.outcome.unwrap().status), (RunStatus::Failed, ResultStatus::Error));
    assert_eq!(sim.prompts.len(), 5);
}

/// The code and message of the failed run, and whether it may be asked again, as its last `ERROR` says.
fn why(sim: &Sim) -> (String, String, bool) {
    let run = sim.run("run_1");
    assert_eq!(run.status, RunStatus::Failed);
    let error = run.outcome.unwrap().error.unwrap();
    assert_eq!(answers(sim), std::slice::from_ref(&error.message));
    let told = sim.contents(ObservationType::Error).pop().unwrap();
    assert_eq!((&told["code"], &told["fatal"]), (&json!(error.code.as_str()), &json!(true)));
    (error.code.as_str().to_owned(), error.message, told["retryable"] == true)
}

fn failed(code: &str, message: &str, is_retryable: bool) -> (String, String, bool) {
    (code.to_owned(), message.to_owned(), is_retryable)
}

#[test]
fn a_run_fails_with_the_code_of_what_failed() {
    let table = [
        (FailureKind::Refused, "model_refused", false),
        (FailureKind::TooLong, "prompt_too_long", false),
        (FailureKind::TooLarge, "reply_too_large", false),
        (FailureKind::Broken, "model_failed", true),
    ];
    for (kind, code, is_retryable) in table {
        let mut sim = react(move |_| fails(kind));
        sim.ask("go").unwrap();
        sim.go();
        assert_eq!(why(&sim), failed(code, "the model is away", is_retryable));
    }
}

/// Asked again, a call in doubt might have its effect twice.
#[test]
fn a_step_that_did_not_end_with_its_model_is_no_failure_of_the_model() {
    let mut sim = react(|_| calls(&[("read", json!({}))]));
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(why(&sim), failed("step_failed", "not finished after 5 model calls", false));

    let mut sim = react(calls_once("write"));
    sim.ask("go").unwrap();
    sim.step();
    sim.crash();
    sim.answer(0, |answer| answer.action = Some(InDoubtAction::Abort)).unwrap();
    let ended = "a person ended the step; `write` may have had its effect";
    assert_eq!(why(&sim), failed("step_failed", ended, false));

    let mut sim = react(calls_once("gated"));
    let execution = ExecutionConfig {
        suspension_timeout_ms: Some(5_000),
        suspension_expiry: ExpiryPolicy::Fail,
        ..ExecutionConfig::default()
    };
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
    sim.go();
    sim.now += 5_000;
    sim.wake().unwrap();
    assert_eq!(why(&sim), failed("suspension_timed_out", "nobody answered in time", false));
}

/// Otherwise the state of a thread would grow with every run.
#[test]
fn only_the_last_runs_item_and_its_calls_are_loaded() {
    let mut sim = react(calls_once("read"));
    for _ in 0..3 {
        sim.ask("go").unwrap();
        sim.go();
    }
    for kind in [RowKind::Item, RowKind::Progress, RowKind::Call] {
        let (loaded, all): (Vec<_>, Vec<_>) = {
            let rows = || sim.rows().filter(|row| row.kind == kind);
            (rows().filter(|row| row.keep == Keep::Always).collect(), rows().collect())
        };
        assert_eq!((loaded.len(), all.len()), (1, 3), "{kind:?}");
    }
}
