//! A query comes in: it starts a run, waits in the queue, steers, or interrupts.

use super::state::State;
use super::{cancel, flow};
use serde_json::{Map, Value};

use super::record::to_value;
use super::state::{Active, Phase, Replan, Steer};
use super::tx::{Handled, Taken, Tx};
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{MessageId, RunId};
use crate::domain::message::{ConversationMessage, MessageRole};
use crate::domain::run::{Ask, CallerStatus, Counters, OnBusy, Run, RunStatus};

pub(super) fn ask(tx: &mut Tx<'_>, run: RunId, message: MessageId, mut ask: Ask) -> Handled {
    if tx.state.head.quarantined {
        return Err(Fault::quarantined());
    }
    let on_busy = ask.on_busy;
    ask.metadata = ask.metadata.map(|metadata| store_metadata(tx, &message, metadata));
    let run = accepted(tx, run, message, ask);
    if tx.state.run.is_none() && tx.state.head.queue.is_empty() {
        let ord = tx.next_ord();
        start(tx, ord, run);
        return Ok(Taken::Yes);
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
            cancel::interrupt(tx);
            Ok(Taken::Yes)
        }
    }
}

fn accepted(tx: &Tx<'_>, run_id: RunId, message_id: MessageId, ask: Ask) -> Run {
    Run {
        run_id,
        thread_id: tx.state.thread_id.clone(),
        status: RunStatus::Queued,
        message_id,
        query: ask.query,
        metadata: ask.metadata,
        user_id: ask.user_id,
        session_id: ask.session_id,
        trace_id: ask.trace_id,
        trace: ask.trace,
        requested_by: Some(ask.requested_by).filter(|name| !name.is_empty()).into_iter().collect(),
        standing: CallerStatus::Queued,
        since: tx.stamp.now,
        created_at: tx.stamp.now,
        started_at: None,
        finished_at: None,
        settings: ask.settings,
        counters: Counters::default(),
        outcome: None,
    }
}

/// Makes it the active run and records its start.
pub(super) fn start(tx: &mut Tx<'_>, ord: i64, mut run: Run) {
    run.status = RunStatus::Running;
    run.started_at = Some(tx.stamp.now);
    add_names(&mut run.requested_by, &std::mem::take(&mut tx.state.head.shapers));
    let message = user_message(&run);
    // The number is given anew: contexts are ordered by run, and this one begins now.
    let message_ord = tx.next_ord();
    tx.write_message(message_ord, &message);
    tx.state.head.active = Some(Active {
        run: run.run_id.clone(),
        ord,
        counters: Counters::default(),
        model: None,
        steers: Vec::new(),
        replan: Replan::Unasked,
        cancel: None,
        pause: None,
        asked: None,
        granted: Default::default(),
        largest: 0,
        notes: Vec::new(),
        planned: false,
        review: Default::default(),
        stopped: false,
    });
    let shown = shown(tx, &message);
    tx.state.run = Some(run);
    tx.run_changed();
    tx.record_run_started(shown);
    flow::begin(tx);
}

fn user_message(run: &Run) -> ConversationMessage {
    ConversationMessage {
        message_id: run.message_id.clone(),
        thread_id: run.thread_id.clone(),
        role: MessageRole::User,
        content: run.query.clone(),
        timestamp: run.created_at,
        run_id: Some(run.run_id.clone()),
        metadata: run.metadata.clone(),
    }
}

/// What a message carries is stored once: large members of its parts stand apart.
fn store_metadata(tx: &mut Tx<'_>, message: &MessageId, metadata: Map<String, Value>) -> Map<String, Value> {
    let mut apart = |name: &str, value: Value| tx.store(format!("{message}.{name}"), value);
    let stored = metadata.into_iter().map(|(name, value)| match value {
        Value::Object(members) => {
            let members = members.into_iter().map(|(member, value)| {
                let value = apart(&format!("{name}.{member}"), value);
                (member, value)
            });
            let members = members.collect();
            (name, Value::Object(members))
        }
        plain => {
            let plain = apart(&name, plain);
            (name, plain)
        }
    });
    stored.collect()
}

