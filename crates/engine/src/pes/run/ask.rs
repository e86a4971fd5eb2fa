//! A query arrives: it starts a run, waits in the queue, steers, or interrupts.

use crate::domain::facts::{RecordedMessage, StateUpdateBody};
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{MessageId, RunId};
use crate::domain::run::{Ask, CallerStatus, Counters, OnBusy, Run, RunStatus};
use crate::event::Rewind;
use crate::pes::run::{admission, begin, cancel, imported_history, message, rewind};
use crate::pes::state::{RunPhase, Shape, State, Steer};
use crate::pes::tx::{self, EventOutcome, HandlerResult, Tx};
use crate::world::RunAdmission;

/// Starts the run, or, if another one is active, does what the caller's `onBusy` says.
pub(crate) fn ask(
    tx: &mut Tx<'_>,
    run: RunId,
    message: MessageId,
    mut ask: Ask,
    rewind: Option<Rewind>,
) -> HandlerResult {
    if tx.state.head.is_quarantined {
        return Err(Fault::quarantined());
    }
    admission::check(tx)?;
    imported_history::check(tx, &ask.history)?;
    let is_idle = tx.state.run.is_none() && tx.state.head.queue.is_empty();
    if is_idle && tx.world.admission != RunAdmission::Now {
        // The run will wait. The queue is checked before anything changes: a query that is refused must change nothing.
        check_queue(tx)?;
    }
    if let Some(rewind) = rewind {
        rewind::check(tx, &rewind)?;
        rewind::apply(tx, rewind);
    }
    imported_history::import(tx, std::mem::take(&mut ask.history));
    let on_busy = ask.on_busy;
    ask.metadata = ask.metadata.map(|metadata| message::store_metadata(tx, &message, metadata));
    let run = new_run(tx, run, message, ask);
    if is_idle {
        if tx.world.admission != RunAdmission::Now {
            return enqueue(tx, run, false);
        }
        let ord = tx.next_ord();
        begin::start(tx, ord, run);
        return Ok(EventOutcome::Applied);
    }
    match on_busy {
        OnBusy::Reject => {
            Err(Fault::new(Code::ThreadBusy, "A run is active; wait for it, or set onBusy to enqueue or interrupt."))
        }
        OnBusy::Enqueue => enqueue(tx, run, false),
        OnBusy::Steer if can_be_steered(tx.state) => steer(tx, run),
        OnBusy::Steer => enqueue(tx, run, false),
        OnBusy::Interrupt => {
            enqueue(tx, run, true)?;
            if tx.state.run.is_some() {
                cancel::interrupt(tx);
            }
            Ok(EventOutcome::Applied)
        }
    }
}

fn new_run(tx: &Tx<'_>, run_id: RunId, message_id: MessageId, ask: Ask) -> Run {
    let mut requested_by: Vec<String> = Some(ask.requested_by).filter(|name| !name.is_empty()).into_iter().collect();
    tx::add_names(&mut requested_by, &ask.shaped_by);
    Run {
        run_id,
        thread_id: tx.state.thread_id.clone(),
        status: RunStatus::Queued,
        reason: None,
        message_id,
        query: ask.query,
        metadata: ask.metadata,
        user_id: ask.user_id,
        session_id: ask.session_id,
        trace_id: ask.trace_id,
        trace: ask.trace,
        requested_by,
        caller_status: CallerStatus::Queued,
        since: tx.stamp.now,
        created_at: tx.stamp.now,
        started_at: None,
        finished_at: None,
        settings: ask.settings.into(),
        counters: Counters::default(),
        outcome: None,
    }
}

fn check_queue(tx: &Tx<'_>) -> Result<(), Fault> {
    let limit = tx.world.limits.queued_runs;
    if tx.state.head.queue.len() >= limit {
        return Err(Fault::new(Code::QueueFull, format!("At most {limit} runs may wait on a thread; try later.")));
    }
    Ok(())
}

fn enqueue(tx: &mut Tx<'_>, run: Run, first: bool) -> HandlerResult {
    check_queue(tx)?;
    // A run's number is below those of its messages, and its own message has the next one.
    let ord = tx.next_ord();
    let message = store_user_message(tx, &run);
    tx.record_message(StateUpdateBody::QUEUE, message);
    tx.write_run(ord, &run);
    let at = if first { 0 } else { tx.state.head.queue.len() };
    tx.state.head.queue.insert(at, run.run_id.clone());
    tx.state.queued.insert(run.run_id.clone(), (ord, run));
    Ok(EventOutcome::Applied)
}

/// Stores the user's message; returns it as observations hold it.
fn store_user_message(tx: &mut Tx<'_>, run: &Run) -> RecordedMessage {
    let message = message::user_message(run);
    message::store(tx, &message)
}

/// Whether a message can still change the plan of the active run.
pub(crate) fn can_be_steered(state: &State) -> bool {
    let is_cancelled = state.head.active.as_ref().is_none_or(|active| active.cancel.is_some());
    match state.phase() {
        RunPhase::Planning | RunPhase::Refining | RunPhase::Executing => !is_cancelled && state.shape == Shape::Planned,
        RunPhase::Idle | RunPhase::Synthesizing => false,
    }
}

/// Refuses one more message to a run that as many messages have steered as may.
pub(crate) fn check_steers(tx: &Tx<'_>) -> Result<(), Fault> {
    let most = tx.world.limits.queued_runs;
    if tx.state.head.active.as_ref().is_some_and(|active| active.steers.len() >= most) {
        return Err(Fault::new(
            Code::QueueFull,
            format!("At most {most} messages may change the course of one run; try again when it has ended."),
        ));
    }
    Ok(())
}

/// Adds the message to the active run; the plan is refined as soon as no item holds a permit.
fn steer(tx: &mut Tx<'_>, mut run: Run) -> HandlerResult {
    check_steers(tx)?;
    run.run_id = tx.state.active_run().run_id.clone();
    tx.add_requesters(&run.requested_by);
    let shown = store_user_message(tx, &run);
    let text = shown.content.clone();
    tx.active().steers.push(Steer::new(run.message_id, text));
    tx.record_message("messages", shown);
    Ok(EventOutcome::Applied)
}
