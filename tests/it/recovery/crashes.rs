//! A thread that crashes its process is quarantined after three crashes, and no other thread is.

use std::sync::Arc;
use std::time::Duration;

use pes::domain::fault::{Code, Fault};
use pes::domain::ids::{CallId, TaskId};
use pes::domain::run::{Run, RunStatus};
use pes::domain::tool::PendingQuestion;
use pes::engine::effect::Effect;
use pes::engine::event::{Event, ToolEvent};
use pes::engine::pes::Pes;
use pes::engine::step::Step;
use pes::engine::{
    Core, Invocation, Loaded, Machine, PeerCallInput, Prompt, PromptMaterial, PromptNeeds, Stamp, World,
};
use pes::live::EncodedKind;
use pes::service::changes;
use pes::service::runs::{self, ProcessAsk};
use pes::store::Store;
use pes::{AgentProps, Config, Instance};
use serde_json::Value;
use tokio::time::sleep;
use uuid::Uuid;

use super::probe::{Probe, ask, equipped, instance};
use crate::store::bed::registration;
use crate::support::http::{soon, until};
use crate::support::postgres::Database;
use crate::support::store::{Mood, Moody, fresh_store, store_on};
use pes::service::threads;

/// The run's final status and error code.
async fn ended(instance: &Instance, run: &pes::domain::ids::RunId) -> (RunStatus, Option<Code>) {
    let at_most = Duration::from_secs(30);
    let waited = soon(runs::wait(instance.service(), instance.caller(), run, at_most)).await.unwrap();
    let error = waited.run.result.and_then(|result| result.metadata.error);
    (waited.run.status, error.map(|error| error.code))
}

async fn refused(instance: &Instance, thread: &str) -> Code {
    let ask = ProcessAsk { query: "call".to_owned(), ..ProcessAsk::default() };
    let refused = runs::process(instance.service(), instance.caller(), &thread.into(), ask, None).await;
    refused.map(drop).unwrap_err().code
}

/// Simulates kill -9: from here on nothing of this process reaches the store, so that its leases are not released as on
/// a stop. Its memory is kept to the end of the test.
fn die(store: &Moody, process: Instance, dead: &mut Vec<Instance>) {
    store.set("*", Mood::Fails);
    dead.push(process);
}

#[tokio::test]
async fn a_thread_on_which_three_processes_died_is_set_aside() {
    let (inner, probe) = (fresh_store().await, Probe::new());
    let mut dead = Vec::new();
    let mut run = None;
    for died in 0..3 {
        let store = Moody::over(inner.clone());
        let process = instance(store.clone(), &probe, |_| {}).await;
        if died == 0 {
            run = Some(ask(&process, "t", "hang").await);
        }
        probe.reaches(|tally| tally.begun == died + 1).await;
        die(&store, process, &mut dead);
    }
    let (process, run) = (instance(inner, &probe, |_| {}).await, run.unwrap());
    assert_eq!(ended(&process, &run).await, (RunStatus::Failed, Some(Code::Quarantined)));
    assert_eq!(probe.tally().begun, 3, "and not once more");
    let (service, caller) = (process.service(), process.caller());
    let status = async || threads::get(service, caller, &"t".into()).await.unwrap().status;
    assert_eq!(status().await.as_str(), "quarantined");
    assert_eq!(refused(&process, "t").await, Code::ThreadQuarantined);
    let released = threads::release(service, caller, &"t".into()).await.unwrap();
    assert_eq!(released.status.as_str(), "idle");
    let next = ask(&process, "t", "call").await;
    assert_eq!(ended(&process, &next).await, (RunStatus::Completed, None));
    let again = threads::release(service, caller, &"t".into()).await.expect_err("there is nothing to release");
    assert_eq!(again.code, Code::NotQuarantined);
    assert!(again.detail.contains("/threads/t/resume"), "{again}");
}

/// One crash with many threads loaded is counted for none of them, and neither is the next.
#[tokio::test]
async fn what_dies_among_others_is_not_set_aside() {
    let (inner, probe) = (fresh_store().await, Probe::new());
    let mut dead = Vec::new();
    let mut begun = 0;
    for died in 0..2 {
        let store = Moody::over(inner.clone());
        let process = instance(store.clone(), &probe, |_| {}).await;
        if died == 0 {
            for thread in ["a", "b", "c", "d"] {
                ask(&process, thread, "hang").await;
            }
        }
        begun += 4;
        probe.reaches(|tally| tally.begun == begun).await;
        die(&store, process, &mut dead);
    }
    // It died again at once: now half of them are loaded.
    let process = instance(inner.clone(), &probe, |_| {}).await;
    probe.reaches(|tally| tally.begun == begun + 2).await;
    let mut waiting = 0;
    for thread in ["a", "b", "c", "d"] {
        let row = inner.thread(process.caller().tenant, &thread.into()).await.unwrap().unwrap();
        assert_eq!(row.crashes.attributed, 0, "{thread}");
        waiting += usize::from(!row.is_owned);
    }
    assert_eq!((waiting, probe.tally().begun), (2, begun + 2));
}

