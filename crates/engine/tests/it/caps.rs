//! Spending caps: every step reports what the running calls may cost, and a call that exceeds a cap waits or ends its
//! run.

use pes_engine::domain::hitl::{Answer, InputType, SuspensionKind};
use pes_engine::domain::model::{FailureKind, ModelFailure, ModelReply, Usage};
use pes_engine::domain::run::{OnBusy, RunStatus};
use pes_engine::domain::settings::{Budget, ExecutionConfig, OnBudget, RunSettings};
use pes_engine::domain::usage::{CapSet, ModelUse, Price};
use pes_engine::event::{Event, ModelEvent, SystemEvent};
use pes_engine::step::{RowKind, Step};
use pes_engine::{Allowance, CapRoom, Prompt, Remaining};
use serde_json::json;

use super::sim::*;

const CAPS: CapSet = CapSet(5);
pub const RESERVE: Allowance = Allowance::Reserve(CAPS);

/// Under a cap, a run of three items at a dollar per million tokens; a call takes 1,500 tokens.
pub fn capped() -> Sim {
    let mut sim = Sim::new(|request| {
        let usage = Usage { input_tokens: 1_000, output_tokens: 500, ..Usage::default() };
        let reply = match which(request).as_str() {
            "planning" => plan(&[("a", &[], &[]), ("b", &[], &[]), ("c", &[], &[])]),
            other => says(format!("result of {other}")),
        };
        reply.map(|reply| ModelReply { usage, ..reply })
    });
    sim.book.price = Some(Price { input_per_million: 1.0, output_per_million: 1.0, ..Price::default() });
    sim.allowance = RESERVE;
    sim
}

pub fn ask(sim: &mut Sim, on_budget: OnBudget) -> Step {
    let execution = ExecutionConfig { max_parallel_items: 3, on_budget, ..ExecutionConfig::default() };
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap()
}

fn room(most: i64, again_at: Option<i64>) -> Allowance {
    let cost = Remaining { most, again_at, why: "the cap of the day is reached".to_owned() };
    Allowance::Room(CAPS, CapRoom { cost, tokens: Remaining::unbounded() })
}

/// The same for a cap in tokens.
fn tokens(most: i64, again_at: Option<i64>) -> Allowance {
    let tokens = Remaining { most, again_at, why: "the cap of tokens is reached".to_owned() };
    Allowance::Room(CAPS, CapRoom { cost: Remaining::unbounded(), tokens })
}

pub fn held(sim: &Sim) -> i64 {
    sim.machine.reservations().iter().map(|reserved| reserved.cost).sum()
}

fn woke(sim: &mut Sim) -> Step {
    sim.wake().unwrap()
}

#[test]
fn what_may_be_spent_is_told_as_long_as_the_call_runs() {
    let mut sim = capped();
    ask(&mut sim, OnBudget::Stop);
    let [reserved] = &sim.machine.reservations()[..] else { panic!("one call runs") };
    assert_eq!((reserved.at, reserved.stream.clone()), (sim.now, sim.stream().0));
    assert_eq!((reserved.caps, reserved.tokens * 1_000), (CAPS, reserved.cost), "a dollar per million tokens");
    // For a prompt with an estimated length, and a reply of 4,096 tokens.
    assert!((4_900_000..10_000_000).contains(&reserved.cost), "{reserved:?}");
    sim.reload();
    assert_eq!(held(&sim), sim.machine.reservations()[0].cost, "it is stored with the state");
    sim.step();
    assert_eq!(sim.machine.reservations().len(), 3, "each call has its own");
    sim.go();
    assert_eq!((sim.run("run_1").status, held(&sim)), (RunStatus::Completed, 0));
}

#[test]
fn without_a_cap_nothing_is_reserved() {
    let mut sim = capped();
    sim.allowance = Allowance::Uncapped;
    ask(&mut sim, OnBudget::Stop);
    assert_eq!((sim.in_flight.len(), held(&sim)), (1, 0));
}

#[test]
fn a_call_that_is_made_again_or_cancelled_gives_back_what_it_had() {
    let mut sim = capped();
    ask(&mut sim, OnBudget::Stop);
    let first = sim.machine.reservations();
    sim.crash();
    let second = sim.machine.reservations();
    assert_eq!((first.len(), second.len()), (1, 1), "the attempt that was lost holds nothing beside the next one");
    assert_ne!(first[0].stream, second[0].stream);
    sim.cancel(None).unwrap();
    assert_ne!(held(&sim), 0, "what still runs may still cost");
    sim.stop_effects().unwrap();
    assert_eq!(held(&sim), 0);
}

