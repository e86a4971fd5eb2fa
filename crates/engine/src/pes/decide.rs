//! Every event, and who deals with it. Nothing else happens here.

use super::state::State;
use super::tx::{Handled, Taken, Tx};
use super::{
    agent_state, ask, batch, cancel, delegate, edit, fork, pause, peer, question, recover, reply, resume, schedule,
    summary,
};
use crate::event::Event;
use crate::step::Step;
use crate::{Illegal, Stamp, World};

pub(super) fn decide(state: &mut State, world: &World<'_>, stamp: Stamp, event: Event) -> Result<Step, Illegal> {
    let mut tx = Tx::begin(state, world, stamp);
    match dispatch(&mut tx, event)? {
        Taken::Yes => schedule::run_to_quiescence(&mut tx),
        Taken::No => {}
    }
    Ok(tx.seal())
}

/// A handler that refuses has changed nothing.
fn dispatch(tx: &mut Tx<'_>, event: Event) -> Handled {
    match event {
        Event::Asked { run, message, ask } => ask::ask(tx, run, message, *ask),
        Event::ModelReplied { stream, attempt, reply } => reply::model_replied(tx, &stream, attempt, *reply),
        Event::Overflowed { stream, attempt, extent } => summary::overflowed(tx, &stream, attempt, extent),
        Event::ModelFailed { stream, attempt, failure } => reply::model_failed(tx, &stream, attempt, failure),
        Event::ToolAsked { call, attempt, number, question } => {
            question::tool_asked(tx, &call, attempt, number, *question)
        }
        Event::ToolReturned { call, attempt, outcome } => batch::tool_returned(tx, &call, attempt, *outcome),
        Event::TaskSeen { task, attempt, seen } => peer::task_seen(tx, &task, attempt, *seen),
        Event::PeerFailed { task, attempt, failure } => peer::failed(tx, &task, attempt, failure),
        Event::PeerCalledBack { task, remote_task_id } => peer::called_back(tx, &task, remote_task_id),
        Event::TaskCancelAsked { task, by } => delegate::cancel(tx, &task, &by),
        Event::Resumed { answer, by, said } => resume::resume(tx, *answer, &by, said.map(|said| *said)),
        Event::PauseAsked { by } => pause::pause(tx, &by),
        Event::CancelAsked { run, by } => cancel::cancel(tx, run, &by),
        Event::EffectsStopped => cancel::effects_stopped(tx),
        Event::PlanEdited { expected, list, by, settings } => edit::edit(tx, expected, list, &by, &settings),
        Event::StatePut { data, expected, by: _ } => agent_state::put(tx, data, expected),
        Event::Recovered => recover::recover(tx),
        Event::Woke => {
            resume::expire(tx);
            delegate::overdue(tx);
            Ok(Taken::Yes)
        }
        Event::Forked { from, state, messages, agent_state, summary } => {
            fork::begin(tx, &from, *state, messages, agent_state, summary)
        }
        Event::Quarantined { crashes } => cancel::quarantine(tx, crashes),
        Event::Unreadable => cancel::set_unreadable_aside(tx),
        Event::Released => cancel::release(tx),
    }
}