#[tokio::test]
async fn a_process_that_was_only_cut_off_counts_for_nobody() {
    let database = Database::fresh().await;
    let inner: Arc<dyn Store> = store_on(&database).await;
    let probe = Probe::new();
    let process = instance(inner.clone(), &probe, |config| config.runtime.lease_ms = 1_500).await;
    let run = ask(&process, "t", "hang").await;
    for times in 1..=4 {
        probe.reaches(|tally| tally.begun >= times).await;
        // Its registration is gone, as after a stall of the database, and it is notified.
        let row = inner.thread(process.caller().tenant, &"t".into()).await.unwrap().unwrap();
        inner.renew(row.replica.unwrap(), -1).await.unwrap();
        inner.end_expired().await.unwrap();
    }
    probe.reaches(|tally| tally.begun >= 5).await;
    let seen = runs::get(process.service(), process.caller(), &run).await.unwrap();
    assert_eq!(seen.status, RunStatus::Running);
}

/// PES, but it panics on a tool's result in a run that asks for that, or on each of the run's prompts.
struct Breaking;

struct Broken(Box<dyn Machine>);

impl Core for Breaking {
    fn name(&self) -> &str {
        "breaking"
    }
    fn load(&self, loaded: Loaded) -> Result<Box<dyn Machine>, Fault> {
        let machine = Pes::planned().load(loaded)?;
        let is_poison = machine.run().is_some_and(|run| &*run.query == "unreadable");
        assert!(!is_poison, "it was told to break");
        Ok(Box::new(Broken(machine)))
    }
}

impl Machine for Broken {
    fn decide(&mut self, world: &World<'_>, stamp: Stamp, event: Event) -> Result<Step, Fault> {
        let is_poison = self.0.run().is_some_and(|run| &*run.query == "poison");
        assert!(!(is_poison && matches!(event, Event::Tool(ToolEvent::Returned { .. }))), "it was told to break");
        self.0.decide(world, stamp, event)
    }
    fn running(&self) -> Vec<Effect> {
        self.0.running()
    }
    fn is_active(&self) -> bool {
        self.0.is_active()
    }
    fn prompt_needs(&self, effect: &Effect) -> PromptNeeds {
        self.0.prompt_needs(effect)
    }
    fn prompt(&self, world: &World<'_>, effect: &Effect, material: &PromptMaterial) -> Option<Prompt> {
        let is_poison = self.0.run().is_some_and(|run| &*run.query == "without prompts");
        assert!(!is_poison, "it was told to break");
        self.0.prompt(world, effect, material)
    }
    fn invocation(&self, call: &CallId) -> Option<Invocation> {
        self.0.invocation(call)
    }
    fn peer_call_input(&self, task: &TaskId) -> Option<PeerCallInput> {
        self.0.peer_call_input(task)
    }
    fn asked(&self, call: &CallId) -> Option<PendingQuestion> {
        self.0.asked(call)
    }
    fn view(&self) -> Value {
        self.0.view()
    }
    fn run(&self) -> Option<&Run> {
        self.0.run()
    }
}

#[tokio::test]
async fn a_thread_that_breaks_its_task_is_set_aside_and_no_other_notices() {
    let (store, probe) = (fresh_store().await, Probe::new());
    let breaking = |config: &mut Config| config.agent.core = "breaking".to_owned();
    let instance = equipped(&probe, breaking, |built| built.store(store).core(Arc::new(Breaking))).await;
    let poison = ask(&instance, "p", "poison").await;
    let sound = ask(&instance, "s", "call").await;
    assert_eq!(ended(&instance, &sound).await, (RunStatus::Completed, None));
    assert_eq!(ended(&instance, &poison).await, (RunStatus::Failed, Some(Code::Quarantined)));
    assert_eq!(probe.tally().begun, 1 + 3);
    let again = ask(&instance, "s", "call").await;
    assert_eq!(ended(&instance, &again).await, (RunStatus::Completed, None));
}

