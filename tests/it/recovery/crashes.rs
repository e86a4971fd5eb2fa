//! Threads that break whoever works on them: set aside after three times, and only they.

use std::sync::Arc;

use pes::domain::fault::{Code, Fault};
use pes::domain::ids::{CallId, TaskId};
use pes::domain::run::{Run, RunStatus};
use pes::domain::tool::Asked;
use pes::engine::effect::Effect;
use pes::engine::event::Event;
use pes::engine::pes::Pes;
use pes::engine::step::Step;
use pes::engine::{
    DynCore, Illegal, Invocation, Loaded, Machine, Material, Mission, Needs, Prompt, Registered, Stamp, World,
};
use pes::store::Store;
use pes::store::memory::Memory;
use pes::{Config, Instance};
use serde_json::Value;

use super::probe::{Probe, ask, equipped, instance};
use crate::support::http::soon;

/// Its end: the status, and the error that it names.
async fn ended(instance: &Instance, run: &pes::domain::ids::RunId) -> (RunStatus, Option<Code>) {
    let at_most = std::time::Duration::from_secs(30);
    let waited = soon(instance.runtime().wait_run(instance.caller(), run, at_most)).await.unwrap();
    let error = waited.run.result.and_then(|result| result.metadata.error);
    (waited.run.status, error.map(|error| error.code))
}

#[tokio::test]
async fn a_thread_on_which_three_processes_died_is_set_aside() {
    let (store, probe) = (Arc::new(Memory::new()) as Arc<dyn Store>, Probe::new());
    let mut process = instance(store.clone(), &probe, |_| {}).await;
    let run = ask(&process, "t", "hang").await;
    let mut dead = Vec::new();
    for died in 0..3 {
        probe.reaches(|tally| tally.begun == died + 1).await;
        let next = instance(store.clone(), &probe, |_| {}).await;
        dead.push(std::mem::replace(&mut process, next));
    }
    assert_eq!(ended(&process, &run).await, (RunStatus::Failed, Some(Code::Quarantined)));
    assert_eq!(probe.tally().begun, 3, "and not once more");
    let thread = process.runtime().thread(process.caller(), &"t".into()).await.unwrap();
    assert_eq!(thread.status.as_str(), "quarantined");
    let lifted = ask(&process, "t", "call").await;
    assert_eq!(ended(&process, &lifted).await, (RunStatus::Completed, None), "the next request lifts it");
}

/// PES, but it breaks on what a tool brings to a run that asks for it.
struct Breaking;

struct Broken(Box<dyn Machine>);

impl DynCore for Breaking {
    fn name(&self) -> &'static str {
        "breaking"
    }
    fn load(&self, loaded: Loaded) -> Result<Box<dyn Machine>, Fault> {
        Ok(Box::new(Broken(Registered::<Pes>::new().load(loaded)?)))
    }
}

impl Machine for Broken {
    fn decide(&mut self, world: &World<'_>, stamp: Stamp, event: Event) -> Result<Step, Illegal> {
        let is_poison = self.0.run().is_some_and(|run| run.query == "poison");
        assert!(!(is_poison && matches!(event, Event::ToolReturned { .. })), "it was told to break");
        self.0.decide(world, stamp, event)
    }
    fn running(&self) -> Vec<Effect> {
        self.0.running()
    }
    fn is_active(&self) -> bool {
        self.0.is_active()
    }
    fn needs(&self, effect: &Effect) -> Needs {
        self.0.needs(effect)
    }
    fn request(&self, world: &World<'_>, effect: &Effect, material: &Material) -> Option<Prompt> {
        self.0.request(world, effect, material)
    }
    fn invocation(&self, call: &CallId) -> Option<Invocation> {
        self.0.invocation(call)
    }
    fn mission(&self, task: &TaskId) -> Option<Mission> {
        self.0.mission(task)
    }
    fn asked(&self, call: &CallId) -> Option<Asked> {
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
    let probe = Probe::new();
    let breaking = |config: &mut Config| config.agent.core = "breaking".to_owned();
    let instance =
        equipped(&probe, breaking, |built| built.store(Arc::new(Memory::new())).core(Arc::new(Breaking))).await;
    let poison = ask(&instance, "p", "poison").await;
    let sound = ask(&instance, "s", "call").await;
    assert_eq!(ended(&instance, &sound).await, (RunStatus::Completed, None));
    assert_eq!(ended(&instance, &poison).await, (RunStatus::Failed, Some(Code::Quarantined)));
    assert_eq!(probe.tally().begun, 1 + 3);
    let again = ask(&instance, "s", "call").await;
    assert_eq!(ended(&instance, &again).await, (RunStatus::Completed, None));
}
