//! One transition in the making: the state under change, what must be written of it, and what is recorded.
//!
//! Everything that changes a state does so through a [`Tx`]. It decides nothing: it collects the changes in order,
//! writes each changed row once, and ends as the one [`Step`] that is committed.

mod record;
mod written;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::domain::Millis;
use crate::domain::fault::Fault;
use crate::domain::hitl::Suspension;
use crate::domain::ids::{CallId, ItemId, Mint, PayloadId, TaskId};
use crate::domain::message::ConversationMessage;
use crate::domain::observation::Record;
use crate::domain::run::{CallerStatus, Run};
use crate::domain::task::{ActionSlot, Task, TaskAction, TaskActionKind};
use crate::domain::tool::{CallRecord, CallStatus};
use crate::pes::state::{Active, Call, ItemLoop, ModelCall, Progress, State, Turn, TurnContent, rows, run, wake};
use crate::pes::tx::written::WrittenRows;
use crate::step::{Keep, RowKind, Step};
use crate::{Stamp, World};

/// Whether an event changed anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventOutcome {
    Applied,
    /// It changed nothing: it came too late or twice, or nothing was due.
    Ignored,
}

/// The result of an event's handler. On `Err` the event is refused and the state is unchanged.
pub(crate) type HandlerResult = Result<EventOutcome, Fault>;

pub(crate) struct Tx<'a> {
    pub state: &'a mut State,
    pub world: &'a World<'a>,
    pub stamp: Stamp,
    pub mint: Mint,
    pub records: Vec<Record>,
    pub(crate) written: WrittenRows,
    /// The runs among the written rows, as they are now.
    pub(crate) runs: Vec<Run>,
    /// A new title for the thread.
    pub(crate) title: Option<String>,
    changed: ChangedParts,
    /// Recovery and refusals do not count as progress.
    pub is_progress: bool,
}

/// The parts of the state that were changed and are written when the transition ends, each once.
#[derive(Default, PartialEq)]
struct ChangedParts {
    definitions: BTreeSet<ItemId>,
    progress: BTreeSet<ItemId>,
    calls: BTreeSet<CallId>,
    tasks: BTreeSet<TaskId>,
    /// The active run.
    run: bool,
    head: bool,
}

impl<'a> Tx<'a> {
    /// Nothing is written yet.
    pub fn begin(state: &'a mut State, world: &'a World<'a>, stamp: Stamp) -> Self {
        Self {
            state,
            world,
            stamp,
            mint: Mint::new(stamp.now, stamp.seed),
            records: Vec::new(),
            written: WrittenRows::default(),
            runs: Vec::new(),
            title: None,
            changed: ChangedParts::default(),
            is_progress: true,
        }
    }

    /// Gives out the next row number.
    pub fn next_ord(&mut self) -> i64 {
        self.state.head.ord += 1;
        self.state.head.ord
    }

    /// The progress of the active run.
    pub fn active(&mut self) -> &mut Active {
        self.state.head.active.as_mut().expect("only asked for while a run is active")
    }

    /// Changes an item's progress; nothing happens if there is no such item.
    pub fn change_progress<T>(&mut self, id: &ItemId, change: impl FnOnce(&mut Progress) -> T) -> Option<T> {
        let item = self.state.list.get_mut(id)?;
        self.changed.progress.insert(id.clone());
        Some(change(&mut item.progress))
    }

    /// Changes an item's open loop.
    pub fn change_loop<T>(&mut self, id: &ItemId, change: impl FnOnce(&mut ItemLoop) -> T) -> Option<T> {
        self.change_progress(id, |progress| progress.work.as_mut().map(change)).flatten()
    }

    /// Marks the item's definition and progress to be written.
    pub fn mark_definition_changed(&mut self, id: &ItemId) {
        self.changed.definitions.insert(id.clone());
        self.changed.progress.insert(id.clone());
    }

