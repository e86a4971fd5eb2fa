//! Suspensions: approvals, questions, pauses, doubt; several open at once, answered in any order, expiring.

use pes_engine::domain::hitl::{ExpiryPolicy, InDoubtAction, RiskLevel};
use pes_engine::domain::model::{ModelFailure, ModelReply, ModelRequest};
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::{OnBusy, RunStatus};
use pes_engine::domain::settings::{ExecutionConfig, RunSettings};
use pes_engine::effect::Effect;
use pes_engine::event::{Event, PersonEvent};
use serde_json::{Value, json};

use super::sim::*;

/// One item whose first step makes these calls; then it repeats their results.
pub fn one_item(
    batch: &'static [(&'static str, &'static str)],
) -> impl FnMut(&ModelRequest) -> Result<ModelReply, ModelFailure> {
    move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        "a.1" => {
            let made: Vec<(&str, Value)> = batch.iter().map(|(tool, x)| (*tool, json!({ "x": x }))).collect();
            calls(&made)
        }
        "synthesis" => says("done"),
        other => says(format!("result of {other}")),
    }
}

pub fn ran(sim: &Sim) -> Vec<String> {
    let ran = sim.tools.ran.lock().unwrap();
    ran.iter().map(|(tool, arguments)| format!("{tool}:{}", arguments["x"].as_str().unwrap_or("-"))).collect()
}

#[test]
fn in_a_batch_the_gated_call_waits_and_the_others_run_and_the_model_sees_one_result_per_call_in_order() {
    let mut sim = Sim::new(one_item(&[("read", "1"), ("gated", "2"), ("write", "3")]));
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Suspended);
    assert!(!sim.is_active());
    assert_eq!(ran(&sim), ["read:1", "write:3"]);
    let view = sim.view();
    assert_eq!(view["isPaused"], true);
    assert_eq!(view["suspension"]["partialToolResults"].as_array().unwrap().len(), 2);
    assert_eq!(view["suspension"]["toolCall"]["arguments"], json!({ "x": "2" }));
    assert_eq!(view["todoList"][0]["status"], "in_progress");
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    assert_eq!(sim.run("run_1").status, RunStatus::Running, "the commit of the answer sets the status");
    sim.go();
    assert_eq!(ran(&sim), ["read:1", "write:3", "gated:2"]);
    let seen = format!("{:?}", sim.prompts[2].messages);
    let at = |needle: &str| seen.find(needle).unwrap_or_else(|| panic!("{needle} is not in {seen}"));
    assert!(at("p0") < at("p1") && at("p1") < at("p2"));
    assert_eq!(sim.contents(ObservationType::ToolExecution).len(), 3);
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}

#[test]
fn edited_arguments_are_what_runs() {
    let mut sim = Sim::new(one_item(&[("gated", "mine")]));
    sim.ask("go").unwrap();
    sim.go();
    let refused = sim.answer(0, |answer| {
        answer.approved = Some(true);
        answer.modified_args = Some(json!({ "bad": 1 }));
    });
    assert_eq!(refused.unwrap_err().code.as_str(), "invalid");
    sim.answer(0, |answer| {
        answer.approved = Some(true);
        answer.modified_args = Some(json!({ "x": "theirs" }));
    })
    .unwrap();
    sim.go();
    assert_eq!(ran(&sim), ["gated:theirs"]);
    assert_eq!(sim.contents(ObservationType::AgentResumed)[0]["decision"], "modified");
    let item = sim.item("a");
    assert_eq!(item["toolCalls"][0]["arguments"]["x"], "mine");
    assert_eq!(item["actualToolCalls"][0]["arguments"]["x"], "theirs");
}

#[test]
fn a_rejection_is_told_to_the_model_with_its_reason_and_leaves_success() {
    let mut sim = Sim::new(one_item(&[("gated", "1")]));
    sim.ask("go").unwrap();
    sim.go();
    sim.answer(0, |answer| {
        answer.approved = Some(false);
        answer.reason = Some("too risky".into());
    })
    .unwrap();
    sim.go();
    assert!(ran(&sim).is_empty());
    let execution = &sim.contents(ObservationType::ToolExecution)[0];
    assert_eq!((&execution["status"], &execution["error"]["code"]), (&json!("error"), &json!("rejected")));
    assert!(format!("{:?}", sim.prompts[2].messages).contains("too risky"));
    assert_eq!(sim.run("run_1").counters.tool_errors, 0, "a no is no error of the tool");
    assert_eq!(sim.contents(ObservationType::RunFinished)[0]["resultStatus"], "success");
}

