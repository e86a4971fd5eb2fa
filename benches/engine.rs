//! The cost of one decision of the engine, and the bytes it writes: for plans of 10, 100 and 1,000 items and outputs of 1 KB
//! and 1 MB. Neither may grow with the plan or with earlier outputs; the table that is printed first shows the bytes.
//!
//! `cargo bench --features internals --bench engine`.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use pes::domain::fault::Fault;
use pes::domain::forecast::ToolForecast;
use pes::domain::hitl::Suspension;
use pes::domain::ids::ThreadId;
use pes::domain::model::{ModelReply, RawToolCall, StopReason, Usage};
use pes::domain::run::{Ask, OnBusy};
use pes::domain::settings::RunSettings;
use pes::domain::thread::Limits;
use pes::domain::tool::{Judgement, Proposal, ToolClass, ToolOutcome, ToolSpec, Verdict};
use pes::domain::usage::Price;
use pes::engine::effect::Effect;
use pes::engine::event::{Event, ModelEvent, ToolEvent};
use pes::engine::pes::Pes;
use pes::engine::step::{Keep, Row, RowKind, Step};
use pes::engine::{Allowance, Core, Loaded, Machine, ModelBook, RunAdmission, Stamp, Toolbox, World};
use serde_json::{Value, json};

const ITEMS: [usize; 3] = [10, 100, 1000];
const OUTPUTS: [(&str, usize); 2] = [("1 KB", 1 << 10), ("1 MB", 1 << 20)];
const NOW: i64 = 1_760_000_000_000;

/// A policy that allows every call.
struct Open;

impl ModelBook for Open {
    fn window(&self, _: &str, _: &str) -> Option<u64> {
        None
    }

    fn max_output(&self, _: &str, _: &str) -> Option<u64> {
        None
    }

    fn price(&self, _: &str, _: &str) -> Option<Price> {
        None
    }
}

impl Toolbox for Open {
    fn offered(&self, _: &RunSettings) -> Vec<Arc<ToolSpec>> {
        Vec::new()
    }
    fn judge(&self, _: &Proposal<'_>) -> Judgement {
        Verdict::Run { class: ToolClass::Read, idempotent: true }.into()
    }
    fn judge_edited(&self, call: &Proposal<'_>) -> Result<Judgement, Fault> {
        Ok(self.judge(call))
    }
    fn foresee(&self, _: &ThreadId, _: &RunSettings, _: &str) -> Option<ToolForecast> {
        None
    }
    fn check_value(&self, _: &Value, _: &Value) -> Result<(), String> {
        Ok(())
    }
    fn check_answer(&self, _: &Suspension, _: &Value) -> Result<(), Fault> {
        Ok(())
    }
}

/// A thread in memory, and its stored state.
struct Thread {
    machine: Box<dyn Machine>,
    head: String,
    rows: Vec<Row>,
    events: i64,
}

impl Thread {
    fn decide(&mut self, event: Event) -> Step {
        self.events += 1;
        let stamp = Stamp { now: NOW + self.events, seed: self.events as u64, holder: Some(1) };
        let limits = Limits::default();
        let allowance = Allowance::default();
        let world =
            World { tools: &Open, models: &Open, limits: &limits, allowance: &allowance, admission: RunAdmission::Now };
        pes::engine::step::decide(&mut *self.machine, &world, stamp, event).expect("a legal event")
    }

    fn keep(&mut self, step: Step) -> Step {
        for row in step.rows.iter().filter(|row| row.kind != RowKind::Payload) {
            self.rows.retain(|known| (known.kind, &known.id) != (row.kind, &row.id));
            self.rows.push(row.clone());
        }
        self.head = step.head.clone().unwrap_or_else(|| self.head.clone());
        step
    }

    /// The answer to the running call.
    fn answer(&self, output: usize) -> Event {
        match self.machine.running().remove(0) {
            Effect::CallTool { call, attempt } => {
                let result = Ok(Value::String("x".repeat(output)));
                let outcome = ToolOutcome { result, metadata: None, state_patch: None, duration_ms: 1, executed: None };
                Event::Tool(ToolEvent::Returned { call, attempt, outcome: Box::new(outcome) })
            }
            Effect::CallModel { stream, attempt } => {
                let calls = self.machine.view()["todoList"].as_array().is_some_and(|list| {
                    list.iter().any(|item| item["status"] == "in_progress" && item.get("toolCalls").is_none())
                });
                let reply = if calls { call() } else { says("done") };
                Event::Model(ModelEvent::Replied { stream, attempt, reply: Box::new(reply) })
            }
            Effect::Delegate { .. } | Effect::AskPeer { .. } | Effect::CancelPeer { .. } => {
                unreachable!("nothing delegates")
            }
        }
    }

    fn reloaded(&self) -> Self {
        let rows = self.rows.iter().filter(|row| row.keep != Keep::Never).cloned().collect();
        let loaded = Loaded { thread_id: "t".into(), head: self.head.clone(), rows, last_seq: 0 };
        let machine = Pes::planned().load(loaded).expect("what was stored loads");
        Self { machine, head: self.head.clone(), rows: Vec::new(), events: self.events }
    }
}