/// It is rebuilt without a crash: what crashed processes was the beginning of its run.
#[tokio::test]
async fn a_thread_whose_run_only_waits_to_begin_is_set_aside_with_it() {
    let (store, probe) = (fresh_store().await, Probe::new());
    let process = instance(store.clone(), &probe, |config| config.limits.tenant.running_runs = Some(1)).await;
    let first = ask(&process, "s", "wait").await;
    probe.reaches(|tally| tally.begun == 1).await;
    let waiting = ask(&process, "t", "call").await;
    let (service, caller) = (process.service(), process.caller());
    let row = store.thread(caller.tenant, &"t".into()).await.unwrap().unwrap();
    for _ in 0..3 {
        store.count_crash(row.pk).await.unwrap();
    }
    until("the waiting thread has left the memory", async || service.active_threads() == 1).await;
    probe.release();
    assert_eq!(ended(&process, &first).await, (RunStatus::Completed, None));
    assert_eq!(ended(&process, &waiting).await, (RunStatus::Failed, Some(Code::Quarantined)));
    assert_eq!(threads::get(service, caller, &"t".into()).await.unwrap().status.as_str(), "quarantined");
    assert_eq!((refused(&process, "t").await, probe.tally().begun), (Code::ThreadQuarantined, 1));
}

/// Both were loaded at two crashes, so a third must point at one of them.
#[tokio::test]
async fn a_suspect_whose_run_waits_to_begin_is_read_after_the_others() {
    let (inner, probe, mut dead) = (fresh_store().await, Probe::new(), Vec::new());
    let limited = |runs| {
        move |config: &mut Config| {
            config.limits.tenant.running_runs = Some(runs);
            config.runtime.crash_limit = 100;
        }
    };
    let store = Moody::over(inner.clone());
    let process = instance(store.clone(), &probe, limited(1)).await;
    ask(&process, "s", "hang").await;
    probe.reaches(|tally| tally.begun == 1).await;
    let waiting = ask(&process, "t", "call").await;
    for thread in ["s", "t", "t"] {
        let row = inner.thread(process.caller().tenant, &thread.into()).await.unwrap().unwrap();
        inner.count_crash(row.pk).await.unwrap();
    }
    die(&store, process, &mut dead);
    let store = Moody::over(inner.clone());
    store.set("load", Mood::Hangs);
    // It is known without reading any of them.
    store.set("threads_by_pk", Mood::Fails);
    let process = instance(store.clone(), &probe, limited(2)).await;
    let (mut loads, mut looks) = (0, 0);
    until("the sweeper has looked again while one is read", async || {
        loads += store.calls("load");
        looks += store.calls("tenants_to_begin") * loads.min(1);
        looks >= 4
    })
    .await;
    assert_eq!(loads, 1);
    store.set("load", Mood::Well);
    probe.reaches(|tally| tally.begun == 2).await;
    runs::cancel_thread(process.service(), process.caller(), &"s".into(), None).await.unwrap();
    assert_eq!(ended(&process, &waiting).await, (RunStatus::Completed, None));
}

/// The due threads are listed as running here, so that no store reports them as due.
#[tokio::test]
async fn a_thread_that_breaks_its_task_at_each_wake_up_is_set_aside_too() {
    let (store, probe) = (fresh_store().await, Probe::new());
    let breaking = |config: &mut Config| config.agent.core = "breaking".to_owned();
    let instance = equipped(&probe, breaking, |built| built.store(store).core(Arc::new(Breaking))).await;
    let fault = soon(instance.process(AgentProps::new("p", "without prompts"))).await.unwrap_err();
    assert_eq!(fault.code, Code::Internal, "it broke before it could answer: {fault:?}");
    let poison = threads::get(instance.service(), instance.caller(), &"p".into()).await.unwrap().last_run.unwrap();
    assert_eq!(ended(&instance, &poison.run_id).await, (RunStatus::Failed, Some(Code::Quarantined)));
}

/// 0.2 seconds after the crash, and after pauses that double from there.
#[tokio::test(start_paused = true)]
async fn a_crash_that_the_store_cannot_count_is_counted_later_and_tried_less_and_less_often() {
    let (store, probe) = (Moody::with_leases().await, Probe::new());
    let breaking = |config: &mut Config| config.agent.core = "breaking".to_owned();
    let instance = equipped(&probe, breaking, |built| built.store(store.clone()).core(Arc::new(Breaking))).await;
    store.set("count_crash", Mood::Fails);
    let poison = ask(&instance, "p", "poison").await;
    probe.reaches(|tally| tally.over == 1).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(store.calls("count_crash"), 8, "after 0.2, 0.6, 1.4, 3, 6.2, 12.6, 25.4 and 51 seconds");
    assert_eq!(probe.tally().begun, 1, "it is not woken before that");
    store.set("count_crash", Mood::Well);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(ended(&instance, &poison).await, (RunStatus::Failed, Some(Code::Quarantined)));
    assert_eq!(probe.tally().begun, 3);
}

