//! PES: plan, execute, synthesize. A run is planned, its items are carried out in the order of their dependencies, and
//! their results become one answer.
//!
//! The state says what it waits for: every model call, tool call and question is a slot, committed before it is acted
//! on. One transition takes one event, makes its changes, and starts whatever may start (`schedule`), so that the next
//! calls are in the same commit as the answer that made them possible.

mod decide;
mod past;
mod peers;
mod people;
mod plan;
mod run;
mod settle;
pub(crate) mod state;
mod tx;
mod work;

use std::sync::Arc;

use serde_json::Value;

use crate::domain::fault::Fault;
use crate::domain::forecast::PlanForecast;
use crate::domain::hitl::{AskedQuestion, Suspension};
use crate::domain::ids::{CallId, TaskId};
use crate::domain::run::Run;
use crate::domain::settings::RunSettings;
use crate::domain::tool::PendingQuestion;
use crate::domain::usage::Nanos;
use crate::effect::Effect;
use crate::event::Event;
use crate::history::{ShownPlan, view};
use crate::prompt::render;
use crate::simple::SimpleCore;
use crate::step::Step;
use crate::{
    Core, Invocation, Loaded, Machine, PastCall, PeerCallInput, Prompt, PromptMaterial, PromptNeeds, Reservation,
    Stamp, World,
};

pub use state::funds::{least_cost, least_tokens};
use state::{Shape, State, effects, funds};

/// The plan, execute, synthesize core, and the same without a plan.
pub struct Pes {
    shape: Shape,
    simple: Option<Arc<dyn SimpleCore>>,
}

impl Pes {
    /// `pes`: plan, items, synthesis.
    pub fn planned() -> Self {
        Self { shape: Shape::Planned, simple: None }
    }

    /// `react`: one loop of model calls and tool calls, no plan and no synthesis; the model's last reply is the answer.
    /// A run is one item whose task is the user's query, so queue, batches, questions to people, cancel and recovery
    /// are the same.
    pub fn react() -> Self {
        Self { shape: Shape::Single, simple: None }
    }

    /// A custom core: as `react`, but this function decides each next step.
    pub fn simple(core: impl SimpleCore) -> Self {
        Self { shape: Shape::Single, simple: Some(Arc::new(core)) }
    }
}

/// For a thread of any core that crashes the process when it is loaded: a machine that is unreadable except for its
/// runs and its questions, and ends them. The head that it writes is one of [`Pes`].
pub fn runs_only(loaded: Loaded) -> Box<dyn Machine> {
    Box::new(state::load::load_runs(loaded))
}

impl Core for Pes {
    fn name(&self) -> &str {
        match (&self.simple, self.shape) {
            (Some(core), _) => core.name(),
            (None, Shape::Planned) => "pes",
            (None, Shape::Single) => "react",
        }
    }
    fn load(&self, loaded: Loaded) -> Result<Box<dyn Machine>, Fault> {
        Ok(Box::new(state::load::load(self.shape, self.simple.clone(), loaded)?))
    }
    fn reviews_plans(&self) -> bool {
        self.shape == Shape::Planned
    }
    fn past(&self, call: PastCall) -> Option<Box<dyn Machine>> {
        Some(Box::new(past::state(self.shape, self.simple.clone(), call)))
    }
}

impl Machine for State {
    fn decide(&mut self, world: &World<'_>, stamp: Stamp, event: Event) -> Result<Step, Fault> {
        decide::decide(self, world, stamp, event)
    }
    fn running(&self) -> Vec<Effect> {
        effects::running(self)
    }
    fn is_active(&self) -> bool {
        State::is_active(self)
    }
    fn waits_to_begin(&self) -> bool {
        State::waits_to_begin(self)
    }
    fn prompt_needs(&self, effect: &Effect) -> PromptNeeds {
        render::needs(self, effect)
    }
    fn prompt(&self, world: &World<'_>, effect: &Effect, material: &PromptMaterial) -> Option<Prompt> {
        render::request(self, world, effect, material)
    }
    fn invocation(&self, call: &CallId) -> Option<Invocation> {
        effects::invocation(self, call)
    }
    fn peer_call_input(&self, task: &TaskId) -> Option<PeerCallInput> {
        effects::peer_call_input(self, task)
    }
    fn asked(&self, call: &CallId) -> Option<PendingQuestion> {
        self.calls.get(call).and_then(|call| call.record.asked.clone())
    }
    fn view(&self) -> Value {
        view::view(self)
    }
    fn plan(&self) -> serde_json::Result<ShownPlan> {
        Ok(view::plan(self))
    }
    fn questions(&self) -> Vec<AskedQuestion> {
        self.suspensions.values().map(Suspension::asked).collect()
    }
    fn forecast(&self, world: &World<'_>, next: &RunSettings) -> Option<PlanForecast> {
        let settings = self.run.as_ref().map_or(next, |run| &*run.settings);
        (self.shape == Shape::Planned).then(|| plan::forecast::forecast(self, world, settings))
    }
    fn run(&self) -> Option<&Run> {
        self.run.as_ref()
    }
    fn budget_left(&self) -> Option<Nanos> {
        State::budget_left(self)
    }
    fn reservations(&self) -> Vec<Reservation> {
        funds::reservations(self)
    }
    fn is_unreadable(&self) -> bool {
        !self.unreadable.names.is_empty()
    }
}