#[test]
fn a_refused_required_tool_is_not_enforced_and_the_item_fails_with_the_code_and_the_reason_of_the_refusal() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &["denied", "gated"])]),
        "a.1" => calls(&[("gated", json!({})), ("denied", json!({}))]),
        "synthesis" => says("done"),
        _ => says("I could not"),
    });
    sim.ask("go").unwrap();
    sim.go();
    sim.answer(0, |answer| {
        answer.approved = Some(false);
        answer.reason = Some("Write a ticket instead.".into());
    })
    .unwrap();
    sim.go();
    let why = "denied was not carried out: denied; gated was not carried out: Write a ticket instead.";
    let item = sim.item("a");
    assert_eq!((&item["status"], &item["reason"]), (&json!("failed"), &json!(format!("denied: {why}"))));
    let failures = sim.run("run_1").outcome.unwrap().errors;
    let of_item: Vec<(&str, &str)> =
        failures.iter().map(|failure| (failure.code.as_str(), failure.message.as_str())).collect();
    assert_eq!(of_item, [("denied", why)]);
    assert_eq!(sim.prompts.len(), 4, "planning, the call, what came of it, synthesis: no enforcement");
}

#[test]
fn the_answer_to_a_question_is_the_tools_result() {
    let mut sim = Sim::new(one_item(&[("form", "1")]));
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.contents(ObservationType::AgentSuspended)[0]["kind"], "input");
    let refused = sim.answer(0, |answer| answer.value = Some(json!(1))).unwrap_err();
    assert_eq!(refused.errors[0].pointer, "/value");
    assert_eq!(sim.answer(0, |_| ()).unwrap_err().code.as_str(), "invalid");
    sim.answer(0, |answer| answer.value = Some(json!("blue"))).unwrap();
    sim.go();
    assert_eq!(sim.contents(ObservationType::ToolExecution)[0]["output"], "blue");
    assert!(ran(&sim).is_empty());
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}

#[test]
fn several_questions_are_open_at_once_and_answered_in_any_order() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[])]),
        "a.1" => calls(&[("gated", json!({ "x": "a1" })), ("gated", json!({ "x": "a2" }))]),
        "b.1" => calls(&[("form", json!({}))]),
        _ => says("fine"),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.suspensions().len(), 3, "while one item waits, another runs");
    sim.answer(2, |answer| answer.value = Some(json!("x"))).unwrap();
    assert_eq!(sim.item("b")["status"], "in_progress");
    sim.answer(1, |answer| answer.approved = Some(true)).unwrap();
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Suspended);
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    sim.go();
    assert_eq!(ran(&sim), ["gated:a2", "gated:a1"]);
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}

#[test]
fn a_suspension_is_resolved_exactly_once() {
    let mut sim = Sim::new(one_item(&[("gated", "1")]));
    sim.ask("go").unwrap();
    sim.go();
    let id = sim.suspensions()[0].suspension_id.clone();
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    let again = pes_engine::domain::hitl::Answer {
        suspension_id: id,
        digest: None,
        approved: Some(true),
        value: None,
        modified_args: None,
        reason: None,
        action: None,
    };
    let refused = sim
        .apply(Event::Person(PersonEvent::Resumed { answer: Box::new(again), by: "bob".into(), said: None }))
        .unwrap_err();
    assert_eq!(refused.code.as_str(), "not_found");
    sim.go();
    assert_eq!(ran(&sim), ["gated:1"]);
}

#[test]
fn a_message_while_suspended_is_queued_and_never_runs_the_step_unapproved() {
    let mut sim = Sim::new(one_item(&[("gated", "1")]));
    sim.ask("go").unwrap();
    sim.go();
    sim.ask("and this?").unwrap();
    sim.go();
    assert!(ran(&sim).is_empty());
    assert_eq!(sim.run("run_1").status, RunStatus::Suspended);
    assert_eq!(sim.run("run_2").status, RunStatus::Queued);
    assert_eq!(sim.suspensions().len(), 1, "it can still be answered");
}

