//! Every event, and who deals with it. Nothing else happens here.

use super::state::State;
use super::transition::{Handled, Taken, Transition};
use crate::event::Event;
use crate::step::Step;
use crate::{Illegal, Stamp, World};

pub(super) fn decide(state: &mut State, world: &World<'_>, stamp: Stamp, event: Event) -> Result<Step, Illegal> {
    let mut transition = Transition::begin(state, world, stamp);
    match dispatch(&mut transition, event)? {
        Taken::Yes => transition.run_to_quiescence(),
        Taken::No => {}
    }
    Ok(transition.seal())
}

/// A handler that refuses has changed nothing.
fn dispatch(t: &mut Transition<'_>, event: Event) -> Handled {
    match event {
        Event::Asked { run, message, ask } => t.ask(run, message, *ask),
        Event::ModelReplied { stream, attempt, reply } => t.model_replied(&stream, attempt, *reply),
        Event::Overflowed { stream, attempt, extent } => t.overflowed(&stream, attempt, extent),
        Event::ModelFailed { stream, attempt, failure } => t.model_failed(&stream, attempt, failure),
        Event::ToolAsked { call, attempt, number, question } => t.tool_asked(&call, attempt, number, *question),
        Event::ToolReturned { call, attempt, outcome } => t.tool_returned(&call, attempt, *outcome),
        Event::TaskSeen { task, attempt, seen } => t.task_seen(&task, attempt, *seen),
        Event::PeerFailed { task, attempt, failure } => t.peer_failed(&task, attempt, failure),
        Event::PeerCalledBack { task, remote_task_id } => t.peer_called_back(&task, remote_task_id),
        Event::TaskCancelAsked { task, by } => t.cancel_task(&task, &by),
        Event::Resumed { answer, by, said } => t.resume(*answer, &by, said.map(|said| *said)),
        Event::PauseAsked { by } => t.pause(&by),
        Event::CancelAsked { run, by } => t.cancel(run, &by),
        Event::EffectsStopped => t.effects_stopped(),
        Event::PlanEdited { expected, list, by, settings } => t.edit_plan(expected, list, &by, &settings),
        Event::StatePut { data, expected, by: _ } => t.put_state(data, expected),
        Event::Recovered => t.recover(),
        Event::Woke => {
            t.expire();
            t.overdue();
            Ok(Taken::Yes)
        }
        Event::Forked { from, state, messages, agent_state, summary } => {
            t.begin_as_copy(&from, *state, messages, agent_state, summary)
        }
        Event::Quarantined { crashes } => t.quarantine(crashes),
        Event::Unreadable => t.set_unreadable_aside(),
        Event::Released => t.release(),
    }
}