fn says(text: &str) -> ModelReply {
    ModelReply {
        text: text.to_owned(),
        thinking: String::new(),
        tool_calls: Vec::new(),
        replay: None,
        usage: Usage::default(),
        stop: StopReason::EndTurn,
        provider: "demo".into(),
        model: "demo".into(),
        time_to_first_token_ms: None,
        queued_ms: None,
        total_ms: 1,
        fit: None,
        prompt_digest: None,
    }
}

fn call() -> ModelReply {
    let call = RawToolCall { id: Some("c".into()), name: "read".into(), arguments: r#"{"x":1}"#.into() };
    ModelReply { tool_calls: vec![call], ..says("") }
}

/// A thread with a plan of `items` items, half of them completed with outputs of that size, whose next item waits for its
/// model. Also returns the steps of one more item.
fn planned(items: usize, output: usize) -> Thread {
    let loaded = Loaded::empty("t".into());
    let machine = Pes::planned().load(loaded).expect("an empty thread loads");
    let mut thread = Thread { machine, head: String::new(), rows: Vec::new(), events: 0 };
    let ask = Ask {
        query: "go".into(),
        metadata: None,
        user_id: None,
        session_id: None,
        trace_id: "0".repeat(32),
        trace: Default::default(),
        on_busy: OnBusy::Enqueue,
        requested_by: "bench".into(),
        shaped_by: Vec::new(),
        history: Vec::new(),
        settings: RunSettings { provider: "demo".into(), model: "demo".into(), ..RunSettings::default() },
    };
    let step =
        thread.decide(Event::Asked { run: "run_1".into(), message: "msg_1".into(), ask: Box::new(ask), rewind: None });
    thread.keep(step);
    let list: Vec<Value> = (0..items)
        .map(|at| {
            let before = at.checked_sub(1).map(|before| format!("i{before}"));
            json!({ "id": format!("i{at}"), "description": format!("Item number {at}"),
                    "dependencies": before.into_iter().collect::<Vec<_>>() })
        })
        .collect();
    let plan = json!({ "title": "T", "intent": "I", "plan": "P", "todoList": list }).to_string();
    let Effect::CallModel { stream, attempt } = thread.machine.running().remove(0) else { unreachable!() };
    let step = thread.decide(Event::Model(ModelEvent::Replied { stream, attempt, reply: Box::new(says(&plan)) }));
    thread.keep(step);
    for _ in 0..items / 2 * 3 {
        let answer = thread.answer(output);
        let step = thread.decide(answer);
        thread.keep(step);
    }
    thread
}

/// Bytes of head, rows and records, without the payload itself, which is written once.
fn bytes(step: &Step) -> (usize, usize) {
    let head = step.head.as_ref().map_or(0, String::len);
    let (payloads, rows): (Vec<&Row>, Vec<&Row>) = step.rows.iter().partition(|row| row.kind == RowKind::Payload);
    let size = |rows: &[&Row]| rows.iter().map(|row| row.body.len()).sum::<usize>();
    let records: usize =
        step.records.iter().map(|record| record.fact.content().to_string().len() + record.title.len()).sum();
    (head + size(&rows) + records, size(&payloads))
}

fn table() {
    println!("bytes written per transition, without payloads (payloads)");
    println!(
        "{:>6} {:>8} {:>20} {:>20} {:>20}",
        "items", "outputs", "model calls a tool", "tool returns", "item completes"
    );
    for items in ITEMS {
        for (name, output) in OUTPUTS {
            let mut thread = planned(items, output);
            let cells: Vec<String> = (0..3)
                .map(|_| {
                    let answer = thread.answer(output);
                    let step = thread.decide(answer);
                    let (written, payloads) = bytes(&thread.keep(step));
                    format!("{written} ({payloads})")
                })
                .collect();
            println!("{items:>6} {name:>8} {:>20} {:>20} {:>20}", cells[0], cells[1], cells[2]);
        }
    }
}

fn steps(criterion: &mut Criterion) {
    table();
    let mut group = criterion.benchmark_group("engine/step");
    group.sample_size(20);
    for items in ITEMS {
        for (name, output) in OUTPUTS {
            let thread = planned(items, output);
            let id = BenchmarkId::new(format!("{items} items"), name);
            group.bench_function(id, |bencher| {
                bencher.iter_batched(
                    || {
                        let thread = thread.reloaded();
                        let answer = thread.answer(output);
                        (thread, answer)
                    },
                    |(mut thread, answer)| {
                        black_box(thread.decide(answer));
                        thread
                    },
                    BatchSize::PerIteration,
                );
            });
        }
    }
    group.finish();
}

fn load(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("engine/load");
    group.sample_size(20);
    for items in ITEMS {
        let thread = planned(items, 1 << 10);
        group.bench_function(BenchmarkId::from_parameter(items), |bencher| {
            bencher.iter(|| black_box(thread.reloaded().events))
        });
    }
    group.finish();
}

criterion_group!(benches, steps, load);
criterion_main!(benches);
