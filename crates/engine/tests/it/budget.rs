//! Budgets are reserved before a call and settled after it, and a run without budget stops or asks.

use pes_engine::Prompt;
use pes_engine::domain::hitl::SuspensionKind;
use pes_engine::domain::model::{ModelFailure, ModelReply, ModelRequest, Usage};
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::{OnBusy, RunStatus};
use pes_engine::domain::settings::{Budget, ExecutionConfig, OnBudget, RunSettings};
use pes_engine::domain::usage::Price;
use pes_engine::effect::Effect;
use serde_json::json;

use super::sim::*;

fn three_items(request: &ModelRequest) -> Result<ModelReply, ModelFailure> {
    let usage = Usage { input_tokens: 1_000, output_tokens: 500, ..Usage::default() };
    let reply = match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[]), ("c", &[], &[])]),
        "synthesis" => says("all done"),
        other => says(format!("result of {other}")),
    };
    reply.map(|reply| ModelReply { usage, ..reply })
}

fn settings(budget: Budget, change: impl FnOnce(&mut ExecutionConfig)) -> RunSettings {
    let mut settings = RunSettings { budget: Some(budget), ..RunSettings::default() };
    change(&mut settings.execution);
    settings
}

fn asked(budget: Budget, change: impl FnOnce(&mut ExecutionConfig)) -> Sim {
    let mut sim = Sim::new(three_items);
    sim.ask_with("go", OnBusy::Enqueue, settings(budget, change)).unwrap();
    sim
}

fn is_over_budget(sim: &Sim) {
    let run = sim.run("run_1");
    let code = run.outcome.unwrap().error.unwrap().code.as_str();
    assert_eq!((run.status, code), (RunStatus::Completed, "budget_exceeded"));
    assert_eq!(sim.contents(ObservationType::RunFinished)[0]["resultStatus"], "partial");
}

#[test]
fn when_the_calls_are_used_up_the_run_is_partial_and_says_what_was_done() {
    let mut sim = asked(Budget { max_llm_calls: Some(3), ..Budget::default() }, |_| ());
    sim.go();
    assert_eq!(sim.prompts.len(), 3);
    is_over_budget(&sim);
    assert_eq!((&sim.item("a")["status"], &sim.item("c")["status"]), (&json!("completed"), &json!("cancelled")));
    let answer = sim.contents(ObservationType::FinalResponse)[0]["message"]["content"].clone();
    for told in ["do a: completed — result of a.1", "do c: cancelled (the run's budget is spent)"] {
        assert!(answer.as_str().unwrap().contains(told), "{answer}");
    }
}

#[test]
fn calls_side_by_side_are_counted_together() {
    let budget = Budget { max_llm_calls: Some(3), ..Budget::default() };
    let mut sim = asked(budget, |execution| execution.max_parallel_items = 3);
    sim.step();
    assert_eq!(sim.in_flight.len(), 2, "one call for the plan, two for items");
    sim.go();
    assert_eq!(sim.prompts.len(), 3);
    is_over_budget(&sim);
}

#[test]
fn a_call_that_could_take_more_than_is_left_is_not_made() {
    let mut sim = asked(Budget { max_tokens: Some(500), ..Budget::default() }, |_| ());
    sim.go();
    assert_eq!(sim.prompts.len(), 0);
    is_over_budget(&sim);
}

#[test]
fn a_reply_may_be_no_longer_than_what_is_left_and_what_it_did_not_take_is_free_again() {
    let budget = Budget { max_tokens: Some(7_000), ..Budget::default() };
    let mut sim = asked(budget, |execution| execution.max_parallel_items = 3);
    sim.step();
    let cap = |effect: &Effect| match sim.prompt(effect) {
        Prompt::Call(request) => request.params["maxTokens"].as_u64().unwrap(),
        Prompt::Overflows(extent) => panic!("{extent:?} does not fit"),
    };
    let caps: Vec<u64> = sim.in_flight.iter().map(cap).collect();
    assert_eq!(caps.len(), 1, "the first reserves nearly all of it: the others wait");
    assert!(caps[0] <= 5_500 - 1_500, "{caps:?}");
    sim.go();
    let used = sim.run("run_1").counters.usage;
    assert!(used.input_tokens + used.output_tokens <= 7_000);
    assert_eq!(sim.prompts.len(), 4, "they were made one after the other, as far as it went");
    is_over_budget(&sim);
}

#[test]
fn money_is_kept_as_tokens_are() {
    let mut sim = Sim::new(three_items);
    sim.book.price = Some(Price { input_per_million: 1.0, output_per_million: 2.0, ..Price::default() });
    // A call costs 2,000 micro-dollars; after these two no other is started.
    let budget = Budget { max_cost_usd: Some(0.006), ..Budget::default() };
    sim.ask_with("go", OnBusy::Enqueue, settings(budget, |_| ())).unwrap();
    sim.go();
    is_over_budget(&sim);
    let finished = &sim.contents(ObservationType::RunFinished)[0];
    assert!(finished["costUsd"].as_f64().unwrap() <= 0.006, "{finished}");
    assert!(sim.prompts.len() >= 2);
}