    /// Removes the marks of an item that was removed.
    pub fn unmark_item(&mut self, id: &ItemId) {
        self.changed.definitions.remove(id);
        self.changed.progress.remove(id);
    }

    /// Changes a call; nothing happens if there is no such call.
    pub fn change_call<T>(&mut self, id: &CallId, change: impl FnOnce(&mut Call) -> T) -> Option<T> {
        let call = self.state.calls.get_mut(id)?;
        self.changed.calls.insert(id.clone());
        Some(change(call))
    }

    /// Changes the status of a call; nothing happens if there is no such call.
    pub fn set_call_status(&mut self, id: &CallId, status: CallStatus) {
        let now = self.stamp.now;
        self.change_call(id, |call| (call.record.status, call.record.updated_at) = (status, now));
    }

    /// Adds a call; its item must list it.
    pub fn add_call(&mut self, record: CallRecord) {
        let (id, ord) = (record.call_id.clone(), self.next_ord());
        self.changed.calls.insert(id.clone());
        self.state.calls.insert(id, Call { ord, record });
    }

    /// Stops loading a call, which stays readable by its id.
    pub fn unload_call(&mut self, id: &CallId) {
        if let Some(call) = self.state.calls.remove(id) {
            self.written.put(rows::unloaded_call(&call));
        }
    }

    /// Marks the active run to be written.
    pub fn mark_run_changed(&mut self) {
        self.changed.run = true;
    }

    /// Marks the head to be written even if nothing else changed.
    pub fn mark_head_changed(&mut self) {
        self.changed.head = true;
    }

    /// Clears the mark of the active run, which has ended and been written.
    pub fn unmark_run(&mut self) {
        self.changed.run = false;
    }

    /// Stores a value once, under an id of its own; returns what to write in its place.
    pub fn store(&mut self, id: impl Into<PayloadId>, value: Value) -> Value {
        self.written.store(id, value)
    }

    /// Writes a message of the conversation; it replaces an earlier one with the same id.
    pub fn write_message(&mut self, ord: i64, message: &ConversationMessage) {
        self.written.put(rows::message(ord, message));
        if !message.is_error() {
            self.state.head.history_bytes += message.content.len() as u64;
        }
    }

    /// Adds a turn to an item's loop.
    pub fn add_turn(&mut self, item: &ItemId, content: TurnContent) {
        let ord = self.next_ord();
        let turn = Turn { item: item.clone(), content };
        self.written.put(rows::turn(ord, &turn));
        if let Some(item) = self.state.list.get_mut(item) {
            item.turns.push(turn);
        }
    }

    /// Writes a question; it replaces what was written of it before.
    pub fn write_suspension(&mut self, ord: i64, suspension: &Suspension, keep: Keep) {
        let id = suspension.suspension_id.to_string();
        self.written.put(rows::row(RowKind::Suspension, id, ord, keep, suspension));
    }

    /// Writes a run, in place of what was written of it before. The active run is marked by
    /// [`mark_run_changed`](Self::mark_run_changed) instead.
    pub fn write_run(&mut self, ord: i64, run: &Run) {
        self.written.put(rows::run(ord, run));
        self.runs.retain(|other| other.run_id != run.run_id);
        self.runs.push(run.clone());
    }

    /// Adds names to those who asked for what the active run does (by steering it or editing its plan), or, without an
    /// active run, for what the next one does.
    pub(crate) fn add_requesters(&mut self, names: &[String]) {
        let Some(active) = self.state.run.as_mut() else {
            return add_names(&mut self.state.head.shapers, names);
        };
        add_names(&mut active.requested_by, names);
        self.mark_run_changed();
    }

    /// Changes a task; nothing happens if it is not loaded any more.
    pub(crate) fn change_task<T>(&mut self, id: &TaskId, change: impl FnOnce(&mut Task) -> T) -> Option<T> {
        let now = self.stamp.now;
        let (_, task) = self.state.tasks.get_mut(id)?;
        self.changed.tasks.insert(id.clone());
        task.updated_at = now;
        Some(change(task))
    }

