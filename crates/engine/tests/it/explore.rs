//! More random runs than those of `random`, whose events these add to: people retry and skip items, cancel tasks and
//! single runs, write the state and go back; there are budgets, agents without a plan, failing tools, and runs that
//! wait for admission. A thread that is loaded anew after every event is as it was in memory, and decides the same.
//!
//! The events of a seed are its own: they change no recorded digest.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pes_engine::RunAdmission;
use pes_engine::domain::fault::{Code, Fault};
use pes_engine::domain::hitl::Suspension;
use pes_engine::domain::ids::{CallId, ItemId};
use pes_engine::domain::observation::{ObservationType, Record};
use pes_engine::domain::run::{Counters, OnBusy, Run};
use pes_engine::domain::settings::{Budget, OnBudget, RunSettings};
use pes_engine::domain::tool::{CallRecord, CallStatus};
use pes_engine::effect::Effect;
use pes_engine::event::{Event, PersonEvent, SystemEvent, ToolEvent};
use pes_engine::pes::Pes;
use pes_engine::step::{Keep, RowKind, Step};
use serde_json::json;

use super::cases::is_all;
use super::digests::bytes;
use super::log::check_log;
use super::random::{self, Choices, check_tasks, drain, model};
use super::sim::*;

/// By default, and with `scripts/test --all`.
const SEEDS: u64 = 40;
const ALL: u64 = 1_000;
/// Fewer random bytes than this decide what happens.
const MOST_BYTES: u64 = 240;

fn settings(choices: &mut Choices) -> RunSettings {
    let mut settings = random::settings(choices);
    settings.execution.max_iterations = 1 + choices.pick(5) as u32;
    settings.execution.on_budget = [OnBudget::Stop, OnBudget::Ask][choices.pick(2)];
    settings.budget = match choices.pick(4) {
        0 => Some(Budget { max_llm_calls: Some(2 + choices.pick(8) as u32), ..Budget::default() }),
        1 => Some(Budget { max_tokens: Some(6_000 + 500 * choices.pick(20) as u64), ..Budget::default() }),
        2 => Some(Budget { deadline_ms: Some(20_000 * (1 + choices.pick(9) as i64)), ..Budget::default() }),
        _ => None,
    };
    settings
}

/// One random event.
fn act(sim: &mut Sim, choices: &mut Choices) {
    let is_shared = choices.pick(2) == 0;
    if is_shared {
        return random::act(sim, choices);
    }
    sim.holds = choices.pick(4) > 0;
    match choices.pick(12) {
        0..=1 => with_item(sim, choices, |item, by| PersonEvent::ItemRetried { item: item.into(), by }),
        2 => with_item(sim, choices, |item, by| PersonEvent::ItemSkipped { item: item.into(), by }),
        3 => cancel_task(sim, choices),
        4 => cancel_run(sim, choices),
        5 => {
            let name = ["read", "write", "gated", "sum"][choices.pick(4)];
            sim.tools.failures.lock().unwrap().insert(name.into(), 1 + choices.pick(3) as u32);
            sim.tools.failure_code = [None, Some("unknown"), Some("unavailable")][choices.pick(3)];
            sim.tools.retry_after_ms = [None, Some(0), Some(5_000)][choices.pick(3)];
        }
        6 => {
            sim.admission = [RunAdmission::Now, RunAdmission::Later, RunAdmission::Refused { most: 1 }][choices.pick(3)]
        }
        7 => go_back(sim, choices),
        8 => {
            let settings = settings(choices);
            check(sim.ask_with("under a budget", OnBusy::Enqueue, settings));
        }
        9 => put_state(sim, choices),
        10 if choices.pick(4) == 0 => {
            check(sim.apply(Event::System(SystemEvent::Restored { message: "of Monday".into() })));
            check(sim.apply(Event::System(SystemEvent::Released)));
        }
        10 => withdraw(sim),
        _ => advance_or_wake(sim),
    }
}

/// A refusal is one that a caller can understand.
fn check(result: Result<Step, Fault>) {
    if let Err(fault) = result {
        assert!(fault.code != Code::Internal, "{fault:?}");
    }
}

fn person(sim: &mut Sim, event: PersonEvent) {
    check(sim.apply(Event::Person(event)));
}

fn with_item(sim: &mut Sim, choices: &mut Choices, event: impl FnOnce(&str, String) -> PersonEvent) {
    let list = sim.view()["todoList"].as_array().unwrap().clone();
    if !list.is_empty() {
        let item = list[choices.pick(list.len())]["id"].as_str().unwrap();
        person(sim, event(item, "ann".to_owned()));
    }
}

fn cancel_task(sim: &mut Sim, choices: &mut Choices) {
    let tasks = sim.tasks();
    if !tasks.is_empty() {
        let task = tasks[choices.pick(tasks.len())].task_id.clone();
        person(sim, PersonEvent::TaskCancelAsked { task, by: "ann".into() });
    }
}