#[test]
fn a_call_for_which_others_left_no_room_waits_for_them() {
    let mut sim = capped();
    let again_at = sim.now + 1_000;
    sim.allowance = room(4_000_000, Some(again_at));
    let step = ask(&mut sim, OnBudget::Stop);
    assert_eq!((step.wake_at, held(&sim), sim.in_flight.len()), (Some(again_at), 0, 0));
    assert!(sim.is_active(), "it is not over");
    sim.allowance = RESERVE;
    woke(&mut sim);
    assert_eq!(sim.in_flight.len(), 1);
}

#[test]
fn of_calls_side_by_side_those_start_that_fit() {
    let mut sim = capped();
    ask(&mut sim, OnBudget::Stop);
    let one = held(&sim);
    sim.allowance = room(2 * one + one / 2, Some(sim.now + 1_000));
    sim.step();
    assert_eq!(sim.in_flight.len(), 2, "a third would pass what there is");
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Completed, "it started when one of them had ended");
}

#[test]
fn the_last_reply_is_as_short_as_what_is_left() {
    let mut sim = capped();
    sim.allowance = room(3_000_000, None);
    ask(&mut sim, OnBudget::Stop);
    assert!((2_900_000..=3_000_000).contains(&held(&sim)), "{}", held(&sim));
    let Prompt::Call(request) = sim.prompt(&sim.in_flight[0]) else { panic!("it fits") };
    assert!(request.params["maxTokens"].as_u64().unwrap() < 3_000, "{:?}", request.params);
}

#[test]
fn where_nothing_is_left_the_run_ends_as_its_settings_say() {
    let mut sim = capped();
    sim.allowance = room(1_000, None);
    ask(&mut sim, OnBudget::Stop);
    let error = sim.run("run_1").outcome.unwrap().error.unwrap();
    assert_eq!((error.code.as_str(), sim.prompts.len()), ("budget_exceeded", 0));
    assert!(error.message.contains("the cap of the day is reached"), "{}", error.message);

    let mut sim = capped();
    sim.allowance = room(1_000, None);
    ask(&mut sim, OnBudget::Ask);
    let first = sim.suspensions().remove(0);
    let form = &first.feedback_schema;
    assert_eq!((first.kind, form.input_type, &form.custom_schema), (SuspensionKind::Budget, InputType::Confirm, &None));
    assert_eq!(first.message, "The run cannot go on: the cap of the day is reached.");
    let extends = |answer: &mut Answer| {
        (answer.approved, answer.value) = (Some(true), Some(json!({ "maxCostUsd": 1.0 })));
    };
    assert_eq!(sim.answer(0, extends).unwrap_err().errors[0].pointer, "/value");
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    assert_eq!(sim.suspensions().len(), 1, "it is still full");
    assert_ne!(sim.suspensions()[0].suspension_id, first.suspension_id);
    sim.allowance = RESERVE;
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Completed, "there is room again");
}

#[test]
fn a_yes_at_a_cap_adds_nothing_to_a_budget_that_is_not_spent() {
    let mut sim = capped();
    sim.allowance = room(1_000, None);
    let execution = ExecutionConfig { on_budget: OnBudget::Ask, ..ExecutionConfig::default() };
    let budget = Some(Budget { max_llm_calls: Some(3), ..Budget::default() });
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, budget, ..RunSettings::default() }).unwrap();
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    sim.allowance = RESERVE;
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    sim.go();
    assert_eq!((sim.prompts.len(), sim.suspensions()[0].feedback_schema.input_type), (3, InputType::Custom));
    assert_eq!(sim.suspensions()[0].message, "The run's budget is spent: its model calls are used up (3 of 3).");
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    sim.go();
    assert_eq!((sim.prompts.len(), sim.run("run_1").status), (5, RunStatus::Completed), "a yes to that adds three");
}

#[test]
fn tokens_are_kept_to_as_money_is() {
    let mut sim = capped();
    // No price, so that nothing else bounds it.
    sim.book.price = None;
    let again_at = sim.now + 1_000;
    sim.allowance = tokens(4_000, Some(again_at));
    let step = ask(&mut sim, OnBudget::Stop);
    assert_eq!((step.wake_at, sim.in_flight.len()), (Some(again_at), 0), "others may leave more");
    sim.allowance = tokens(3_000, None);
    woke(&mut sim);
    let reserved = sim.machine.reservations().remove(0);
    assert_eq!((reserved.tokens, reserved.cost), (3_000, 0), "its reply may be as long as what is left");
    let Prompt::Call(request) = sim.prompt(&sim.in_flight[0]) else { panic!("it fits") };
    assert!(request.params["maxTokens"].as_u64().unwrap() < 3_000, "{:?}", request.params);

    let mut sim = capped();
    sim.allowance = tokens(1_000, None);
    ask(&mut sim, OnBudget::Stop);
    let error = sim.run("run_1").outcome.unwrap().error.unwrap();
    assert!(error.message.contains("the cap of tokens is reached"), "{}", error.message);
    assert_eq!(sim.prompts.len(), 0);
}