#[test]
fn at_the_deadline_what_runs_is_stopped_first() {
    let mut sim = asked(Budget { deadline_ms: Some(5_000), ..Budget::default() }, |_| ());
    sim.now = sim.steps[0].wake_at.unwrap();
    let step = sim.wake().unwrap();
    assert!(step.is_cancelling && !sim.is_idle(), "the holder stops its effects, then says so");
    sim.stop_effects().unwrap();
    assert!(sim.is_idle() && sim.in_flight.is_empty());
    is_over_budget(&sim);
}

#[test]
fn a_crash_in_between_changes_nothing_about_that() {
    let mut sim = asked(Budget { deadline_ms: Some(5_000), ..Budget::default() }, |_| ());
    sim.now = sim.steps[0].wake_at.unwrap();
    sim.wake().unwrap();
    sim.crash();
    assert!(sim.is_idle() && sim.in_flight.is_empty());
    is_over_budget(&sim);
}

#[test]
fn the_deadline_ends_a_run_that_waits_for_a_person() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &["gated"])]),
        _ => calls(&[("gated", json!({ "x": "1" }))]),
    });
    let budget = Budget { deadline_ms: Some(5_000), ..Budget::default() };
    sim.ask_with("go", OnBusy::Enqueue, settings(budget, |_| ())).unwrap();
    sim.go();
    assert_eq!((sim.suspensions().len(), sim.is_active()), (1, false));
    sim.now = sim.steps.last().unwrap().wake_at.unwrap();
    sim.wake().unwrap();
    is_over_budget(&sim);
    assert_eq!(sim.suspensions(), []);
}

fn asking(budget: Budget) -> Sim {
    let mut sim = asked(budget, |execution| execution.on_budget = OnBudget::Ask);
    sim.go();
    let open = sim.suspensions();
    assert_eq!((open.len(), open[0].kind, sim.is_active()), (1, SuspensionKind::Budget, false));
    sim
}

/// Whoever is to extend it reads how much there was, how much is left, and how much the next call needs.
#[test]
fn the_question_about_a_spent_budget_has_its_figures() {
    let message = |budget: Budget| asking(budget).suspensions().remove(0).message;
    let calls = message(Budget { max_llm_calls: Some(2), ..Budget::default() });
    assert_eq!(calls, "The run's budget is spent: its model calls are used up (2 of 2).");
    // The plan took 1,500 tokens, which is the estimate of the next prompt; no reply is shorter than 256.
    let tokens = message(Budget { max_tokens: Some(3_000), ..Budget::default() });
    assert_eq!(
        tokens,
        "The run's budget is spent: the next model call needs at least 1756 tokens, and 1500 of 3000 are left."
    );
    let mut sim = Sim::new(three_items);
    sim.book.price = Some(Price { input_per_million: 1.0, output_per_million: 2.0, ..Price::default() });
    let budget = Budget { max_cost_usd: Some(0.003), ..Budget::default() };
    sim.ask_with("go", OnBusy::Enqueue, settings(budget, |execution| execution.on_budget = OnBudget::Ask)).unwrap();
    sim.go();
    assert_eq!(
        sim.suspensions()[0].message,
        "The run's budget is spent: the next model call costs at least $0.002012, and $0.001 of $0.003 are left."
    );
}

#[test]
fn a_person_may_extend_the_budget() {
    let mut sim = asking(Budget { max_llm_calls: Some(2), ..Budget::default() });
    assert!(sim.answer(0, |_| ()).is_err(), "yes or no is needed");
    sim.answer(0, |answer| (answer.approved, answer.value) = (Some(true), Some(json!({ "maxLlmCalls": 3 })))).unwrap();
    sim.go();
    assert_eq!((sim.prompts.len(), sim.run("run_1").status), (5, RunStatus::Completed));
    assert_eq!(sim.contents(ObservationType::RunFinished)[0]["resultStatus"], "success");
}

/// A value alone is a yes. The form asks for whole numbers where only these are taken.
#[test]
fn an_amount_that_does_not_fit_is_pointed_at() {
    let mut sim = asking(Budget { max_llm_calls: Some(2), ..Budget::default() });
    let form = sim.suspensions()[0].feedback_schema.custom_schema.clone().unwrap();
    let kinds = ["maxTokens", "maxCostUsd", "maxLlmCalls", "deadlineMs"].map(|name| &form["properties"][name]["type"]);
    assert_eq!(kinds, ["integer", "number", "integer", "integer"]);
    let wrong = [
        (json!({ "maxTokens": 5, "maxLlmCalls": 1.5 }), "/value/maxLlmCalls", "a whole number above 0 is needed"),
        (json!({ "deadlineMs": "x" }), "/value/deadlineMs", "a whole number above 0 is needed"),
        (json!({ "maxCostUsd": "x" }), "/value/maxCostUsd", "a number above 0 is needed"),
        (json!({ "maxTokens": 0 }), "/value/maxTokens", "must be above 0"),
        (json!({ "a/b": 9 }), "/value/a~1b", "a budget has no such member"),
        (json!([9]), "/value", "an object such as {\"maxTokens\": 10000} is needed"),
    ];
    for (value, place, why) in wrong {
        let fault = sim.answer(0, |answer| answer.value = Some(value)).unwrap_err();
        assert_eq!((fault.errors[0].pointer.as_str(), fault.errors[0].detail.as_str()), (place, why));
    }
    sim.answer(0, |answer| answer.value = Some(json!({ "maxLlmCalls": 3 }))).unwrap();
    sim.go();
    assert_eq!((sim.prompts.len(), sim.run("run_1").status), (5, RunStatus::Completed));
}

