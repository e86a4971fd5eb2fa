//! Properties over random runs: plans with cycles and unknown dependencies, odd replies, batches, questions, cancels,
//! edits, failures, crashes; by the lease holder or another process. The driver checks the invariants after every
//! commit.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use pes_engine::domain::hitl::{ExpiryPolicy, InDoubtAction, SuspensionKind};
use pes_engine::domain::model::{FailureKind, ModelFailure, ModelReply, ModelRequest};
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::OnBusy;
use pes_engine::domain::settings::{ExecutionConfig, OnItemFailure, PlanReview, RunSettings};
use pes_engine::domain::task::{Task, TaskStatus};
use pes_engine::effect::Effect;
use pes_engine::event::{Event, PeerEvent, PersonEvent, SystemEvent, ToolEvent};
use pes_engine::step::{Keep, RowKind};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::log::check_log;
use super::questions_of_running_calls::question;
use super::sim::*;
use crate::cases::cases;

const TOOLS: [&str; 10] = ["read", "write", "gated", "form", "denied", "nonsense", "sum", "peer", "peer", "gated_peer"];

/// Decisions read from bytes, so that a failing run shrinks.
pub struct Choices(Vec<u8>, usize);

impl Choices {
    pub fn of(bytes: Vec<u8>) -> Self {
        Self(bytes, 0)
    }
    pub fn pick(&mut self, of: usize) -> usize {
        let byte = self.0.get(self.1).copied().unwrap_or(0);
        self.1 += 1;
        byte as usize % of
    }
    pub fn is_spent(&self) -> bool {
        self.1 >= self.0.len()
    }
}

