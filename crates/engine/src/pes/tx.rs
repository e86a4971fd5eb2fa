//! One transition in the making: the state under change, what must be written of it, and what is recorded.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::state::{Active, Phase, Said, State, Turn};
use super::{rows, slots};
use crate::domain::fault::Fault;
use crate::domain::hitl::Suspension;
use crate::domain::ids::{CallId, ItemId, Mint, PayloadId, TaskId};
use crate::domain::message::ConversationMessage;
use crate::domain::observation::Record;
use crate::domain::payload;
use crate::domain::run::{CallerStatus, Run, RunStatus};
use crate::domain::task::Slot;
use crate::domain::thread::ThreadStatus;
use crate::domain::tool::CallStatus;
use crate::step::{Keep, Row, RowKind, Step};
use crate::{Stamp, World};

/// Whether an event found an open slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Yes,
    /// It changes nothing: too late, twice, or nothing due.
    No,
}

/// What a handler says: taken or not, or refused with the state untouched.
pub(super) type Handled = Result<Taken, Fault>;

pub(super) struct Tx<'a> {
    pub state: &'a mut State,
    pub world: &'a World<'a>,
    pub stamp: Stamp,
    pub mint: Mint,
    pub records: Vec<Record>,
    pub(super) rows: Vec<Row>,
    pub(super) runs: Vec<Run>,
    payloads: Vec<(PayloadId, Arc<Value>)>,
    pub(super) title: Option<String>,
    definitions: BTreeSet<ItemId>,
    progressed: BTreeSet<ItemId>,
    calls: BTreeSet<CallId>,
    pub(super) tasks: BTreeSet<TaskId>,
    run_touched: bool,
    /// Recovery and refusals are no progress.
    pub is_progress: bool,
}

impl<'a> Tx<'a> {
    pub fn begin(state: &'a mut State, world: &'a World<'a>, stamp: Stamp) -> Self {
        Self {
            state,
            world,
            stamp,
            mint: Mint::new(stamp.now, stamp.seed),
            records: Vec::new(),
            rows: Vec::new(),
            runs: Vec::new(),
            payloads: Vec::new(),
            title: None,
            definitions: BTreeSet::new(),
            progressed: BTreeSet::new(),
            calls: BTreeSet::new(),
            tasks: BTreeSet::new(),
            run_touched: false,
            is_progress: true,
        }
    }

    /// The number of the next row.
    pub fn next_ord(&mut self) -> i64 {
        self.state.head.ord += 1;
        self.state.head.ord
    }

    pub fn active(&mut self) -> &mut Active {
        self.state.head.active.as_mut().expect("only asked for while a run is active")
    }

    /// Changes an item's progress; nothing happens if there is no such item.
    pub fn change_progress<T>(
        &mut self,
        id: &ItemId,
        change: impl FnOnce(&mut super::state::Progress) -> T,
    ) -> Option<T> {
        let item = self.state.list.get_mut(id)?;
        self.progressed.insert(id.clone());
        Some(change(&mut item.progress))
    }

    /// Changes an item's open loop.
    pub fn change_loop<T>(&mut self, id: &ItemId, change: impl FnOnce(&mut super::state::ItemLoop) -> T) -> Option<T> {
        self.change_progress(id, |progress| progress.work.as_mut().map(change)).flatten()
    }

    pub fn definition_changed(&mut self, id: &ItemId) {
        self.definitions.insert(id.clone());
        self.progressed.insert(id.clone());
    }

    pub fn item_removed(&mut self, id: &ItemId) {
        self.definitions.remove(id);
        self.progressed.remove(id);
    }

    pub fn change_call<T>(&mut self, id: &CallId, change: impl FnOnce(&mut super::state::Call) -> T) -> Option<T> {
        let call = self.state.calls.get_mut(id)?;
        self.calls.insert(id.clone());
        Some(change(call))
    }

    pub fn run_changed(&mut self) {
        self.run_touched = true;
    }

    /// The active run has ended and been written.
    pub fn run_settled(&mut self) {
        self.run_touched = false;
    }

    /// Stores a value once, under a name of its own; returns what to write in its place.
    pub fn store(&mut self, id: impl Into<PayloadId>, value: Value) -> Value {
        let (written, large) = payload::store(id, value);
        if let Some((id, value)) = large
            && !self.payloads.iter().any(|(known, _)| *known == id)
        {
            self.rows.push(rows::payload(&id, &value));
            self.payloads.push((id, value));
        }
        written
    }

    pub fn write_message(&mut self, ord: i64, message: &ConversationMessage) {
        self.rows.retain(|row| row.kind != RowKind::Message || row.id != message.message_id.as_str());
        self.rows.push(rows::message(ord, message));
        if !message.is_error() {
            self.state.head.said += message.content.len() as u64;
        }
    }

    pub fn add_turn(&mut self, item: &ItemId, said: Said) {
        let ord = self.next_ord();
        let turn = Turn { item: item.clone(), said };
        self.rows.push(rows::turn(ord, &turn));
        if let Some(item) = self.state.list.get_mut(item) {
            item.turns.push(turn);
        }
    }

    pub fn write_suspension(&mut self, ord: i64, suspension: &Suspension, keep: Keep) {
        let id = suspension.suspension_id.to_string();
        self.rows.retain(|row| row.kind != RowKind::Suspension || row.id != id);
        self.rows.push(rows::row(RowKind::Suspension, id, ord, keep, suspension));
    }