#[test]
fn a_bare_yes_adds_as_much_again_and_then_it_is_asked_again() {
    let mut sim = asking(Budget { max_llm_calls: Some(2), ..Budget::default() });
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    sim.go();
    assert_eq!((sim.prompts.len(), sim.suspensions().len()), (4, 1));
    sim.answer(0, |answer| answer.approved = Some(false)).unwrap();
    is_over_budget(&sim);
}

#[test]
fn a_deadline_that_is_extended_counts_from_the_answer() {
    let mut sim = asked(Budget { deadline_ms: Some(5_000), ..Budget::default() }, |execution| {
        execution.on_budget = OnBudget::Ask;
    });
    sim.now = sim.steps[0].wake_at.unwrap();
    sim.wake().unwrap();
    assert!(matches!(sim.in_flight[..], [Effect::CallModel { .. }]), "what runs goes on meanwhile");
    assert_eq!(sim.suspensions()[0].kind, SuspensionKind::Budget);
    sim.go();
    sim.now += 3_600_000;
    sim.answer(0, |answer| (answer.approved, answer.value) = (Some(true), Some(json!({ "deadlineMs": 60_000 }))))
        .unwrap();
    assert_eq!(sim.steps.last().unwrap().wake_at, Some(sim.now + 60_000));
    sim.go();
    assert_eq!(sim.contents(ObservationType::RunFinished)[0]["resultStatus"], "success");
}

#[test]
fn a_later_yes_takes_no_time_away() {
    let mut sim = asking(Budget { max_llm_calls: Some(2), deadline_ms: Some(5_000), ..Budget::default() });
    let hour = json!({ "maxLlmCalls": 1, "deadlineMs": 3_600_000 });
    sim.answer(0, |answer| (answer.approved, answer.value) = (Some(true), Some(hour))).unwrap();
    let until = sim.now + 3_600_000;
    assert_eq!(sim.steps.last().unwrap().wake_at, Some(until));
    sim.go();
    assert_eq!((sim.prompts.len(), sim.suspensions()[0].kind), (3, SuspensionKind::Budget));
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    assert_eq!(sim.steps.last().unwrap().wake_at, Some(until));
    sim.go();
    assert_eq!(sim.contents(ObservationType::RunFinished)[0]["resultStatus"], "success");
}

/// As an answer of nobody, it would end the run as completed.
#[test]
fn a_question_that_expires_during_a_cancel_changes_nothing_about_it() {
    let mut sim = asked(Budget { deadline_ms: Some(5_000), ..Budget::default() }, |execution| {
        execution.on_budget = OnBudget::Ask;
        execution.suspension_timeout_ms = Some(10_000);
    });
    sim.now = sim.steps[0].wake_at.unwrap();
    sim.wake().unwrap();
    let question = sim.suspensions().remove(0);
    assert_eq!((question.kind, sim.in_flight.len()), (SuspensionKind::Budget, 1));
    sim.cancel(None).unwrap();
    sim.now = question.expires_at.unwrap();
    assert!(sim.wake().unwrap().is_cancelling);
    sim.stop_effects().unwrap();
    assert_eq!(sim.run("run_1").status, RunStatus::Cancelled);
    assert!(sim.contents(ObservationType::SuspensionTimeout).is_empty());
}

#[test]
fn tokens_and_money_are_extended_by_what_the_answer_says() {
    let is_success = |mut sim: Sim, more: serde_json::Value| {
        sim.answer(0, |answer| answer.value = Some(more)).unwrap();
        sim.go();
        assert!(sim.suspensions().is_empty(), "{}", sim.suspensions()[0].message);
        assert_eq!(sim.contents(ObservationType::RunFinished)[0]["resultStatus"], "success");
    };
    is_success(asking(Budget { max_tokens: Some(3_000), ..Budget::default() }), json!({ "maxTokens": 50_000 }));
    let mut sim = Sim::new(three_items);
    sim.book.price = Some(Price { input_per_million: 1.0, output_per_million: 2.0, ..Price::default() });
    let budget = Budget { max_cost_usd: Some(0.003), ..Budget::default() };
    sim.ask_with("go", OnBusy::Enqueue, settings(budget, |execution| execution.on_budget = OnBudget::Ask)).unwrap();
    sim.go();
    is_success(sim, json!({ "maxCostUsd": 1 }));
}
