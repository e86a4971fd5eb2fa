//! A driver in memory: it stores what the engine commits, performs effects with a scripted model and scripted tools,
//! and can crash after any commit. It checks the invariants of a transition after every commit.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use pes_engine::domain::fault::Fault;
use pes_engine::domain::hitl::{Answer, Suspension};
use pes_engine::domain::ids::{CallId, PayloadId, StreamId, TaskId};
use pes_engine::domain::model::{ModelFailure, ModelReply, ModelRequest};
use pes_engine::domain::observation::{ObservationType, Record};
use pes_engine::domain::payload::{self, Payloads};
use pes_engine::domain::run::{Run, RunStatus};
use pes_engine::domain::thread::Limits;
use pes_engine::domain::tool::CallCode;
use pes_engine::effect::Effect;
use pes_engine::event::{Event, ModelEvent, PeerEvent, PersonEvent, SystemEvent, ToolEvent};
use pes_engine::pes::Pes;
use pes_engine::step::{self, Keep, Row, RowKind, Step};
use pes_engine::{Allowance, Core, Loaded, Machine, PeerCallInput, Prompt, PromptMaterial, RunAdmission, Stamp, World};
use serde_json::Value;

use super::fold_check::FoldCheck;
use super::peers::Peers;
pub use super::script::*;

/// A scripted model's reply to a request.
pub type Script = Box<dyn FnMut(&ModelRequest) -> Result<ModelReply, ModelFailure>>;

pub struct Sim {
    core: Arc<dyn Core>,
    pub machine: Box<dyn Machine>,
    pub tools: Tools,
    pub peers: Peers,
    pub limits: Limits,
    pub book: Book,
    pub allowance: Allowance,
    pub admission: RunAdmission,
    pub head: String,
    pub rows: BTreeMap<(RowKind, String), Row>,
    payloads: Payloads,
    floor: i64,
    pub records: Vec<Record>,
    pub steps: Vec<Step>,
    fold_check: FoldCheck,
    pub now: i64,
    seed: u64,
    pub epoch: i64,
    /// Whether the committer holds the lease.
    pub holds: bool,
    /// Effects started and not answered yet.
    pub in_flight: Vec<Effect>,
    pub script: Script,
    /// How often each call was started.
    pub started: HashMap<CallId, u32>,
    pub prompts: Vec<ModelRequest>,
    pub next_run: u32,
    /// The limit for requested runs.
    pub history_limit: u32,
    /// The author of answers.
    pub answerer: &'static str,
}

impl Sim {
    pub fn new(script: impl FnMut(&ModelRequest) -> Result<ModelReply, ModelFailure> + 'static) -> Self {
        Self::of(Arc::new(Pes::planned()), script)
    }

    pub fn of(
        core: Arc<dyn Core>,
        script: impl FnMut(&ModelRequest) -> Result<ModelReply, ModelFailure> + 'static,
    ) -> Self {
        let loaded = Loaded::empty("t1".into());
        Self {
            machine: core.load(loaded).unwrap(),
            core,
            tools: Tools::default(),
            peers: Peers::default(),
            limits: Limits::default(),
            book: Book::default(),
            allowance: Allowance::default(),
            admission: RunAdmission::Now,
            head: String::new(),
            rows: BTreeMap::new(),
            payloads: Payloads::new(),
            floor: 0,
            records: Vec::new(),
            steps: Vec::new(),
            fold_check: FoldCheck::default(),
            now: 1_760_000_000_000,
            seed: 1,
            epoch: 1,
            holds: true,
            in_flight: Vec::new(),
            script: Box::new(script),
            started: HashMap::new(),
            prompts: Vec::new(),
            next_run: 0,
            history_limit: 50,
            answerer: "ann",
        }
    }

    pub fn apply(&mut self, event: Event) -> Result<Step, Fault> {
        self.now += 1;
        self.seed = self.seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let stamp = Stamp { now: self.now, seed: self.seed, holder: self.holds.then_some(self.epoch) };
        let world = World {
            tools: &self.tools,
            models: &self.book,
            limits: &self.limits,
            allowance: &self.allowance,
            admission: self.admission,
        };
        let result = step::decide(&mut *self.machine, &world, stamp, event);
        match &result {
            // A refusal changes nothing: the state equals the stored one.
            Err(_) => self.reload(),
            Ok(step) => self.commit(step),
        }
        result
    }

    fn commit(&mut self, step: &Step) {
        if step.is_noop {
            assert!(step.rows.is_empty() && step.records.is_empty());
            return;
        }
        let mut seen = BTreeSet::new();
        for row in &step.rows {
            assert!(seen.insert((row.kind, row.id.clone())), "row {:?} {} is written twice", row.kind, row.id);
            let before = self.rows.insert((row.kind, row.id.clone()), row.clone());
            let is_again = before.is_some() && row.kind == RowKind::Payload;
            assert!(!is_again, "payload {} is written again", row.id);
        }
        for (id, value) in &step.payloads {
            self.payloads.insert(id.clone(), value.clone());
        }
        if let Some(head) = &step.head {
            self.head = head.clone();
        }
        self.floor = step.floor;
        self.records.extend(step.records.iter().cloned());
        self.steps.push(step.clone());
        let running = self.machine.running();
        for effect in running.iter().filter(|effect| !self.in_flight.contains(effect)) {
            assert!(self.holds, "{effect:?} runs although the committer holds no lease");
            if let Effect::CallTool { call, .. } = effect {
                *self.started.entry(call.clone()).or_default() += 1;
            }
        }
        self.in_flight = running;
        self.fold_check.check(&step.records, &self.machine.view());
        self.check(step);
    }