/// A message of the active run that no query came with.
pub(super) fn hear(tx: &mut Tx<'_>, mut message: ConversationMessage) {
    let id = message.message_id.clone();
    message.metadata = message.metadata.map(|metadata| store_metadata(tx, &id, metadata));
    message.run_id = Some(tx.state.active_run().run_id.clone());
    let shown = keep_message(tx, &message);
    tx.record_state_update(vec!["messages".into()], Some(shown));
}

fn enqueue(tx: &mut Tx<'_>, run: Run, first: bool) -> Handled {
    let limit = tx.world.limits.queued_runs;
    if tx.state.head.queue.len() >= limit {
        return Err(Fault::new(Code::QueueFull, format!("At most {limit} runs may wait on a thread; try later.")));
    }
    // A run's number is below those of its messages.
    let ord = tx.next_ord();
    let message = told(tx, &run);
    tx.record_state_update(vec!["queue".into()], Some(message));
    tx.write_run(ord, &run);
    let at = if first { 0 } else { tx.state.head.queue.len() };
    tx.state.head.queue.insert(at, run.run_id.clone());
    tx.state.queued.insert(run.run_id.clone(), (ord, run));
    Ok(Taken::Yes)
}

/// Stores the user's message and returns it as observations show it.
fn told(tx: &mut Tx<'_>, run: &Run) -> Value {
    let message = user_message(run);
    keep_message(tx, &message)
}

pub(super) fn keep_message(tx: &mut Tx<'_>, message: &ConversationMessage) -> Value {
    let ord = tx.next_ord();
    tx.write_message(ord, message);
    shown(tx, message)
}

/// A user's message as observations show it: what is large in it is stored once.
fn shown(tx: &mut Tx<'_>, message: &ConversationMessage) -> Value {
    let content = tx.store(message.message_id.as_str(), Value::String(message.content.clone()));
    let mut shown = to_value(message);
    shown["content"] = content;
    shown
}

fn can_be_steered(state: &State) -> bool {
    let is_cancelled = state.head.active.as_ref().is_none_or(|active| active.cancel.is_some());
    match state.phase() {
        Phase::Planning | Phase::Refining | Phase::Executing => {
            !is_cancelled && state.shape == super::state::Shape::Planned
        }
        Phase::Idle | Phase::Synthesizing => false,
    }
}

/// The message joins the active run; the plan is refined as soon as no item is executing.
fn steer(tx: &mut Tx<'_>, mut run: Run) -> Handled {
    let most = tx.world.limits.queued_runs;
    if tx.active().steers.len() >= most {
        return Err(Fault::new(
            Code::QueueFull,
            format!("At most {most} messages may change the course of one run; try again when it has ended."),
        ));
    }
    run.run_id = tx.state.active_run().run_id.clone();
    tx.add_requesters(&run.requested_by);
    let shown = told(tx, &run);
    let text = shown["content"].clone();
    tx.active().steers.push(Steer { message: run.message_id, text, shown: false });
    tx.record_state_update(vec!["messages".into()], Some(shown));
    Ok(Taken::Yes)
}

impl Tx<'_> {
    /// Who steers a run or edits its plan has asked for what it does; where none is active, for what the next one does.
    pub(super) fn add_requesters(&mut self, names: &[String]) {
        let Some(active) = self.state.run.as_mut() else {
            return add_names(&mut self.state.head.shapers, names);
        };
        add_names(&mut active.requested_by, names);
        self.run_changed();
    }
}

/// Each name stands there once.
pub(super) fn add_names(known: &mut Vec<String>, names: &[String]) {
    for name in names {
        if !known.contains(name) {
            known.push(name.clone());
        }
    }
}