    /// Sets a task's next action and when it is due.
    pub(crate) fn put_action(&mut self, id: &TaskId, what: TaskActionKind, at: Millis) {
        self.change_task(id, |task| task.action = Some(TaskAction { what, slot: ActionSlot::Ready { at } }));
    }

    /// Closes the model call of an item, or of the planner or synthesizer.
    pub(crate) fn clear_model_call(&mut self, item: Option<&ItemId>) {
        match item {
            Some(item) => {
                self.change_loop(item, |work| work.model = None);
            }
            None => self.active().model = None,
        }
    }

    /// Opens the next model call of an item, or of the planner or synthesizer.
    pub(crate) fn put_model_call(&mut self, item: Option<&ItemId>, call: ModelCall) {
        match item {
            Some(item) => {
                self.change_loop(item, |work| work.model = Some(call));
            }
            None => self.active().model = Some(call),
        }
    }

    /// Returns the step to be committed. If nothing was changed, it is a step without changes.
    pub fn into_step(mut self) -> Step {
        self.update_run_status();
        let is_unchanged =
            self.records.is_empty() && self.written.is_empty() && self.changed == ChangedParts::default();
        let is_cancelling = self.state.is_cancelling();
        // A change in the head alone that was not marked follows from the rest of the state: that a version of the plan
        // needs no approval, or which phase or model call is next. It is not written. The next event makes the same
        // decision again, on this machine or on one that was loaded anew.
        if is_unchanged {
            return Step { is_cancelling, ..Step::nothing() };
        }
        self.write_changed();
        self.state.last_seq += self.records.len() as i64;
        let wake_at = wake::wake_at(self.state, self.world, self.stamp.now);
        let (rows, payloads) = self.written.into_parts();
        Step {
            head: Some(rows::text(&self.state.head)),
            rows,
            records: self.records,
            runs: self.runs,
            payloads,
            status: run::thread_status(self.state),
            title: self.title,
            wake_at,
            floor: self.state.head.floor,
            progress: self.is_progress,
            is_noop: false,
            is_cancelling,
        }
    }

    fn write_changed(&mut self) {
        for id in &self.changed.definitions {
            if let Some(item) = self.state.list.get(id) {
                self.written.put(rows::definition(item));
            }
        }
        for id in &self.changed.progress {
            if let Some(item) = self.state.list.get(id) {
                self.written.put(rows::progress(item));
            }
        }
        for id in &self.changed.calls {
            if let Some(call) = self.state.calls.get(id) {
                self.written.put(rows::call(call));
            }
        }
        for id in &self.changed.tasks {
            if let Some((ord, task)) = self.state.tasks.get(id) {
                self.written.put(rows::task(*ord, task));
            }
        }
        self.state.tasks.retain(|_, (_, task)| !task.is_over());
        if self.changed.run
            && let (Some(run), Some(active)) = (&self.state.run, &self.state.head.active)
        {
            let (run, ord) = (run.clone(), active.ord);
            self.write_run(ord, &run);
        }
    }

    /// Derives the run's status from its slots.
    fn update_run_status(&mut self) {
        let status = self.state.run_status();
        let Some(run) = self.state.run.as_mut() else { return };
        if let Some(active) = &self.state.head.active {
            run.counters = active.counters.clone();
        }
        let asked = self.state.suspensions.values().next().map(|oldest| oldest.kind);
        let caller_status = CallerStatus::of(status, asked);
        if run.caller_status != caller_status {
            (run.caller_status, run.since) = (caller_status, self.stamp.now);
            self.changed.run = true;
        }
        if run.status != status {
            run.status = status;
            self.changed.run = true;
        }
    }
}

/// Adds the names that are not in the list yet.
pub(crate) fn add_names(known: &mut Vec<String>, names: &[String]) {
    for name in names {
        if !known.contains(name) {
            known.push(name.clone());
        }
    }
}
