//! PES: plan, execute, synthesize. A run is planned, its items are carried out in the order of their dependencies, and
//! what they brought becomes one answer.
//!
//! The state says what it waits for: every model call, tool call and question is a slot, committed before it is acted on.
//! One transition takes one event, changes what it must, and starts whatever may start (`schedule`), so that the next
//! calls stand in the same commit as the answer that made them possible.

mod agent_state;
mod ask;
mod batch;
mod budget;
mod call;
mod cancel;
mod decide;
mod delegate;
mod edit;
mod execute;
mod failures;
mod finish;
mod fit;
mod flow;
mod forecast;
mod forget;
mod fork;
mod item;
mod list;
mod load;
mod names;
mod offer;
mod opening;
mod pause;
mod peer;
mod plan;
mod question;
mod record;
mod recover;
mod redo;
mod refine;
mod render;
mod reply;
mod required_tools;
mod resume;
mod retry;
mod review;
mod rows;
mod running;
mod schedule;
mod slots;
mod state;
mod summary;
mod suspend;
mod synthesize;
mod turns;
mod tx;
mod view;

use serde_json::Value;

use crate::domain::fault::Fault;
use crate::domain::forecast::PlanForecast;
use crate::domain::ids::{CallId, TaskId};
use crate::domain::run::Run;
use crate::domain::settings::RunSettings;
use crate::domain::tool::PendingQuestion;
use crate::effect::Effect;
use crate::event::Event;
use crate::step::Step;
use crate::{Core, Illegal, Invocation, Loaded, Material, Needs, PeerCallInput, Prompt, Stamp, World};

pub use state::{Shape, State};
pub(super) use view::pending;

/// The plan, execute, synthesize core.
pub struct Pes;

/// The same machine for runs of another shape.
pub(super) fn load_as(shape: Shape, loaded: Loaded) -> Result<State, Fault> {
    load::load(shape, loaded)
}

impl Core for Pes {
    const NAME: &'static str = "pes";
    const REVIEWS_PLANS: bool = true;
    type State = State;

    fn load(loaded: Loaded) -> Result<State, Fault> {
        load::load(Shape::Planned, loaded)
    }
    fn decide(state: &mut State, world: &World<'_>, stamp: Stamp, event: Event) -> Result<Step, Illegal> {
        decide::decide(state, world, stamp, event)
    }
    fn running(state: &State) -> Vec<Effect> {
        running::running(state)
    }
    fn is_active(state: &State) -> bool {
        state.is_active()
    }
    fn needs(state: &State, effect: &Effect) -> Needs {
        render::needs(state, effect)
    }
    fn request(state: &State, world: &World<'_>, effect: &Effect, material: &Material) -> Option<Prompt> {
        render::request(state, world, effect, material)
    }
    fn invocation(state: &State, call: &CallId) -> Option<Invocation> {
        running::invocation(state, call)
    }
    fn peer_call_input(state: &State, task: &TaskId) -> Option<PeerCallInput> {
        running::peer_call_input(state, task)
    }
    fn asked(state: &State, call: &CallId) -> Option<PendingQuestion> {
        state.calls.get(call).and_then(|call| call.record.asked.clone())
    }
    fn is_unreadable(state: &State) -> bool {
        !state.unreadable.is_empty()
    }
    fn view(state: &State) -> Value {
        view::view(state)
    }
    fn forecast(state: &State, world: &World<'_>, next: &RunSettings) -> Option<PlanForecast> {
        let settings = state.run().map_or(next, |run| &run.settings);
        (state.shape == Shape::Planned).then(|| forecast::forecast(state, world, settings))
    }
    fn run(state: &State) -> Option<&Run> {
        state.run()
    }
}