/// Any run, also one that has ended.
fn cancel_run(sim: &mut Sim, choices: &mut Choices) {
    let runs = runs(sim);
    let run = &runs[choices.pick(runs.len())];
    check(sim.cancel(Some(run.run_id.as_str())));
}

fn put_state(sim: &mut Sim, choices: &mut Choices) {
    let expected = [None, None, Some(1)][choices.pick(3)];
    person(sim, PersonEvent::StatePut { data: json!({ "n": choices.pick(3) }), expected, by: "ann".into() });
}

fn go_back(sim: &mut Sim, choices: &mut Choices) {
    let said = sim.conversation().len();
    if said > 0 && (sim.is_idle() || choices.pick(8) == 0) {
        let back = sim.back_to(choices.pick(said));
        check(sim.ask_again("back", back));
    }
}

/// A running call no longer waits for the answer to its question.
fn withdraw(sim: &mut Sim) {
    let asked = sim.in_flight.iter().find_map(|effect| match effect {
        Effect::CallTool { call, attempt } => Some((call.clone(), *attempt, sim.machine.asked(call)?.number)),
        Effect::CallModel { .. } | Effect::Delegate { .. } | Effect::AskPeer { .. } | Effect::CancelPeer { .. } => None,
    });
    if let Some((call, attempt, number)) = asked {
        check(sim.apply(Event::Tool(ToolEvent::Withdrew { call, attempt, number })));
    }
}

/// The newest effect ends, or the thread is woken.
fn advance_or_wake(sim: &mut Sim) {
    sim.holds = true;
    match sim.in_flight.last().cloned() {
        Some(effect) => sim.perform(&effect),
        None => check(sim.wake()),
    }
}

/// The prompts of the model calls in flight.
fn prompts(sim: &Sim) -> Vec<String> {
    let models = sim.in_flight.iter().filter(|effect| matches!(effect, Effect::CallModel { .. }));
    models.map(|effect| format!("{:?}", sim.prompt(effect))).collect()
}

fn runs(sim: &Sim) -> Vec<Run> {
    sim.rows().filter(|row| row.kind == RowKind::Run).map(|row| serde_json::from_str(&row.body).unwrap()).collect()
}

/// Whether its thread has an agent that plans.
fn is_planned(seed: u64) -> bool {
    !seed.is_multiple_of(4)
}

/// A random thread from its first request until it is idle. It stays in memory, or is loaded anew after every event.
fn run(seed: u64, is_loaded: bool) -> Sim {
    let mut choices = Choices::of(bytes(seed, MOST_BYTES));
    let core = if is_planned(seed) { Pes::planned() } else { Pes::react() };
    let mut sim = Sim::of(Arc::new(core), model(seed, 1 + (seed % 5) as usize, true));
    let settings = settings(&mut choices);
    sim.peers.seed = seed;
    sim.book.window = [None, Some(1_200)][choices.pick(2)];
    sim.limits.items_per_plan = [1_000, 6][choices.pick(2)];
    sim.holds = choices.pick(3) > 0;
    sim.ask_with("go", OnBusy::Enqueue, settings).unwrap();
    while !choices.is_spent() {
        act(&mut sim, &mut choices);
        if is_loaded {
            let before = prompts(&sim);
            sim.reload();
            assert_eq!(before, prompts(&sim), "another prompt after the thread was loaded anew");
            check_ended_runs(&sim);
        }
    }
    sim.admission = RunAdmission::Now;
    check(sim.wake());
    drain(&mut sim);
    sim
}

/// Nothing of a run that has ended is open: no question and no call.
fn check_ended_runs(sim: &Sim) {
    let is_end = |record: &Record| record.kind() == ObservationType::RunFinished;
    if !sim.steps.last().is_some_and(|step| step.records.iter().any(is_end)) {
        return;
    }
    let ended = runs(sim).into_iter().filter(|run| run.status.is_terminal());
    let ended: BTreeSet<_> = ended.map(|run| run.run_id).collect();
    for row in sim.rows() {
        match row.kind {
            RowKind::Suspension if row.keep == Keep::Always => {
                let open: Suspension = serde_json::from_str(&row.body).unwrap();
                assert!(!ended.contains(&open.run_id), "open after its run: {open:?}");
            }
            RowKind::Call => {
                let call: CallRecord = serde_json::from_str(&row.body).unwrap();
                let is_over = call.status == CallStatus::Done;
                assert!(is_over || !ended.contains(&call.run_id), "open after its run: {call:?}");
            }
            _ => {}
        }
    }
}

/// Every observation, and every row with an id of its own, has an id that no other has.
fn check_ids(sim: &Sim) {
    let mut seen = BTreeSet::new();
    for record in &sim.records {
        assert!(seen.insert(record.id.to_string()), "{} is recorded twice", record.id);
    }
    let own = [RowKind::Run, RowKind::Message, RowKind::Call, RowKind::Suspension, RowKind::Task];
    for row in sim.rows().filter(|row| own.contains(&row.kind)) {
        assert!(seen.insert(row.id.clone()), "{:?} {} has the id of something else", row.kind, row.id);
    }
}