/// A sum that overflows would reserve nothing or a negative amount, and caps would not hold.
#[test]
fn a_reply_of_any_length_is_reserved_for_whatever_was_asked_for() {
    for asked in [10_u64.pow(16), u64::MAX] {
        let mut sim = capped();
        let llm_params = json!({ "maxTokens": asked }).as_object().unwrap().clone();
        sim.ask_with("go", OnBusy::Enqueue, RunSettings { llm_params, ..RunSettings::default() }).unwrap();
        let reserved = sim.machine.reservations().remove(0);
        assert!(reserved.tokens > 10_000_000, "{reserved:?}");
        assert_eq!(reserved.cost, reserved.tokens * 1_000, "a dollar per million tokens");
        let Prompt::Call(request) = sim.prompt(&sim.in_flight[0]) else { panic!("it fits") };
        assert_eq!(request.params["maxTokens"], 10_000_000, "no more than that is asked for");
    }
}

/// Providers count thinking as a part of the reply, so it is reserved with it, and all of that is asked for.
#[test]
fn thinking_is_reserved_with_the_reply() {
    let reserved = |params: serde_json::Value, window: Option<u64>, max_output: Option<u64>| {
        let mut sim = capped();
        (sim.book.window, sim.book.max_output) = (window, max_output);
        let llm_params = params.as_object().unwrap().clone();
        sim.ask_with("go", OnBusy::Enqueue, RunSettings { llm_params, ..RunSettings::default() }).unwrap();
        let Prompt::Call(request) = sim.prompt(&sim.in_flight[0]) else { panic!("it fits") };
        (sim.machine.reservations()[0].tokens, request.params["maxTokens"].as_i64().unwrap())
    };
    let (plain, _) = reserved(json!({}), None, None);
    let most = || json!({ "reasoningEffort": "xhigh" });
    let table = [
        (json!({}), None, None, 4_096),
        (json!({ "reasoningEffort": "none" }), None, None, 4_096),
        (json!({ "reasoningEffort": "high" }), None, None, 24_576),
        (most(), None, None, 32_000),
        (json!({ "reasoningEffort": "high", "maxTokens": 5_000 }), None, None, 5_000),
        // The prompt may fill three quarters of the window.
        (most(), Some(128_000), None, 32_000),
        (most(), Some(40_960), None, 10_240),
        (json!({ "reasoningEffort": "low" }), Some(40_960), None, 8_192),
        (most(), Some(16_384), None, 4_096),
        (most(), Some(8_192), None, 4_096),
        // Providers refuse a longer reply than the model can write.
        (most(), Some(128_000), Some(8_192), 8_192),
        (most(), None, Some(4_000), 4_096),
        (json!({ "reasoningEffort": "xhigh", "maxTokens": 20_000 }), Some(40_960), Some(8_192), 20_000),
    ];
    for (params, window, max_output, length) in table {
        let asked = reserved(params.clone(), window, max_output);
        assert_eq!(asked, (plain - 4_096 + length, length), "{params} {window:?} {max_output:?}");
    }
}

/// An answer has its own parameters, and they are reserved for.
#[test]
fn what_the_answer_is_asked_for_is_reserved() {
    let mut sim = capped();
    let synthesis_params = json!({ "maxTokens": 6_000 }).as_object().unwrap().clone();
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { synthesis_params, ..RunSettings::default() }).unwrap();
    sim.go();
    let lengths: Vec<_> = sim.prompts.iter().map(|prompt| prompt.params["maxTokens"].clone()).collect();
    assert_eq!(lengths, [4_096, 4_096, 4_096, 4_096, 6_000]);
}

