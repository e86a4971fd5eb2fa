//! A thread with unreadable data: its runs end with that error, and it can be used again.

use pes_engine::domain::fault::{Code, Fault};
use pes_engine::domain::run::{Run, RunStatus};
use pes_engine::domain::task::{PeerReport, PeerState, Task, TaskStatus};
use pes_engine::domain::thread::ThreadStatus;
use pes_engine::effect::Effect;
use pes_engine::event::{Event, PeerEvent, SystemEvent};
use pes_engine::pes::{Pes, runs_only};
use pes_engine::step::{self, Keep, Row, RowKind, Step};
use pes_engine::{Core, Loaded, Machine, RunAdmission, Stamp, World};

use super::cancel::two_items;
use super::sim::Sim;
use super::{caps, delegate};

/// A run whose first item calls a tool and whose second has not started, and a queued run.
fn busy() -> Sim {
    let mut sim = Sim::new(two_items);
    sim.ask("go").unwrap();
    sim.step();
    sim.step();
    sim.ask("queued").unwrap();
    assert!(!sim.in_flight.is_empty());
    sim
}

/// As a process loads it from the store.
fn read(sim: &Sim) -> Result<Box<dyn Machine>, Fault> {
    Pes::planned().load(loaded(sim))
}

fn loaded(sim: &Sim) -> Loaded {
    let rows: Vec<Row> = sim.rows().filter(|row| row.keep != Keep::Never).cloned().collect();
    let last_seq = sim.records.len() as i64;
    Loaded { thread_id: "t1".into(), head: sim.head.clone(), rows, last_seq }
}

fn decide(sim: &mut Sim, machine: &mut dyn Machine, event: SystemEvent) -> Step {
    decide_on(sim, machine, Event::System(event))
}

fn decide_on(sim: &mut Sim, machine: &mut dyn Machine, event: Event) -> Step {
    sim.now += 1;
    let stamp = Stamp { now: sim.now, seed: 7, holder: Some(2) };
    let world = World {
        tools: &sim.tools,
        models: &sim.book,
        limits: &sim.limits,
        allowance: &sim.allowance,
        admission: RunAdmission::Now,
    };
    let step = step::decide(machine, &world, stamp, event).unwrap();
    for row in &step.rows {
        sim.rows.insert((row.kind, row.id.clone()), row.clone());
    }
    if let Some(head) = &step.head {
        sim.head = head.clone();
    }
    sim.records.extend(step.records.iter().cloned());
    step
}

fn spoil(sim: &mut Sim, kind: RowKind, id: &str) {
    sim.rows.get_mut(&(kind, id.to_owned())).unwrap().body = "{".to_owned();
}

#[rstest::rstest]
#[case::head(|sim: &mut Sim| sim.head = "{".to_owned(), "head (")]
#[case::head_of_another_run(|sim: &mut Sim| sim.head = sim.head.replace("run_1", "run_9"), "head (it names a run that is not there)")]
#[case::head_of_no_run(|sim: &mut Sim| sim.head = "[]".to_owned(), "head (it does not name run_1)")]
#[case::active_run(|sim: &mut Sim| spoil(sim, RowKind::Run, "run_1"), "Run run_1")]
#[case::queued_run(|sim: &mut Sim| spoil(sim, RowKind::Run, "run_2"), "Run run_2")]
#[case::head_and_both_runs(
    |sim: &mut Sim| {
        sim.head = "{".to_owned();
        spoil(sim, RowKind::Run, "run_1");
        spoil(sim, RowKind::Run, "run_2");
    },
    "Run run_2"
)]
fn its_runs_end_by_name_and_the_next_one_begins(#[case] damage: fn(&mut Sim), #[case] named: &str) {
    let mut sim = busy();
    damage(&mut sim);
    let mut machine = read(&sim).unwrap();
    assert!(machine.is_unreadable());
    let is_message = |row: &&Row| row.kind == RowKind::Message;
    let before = sim.rows().filter(is_message).map(|row| row.ord).max().unwrap();
    let step = decide(&mut sim, &mut *machine, SystemEvent::Unreadable);
    assert_eq!(step.status, ThreadStatus::Quarantined);
    for id in ["run_1", "run_2"] {
        let run: Run = sim.run(id);
        assert_eq!(run.status, RunStatus::Failed);
        let error = run.outcome.unwrap().error.unwrap();
        assert_eq!(error.code, Code::UnreadableState);
        assert!(error.message.contains(named), "{error:?}");
        assert_eq!(step.runs.iter().filter(|run| run.run_id.as_str() == id).count(), 1);
    }
    assert!(machine.running().is_empty() && machine.run().is_none() && !machine.is_unreadable());
    assert!(step.rows.iter().filter(is_message).all(|row| row.ord > before), "what is said now comes last");
    assert!(step.rows.iter().filter(is_message).all(|row| !row.id.is_empty()), "no message is made up");

    let mut again = read(&sim).unwrap();
    assert!(!again.is_unreadable() && again.running().is_empty());
    assert_eq!(decide(&mut sim, &mut *again, SystemEvent::Released).status, ThreadStatus::Idle);
    assert!(!sim.head.contains("quarantined"), "whoever reads it next finds it released: {}", sim.head);
}

