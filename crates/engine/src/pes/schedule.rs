//! What happens next: after every event, whatever may begin begins, in the same transition.

use super::review::SentBack;
use super::state::{Active, ItemLoop, ModelCall, Phase, Replan, Shape};
use super::transition::Transition;
use crate::domain::ids::ItemId;
use crate::domain::plan::ItemStatus;

impl Transition<'_> {
    pub fn run_to_quiescence(&mut self) {
        self.tell_calls();
        while self.state.run.is_some() {
            if self.is_cancel_complete() {
                self.complete_cancel();
            } else if self.is_budget_spent() {
                self.budget_ended();
            } else if !self.start_ready() && !self.is_budget_spent() {
                break;
            }
        }
        self.start_due_task_actions();
        self.settle_waiting();
    }

    /// Starts what may start. `true`: more may start now.
    fn start_ready(&mut self) -> bool {
        match self.state.phase() {
            Phase::Idle => false,
            Phase::Planning | Phase::Refining | Phase::Synthesizing => {
                self.start_main();
                false
            }
            Phase::Executing => {
                self.keep_review();
                self.may_begin() && self.execute()
            }
        }
    }

    /// A cancelled run ends as soon as nothing of it runs.
    fn is_cancel_complete(&self) -> bool {
        let is_cancelled = self.state.head.active.as_ref().is_some_and(|active| active.cancel.is_some());
        is_cancelled && !self.state.is_any_running()
    }

    /// Starts what may start of the plan. `true`: the phase changed, or a call was answered.
    fn execute(&mut self) -> bool {
        self.leave_places();
        if self.is_refinement_due() {
            if !self.is_any_placed() {
                self.begin_refinement();
                return true;
            }
        } else {
            let mut is_failed = false;
            while let Some(id) = self.next_for_a_place() {
                is_failed |= !self.take_place(&id);
            }
            // What follows from a failure is decided from the beginning.
            if is_failed {
                return true;
            }
        }
        let placed: Vec<ItemId> = self.placed().collect();
        let mut is_answered = false;
        for id in &placed {
            is_answered |= self.start_item(id);
        }
        if is_answered {
            return true;
        }
        if self.state.list.is_any_open() || self.is_refinement_due() || self.is_review_open() {
            return false;
        }
        self.cancel_unreachable();
        self.end_items();
        true
    }

    fn placed(&self) -> impl Iterator<Item = ItemId> + use<'_> {
        let is_placed = |work: &ItemLoop| work.placed;
        let open = self.state.list.open();
        open.filter(move |item| item.track.work.as_ref().is_some_and(is_placed)).map(|item| item.def.id.clone())
    }

    fn is_any_placed(&self) -> bool {
        self.placed().next().is_some()
    }

    /// An item all of whose slots are parked gives its place to another.
    fn leave_places(&mut self) {
        let idle: Vec<ItemId> = self
            .placed()
            .filter(|id| {
                let work = self.state.item(id).and_then(|item| item.track.work.as_ref());
                work.is_some_and(|work| !self.state.is_busy(work))
            })
            .collect();
        for id in idle {
            self.work(&id, |work| work.placed = false);
        }
    }

    /// Who is next, if a place is free: first those who were resumed, then the first pending item.
    fn next_for_a_place(&self) -> Option<ItemId> {
        let places = self.settings().execution.max_parallel_items.max(1) as usize;
        if self.placed().count() >= places {
            return None;
        }
        let resumed = self.state.list.open().filter_map(|item| {
            let work = item.track.work.as_ref()?;
            (!work.placed && self.state.is_busy(work)).then_some((work.waits, item))
        });
        if let Some((_, item)) = resumed.min_by_key(|(waits, _)| *waits) {
            return Some(item.def.id.clone());
        }
        let is_stopped = self.state.head.active.as_ref().is_some_and(|active| active.stopped);
        let may_begin = !is_stopped && !self.is_review_open();
        self.state.list.next_ready().filter(|_| may_begin).map(|item| item.def.id.clone())
    }

    /// `false`: there was no use in it, the item has failed.
    fn take_place(&mut self, id: &ItemId) -> bool {
        let is_open = self.state.item(id).is_some_and(|item| item.track.work.is_some());
        if is_open {
            self.work(id, |work| {
                work.placed = true;
                work.waits = None;
            });
        } else if let Some(tool) = self.unknown_tool_of(id) {
            self.begin_item(id, None);
            self.fail_item(id, "unknown_tool", format!("it requires {tool}, and there is no such tool here"));
            return false;
        } else {
            let shown = self.state.head.plan_version;
            self.begin_item(id, Some(ModelCall::ready(1, shown)));
        }
        true
    }

    /// Opens an item's loop.
    pub fn begin_item(&mut self, id: &ItemId, model: Option<ModelCall>) {
        let first = self.ord();
        let run = self.run().run_id.clone();
        let notes = self.notes_of_redo(id);
        self.track(id, |track| {
            track.outdated.clear();
            track.attempt += 1;
            track.run = Some(run);
            track.reason = None;
            track.validation = None;
            track.work = Some(ItemLoop { iteration: 1, model, placed: true, first, notes, ..ItemLoop::default() });
        });
        self.set_status(id, ItemStatus::InProgress, None);
    }

    /// Marks that an item may go on, so that it waits for a place in the order of resumption.
    pub fn waits_for_place(&mut self, id: &ItemId) {
        let ord = self.ord();
        self.work(id, |work| {
            if !work.placed && work.waits.is_none() {
                work.waits = Some(ord);
            }
        });
    }

    pub fn is_refinement_due(&self) -> bool {
        let is_due = |active: &Active| {
            let is_steered = active.steers.iter().any(|steer| !steer.shown);
            is_steered || active.replan == Replan::Due || active.review.sent_back == SentBack::Due
        };
        self.state.shape == Shape::Planned && self.state.head.active.as_ref().is_some_and(is_due)
    }
}
