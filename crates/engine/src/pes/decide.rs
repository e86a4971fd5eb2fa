//! Dispatches every event to the module that handles it. Nothing else happens here.

mod recover;
mod reply;
mod resumed;
mod schedule;

use crate::domain::task::Task;
use crate::event::{CancelEvent, Event, ModelEvent, PeerEvent, PersonEvent, SystemEvent, ToolEvent};
use crate::pes::peers::{TaskOutcome, report, send};
use crate::pes::people::{pause, question};
use crate::pes::plan::{by_hand, edit};
use crate::pes::run::{ask, cancel, fork, summary, waits};
use crate::pes::state::State;
use crate::pes::tx::{Handled, Taken, Tx};
use crate::pes::work::{agent_state, batch};
use crate::step::Step;
use crate::{Illegal, Stamp, World};

/// Handles one event. On `Err` the state is unchanged; an event that matches no open slot gives a step without changes.
pub(crate) fn decide(state: &mut State, world: &World<'_>, stamp: Stamp, event: Event) -> Result<Step, Illegal> {
    let waited = state.waits_to_begin();
    let mut tx = Tx::begin(state, world, stamp);
    match dispatch(&mut tx, event)? {
        Taken::Yes => schedule::run_to_quiescence(&mut tx),
        Taken::No => {}
    }
    waits::settle(&mut tx, waited);
    Ok(tx.seal())
}

/// A handler that returns an error has changed nothing.
fn dispatch(tx: &mut Tx<'_>, event: Event) -> Handled {
    match event {
        Event::Asked { run, message, ask, rewind } => ask::ask(tx, run, message, *ask, rewind.map(|rewind| *rewind)),
        Event::Cancel(event) => by_cancel(tx, event),
        Event::Model(event) => by_model(tx, event),
        Event::Tool(event) => by_tool(tx, event),
        Event::Peer(event) => by_peer(tx, event),
        Event::Person(event) => by_person(tx, event),
        Event::System(event) => by_system(tx, event),
    }
}

fn by_cancel(tx: &mut Tx<'_>, event: CancelEvent) -> Handled {
    match event {
        CancelEvent::Asked { run, by } => cancel::cancel(tx, run, &by),
        CancelEvent::EffectsStopped => cancel::effects_stopped(tx),
    }
}

fn by_model(tx: &mut Tx<'_>, event: ModelEvent) -> Handled {
    match event {
        ModelEvent::Replied { stream, attempt, reply } => reply::model_replied(tx, &stream, attempt, *reply),
        ModelEvent::Overflowed { stream, attempt, extent } => summary::overflowed(tx, &stream, attempt, extent),
        ModelEvent::Failed { stream, attempt, failure } => reply::on_model_failed(tx, &stream, attempt, failure),
    }
}

fn by_tool(tx: &mut Tx<'_>, event: ToolEvent) -> Handled {
    match event {
        ToolEvent::Asked { call, attempt, number, question } => {
            question::tool_asked(tx, &call, attempt, number, *question)
        }
        ToolEvent::Returned { call, attempt, outcome } => batch::tool_returned(tx, &call, attempt, *outcome),
    }
}

fn by_peer(tx: &mut Tx<'_>, event: PeerEvent) -> Handled {
    let outcome = match event {
        PeerEvent::Seen { task, attempt, seen } => report::task_seen(tx, &task, attempt, *seen),
        PeerEvent::Failed { task, attempt, failure } => report::failed(tx, &task, attempt, failure),
        PeerEvent::CalledBack { task, remote_task_id } => report::called_back(tx, &task, remote_task_id),
    };
    Ok(after_task(tx, outcome))
}

fn by_person(tx: &mut Tx<'_>, event: PersonEvent) -> Handled {
    match event {
        PersonEvent::Resumed { answer, by, said } => resumed::resume(tx, *answer, &by, said.map(|said| *said)),
        PersonEvent::PauseAsked { by } => pause::pause(tx, &by),
        PersonEvent::TaskCancelAsked { task, by } => {
            let outcome = send::cancel(tx, &task, &by)?;
            Ok(after_task(tx, outcome))
        }
        PersonEvent::PlanEdited { expected, list, by, settings } => edit::edit(tx, expected, list, &by, &settings),
        PersonEvent::ItemRetried { item, by } => by_hand::retry(tx, &item, &by),
        PersonEvent::ItemSkipped { item, by } => by_hand::skip(tx, &item, &by),
        PersonEvent::StatePut { data, expected, by: _ } => agent_state::put(tx, data, expected),
        PersonEvent::Forked { from, state, messages, agent_state, summary, shapers } => {
            fork::begin(tx, &from, *state, messages, agent_state, summary, &shapers)
        }
    }
}

fn by_system(tx: &mut Tx<'_>, event: SystemEvent) -> Handled {
    match event {
        SystemEvent::Recovered => recover::recover(tx),
        SystemEvent::Woke => {
            resumed::expire(tx);
            look_at_tasks(tx);
            waits::begin_next(tx);
            Ok(Taken::Yes)
        }
        SystemEvent::Quarantined { crashes } => cancel::quarantine(tx, crashes),
        SystemEvent::Unreadable => cancel::set_unreadable_aside(tx),
        SystemEvent::Released => cancel::release(tx),
        SystemEvent::Restored { message } if tx.state.waits_to_begin() => Ok(waits::restored(tx, message)),
        SystemEvent::Restored { message } => Ok(pause::restored(tx, message)),
    }
}

/// Continues the item whose call became a task.
fn after_task(tx: &mut Tx<'_>, outcome: TaskOutcome) -> Taken {
    match outcome {
        TaskOutcome::Unchanged => Taken::No,
        TaskOutcome::Continues => Taken::Yes,
        TaskOutcome::CallEnded(call) => {
            batch::on_call_ended(tx, &call);
            Taken::Yes
        }
    }
}

/// Ends tasks whose deadline has passed, one after the other.
fn look_at_tasks(tx: &mut Tx<'_>) {
    let tasks: Vec<Task> = tx.state.tasks.values().map(|(_, task)| task.clone()).collect();
    for task in &tasks {
        let outcome = send::look_at_time(tx, task);
        after_task(tx, outcome);
    }
}
