//! ReAct: one loop of thinking and calling, no plan and no synthesis; the loop's last word is the answer.
//!
//! A run is one item whose task is the user's query, so queue, batches, questions to people, cancel and recovery are
//! those of PES: the same machine with another shape.

use serde_json::Value;

use super::effect::Effect;
use super::event::Event;
use super::pes::{self, Pes, Shape, State};
use super::step::Step;
use super::{Core, Illegal, Invocation, Loaded, Material, Needs, Prompt, Stamp, World};
use crate::domain::fault::Fault;
use crate::domain::ids::CallId;
use crate::domain::run::Run;
use crate::domain::tool::PendingQuestion;

/// The core without a plan.
pub struct React;

impl Core for React {
    const NAME: &'static str = "react";
    type State = State;

    fn load(loaded: Loaded) -> Result<State, Fault> {
        pes::load_as(Shape::Single, loaded)
    }
    fn decide(state: &mut State, world: &World<'_>, stamp: Stamp, event: Event) -> Result<Step, Illegal> {
        Pes::decide(state, world, stamp, event)
    }
    fn running(state: &State) -> Vec<Effect> {
        Pes::running(state)
    }
    fn is_active(state: &State) -> bool {
        Pes::is_active(state)
    }
    fn needs(state: &State, effect: &Effect) -> Needs {
        Pes::needs(state, effect)
    }
    fn request(state: &State, world: &World<'_>, effect: &Effect, material: &Material) -> Option<Prompt> {
        Pes::request(state, world, effect, material)
    }
    fn invocation(state: &State, call: &CallId) -> Option<Invocation> {
        Pes::invocation(state, call)
    }
    fn asked(state: &State, call: &CallId) -> Option<PendingQuestion> {
        Pes::asked(state, call)
    }
    fn view(state: &State) -> Value {
        Pes::view(state)
    }
    fn run(state: &State) -> Option<&Run> {
        Pes::run(state)
    }
}