/// The known usage of a failed attempt counts for the run, in a row of its own; the next attempt has another row.
#[test]
fn an_attempt_that_failed_after_it_began_to_be_answered_counts_what_it_took() {
    let mut failures = 0;
    let mut sim = Sim::new(move |_| {
        failures += 1;
        match failures {
            1 => {
                fails(FailureKind::Incomplete).map_err(|failure| ModelFailure { usage: Some(used(700, 30)), ..failure })
            }
            2 => fails(FailureKind::Retry),
            _ => says(r#"{"answer":"yes","todoList":[]}"#).map(|reply| ModelReply { usage: used(1_000, 500), ..reply }),
        }
    });
    sim.book.price = Some(Price { input_per_million: 1.0, output_per_million: 2.0, ..Price::default() });
    sim.allowance = RESERVE;
    ask(&mut sim, OnBudget::Stop);
    sim.go();
    let run = sim.run("run_1");
    assert_eq!((run.counters.usage.input_tokens, run.counters.usage.output_tokens), (1_700, 530));
    assert_eq!(run.counters.cost_nanos, Some(760_000 + 2_000_000));
    assert_eq!(run.counters.llm_calls, 3);
    assert_eq!(held(&sim), 0);
}

/// What was written of the usage of each call, by its stream.
pub fn counted(sim: &Sim) -> Vec<(String, ModelUse)> {
    let rows = sim.rows().filter(|row| row.kind == RowKind::Usage);
    rows.map(|row| (row.id.clone(), serde_json::from_str(&row.body).unwrap())).collect()
}

/// How the process of a call ends.
#[derive(Debug)]
enum End {
    Crash,
    /// After it the thread is quarantined.
    LastCrash,
    /// It does not end, but its call could not be stopped in time.
    Detached,
}

/// Nobody will say what it used, or whether it was sent.
#[test]
fn a_call_whose_process_died_counts_what_it_had_reserved() {
    for (is_cancelled, end, is_over) in [
        (false, End::Crash, false),
        (true, End::Crash, true),
        (true, End::Detached, true),
        (false, End::LastCrash, true),
    ] {
        let mut sim = capped();
        ask(&mut sim, OnBudget::Stop);
        let reserved = sim.machine.reservations().remove(0);
        if is_cancelled {
            sim.cancel(None).unwrap();
        }
        match end {
            End::Crash => drop(sim.crash()),
            End::LastCrash => {
                sim.epoch += 1;
                sim.apply(Event::System(SystemEvent::Quarantined { crashes: 3 })).unwrap();
            }
            End::Detached => drop(sim.stop_effects().unwrap()),
        }
        let took = counted(&sim);
        let [(stream, took)] = &took[..] else { panic!("{took:?}") };
        assert_eq!(*stream, reserved.stream.as_str());
        let total = took.usage.input_tokens + took.usage.output_tokens;
        assert_eq!((i64::try_from(total), took.usage.output_tokens), (Ok(reserved.tokens), 4_096));
        assert_eq!(took.cost_nanos, Some(reserved.cost));
        assert_eq!(sim.is_idle(), is_over, "{end:?}");
        sim.go();
        let counters = sim.run("run_1").counters;
        let later = if is_over { 0 } else { 5 };
        assert_eq!((counters.llm_calls, held(&sim)), (1 + later, 0), "the other calls count besides");
        assert_eq!(counters.usage.output_tokens, 4_096 + 500 * u64::from(later));
    }
}

/// A call that a stopping process interrupts is made again at once, and counts no failure of its model.
#[test]
fn a_call_that_its_process_interrupted_is_made_again_at_once() {
    let mut sim = capped();
    ask(&mut sim, OnBudget::Stop);
    for (usage, calls) in [(None, 0), (Some(used(700, 30)), 1), (Some(used(700, 30)), 2)] {
        let (stream, attempt) = sim.stream();
        let failure = ModelFailure { usage, ..ModelFailure::new(FailureKind::Interrupted, "the process stops") };
        sim.holds = false;
        let step = sim.apply(Event::Model(ModelEvent::Failed { stream, attempt, failure })).unwrap();
        assert_eq!((step.wake_at, held(&sim)), (Some(sim.now), 0), "the next process makes it");
        woke_by_next(&mut sim);
        let counters = sim.machine.run().unwrap().counters.clone();
        assert_eq!((counters.llm_calls, counters.usage.output_tokens), (calls, 30 * u64::from(calls)));
    }
    sim.go();
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}

/// Another process takes the thread over: nothing of it is lost.
fn woke_by_next(sim: &mut Sim) {
    (sim.holds, sim.epoch) = (true, sim.epoch + 1);
    let step = woke(sim);
    assert_eq!((step.wake_at, sim.in_flight.len()), (None, 1), "at once");
}

fn used(input_tokens: u64, output_tokens: u64) -> Usage {
    Usage { input_tokens, output_tokens, ..Usage::default() }
}
