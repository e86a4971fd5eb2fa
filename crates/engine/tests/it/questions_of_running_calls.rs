//! A call asks a person while it runs: it continues to run, and receives the outcome of its question.

use pes_engine::domain::hitl::{
    ExpiryPolicy, FeedbackSchema, InDoubtAction, InputType, Question, Reply, SuspensionKind,
};
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::{OnBusy, RunStatus};
use pes_engine::domain::settings::{ExecutionConfig, RunSettings};
use pes_engine::domain::tool::{CallRecord, ToolOutcome};
use pes_engine::effect::Effect;
use pes_engine::event::{Event, PersonEvent, ToolEvent};
use pes_engine::step::{RowKind, Step};
use serde_json::{Value, json};

use super::sim::*;
use super::suspend::one_item;

/// A run whose only call is running.
fn calling(tool: &'static str, execution: ExecutionConfig) -> Sim {
    let mut sim = Sim::new(match tool {
        "write" => one_item(&[("write", "1")]),
        _ => one_item(&[("read", "1")]),
    });
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
    while !matches!(sim.in_flight.first(), Some(Effect::CallTool { .. })) {
        assert!(sim.step());
    }
    sim
}

/// The running call's `number`th question.
fn asks(sim: &mut Sim, number: u32) -> Step {
    let Some(Effect::CallTool { call, attempt }) = sim.in_flight.first().cloned() else { panic!("no call runs") };
    sim.holds = true;
    sim.apply(Event::Tool(ToolEvent::Asked { call, attempt, number, question: Box::new(question()) })).unwrap()
}

/// The running call no longer waits for the answer to its `number`th question.
fn withdraws(sim: &mut Sim, number: u32) -> Step {
    let Some(Effect::CallTool { call, attempt }) = sim.in_flight.first().cloned() else { panic!("no call runs") };
    sim.apply(Event::Tool(ToolEvent::Withdrew { call, attempt, number })).unwrap()
}

pub fn question() -> Question {
    let form = FeedbackSchema {
        input_type: InputType::Text,
        prompt: "Which one?".into(),
        options: Vec::new(),
        allow_modify_args: false,
        custom_schema: None,
    };
    Question { message: "Which one?".into(), form }
}

fn call(sim: &Sim) -> CallRecord {
    let row = sim.rows.values().find(|row| row.kind == RowKind::Call).expect("a call");
    serde_json::from_str(&row.body).unwrap()
}

fn reply(sim: &Sim) -> Option<Reply> {
    call(sim).asked.and_then(|asked| asked.reply)
}

fn answers(sim: &mut Sim, value: &str) -> Step {
    sim.answer(0, |answer| answer.value = Some(value.into())).unwrap()
}

#[test]
fn the_call_runs_on_and_its_answer_stands_with_it() {
    let mut sim = calling("write", ExecutionConfig::default());
    asks(&mut sim, 1);
    let open = sim.suspensions().remove(0);
    assert_eq!((open.kind, open.while_running), (SuspensionKind::Input, true));
    assert_eq!((open.tool_name.as_deref(), open.message.as_str()), (Some("write"), "write asks: Which one?"));
    assert_eq!(sim.run("run_1").status, RunStatus::Running);
    assert_eq!(sim.in_flight.len(), 1);
    answers(&mut sim, "the left one");
    assert_eq!(reply(&sim), Some(Reply::Accepted { value: json!("the left one") }));
    assert_eq!(sim.in_flight.len(), 1, "the answer is no result");
    assert!(sim.contents(ObservationType::ToolExecution).is_empty());
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
    assert_eq!(sim.contents(ObservationType::AgentResumed).len(), 1, "what was answered is not taken back");
}

#[test]
fn the_holder_hears_of_an_answer_that_somebody_else_committed() {
    let mut sim = calling("write", ExecutionConfig::default());
    asks(&mut sim, 1);
    sim.holds = false;
    let step = answers(&mut sim, "left");
    assert_eq!(step.wake_at, Some(sim.now), "the holder must look");
    sim.holds = true;
    let woken = sim.wake().unwrap();
    assert!(!woken.is_noop && woken.wake_at.is_none());
    assert!(sim.wake().unwrap().is_noop, "it is told once");
    assert_eq!(reply(&sim), Some(Reply::Accepted { value: json!("left") }));
}

#[test]
fn a_question_is_one_question_however_often_it_arrives() {
    let mut sim = calling("write", ExecutionConfig::default());
    asks(&mut sim, 1);
    assert!(asks(&mut sim, 1).is_noop);
    answers(&mut sim, "left");
    assert!(asks(&mut sim, 1).is_noop, "and stays answered");
    asks(&mut sim, 2);
    assert_eq!(reply(&sim), None, "the next one has no answer yet");
    assert_eq!(sim.suspensions().len(), 1);
}

/// A call waits for one answer at a time.
#[test]
fn the_next_question_of_a_call_takes_back_the_one_before() {
    let mut sim = calling("write", ExecutionConfig::default());
    asks(&mut sim, 1);
    let first = sim.suspensions().remove(0).suspension_id;
    asks(&mut sim, 2);
    let [second] = &sim.suspensions()[..] else { panic!("{:?}", sim.suspensions()) };
    assert_ne!(second.suspension_id, first);
    assert!(sim.rows[&(RowKind::Suspension, first.to_string())].body.contains("asks something else"));
    answers(&mut sim, "left");
    assert_eq!(reply(&sim), Some(Reply::Accepted { value: json!("left") }));
}