#[test]
fn an_answer_by_someone_without_the_lease_leaves_the_call_ready() {
    let mut sim = Sim::new(one_item(&[("gated", "1")]));
    sim.ask("go").unwrap();
    sim.go();
    sim.holds = false;
    let step = sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    assert!(sim.in_flight.is_empty() && step.wake_at == Some(sim.now));
    assert_eq!(sim.run("run_1").status, RunStatus::Running);
    sim.go();
    assert_eq!(ran(&sim), ["gated:1"]);
}

#[test]
fn pause_lets_what_runs_end_and_starts_nothing_new() {
    let mut sim = Sim::new(one_item(&[("write", "1"), ("write", "2")]));
    sim.ask("go").unwrap();
    sim.step();
    sim.step();
    sim.apply(Event::Person(PersonEvent::PauseAsked { by: "ann".into() })).unwrap();
    assert_eq!(sim.run("run_1").status, RunStatus::Running, "a call still runs");
    sim.go();
    assert_eq!(ran(&sim), ["write:1"]);
    assert_eq!(sim.run("run_1").status, RunStatus::Suspended);
    assert!(!sim.is_active());
    assert!(sim.apply(Event::Person(PersonEvent::PauseAsked { by: "ann".into() })).unwrap().is_noop);
    sim.reload();
    sim.answer(0, |_| ()).unwrap();
    sim.go();
    assert_eq!(sim.contents(ObservationType::AgentResumed)[0]["decision"], "resumed");
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}