/// No counter of a run decreases, and nothing of it changes its status once it has ended.
fn check_counters(sim: &Sim) {
    let mut known: BTreeMap<String, Run> = BTreeMap::new();
    let figures = |counted: &Counters| {
        let Counters { llm_calls, tool_calls, tool_errors, usage, .. } = counted;
        let calls = [llm_calls, tool_calls, tool_errors].map(|count| u64::from(*count));
        calls.into_iter().chain([usage.input_tokens, usage.output_tokens]).collect::<Vec<u64>>()
    };
    for row in sim.steps.iter().flat_map(|step| &step.rows).filter(|row| row.kind == RowKind::Run) {
        let now: Run = serde_json::from_str(&row.body).unwrap();
        if let Some(before) = known.get(&row.id) {
            let mut pairs = figures(&before.counters).into_iter().zip(figures(&now.counters));
            assert!(pairs.all(|(before, now)| before <= now), "{before:?} then {now:?}");
            assert!(!before.status.is_terminal() || before.status == now.status, "{before:?} then {now:?}");
        }
        known.insert(row.id.clone(), now);
    }
}

/// What an item has done that may not be done again without a person's leave.
#[derive(Default)]
struct Written {
    /// By its attempts before this one.
    before: bool,
    now: bool,
}

/// A later attempt of an item does not `write` again unless a person was asked.
fn check_writes(sim: &Sim) {
    let mut items: BTreeMap<ItemId, Written> = BTreeMap::new();
    let asked = sim.rows().filter(|row| row.kind == RowKind::Suspension);
    let asked = asked.filter_map(|row| serde_json::from_str::<Suspension>(&row.body).unwrap().call_id);
    let asked: BTreeSet<CallId> = asked.collect();
    for record in &sim.records {
        let content = record.fact.content();
        match record.kind() {
            ObservationType::Plan if !content["todoList"].is_null() => items.clear(),
            ObservationType::Plan | ObservationType::PlanUpdate => {
                let changes = content["changes"].as_array().into_iter().flatten();
                for gone in changes.filter(|change| change["type"] == "removed") {
                    items.remove(&ItemId::from(gone["itemId"].as_str().unwrap()));
                }
            }
            ObservationType::ItemStatusChange if content["from"] == "pending" => {
                let item = items.entry(content["itemId"].as_str().unwrap().into()).or_default();
                item.before |= std::mem::take(&mut item.now);
            }
            ObservationType::ToolCall => {
                let item = record.parent_id.as_ref().and_then(|id| items.get(id));
                for call in content["toolCalls"].as_array().into_iter().flatten() {
                    let id = CallId::from(call["callId"].as_str().unwrap());
                    let is_again = call["toolName"] == "write" && item.is_some_and(|item| item.before);
                    let is_made = is_again && sim.started.contains_key(&id);
                    assert!(!is_made || asked.contains(&id), "{id} of {:?} writes again", record.parent_id);
                }
            }
            ObservationType::ToolExecution if content["toolName"] == "write" && content["status"] == "success" => {
                if let Some(item) = &record.parent_id {
                    items.entry(item.clone()).or_default().now = true;
                }
            }
            _ => {}
        }
    }
}

/// The same was decided, byte by byte.
fn check_same(loaded: &Sim, in_memory: &Sim) {
    for (at, (one, other)) in loaded.steps.iter().zip(&in_memory.steps).enumerate() {
        assert_eq!(format!("{one:?}"), format!("{other:?}"), "step {at}: once loaded anew, once in memory");
    }
    assert_eq!(loaded.steps.len(), in_memory.steps.len());
}

/// What a seed makes happen, and everything that must hold of it.
fn check_all(seed: u64) {
    let sim = run(seed, true);
    check_same(&sim, &run(seed, false));
    check_log(&sim);
    check_tasks(&sim);
    check_ids(&sim);
    check_counters(&sim);
    if is_planned(seed) {
        check_writes(&sim);
    }
    for end in sim.contents(ObservationType::RunFinished) {
        assert!(end["status"] != "completed" || !end["resultStatus"].is_null(), "{end:#}");
    }
}

/// Of the seeds that fail, the first ten are named; each has printed why.
#[test]
fn whatever_people_do_a_thread_that_is_loaded_anew_is_as_it_was() {
    let seeds = if is_all() { ALL } else { SEEDS };
    let fails = |seed: &u64| catch_unwind(AssertUnwindSafe(|| check_all(*seed))).is_err();
    let failed: Vec<u64> = (0..seeds).filter(fails).take(10).collect();
    assert!(failed.is_empty(), "seeds {failed:?} fail; `check_all` runs one alone");
}