    /// A run that is not the active one.
    pub fn write_run(&mut self, ord: i64, run: &Run) {
        self.rows.retain(|row| row.kind != RowKind::Run || row.id != run.run_id.as_str());
        self.rows.push(rows::run(ord, run));
        self.runs.retain(|other| other.run_id != run.run_id);
        self.runs.push(run.clone());
    }

    /// What is to be committed. Nothing was changed: a step without changes.
    pub fn seal(mut self) -> Step {
        self.settle_status();
        let is_unchanged = self.records.is_empty()
            && self.rows.is_empty()
            && self.definitions.is_empty()
            && self.progressed.is_empty()
            && self.calls.is_empty()
            && self.tasks.is_empty()
            && !self.run_touched;
        let stop_effects = self.state.head.active.as_ref().is_some_and(|active| active.cancel.is_some());
        if is_unchanged {
            return Step { stop_effects, ..Step::nothing() };
        }
        self.write_changed();
        self.state.last_seq += self.records.len() as i64;
        let wake_at = slots::wake_at(self.state, self.world, self.stamp.now);
        Step {
            head: Some(rows::text(&self.state.head)),
            rows: self.rows,
            records: self.records,
            runs: self.runs,
            payloads: self.payloads,
            status: status_of(self.state),
            title: self.title,
            wake_at,
            floor: self.state.head.floor,
            progress: self.is_progress,
            is_noop: false,
            stop_effects,
        }
    }

    fn write_changed(&mut self) {
        for id in &self.definitions {
            if let Some(item) = self.state.list.get(id) {
                self.rows.push(rows::definition(item));
            }
        }
        for id in &self.progressed {
            if let Some(item) = self.state.list.get(id) {
                self.rows.push(rows::progress(item));
            }
        }
        for id in &self.calls {
            if let Some(call) = self.state.calls.get(id) {
                self.rows.push(rows::call(call));
            }
        }
        for id in &self.tasks {
            if let Some((ord, task)) = self.state.tasks.get(id) {
                self.rows.push(rows::task(*ord, task));
            }
        }
        self.state.tasks.retain(|_, (_, task)| !task.is_over());
        if self.run_touched
            && let (Some(run), Some(active)) = (&self.state.run, &self.state.head.active)
        {
            let (run, ord) = (run.clone(), active.ord);
            self.write_run(ord, &run);
        }
    }

    /// The run's status follows from its slots.
    fn settle_status(&mut self) {
        let status = self.state.run_status();
        let Some(run) = self.state.run.as_mut() else { return };
        if let Some(active) = &self.state.head.active {
            run.counters = active.counters.clone();
        }
        let asked = self.state.suspensions.values().next().map(|oldest| oldest.kind);
        let standing = CallerStatus::of(status, asked);
        if run.standing != standing {
            (run.standing, run.since) = (standing, self.stamp.now);
            self.run_touched = true;
        }
        if run.status != status {
            run.status = status;
            self.run_touched = true;
        }
    }
}

pub(super) fn status_of(state: &State) -> ThreadStatus {
    match &state.run {
        Some(run) => ThreadStatus::of_run(run.status),
        None if state.head.quarantined => ThreadStatus::Quarantined,
        None => ThreadStatus::Idle,
    }
}

impl State {
    /// Any slot `Ready` or `Running`: running; else it waits for a person, or for an agent. A pause holds back what is
    /// `Ready`.
    pub(super) fn run_status(&self) -> RunStatus {
        let is_held = self.head.active.as_ref().is_some_and(Active::is_held);
        let works = if is_held { self.is_any_running() } else { self.is_any_busy() };
        let is_elsewhere = |work| self.batch_has(work, CallStatus::AtPeer);
        match works {
            true => RunStatus::Running,
            false if self.suspensions.is_empty() && self.works().any(is_elsewhere) => RunStatus::Waiting,
            false => RunStatus::Suspended,
        }
    }

    /// Whether something runs, or will as soon as the holder looks.
    pub(super) fn is_active(&self) -> bool {
        self.run.is_some() && self.run_status() == RunStatus::Running
    }

    pub(super) fn is_any_busy(&self) -> bool {
        let main = self.head.active.as_ref().is_some_and(|active| active.model.is_some());
        main || self.works().any(|work| self.is_busy(work))
    }

    pub(super) fn is_any_running(&self) -> bool {
        let main = self.head.active.as_ref().and_then(|active| active.model.as_ref());
        main.is_some_and(|model| model.is_running()) || self.works().any(|work| self.is_running(work))
    }

    pub(super) fn is_running(&self, work: &super::state::ItemLoop) -> bool {
        let is_sent = |call| matches!(self.sending(call), Some(Slot::Running { .. }));
        work.model.as_ref().is_some_and(|model| model.is_running())
            || self.batch_has(work, CallStatus::Running)
            || work.batch.iter().any(is_sent)
    }

    pub(super) fn works(&self) -> impl Iterator<Item = &super::state::ItemLoop> {
        self.list.open().filter_map(|item| item.progress.work.as_ref())
    }

    pub(super) fn phase(&self) -> Phase {
        self.head.phase
    }
}