    fn check(&self, step: &Step) {
        self.check_bytes(step);
        let is_parked = !self.suspensions().is_empty();
        let is_idle = self.machine.run().is_none();
        let waits = step.wake_at.is_some();
        assert!(
            is_idle || is_parked || waits || !self.in_flight.is_empty(),
            "stuck: nothing runs, nothing waits; {}",
            self.machine.view()
        );
        let waits_to_begin = self.rows.get(&(RowKind::WaitsToBegin, String::new()));
        assert_eq!(
            waits_to_begin.is_some_and(|row| row.ord > 0),
            self.machine.waits_to_begin(),
            "the server would not wake it"
        );
        if self.machine.is_active() {
            assert!(waits || !self.in_flight.is_empty(), "active, but nothing will happen");
        }
    }

    /// The state as a new process loads it.
    pub fn reload(&mut self) {
        let view = self.machine.view();
        let rows = self.rows.values().filter(|row| match row.keep {
            Keep::Always => true,
            Keep::Never | Keep::Superseded => false,
            Keep::UntilFloor => row.ord >= self.floor,
        });
        let mut rows: Vec<Row> = rows.cloned().collect();
        rows.sort_by(|a, b| (a.kind, a.ord, &a.id).cmp(&(b.kind, b.ord, &b.id)));
        let last_seq = self.records.len() as i64;
        let loaded = Loaded { thread_id: "t1".into(), head: self.head.clone(), rows, last_seq };
        self.machine = self.core.load(loaded).unwrap();
        assert_eq!(view, self.machine.view(), "what was stored is not what was in memory");
        assert_eq!(self.in_flight, self.machine.running());
    }

    /// The process dies and another one claims the thread.
    pub fn crash(&mut self) -> Step {
        self.reload();
        for effect in self.in_flight.clone() {
            if let Effect::Delegate { task, .. } = effect {
                let (peer_call_input, arguments) = self.peer_call_input(&task);
                self.peers.take_unheard(&peer_call_input, &arguments);
            }
        }
        self.in_flight.clear();
        self.epoch += 1;
        self.holds = true;
        self.apply(Event::System(SystemEvent::Recovered)).unwrap()
    }

    /// Performs effects, oldest first, until nothing runs and no timer is due.
    pub fn go(&mut self) {
        for _ in 0..10_000 {
            if !self.step() {
                return;
            }
        }
        panic!("the run does not come to rest");
    }

    /// Performs one effect, or wakes the thread if a timer is set. `false`: the thread is idle.
    pub fn step(&mut self) -> bool {
        if let Some(effect) = self.in_flight.first().cloned() {
            self.perform(&effect);
            return true;
        }
        let wake_at = self.steps.last().and_then(|step| step.wake_at);
        let waits = self.machine.run().is_none_or(|run| run.status == RunStatus::Waiting);
        if let Some(at) = wake_at.filter(|_| waits || self.machine.is_active()) {
            self.now = self.now.max(at);
            self.holds = true;
            self.wake().unwrap();
            return true;
        }
        false
    }

    pub fn perform(&mut self, effect: &Effect) {
        match effect {
            Effect::CallModel { stream, attempt } => {
                let request = match self.prompt(effect) {
                    Prompt::Call(request) => *request,
                    Prompt::Overflows(extent) => {
                        let (stream, attempt) = (stream.clone(), *attempt);
                        let event = Event::Model(ModelEvent::Overflowed { stream, attempt, extent });
                        return drop(self.apply(event).unwrap());
                    }
                };
                check_prompt(&request);
                let fit = request.context.fit;
                let answer = (self.script)(&request).map(|reply| ModelReply { fit, ..reply });
                self.prompts.push(request);
                let (stream, attempt) = (stream.clone(), *attempt);
                let event = match answer {
                    Ok(reply) => Event::Model(ModelEvent::Replied { stream, attempt, reply: Box::new(reply) }),
                    Err(failure) => Event::Model(ModelEvent::Failed { stream, attempt, failure }),
                };
                self.apply(event).unwrap();
            }
            Effect::CallTool { call, attempt } => {
                let invocation = self.machine.invocation(call).expect("a running call can be invoked");
                let arguments = payload::inline(invocation.arguments, &self.payloads);
                let outcome = self.tools.run(&invocation.tool_name, arguments, *attempt);
                if outcome.result.as_ref().is_err_and(|error| error.has(CallCode::Unavailable)) {
                    // It says that it did nothing.
                    self.started.entry(call.clone()).and_modify(|times| *times -= 1);
                }
                let (call, attempt, outcome) = (call.clone(), *attempt, Box::new(outcome));
                self.apply(Event::Tool(ToolEvent::Returned { call, attempt, outcome })).unwrap();
            }
            Effect::Delegate { task, attempt }
            | Effect::AskPeer { task, attempt }
            | Effect::CancelPeer { task, attempt } => {
                let (peer_call_input, arguments) = self.peer_call_input(task);
                let (task, attempt) = (task.clone(), *attempt);
                let event = match self.peers.perform(&peer_call_input, &arguments) {
                    Ok(seen) => Event::Peer(PeerEvent::Reported { task, attempt, report: Box::new(seen) }),
                    Err(failure) => Event::Peer(PeerEvent::Failed { task, attempt, failure }),
                };
                self.apply(event).unwrap();
            }
        }
    }

