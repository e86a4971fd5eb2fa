//! Every released shape of the state can still be loaded, and a step writes a bounded part of the state.

use pes_engine::domain::hitl::Answer;
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::OnBusy;
use pes_engine::domain::settings::RunSettings;
use pes_engine::event::{CancelEvent, Event, PersonEvent, SystemEvent};
use pes_engine::pes::Pes;
use pes_engine::step::{self, Keep, Row, RowKind, Step};
use pes_engine::{Core, Loaded, Stamp, World};
use serde_json::{Value, json};

use super::sim::*;

/// The size of a row that is rewritten: a few values below the size from which they become payloads.
const ROW_BYTES: usize = 8 * pes_engine::domain::payload::INLINE_LIMIT;

impl Sim {
    /// Checks that the bytes of a transition depend only on its changes, not on the plan, the history or earlier
    /// outputs.
    pub fn check_bytes(&self, step: &Step) {
        let changes_the_plan = step.records.iter().any(|record| {
            let is_plan = matches!(record.kind(), ObservationType::Plan | ObservationType::PlanUpdate);
            is_plan || record.kind() == ObservationType::RunFinished
        });
        let settled = step.records.iter().filter(|record| record.kind() == ObservationType::ItemStatusChange).count();
        let head = step.head.as_ref().map_or(0, String::len);
        assert!(head < 4096, "a head of {head} bytes: {}", self.head);
        if !changes_the_plan {
            assert!(step.rows.len() < 24 + 3 * settled, "{} rows", step.rows.len());
        }
        // Messages and payloads are written once, and a run with its query when its status changes. All other rows
        // refer to them.
        let written_again = |row: &&Row| !matches!(row.kind, RowKind::Message | RowKind::Payload | RowKind::Run);
        for row in step.rows.iter().filter(written_again) {
            assert!(row.body.len() < ROW_BYTES, "{:?} {} has {} bytes", row.kind, row.id, row.body.len());
        }
    }

    /// All stored rows as loaded, with the view and the running effects.
    pub fn stored(&self) -> Value {
        let loaded = self.rows.values().filter(|row| row.keep != Keep::Never);
        let rows: Vec<Value> = loaded
            .map(|row| json!([row.kind, row.id, row.ord, row.keep, serde_json::from_str::<Value>(&row.body).unwrap()]))
            .collect();
        let head: Value = if self.head.is_empty() { json!({}) } else { serde_json::from_str(&self.head).unwrap() };
        json!({
            "head": head, "rows": rows, "view": self.machine.view(),
            "running": self.machine.running().iter().map(|effect| format!("{effect:?}")).collect::<Vec<_>>(),
        })
    }

    /// A thread as it was once stored.
    pub fn of_stored(stored: &Value) -> Self {
        let mut sim = Self::new(|_| says("x"));
        sim.head = stored["head"].to_string();
        for row in stored["rows"].as_array().unwrap() {
            let row = Row {
                kind: serde_json::from_value(row[0].clone()).unwrap(),
                id: row[1].as_str().unwrap().to_owned(),
                ord: row[2].as_i64().unwrap(),
                keep: serde_json::from_value(row[3].clone()).unwrap(),
                body: row[4].to_string(),
            };
            sim.rows.insert((row.kind, row.id.clone()), row);
        }
        let rows = sim.rows.values().cloned().collect();
        let last_seq = stored["view"]["lastSeq"].as_i64().unwrap();
        let loaded = Loaded { thread_id: "t1".into(), head: sim.head.clone(), rows, last_seq };
        sim.machine = Pes::planned().load(loaded).unwrap();
        sim
    }
}

/// The last version is the current one. 2: rows name who asked for a run, the rule that judged a call and what an
/// approval is bound to; the head has the size of all messages; a program that knows only 1 can read it. 3: a run has
/// its caller status and since when. 4: an item that asked a person keeps the beginning of its prompt. 5: calls and
/// questions have their tool's class, messages their author.
const RELEASED: &[&str] = &[
    include_str!("states/v1.json"),
    include_str!("states/v2.json"),
    include_str!("states/v3.json"),
    include_str!("states/v4.json"),
    include_str!("states/v5.json"),
];