#[test]
fn a_question_that_is_withdrawn_is_open_no_more_and_the_call_runs_on() {
    let mut sim = calling("write", ExecutionConfig::default());
    asks(&mut sim, 1);
    let open = sim.suspensions().remove(0);
    assert!(withdraws(&mut sim, 2).is_noop, "it asked no second one");
    assert_eq!(sim.suspensions().len(), 1);
    withdraws(&mut sim, 1);
    assert_eq!((sim.suspensions().len(), sim.in_flight.len()), (0, 1));
    assert_eq!(sim.contents(ObservationType::AgentResumed)[0]["decision"], "cancelled");
    let row = &sim.rows[&(RowKind::Suspension, open.suspension_id.to_string())];
    assert!(row.body.contains("no longer waits"), "{}", row.body);
    assert!(withdraws(&mut sim, 1).is_noop);

    asks(&mut sim, 2);
    answers(&mut sim, "left");
    assert!(withdraws(&mut sim, 2).is_noop, "an answer that was given stays");
    assert_eq!(reply(&sim), Some(Reply::Accepted { value: json!("left") }));
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}

#[test]
fn a_refusal_declines_and_silence_cancels() {
    let mut sim = calling("write", ExecutionConfig::default());
    asks(&mut sim, 1);
    sim.answer(0, |answer| answer.approved = Some(false)).unwrap();
    assert_eq!(reply(&sim), Some(Reply::Declined));
    assert_eq!(sim.in_flight.len(), 1);

    let expiring = |suspension_expiry| ExecutionConfig {
        suspension_timeout_ms: Some(5_000),
        suspension_expiry,
        ..ExecutionConfig::default()
    };
    let mut sim = calling("write", expiring(ExpiryPolicy::Deny));
    asks(&mut sim, 1);
    sim.now += 5_000;
    sim.wake().unwrap();
    assert_eq!((reply(&sim), sim.in_flight.len()), (Some(Reply::Cancelled), 1));
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);

    let mut sim = calling("write", expiring(ExpiryPolicy::Fail));
    asks(&mut sim, 1);
    sim.now += 5_000;
    sim.wake().unwrap();
    let result = &sim.contents(ObservationType::ToolExecution)[0];
    assert_eq!(result["error"]["code"], "unknown", "it was under way: {result}");
    assert!(sim.item("a")["reason"].as_str().unwrap().starts_with("suspension_timed_out"));
}

#[test]
fn a_call_that_ends_takes_its_question_back() {
    let mut sim = calling("write", ExecutionConfig::default());
    asks(&mut sim, 1);
    let open = sim.suspensions().remove(0);
    sim.go();
    assert!(sim.suspensions().is_empty());
    assert_eq!(sim.contents(ObservationType::AgentResumed)[0]["decision"], "cancelled");
    let row = &sim.rows[&(RowKind::Suspension, open.suspension_id.to_string())];
    assert!(row.body.contains("the call ended"), "{}", row.body);
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}

#[test]
fn after_a_crash_the_question_is_closed_and_the_call_is_in_doubt() {
    let mut sim = calling("write", ExecutionConfig::default());
    asks(&mut sim, 1);
    sim.crash();
    let open = sim.suspensions();
    assert_eq!(open.len(), 1, "{open:?}");
    assert_eq!(open[0].kind, SuspensionKind::InDoubt);
    assert!(!open[0].while_running);
    sim.answer(0, |answer| answer.action = Some(InDoubtAction::Retry)).unwrap();
    sim.holds = true;
    sim.wake().unwrap();
    asks(&mut sim, 1);
    assert_eq!(sim.suspensions().len(), 1, "a new attempt counts its questions from one");
}

/// Its tool was told to stop with the old process, and answered after all.
#[test]
fn the_answer_to_an_attempt_before_the_one_that_a_person_ordered_comes_too_late() {
    let mut sim = calling("write", ExecutionConfig::default());
    let Effect::CallTool { call, attempt } = sim.in_flight[0].clone() else { panic!("the tool runs") };
    sim.crash();
    sim.answer(0, |answer| answer.action = Some(InDoubtAction::Retry)).unwrap();
    assert_eq!(sim.in_flight, [Effect::CallTool { call: call.clone(), attempt: attempt + 1 }]);
    let outcome =
        ToolOutcome { result: Ok(json!("late")), metadata: None, state_patch: None, duration_ms: 0, executed: None };
    let late = ToolEvent::Returned { call, attempt, outcome: Box::new(outcome) };
    assert!(sim.apply(Event::Tool(late)).unwrap().is_noop);
    sim.go();
    assert_eq!(sim.contents(ObservationType::ToolExecution).len(), 1);
}

#[test]
fn one_that_may_be_repeated_asks_again() {
    let mut sim = calling("read", ExecutionConfig::default());
    asks(&mut sim, 1);
    sim.crash();
    assert!(sim.suspensions().is_empty());
    asks(&mut sim, 1);
    answers(&mut sim, "left");
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}

#[test]
fn a_cancel_closes_the_question() {
    let mut sim = calling("write", ExecutionConfig::default());
    asks(&mut sim, 1);
    sim.cancel(None).unwrap();
    let refused = sim.answer(0, |answer| answer.value = Some(Value::from("left"))).unwrap_err();
    assert_eq!(refused.code.as_str(), "run_cancelled");
    sim.stop_effects().unwrap();
    assert!(sim.suspensions().is_empty());
    assert_eq!(sim.run("run_1").status, RunStatus::Cancelled);
}

#[test]
fn an_answer_reaches_a_call_of_a_paused_run() {
    let mut sim = calling("write", ExecutionConfig::default());
    asks(&mut sim, 1);
    sim.apply(Event::Person(PersonEvent::PauseAsked { by: "ann".into() })).unwrap();
    sim.holds = false;
    answers(&mut sim, "left");
    sim.holds = true;
    assert!(!sim.wake().unwrap().is_noop);
    assert!(call(&sim).asked.unwrap().is_told);
}
