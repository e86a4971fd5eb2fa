//! The top of a decision: dispatches the event to its handler, applies the outcomes that handlers return (`reply`,
//! `resumed`, `recover`), and starts whatever may start then (`schedule`).

mod recover;
mod reply;
mod resumed;
mod schedule;

use crate::domain::fault::Fault;
use crate::domain::task::Task;
use crate::event::{CancelEvent, Event, ModelEvent, PeerEvent, PersonEvent, SystemEvent, ToolEvent};
use crate::pes::peers::{TaskOutcome, callback, failure, report, send};
use crate::pes::people::{pause, question};
use crate::pes::plan::{edit, later_calls, retry_or_skip};
use crate::pes::run::fork::{self, CopiedConversation};
use crate::pes::run::{admission, ask, cancel, finish, summary};
use crate::pes::state::State;
use crate::pes::tx::{EventOutcome, HandlerResult, Tx};
use crate::pes::work::{agent_state, batch};
use crate::step::Step;
use crate::{Stamp, World};

/// Handles one event. On `Err` the state is unchanged; an event that matches no open slot gives a step without changes.
pub(crate) fn decide(state: &mut State, world: &World<'_>, stamp: Stamp, event: Event) -> Result<Step, Fault> {
    let waited = state.waits_to_begin();
    let mut tx = Tx::begin(state, world, stamp);
    match dispatch(&mut tx, event)? {
        EventOutcome::Applied => schedule::run_to_quiescence(&mut tx),
        EventOutcome::Ignored => {}
    }
    admission::write_changes(&mut tx, waited);
    Ok(tx.into_step())
}

/// A handler that returns an error has changed nothing.
fn dispatch(tx: &mut Tx<'_>, event: Event) -> HandlerResult {
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

fn by_cancel(tx: &mut Tx<'_>, event: CancelEvent) -> HandlerResult {
    match event {
        CancelEvent::Asked { run, by } => cancel::cancel(tx, run, &by),
        CancelEvent::EffectsStopped => cancel::effects_stopped(tx),
    }
}

fn by_model(tx: &mut Tx<'_>, event: ModelEvent) -> HandlerResult {
    match event {
        ModelEvent::Replied { stream, attempt, reply } => reply::on_model_replied(tx, &stream, attempt, *reply),
        ModelEvent::Overflowed { stream, attempt, extent } => summary::on_overflow(tx, &stream, attempt, extent),
        ModelEvent::Failed { stream, attempt, failure } => reply::on_model_failed(tx, &stream, attempt, failure),
    }
}

fn by_tool(tx: &mut Tx<'_>, event: ToolEvent) -> HandlerResult {
    match event {
        ToolEvent::Asked { call, attempt, number, question } => {
            question::tool_asked(tx, &call, attempt, number, *question)
        }
        ToolEvent::Withdrew { call, attempt, number } => Ok(question::tool_withdrew(tx, &call, attempt, number)),
        ToolEvent::Returned { call, attempt, outcome } => batch::on_tool_returned(tx, &call, attempt, *outcome),
    }
}

fn by_peer(tx: &mut Tx<'_>, event: PeerEvent) -> HandlerResult {
    let outcome = match event {
        PeerEvent::Reported { task, attempt, report } => report::on_report(tx, &task, attempt, *report),
        PeerEvent::Failed { task, attempt, failure } => failure::on_action_failed(tx, &task, attempt, failure),
        PeerEvent::CalledBack { task, remote_task_id } => callback::on_callback(tx, &task, remote_task_id),
    };
    Ok(continue_after_task(tx, outcome))
}

fn by_person(tx: &mut Tx<'_>, event: PersonEvent) -> HandlerResult {
    match event {
        PersonEvent::Resumed { answer, by, said } => resumed::resume(tx, *answer, &by, said.map(|said| *said)),
        PersonEvent::PauseAsked { by } => pause::pause(tx, &by),
        PersonEvent::TaskCancelAsked { task, by } => {
            let outcome = send::cancel(tx, &task, &by)?;
            Ok(continue_after_task(tx, outcome))
        }
        PersonEvent::PlanEdited { expected, list, by, settings } => edit::edit(tx, expected, list, &by, &settings),
        PersonEvent::ItemRetried { item, by } => retry_or_skip::retry(tx, &item, &by),
        PersonEvent::ItemSkipped { item, by } => retry_or_skip::skip(tx, &item, &by),
        PersonEvent::StatePut { data, expected, by: _ } => agent_state::put(tx, data, expected),
        PersonEvent::Forked { from, state, messages, superseded, agent_state, summary, shapers, later } => {
            let conversation = CopiedConversation { messages, superseded, summary: summary.map(|summary| *summary) };
            later_calls::remember(tx, later);
            fork::begin(tx, &from, *state, conversation, agent_state, &shapers)
        }
    }
}

fn by_system(tx: &mut Tx<'_>, event: SystemEvent) -> HandlerResult {
    match event {
        SystemEvent::Recovered => recover::recover(tx),
        SystemEvent::Woke => {
            resumed::expire(tx);
            check_task_deadlines(tx);
            admission::begin_next(tx);
            Ok(EventOutcome::Applied)
        }
        SystemEvent::Quarantined { crashes } => cancel::quarantine(tx, crashes),
        SystemEvent::Unreadable => cancel::set_unreadable_aside(tx),
        SystemEvent::Released => cancel::release(tx),
        SystemEvent::Restored { message } if tx.state.waits_to_begin() => {
            finish::start_paused(tx, message);
            Ok(EventOutcome::Applied)
        }
        SystemEvent::Restored { message } => Ok(pause::pause_restored(tx, message)),
    }
}

/// Continues the item whose call became a task.
fn continue_after_task(tx: &mut Tx<'_>, outcome: TaskOutcome) -> EventOutcome {
    match outcome {
        TaskOutcome::Unchanged => EventOutcome::Ignored,
        TaskOutcome::Continues => EventOutcome::Applied,
        TaskOutcome::CallEnded(call) => {
            batch::on_call_ended(tx, &call);
            EventOutcome::Applied
        }
    }
}

/// Ends tasks whose deadline has passed, one after the other.
fn check_task_deadlines(tx: &mut Tx<'_>) {
    let tasks: Vec<Task> = tx.state.tasks.values().map(|(_, task)| task.clone()).collect();
    for task in &tasks {
        let outcome = send::check_deadline(tx, task);
        continue_after_task(tx, outcome);
    }
}