/// Another process claims it, a person answers its questions, and then it is cancelled: the records of each step.
fn goes_on(mut sim: Sim) {
    let asked = sim.machine.view()["suspensions"][0]["suspensionId"].as_str().unwrap().to_owned();
    let answer = Answer {
        suspension_id: asked.as_str().into(),
        digest: None,
        approved: Some(true),
        value: None,
        modified_args: None,
        reason: None,
        action: None,
    };
    let answered = PersonEvent::Resumed { answer: Box::new(answer), by: "ann".into(), said: None };
    let events = [
        (Event::System(SystemEvent::Recovered), ObservationType::LlmStreamError),
        (Event::Person(answered), ObservationType::AgentResumed),
        // The queued run ends at once, the other once none of its calls runs.
        (Event::Cancel(CancelEvent::Asked { run: None, by: "ann".into() }), ObservationType::RunFinished),
        (Event::Cancel(CancelEvent::EffectsStopped), ObservationType::RunFinished),
    ];
    let world = World {
        tools: &sim.tools,
        models: &sim.book,
        limits: &sim.limits,
        allowance: &sim.allowance,
        admission: sim.admission,
    };
    for (event, kind) in events {
        sim.now += 1;
        let stamp = Stamp { now: sim.now, seed: sim.now.unsigned_abs(), holder: Some(sim.epoch + 1) };
        let step = step::decide(&mut *sim.machine, &world, stamp, event).unwrap();
        assert!(step.records.iter().any(|record| record.kind() == kind), "no {} in {step:?}", kind.as_str());
    }
    assert!(sim.is_idle(), "{}", sim.machine.view());
}

#[test]
fn every_released_state_shape_loads_and_goes_on() {
    for released in RELEASED {
        let stored: Value = serde_json::from_str(released).unwrap();
        let sim = Sim::of_stored(&stored);
        assert_eq!(sim.stored()["view"], stored["view"]);
        assert_eq!(sim.stored()["running"], stored["running"]);
        goes_on(sim);
    }
}

/// A state with everything at once: a finished item, one that waits for a person, a running one, a steering message, a
/// queued run.
fn busy_state() -> Sim {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &["read"]), ("b", &["a"], &[]), ("c", &[], &[]), ("d", &["c"], &[])]),
        "a.1" => calls(&[("read", json!({ "long": "x".repeat(600) }))]),
        "b.1" => calls(&[("gated", json!({ "x": 1 })), ("read", json!({}))]),
        other => says(format!("result of {other}")),
    });
    sim.ask("go").unwrap();
    for _ in 0..6 {
        sim.step();
    }
    sim.ask("queued").unwrap();
    sim.ask_with("steered", OnBusy::Steer, RunSettings::default()).unwrap();
    sim
}

#[test]
fn the_released_state_shape_is_the_one_that_is_written() {
    let released: Value = serde_json::from_str(RELEASED.last().unwrap()).unwrap();
    let written = busy_state().stored();
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/state.json");
    std::fs::write(path, serde_json::to_string_pretty(&written).unwrap() + "\n").unwrap();
    assert!(written == released, "a changed shape needs a new file: look at {path}, and add it");
}

/// The simulation checks the bounds themselves, at every step of every test.
#[test]
fn large_queries_and_outputs_and_a_long_history_make_no_row_larger() {
    const LARGE: usize = 200_000;
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" | "refinement" => plan(&[("a", &[], &["read"]), ("b", &["a"], &["read"])]),
        "synthesis" => says("y".repeat(LARGE)),
        other if other.ends_with(".1") => calls(&[("read", json!({ "x": "z".repeat(LARGE) }))]),
        other => says(format!("{other} {}", "w".repeat(LARGE))),
    });
    sim.tools.output = Some(Value::String("o".repeat(LARGE)));
    for _ in 0..4 {
        sim.ask(&"q".repeat(LARGE)).unwrap();
        sim.go();
        assert!(sim.is_idle());
    }
    let writes_runs = |step: &&Step| step.rows.iter().any(|row| row.kind == RowKind::Run);
    let (steps, writes) = (sim.steps.len(), sim.steps.iter().filter(writes_runs).count());
    assert!(writes <= 4 * 3 && steps > 2 * writes, "{writes} of {steps} steps write a run and its query");
}