    pub fn peer_call_input(&self, task: &TaskId) -> (PeerCallInput, Value) {
        let peer_call_input = self.machine.peer_call_input(task).expect("an action under way can be performed");
        let arguments = payload::inline(peer_call_input.arguments.clone(), &self.payloads);
        (peer_call_input, arguments)
    }

    pub fn prompt(&self, effect: &Effect) -> Prompt {
        let needs = self.machine.prompt_needs(effect);
        let mut material = PromptMaterial::default();
        for id in needs.payloads {
            material.payloads.insert(id.clone(), self.payload(&id));
        }
        material.history = needs.history.map(|recent| self.recent(&recent)).unwrap_or_default();
        let world = World {
            tools: &self.tools,
            models: &self.book,
            limits: &self.limits,
            allowance: &self.allowance,
            admission: self.admission,
        };
        self.machine.prompt(&world, effect, &material).expect("a running call has a prompt")
    }

    fn payload(&self, id: &PayloadId) -> Arc<Value> {
        self.payloads.get(id).expect("every reference is stored").clone()
    }

    pub fn answer(&mut self, at: usize, answer: impl FnOnce(&mut Answer)) -> Result<Step, Fault> {
        let mut body = Answer {
            suspension_id: self.suspensions()[at].suspension_id.clone(),
            digest: None,
            approved: None,
            value: None,
            modified_args: None,
            reason: None,
            action: None,
        };
        answer(&mut body);
        self.apply(Event::Person(PersonEvent::Resumed { answer: Box::new(body), by: self.answerer.into(), said: None }))
    }

    /// Open ones, oldest first.
    pub fn suspensions(&self) -> Vec<Suspension> {
        let open = self.rows.values().filter(|row| row.kind == RowKind::Suspension && row.keep == Keep::Always);
        let mut open: Vec<&Row> = open.collect();
        open.sort_by_key(|row| row.ord);
        open.iter().map(|row| serde_json::from_str(&row.body).unwrap()).collect()
    }

    pub fn run(&self, id: &str) -> Run {
        let row = &self.rows[&(RowKind::Run, id.to_owned())];
        serde_json::from_str(&row.body).unwrap()
    }

    pub fn view(&self) -> Value {
        payload::inline(self.machine.view(), &self.payloads)
    }

    pub fn item(&self, id: &str) -> Value {
        let view = self.view();
        let list = view["todoList"].as_array().unwrap();
        list.iter().find(|item| item["id"] == id).unwrap_or_else(|| panic!("there is no item {id}")).clone()
    }

    pub fn content(&self, record: &Record) -> Value {
        payload::inline(record.fact.content().clone(), &self.payloads)
    }

    /// Contents of all records of a type, with payloads inlined.
    pub fn contents(&self, kind: ObservationType) -> Vec<Value> {
        self.records.iter().filter(|record| record.kind() == kind).map(|record| self.content(record)).collect()
    }

    /// The types of all records, items in brackets; figures of streams are left out.
    pub fn kinds(&self) -> Vec<String> {
        let told = self.records.iter().filter(|record| record.kind() != ObservationType::LlmStreamMetadata);
        told.map(|record| match &record.parent_id {
            Some(item) => format!("{}[{item}]", record.kind().as_str()),
            None => record.kind().as_str().to_owned(),
        })
        .collect()
    }

    /// Recorded on an idle thread: a person's edit belongs to the last run, which has ended.
    pub fn is_after_the_end(&self, record: &Record) -> bool {
        matches!(
            record.kind(),
            ObservationType::PlanUpdate | ObservationType::StateUpdate | ObservationType::ItemStatusChange
        )
    }

    pub fn is_idle(&self) -> bool {
        self.machine.run().is_none()
    }
    pub fn is_active(&self) -> bool {
        self.machine.is_active()
    }

    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    pub fn stream(&self) -> (StreamId, u32) {
        self.in_flight
            .iter()
            .find_map(|effect| match effect {
                Effect::CallModel { stream, attempt } => Some((stream.clone(), *attempt)),
                Effect::CallTool { .. }
                | Effect::Delegate { .. }
                | Effect::AskPeer { .. }
                | Effect::CancelPeer { .. } => None,
            })
            .expect("a model call runs")
    }
}