/// A model's reply depends on the call and on how often that was answered, not on attempts.
pub fn model(seed: u64, items: usize, odd: bool) -> impl FnMut(&ModelRequest) -> Result<ModelReply, ModelFailure> {
    let mut answered: HashMap<String, u32> = HashMap::new();
    move |request| {
        let which = which(request);
        let run = request.context.run_id.clone();
        let nth = answered.entry(format!("{run}{which}")).or_default();
        *nth += 1;
        let dice = |salt: &str, of: u64| {
            let mut hasher = DefaultHasher::new();
            (seed, &which, &run, *nth, salt).hash(&mut hasher);
            hasher.finish() % of
        };
        if dice("fails", 12) == 0 {
            return fails([FailureKind::Retry, FailureKind::Broken, FailureKind::Refused][dice("kind", 3) as usize]);
        }
        match which.as_str() {
            "planning" | "refinement" | "repair" => match dice("plan", 12) {
                0 => says("I do not plan"),
                1 => says(r#"{"answer":"at once","todoList":[]}"#),
                2 => calls(&[("read", json!({})), ("gated", json!({}))]),
                _ => says(random_plan(items, dice).to_string()),
            },
            "synthesis" if dice("empty", 8) == 0 => says(""),
            "synthesis" => says("the answer"),
            _ => match dice("step", 10) {
                0 => says(" "),
                1 => says(r#"{"content":"hm","nextStepDecision":"continue"}"#),
                2 if odd => says(json!({ "content": "done", "updatedPlan": random_plan(items, dice) }).to_string()),
                3..=6 => {
                    let count = dice("calls", 4) as usize + 1;
                    let batch: Vec<(&str, Value)> = (0..count)
                        .map(|at| {
                            (TOOLS[dice(&format!("tool{at}"), 10) as usize], json!({ "x": format!("{which}{at}") }))
                        })
                        .collect();
                    calls(&batch)
                }
                _ => says(format!("result of {which}")),
            },
        }
    }
}

fn random_plan(items: usize, dice: impl Fn(&str, u64) -> u64) -> Value {
    let statuses = ["pending", "PENDING", "completed", "cancelled", "in_progress"];
    let list: Vec<Value> = (0..items)
        .map(|at| {
            let of = |what: &str, n: u64| dice(&format!("{what}{at}"), n);
            let mut item = json!({ "id": format!("i{at}"), "description": "do it", "redo": of("redo", 4) == 0 });
            if of("depends", 3) == 0 {
                item["dependencies"] = json!([format!("i{}", of("on", items as u64 + 1))]);
            }
            if of("requires", 4) == 0 {
                item["requiredTools"] = json!([TOOLS[of("tool", 10) as usize]]);
            }
            if of("status", 4) == 0 {
                item["status"] = json!(statuses[of("which", 5) as usize]);
            }
            item
        })
        .collect();
    json!({ "title": "t", "intent": "i", "plan": "p", "todoList": list })
}

pub fn settings(choices: &mut Choices) -> RunSettings {
    let execution = ExecutionConfig {
        max_parallel_items: [1, 1, 2, 3][choices.pick(4)],
        on_item_failure: [OnItemFailure::Continue, OnItemFailure::Replan, OnItemFailure::Stop][choices.pick(3)],
        plan_review: [PlanReview::Off, PlanReview::Risky, PlanReview::Always][choices.pick(3)],
        suspension_timeout_ms: [None, Some(50_000)][choices.pick(2)],
        suspension_expiry: [ExpiryPolicy::Deny, ExpiryPolicy::Fail, ExpiryPolicy::Remind][choices.pick(3)],
        ..ExecutionConfig::default()
    };
    RunSettings { execution, ..RunSettings::default() }
}

/// One random event.
pub fn act(sim: &mut Sim, choices: &mut Choices) {
    sim.holds = choices.pick(4) > 0;
    match choices.pick(16) {
        0 => drop(sim.crash()),
        1 => drop(sim.ask_with("another", OnBusy::Enqueue, RunSettings::default())),
        2 => drop(sim.ask_with("steer", OnBusy::Steer, RunSettings::default())),
        3 if choices.pick(3) == 0 => drop(sim.ask_with("now", OnBusy::Interrupt, RunSettings::default())),
        4 if choices.pick(3) == 0 => drop(sim.cancel(None)),
        5 => drop(sim.apply(Event::Person(PersonEvent::PauseAsked { by: "ann".into() }))),
        6 => edit(sim, choices),
        7 => drop(sim.wake()),
        8 if choices.pick(8) == 0 => drop(sim.apply(Event::System(SystemEvent::Quarantined { crashes: 3 }))),
        9 => {
            sim.now += 60_000;
            drop(sim.wake());
        }
        10..=11 => answer_one(sim, choices),
        12 => call_back(sim, choices),
        13 => ask_person(sim),
        _ => advance(sim, choices),
    }
}

/// The holder performs an effect, or stops all of them if a cancel is waiting for that.
fn advance(sim: &mut Sim, choices: &mut Choices) {
    sim.holds = true;
    if sim.steps.last().is_some_and(|step| step.is_cancelling) && !sim.in_flight.is_empty() && choices.pick(2) == 0 {
        return drop(sim.stop_effects());
    }
    match sim.in_flight.len() {
        0 => drop(sim.step()),
        n => {
            let effect = sim.in_flight[choices.pick(n)].clone();
            sim.perform(&effect);
        }
    }
}

/// An agent reports, perhaps twice, perhaps with a wrong task id.
fn call_back(sim: &mut Sim, choices: &mut Choices) {
    let tasks: Vec<Task> = sim.tasks();
    if tasks.is_empty() {
        return;
    }
    let task = &tasks[choices.pick(tasks.len())];
    let known = sim.peers.begun(&task.call_id) > 0;
    let named = [None, Some(format!("remote-{}", task.call_id)), Some("another".to_owned())][choices.pick(3)].clone();
    // An agent that never got the task cannot name it.
    let named = named.filter(|_| known).filter(|name| name != "another" || task.remote_task_id.is_some());
    for _ in 0..=choices.pick(2) {
        let (task, remote_task_id) = (task.task_id.clone(), named.clone());
        let told = sim.apply(Event::Peer(PeerEvent::CalledBack { task, remote_task_id })).unwrap();
        assert!(told.is_noop || named.as_deref() != Some("another"), "a call back about another task counts");
    }
}

/// A running call asks; it may have asked before.
fn ask_person(sim: &mut Sim) {
    let calling = sim.in_flight.iter().find_map(|effect| match effect {
        Effect::CallTool { call, attempt } => Some((call.clone(), *attempt)),
        Effect::CallModel { .. } | Effect::Delegate { .. } | Effect::AskPeer { .. } | Effect::CancelPeer { .. } => None,
    });
    let Some((call, attempt)) = calling else { return };
    let number = sim.machine.asked(&call).map_or(1, |asked| asked.number + 1);
    sim.holds = true;
    drop(sim.apply(Event::Tool(ToolEvent::Asked { call, attempt, number, question: Box::new(question()) })));
}

fn answer_one(sim: &mut Sim, choices: &mut Choices) {
    let open = sim.suspensions();
    if open.is_empty() {
        return;
    }
    let at = choices.pick(open.len());
    let (way, action) = (choices.pick(4), choices.pick(4));
    let kind = open[at].kind;
    let edited = match kind {
        SuspensionKind::PlanReview => json!({ "todoList": edited_list(sim, choices) }),
        _ => json!({ "x": "edited" }),
    };
    let reason = [None, Some("another plan".to_owned())][choices.pick(2)].clone();
    let actions = [InDoubtAction::Retry, InDoubtAction::Done, InDoubtAction::Skip, InDoubtAction::Abort];
    let _ = sim.answer(at, |answer| {
        answer.approved = [Some(true), Some(true), Some(false), None][way];
        answer.modified_args = (way == 1).then_some(edited);
        answer.reason = reason;
        answer.value = value(kind);
        answer.action = Some(actions[action]);
    });
}

fn edit(sim: &mut Sim, choices: &mut Choices) {
    let list = edited_list(sim, choices);
    let _ = sim.edit_plan("ann", |shown| *shown = list);
}

fn edited_list(sim: &Sim, choices: &mut Choices) -> Vec<Value> {
    let mut list = sim.view()["todoList"].as_array().unwrap().clone();
    let at = choices.pick(list.len().max(1));
    match choices.pick(3) {
        0 if !list.is_empty() => drop(list.remove(at)),
        1 if !list.is_empty() => list[at]["description"] = json!("a person's words"),
        _ => list.push(json!({ "id": format!("p{}", choices.pick(5)), "description": "a person's item" })),
    }
    list
}

/// People answer everything until the thread is idle.
pub fn drain(sim: &mut Sim) {
    for _ in 0..2000 {
        sim.holds = true;
        if sim.steps.last().is_some_and(|step| step.is_cancelling) && !sim.in_flight.is_empty() {
            sim.stop_effects().unwrap();
        } else if !sim.step() {
            if sim.suspensions().is_empty() {
                assert!(sim.is_idle(), "at rest, but not idle: {}", sim.view());
                return;
            }
            answer_first(sim);
        }
    }
    panic!("it does not come to rest: {}", sim.view());
}

/// Once a run has ended, every task that it started elsewhere has ended or was cancelled, if it could be named.
pub fn check_tasks(sim: &Sim) {
    for row in sim.rows().filter(|row| row.kind == RowKind::Task) {
        let task: Task = serde_json::from_str(&row.body).unwrap();
        assert!(task.is_over() && row.keep == Keep::Never, "left open: {task:?}");
        let is_stopped = sim.peers.tasks.values().filter(|it| it.call == task.call_id).any(|it| it.stops > 0);
        let was_told = task.cancel_heard != Some(true) || is_stopped || sim.peers.begun(&task.call_id) == 0;
        assert!(was_told, "{task:?} was said to be told");
        let is_given_up = task.status == TaskStatus::Canceled && task.may_have_arrived;
        assert!(!is_given_up || task.cancel_heard.is_some() || task.reason.is_some(), "{task:?}");
    }
}

/// Without a value a budget is extended by as much as there was.
fn value(kind: SuspensionKind) -> Option<Value> {
    (kind != SuspensionKind::Budget).then(|| json!("a value"))
}

fn answer_first(sim: &mut Sim) {
    let kind = sim.suspensions()[0].kind;
    let result = sim.answer(0, |answer| {
        answer.approved = (kind != SuspensionKind::Input).then_some(true);
        answer.value = value(kind);
        answer.action = Some(InDoubtAction::Retry);
    });
    if let Err(refused) = result {
        assert_eq!(refused.code.as_str(), "expired");
        sim.wake().unwrap();
    }
}

/// A random thread from its first request until it is idle.
pub fn run(bytes: Vec<u8>, seed: u64, items: usize) -> Sim {
    let mut choices = Choices::of(bytes);
    let mut sim = Sim::new(model(seed, items, true));
    let settings = settings(&mut choices);
    sim.book.window = [None, Some(1_200)][choices.pick(2)];
    sim.limits.items_per_plan = [1_000, 6][choices.pick(2)];
    sim.holds = choices.pick(3) > 0;
    sim.ask_with("go", OnBusy::Enqueue, settings).unwrap();
    while !choices.is_spent() {
        act(&mut sim, &mut choices);
        sim.reload();
    }
    drain(&mut sim);
    sim
}

proptest! {
    #![proptest_config(cases(32))]
    #[test]
    fn whatever_happens_every_run_ends_once_and_nothing_is_done_twice(
        bytes in prop::collection::vec(any::<u8>(), 0..160), seed in any::<u64>(), items in 1usize..6,
    ) {
        let sim = run(bytes, seed, items);
        check_log(&sim);
        check_tasks(&sim);
    }
}

/// The decisions without ids and times: a crash must not change them.
fn decisions(sim: &Sim) -> Vec<String> {
    use ObservationType as T;
    let told = sim.records.iter().filter_map(|record| {
        let content = sim.content(record);
        let said = match record.kind() {
            T::Intent | T::Title | T::Synthesis => content.to_string(),
            T::Plan => format!("{}{}", content["planVersion"], content["rawOutput"]),
            T::PlanUpdate => content["planVersion"].to_string(),
            T::ItemStatusChange => format!("{}{}{}", content["from"], content["status"], content["item"]["result"]),
            T::ToolExecution => format!("{}{}{}", content["toolName"], content["status"], content["output"]),
            T::FinalResponse => content["message"]["content"].to_string(),
            T::RunFinished => format!("{}{}", content["status"], content["resultStatus"]),
            _ => return None,
        };
        Some(format!("{}[{:?}] {said}", record.kind().as_str(), record.parent_id))
    });
    told.collect()
}

/// A run in which people approve everything; after commit `crash`, if given, the process dies.
fn straight(seed: u64, items: usize, settings: &RunSettings, crash: Option<usize>) -> Sim {
    let mut sim = Sim::new(model(seed, items, false));
    sim.ask_with("go", OnBusy::Enqueue, settings.clone()).unwrap();
    let mut has_crashed = false;
    for _ in 0..10_000 {
        if !has_crashed && crash.is_some_and(|at| sim.steps.len() > at) {
            has_crashed = true;
            sim.crash();
        }
        if !sim.step() {
            if sim.suspensions().is_empty() {
                return sim;
            }
            answer_first(&mut sim);
        }
    }
    panic!("it does not come to rest: {}", sim.view());
}

proptest! {
    #![proptest_config(cases(4))] // Each is forty runs.

    #[test]
    fn a_crash_after_any_commit_changes_no_decision(
        seed in any::<u64>(), items in 1usize..5, parallel in 1u32..3, is_reviewed in any::<bool>(),
    ) {
        let plan_review = if is_reviewed { PlanReview::Always } else { PlanReview::Off };
        let execution = ExecutionConfig { max_parallel_items: parallel, plan_review, ..ExecutionConfig::default() };
        let settings = RunSettings { execution, ..RunSettings::default() };
        let whole = straight(seed, items, &settings, None);
        check_log(&whole);
        // Of a long run, only some of its commits.
        let stride = whole.steps.len() / 40 + 1;
        for at in (seed as usize % stride..whole.steps.len()).step_by(stride) {
            let crashed = straight(seed, items, &settings, Some(at));
            check_log(&crashed);
            check_tasks(&crashed);
            let doubts = crashed.contents(ObservationType::AgentSuspended);
            let has_tasks = !crashed.contents(ObservationType::A2aTask).is_empty();
            // A call in doubt waits for a person, and an agent is polled at another time, while other calls continue:
            // the same work in another order. Which of two items is answered first is not up to the engine either.
            let is_apart = has_tasks || doubts.iter().any(|doubt| doubt["kind"] == "in_doubt");
            let told = if is_apart { settled } else { decisions };
            let (mut a, mut b) = (told(&whole), told(&crashed));
            if is_apart || parallel > 1 {
                a.sort();
                b.sort();
            }
            prop_assert_eq!(a, b, "crash after commit {}", at);
        }
    }

    #[test]
    fn a_run_replays_to_the_same_bytes(seed in any::<u64>(), items in 1usize..6) {
        let settings = RunSettings::default();
        let (a, b) = (straight(seed, items, &settings, None), straight(seed, items, &settings, None));
        prop_assert_eq!(format!("{:?}", a.steps), format!("{:?}", b.steps));
    }
}

fn settled(sim: &Sim) -> Vec<String> {
    let view = sim.view();
    let list = view["todoList"].as_array().unwrap();
    list.iter().map(|item| format!("{}{}{}", item["id"], item["status"], item["result"])).collect()
}