#[test]
fn of_a_thread_that_cannot_be_rebuilt_only_the_runs_are_read_and_they_end() {
    let mut sim = busy();
    for id in ["a", "b"] {
        spoil(&mut sim, RowKind::Progress, id);
    }
    let mut machine = runs_only(loaded(&sim));
    assert!(machine.is_unreadable() && machine.running().is_empty());
    decide(&mut sim, &mut *machine, SystemEvent::Unreadable);
    for id in ["run_1", "run_2"] {
        assert_eq!(sim.run(id).outcome.unwrap().error.unwrap().code, Code::UnreadableState);
    }
    assert!(sim.suspensions().is_empty());
    let again = read(&sim).unwrap();
    assert!(!again.is_unreadable() && again.running().is_empty());
    assert_eq!(again.view()["todoList"], serde_json::json!([]));
}

/// The agent has the task, and the row beside it cannot be read: the run ends, and the task with it.
#[rstest::rstest]
#[case::progress_of_its_item(RowKind::Progress)]
#[case::its_call(RowKind::Call)]
fn a_task_that_nobody_waits_for_any_more_is_cancelled(#[case] damaged: RowKind) {
    let mut sim = delegate::sim(&[("peer", "p")], &[("p", delegate::NEVER)]);
    sim.ask("go").unwrap();
    delegate::until_it_waits(&mut sim);
    let task = sim.tasks().remove(0);
    let id = if damaged == RowKind::Call { task.call_id.as_str() } else { "i" };
    spoil(&mut sim, damaged, id);
    let mut machine = read(&sim).unwrap();
    decide(&mut sim, &mut *machine, SystemEvent::Unreadable);
    assert_eq!(sim.run("run_1").status, RunStatus::Failed);
    let ended = |sim: &Sim| -> Task {
        serde_json::from_str(&sim.rows[&(RowKind::Task, task.task_id.to_string())].body).unwrap()
    };
    assert_eq!(ended(&sim).status, TaskStatus::Canceled);
    let [Effect::CancelPeer { attempt, .. }] = machine.running()[..] else { panic!("{:?}", machine.running()) };
    // The agent's report no longer finds a run.
    let seen = PeerReport {
        state: PeerState::Completed,
        remote_task_id: None,
        remote_context_id: None,
        message: None,
        form: None,
        question: None,
        subject: None,
        output: serde_json::Value::Null,
        patience_ms: None,
    };
    let told = PeerEvent::Reported { task: task.task_id.clone(), attempt, report: Box::new(seen) };
    decide_on(&mut sim, &mut *machine, Event::Peer(told));
    assert!(machine.running().is_empty());
    assert!(!read(&sim).unwrap().is_unreadable(), "what cannot be read is not read again");
    assert_eq!(ended(&sim).cancel_heard, Some(true));
}

/// Nobody will say what the call used.
#[test]
fn a_call_in_flight_counts_what_it_had_reserved() {
    let mut sim = Sim::new(two_items);
    sim.allowance = caps::RESERVE;
    sim.ask("go").unwrap();
    // The step calls tools, and once one of them was refused, its model is asked again.
    sim.step();
    sim.step();
    sim.step();
    sim.answer(0, |answer| answer.approved = Some(false)).unwrap();
    let reserved = sim.machine.reservations().remove(0);
    let turn = sim.rows().find(|row| row.kind == RowKind::Turn).unwrap().id.clone();
    spoil(&mut sim, RowKind::Turn, &turn);
    let mut machine = read(&sim).unwrap();
    decide(&mut sim, &mut *machine, SystemEvent::Unreadable);
    let took = caps::counted(&sim);
    assert_eq!(took.len(), 3, "of the plan, the first call of the step and this one");
    let (_, took) = took.iter().find(|(stream, _)| stream == reserved.stream.as_str()).unwrap();
    assert_eq!(i64::try_from(took.usage.input_tokens + took.usage.output_tokens), Ok(reserved.tokens));
    let counted = sim.run("run_1").counters.usage;
    assert_eq!(counted.output_tokens, 2 * 5 + took.usage.output_tokens, "{counted:?}");
}

#[test]
fn the_head_of_a_newer_version_is_left_to_it() {
    let mut sim = busy();
    sim.head = sim.head.replacen("\"version\":0", "\"version\":999", 1);
    assert_eq!(read(&sim).err().unwrap().code, Code::UnreadableState);
}