/// An idle thread that kills each process that loads it for a request. The first crash is not attributed to it.
#[tokio::test]
async fn a_thread_that_kills_whoever_reads_it_for_a_request_is_set_aside() {
    let (inner, probe) = (fresh_store().await, Probe::new());
    let first = instance(Moody::over(inner.clone()), &probe, |_| {}).await;
    for thread in ["t", "s"] {
        let run = ask(&first, thread, "call").await;
        assert_eq!(ended(&first, &run).await, (RunStatus::Completed, None));
    }
    soon(first.service().drain()).await;
    let mut dead = Vec::new();
    for _ in 0..4 {
        let store = Moody::over(inner.clone());
        let process = instance(store.clone(), &probe, |_| {}).await;
        store.set("load", Mood::HangsOnce);
        tokio::select! {
            _ = refused(&process, "t") => panic!("it was answered"),
            () = store.holds("load") => {}
        }
        die(&store, process, &mut dead);
    }
    let store = Moody::over(inner.clone());
    let process = instance(store.clone(), &probe, |_| {}).await;
    let (service, caller) = (process.service(), process.caller());
    let mut changes = changes::open(service, caller).await.unwrap();
    changes.next().await;
    store.set("load", Mood::Fails);
    assert_eq!(refused(&process, "t").await, Code::ThreadQuarantined, "it is not even read");
    let told = soon(changes.next()).await;
    assert!(told.iter().any(|frame| frame.kind == EncodedKind::Thread), "whoever watches its tenant is told: {told:?}");
    store.set("load", Mood::Well);
    assert_eq!(threads::get(service, caller, &"t".into()).await.unwrap().status.as_str(), "quarantined");
    threads::release(service, caller, &"t".into()).await.unwrap();
    for thread in ["s", "t"] {
        let next = ask(&process, thread, "call").await;
        assert_eq!(ended(&process, &next).await, (RunStatus::Completed, None), "{thread}");
    }
}

#[tokio::test]
async fn a_thread_that_was_reserved_for_nothing_is_anybodys_again() {
    let (inner, probe) = (fresh_store().await, Probe::new());
    let died = Moody::over(inner.clone());
    let first = instance(died.clone(), &probe, |_| {}).await;
    let run = ask(&first, "t", "call").await;
    assert_eq!(ended(&first, &run).await, (RunStatus::Completed, None));
    died.set("*", Mood::Fails);
    let store = Moody::over(inner.clone());
    let process = instance(store.clone(), &probe, |_| {}).await;
    store.set("load", Mood::Hangs);
    let (service, caller) = (process.service(), process.caller());
    let row = async || inner.thread(caller.tenant, &"t".into()).await.unwrap().unwrap();
    let held = async {
        store.holds("load").await;
        assert!(row().await.is_owned, "before it is read");
        store.set("load", Mood::Well);
    };
    let (id, patch) = ("t".into(), serde_json::json!({ "title": "T" }));
    let (patched, ()) = soon(async { tokio::join!(threads::patch(service, caller, &id, patch), held) }).await;
    patched.unwrap();
    assert_eq!(row().await.replica, None);
    assert_eq!(row().await.crashes.attributed, 0);
}

/// It panics before anything can be committed, so the crash is counted elsewhere.
#[tokio::test]
async fn a_thread_that_cannot_even_be_rebuilt_is_set_aside() {
    let (inner, probe) = (fresh_store().await, Probe::new());
    let breaking = |config: &mut Config| config.agent.core = "breaking".to_owned();
    let equip = async |store: Arc<dyn Store>| {
        equipped(&probe, breaking, |built| built.store(store).core(Arc::new(Breaking))).await
    };
    let first = equip(inner.clone()).await;
    let run = ask(&first, "p", "unreadable").await;
    // Its planning call is running.
    soon(first.service().drain()).await;
    let process = equip(inner.clone()).await;
    assert_eq!(ended(&process, &run).await, (RunStatus::Failed, Some(Code::UnreadableState)));
    let (service, caller) = (process.service(), process.caller());
    assert_eq!(threads::get(service, caller, &"p".into()).await.unwrap().status.as_str(), "quarantined");
    assert_eq!(refused(&process, "p").await, Code::ThreadQuarantined);
    let sound = ask(&process, "s", "call").await;
    assert_eq!(ended(&process, &sound).await, (RunStatus::Completed, None));
    threads::release(service, caller, &"p".into()).await.unwrap();
    let next = ask(&process, "p", "call").await;
    assert_eq!(ended(&process, &next).await, (RunStatus::Completed, None));
}

#[tokio::test]
async fn a_start_that_refuses_its_settings_is_no_crash() {
    let store = fresh_store().await;
    let mut config = Config::default();
    config.agent.core = "nope".to_owned();
    let refused = Instance::build(config).store(store.clone()).open().await.err().expect("there is no such core");
    assert!(refused.to_string().starts_with("There is no agent core `nope`; "), "{refused}");
    // The next start counts whoever is still registered.
    store.register(registration(Uuid::new_v4()), 60_000).await.unwrap();
    assert_eq!(store.process_crashes().await.unwrap(), 0);
}