#[test]
fn a_run_that_ends_while_it_is_paused_leaves_no_question_behind() {
    let mut sim = Sim::new(|_| says(r#"{"answer":"yes","todoList":[]}"#));
    sim.ask("go").unwrap();
    sim.apply(Event::Person(PersonEvent::PauseAsked { by: "ann".into() })).unwrap();
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
    assert!(sim.suspensions().is_empty());
    assert_eq!(sim.records.last().unwrap().kind(), ObservationType::RunFinished);
    assert_eq!(
        sim.apply(Event::Person(PersonEvent::PauseAsked { by: "ann".into() })).unwrap_err().code.as_str(),
        "nothing_to_pause"
    );
}

pub fn expiring(policy: ExpiryPolicy) -> (Sim, i64) {
    let execution =
        ExecutionConfig { suspension_timeout_ms: Some(5000), suspension_expiry: policy, ..ExecutionConfig::default() };
    let mut sim = Sim::new(one_item(&[("gated", "1")]));
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
    sim.go();
    let at = sim.steps.last().unwrap().wake_at.unwrap();
    assert!(sim.wake().unwrap().is_noop, "not yet");
    sim.now = at;
    (sim, at)
}

#[test]
fn an_expired_question_is_denied() {
    let (mut sim, _) = expiring(ExpiryPolicy::Deny);
    let late = sim.answer(0, |answer| answer.approved = Some(true)).unwrap_err();
    assert_eq!(late.code.as_str(), "expired");
    sim.wake().unwrap();
    sim.go();
    assert_eq!(sim.contents(ObservationType::SuspensionTimeout)[0]["policy"], "deny");
    assert!(ran(&sim).is_empty());
    assert_eq!(sim.item("a")["status"], "completed");
}

#[test]
fn an_expired_question_fails_its_item() {
    let (mut sim, _) = expiring(ExpiryPolicy::Fail);
    sim.wake().unwrap();
    sim.go();
    assert!(sim.item("a")["reason"].as_str().unwrap().starts_with("suspension_timed_out"));
    assert_eq!(sim.contents(ObservationType::RunFinished)[0]["resultStatus"], "partial");
}

#[test]
fn an_expired_question_is_asked_again() {
    let (mut sim, at) = expiring(ExpiryPolicy::Remind);
    sim.wake().unwrap();
    assert!(sim.suspensions()[0].expires_at.unwrap() >= at + 5000);
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    sim.go();
    assert_eq!(ran(&sim), ["gated:1"]);
}

/// A call that was running when the process died.
fn in_doubt() -> Sim {
    in_doubt_of(None)
}

fn in_doubt_of(risk: Option<RiskLevel>) -> Sim {
    let mut sim = Sim::new(one_item(&[("write", "1"), ("read", "2")]));
    sim.tools.risk = risk;
    sim.ask("go").unwrap();
    sim.step();
    sim.step();
    sim.crash();
    sim
}

#[test]
fn a_question_about_a_call_in_doubt_says_how_grave_it_is() {
    for risk in [None, Some(RiskLevel::High)] {
        assert_eq!(in_doubt_of(risk).suspensions()[0].risk_level, risk);
    }
}

#[test]
fn a_call_in_doubt_is_retried_only_when_a_person_says_so() {
    let mut sim = in_doubt();
    assert_eq!(sim.suspensions()[0].kind, pes_engine::domain::hitl::SuspensionKind::InDoubt);
    sim.go();
    assert_eq!(ran(&sim), ["read:2"], "the others run meanwhile");
    sim.answer(0, |answer| answer.action = Some(InDoubtAction::Retry)).unwrap();
    sim.go();
    assert_eq!(ran(&sim), ["read:2", "write:1"]);
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}

#[test]
fn a_call_in_doubt_is_done_with_a_value_skipped_or_aborted() {
    for (action, status, item) in [
        (InDoubtAction::Done, "success", "completed"),
        (InDoubtAction::Skip, "error", "completed"),
        (InDoubtAction::Abort, "error", "failed"),
    ] {
        let mut sim = in_doubt();
        sim.go();
        sim.answer(0, |answer| {
            answer.action = Some(action);
            answer.value = Some(json!("done by hand"));
            answer.reason = Some("it is late".to_owned());
        })
        .unwrap();
        sim.go();
        let results = sim.contents(ObservationType::ToolExecution);
        let write = results.iter().find(|result| result["toolName"] == "write").unwrap();
        assert_eq!(write["status"], status);
        if action == InDoubtAction::Skip {
            let message = "whether it had its effect is not known, and a person skipped it: it is late";
            assert_eq!(write["error"], json!({ "code": "unknown", "message": message }), "it may have arrived");
        }
        assert_eq!(sim.item("a")["status"], item);
        assert_eq!(ran(&sim), ["read:2"]);
        assert!(sim.is_idle());
    }
}

/// Continues until tools run; returns how many.
fn running_tools(sim: &mut Sim) -> usize {
    while !matches!(sim.in_flight.first(), Some(Effect::CallTool { .. })) {
        assert!(sim.step(), "no tool runs");
    }
    sim.in_flight.len()
}

#[test]
fn calls_that_only_read_run_together_unless_told_otherwise_and_others_in_order() {
    let execution = |parallel_reads| ExecutionConfig { parallel_reads, ..ExecutionConfig::default() };
    let table: [(&'static [_], _, _); 3] = [
        (&[("read", "1"), ("read", "2"), ("denied", "3"), ("read", "4")], true, 3),
        (&[("read", "1"), ("read", "2")], false, 1),
        (&[("read", "1"), ("write", "2"), ("read", "3")], true, 1),
    ];
    for (batch, parallel_reads, together) in table {
        let mut sim = Sim::new(one_item(batch));
        let settings = RunSettings { execution: execution(parallel_reads), ..RunSettings::default() };
        sim.ask_with("go", OnBusy::Enqueue, settings).unwrap();
        assert_eq!(running_tools(&mut sim), together, "{batch:?}");
        // The last call ends first; the model still gets the results in the order of its calls.
        while let Some(last @ Effect::CallTool { .. }) = sim.in_flight.last().cloned() {
            sim.perform(&last);
        }
        sim.go();
        let seen = format!("{:?}", sim.prompts[2].messages);
        let places: Vec<_> = batch.iter().enumerate().map(|(at, _)| seen.find(&format!("p{at}")).unwrap()).collect();
        assert!(places.is_sorted(), "{seen}");
    }
}

#[test]
fn after_a_crash_every_read_that_ran_with_others_is_settled_for_itself() {
    let mut sim = Sim::new(one_item(&[("read", "1"), ("read", "2"), ("read", "3")]));
    sim.ask("go").unwrap();
    running_tools(&mut sim);
    let first = sim.in_flight[0].clone();
    sim.perform(&first);
    sim.crash();
    assert_eq!(sim.in_flight.len(), 2, "declared idempotent: both run again, the one that ended does not");
    sim.go();
    assert_eq!(sim.started.values().copied().collect::<std::collections::BTreeSet<_>>(), [1, 2].into());
    assert_eq!(sim.contents(ObservationType::ToolExecution).len(), 3);
}
