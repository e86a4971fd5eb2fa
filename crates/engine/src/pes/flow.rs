//! The seam between phases: what a run begins with, and what follows when its items are settled. Queue, items, batches,
//! suspensions, cancel and recovery know nothing of it.

use serde_json::Value;

use super::rows;
use super::state::{Definition, Item, ModelCall, Phase, Progress, Shape};
use super::transition::Transition;
use crate::domain::fault::Code;
use crate::domain::ids::ItemId;
use crate::domain::model;
use crate::parse::SynthesisDraft;

impl Transition<'_> {
    /// What a run begins with.
    pub fn begin_flow(&mut self) {
        match self.state.shape {
            Shape::Planned => {
                let has_plan = !self.state.list.is_empty();
                self.state.head.phase = if has_plan { Phase::Refining } else { Phase::Planning };
                let shown = self.state.head.plan_version;
                self.active().model = Some(ModelCall::ready(1, shown));
            }
            Shape::Single => {
                self.state.head.phase = Phase::Executing;
                self.add_single_item();
            }
        }
    }

    /// What follows when nothing of the plan is left to do.
    pub fn end_items(&mut self) {
        match self.state.shape {
            Shape::Planned => self.begin_synthesis(),
            Shape::Single => self.fail_with_single_item(),
        }
    }

    /// The one item of a run without a plan, named after the run; it takes the place of the last run's.
    fn add_single_item(&mut self) {
        let run = self.run();
        let id: ItemId = run.run_id.as_str().into();
        let def = Definition {
            id: id.clone(),
            description: run.query.clone(),
            dependencies: Vec::new(),
            step_type: None,
            required_tools: Vec::new(),
            expected_outcome: None,
            tool_validation_mode: None,
            created: self.stamp.now,
            since: self.state.head.plan_version,
            edited: None,
        };
        let track = Progress { updated: self.stamp.now, run: Some(run.run_id.clone()), ..Progress::default() };
        self.forget_items();
        let item = Item { ord: self.state.list.next_ord(), def, track, calls: Vec::new(), turns: Vec::new() };
        self.state.list.rebuild(|list| list.push(item));
        self.definition_changed(&id);
    }

    /// The items of earlier runs are no longer loaded.
    fn forget_items(&mut self) {
        let mut old = Vec::new();
        self.state.list.rebuild(|list| old = std::mem::take(list));
        for item in old {
            self.rows.extend(rows::forgotten_item(&item));
            for call in item.calls.iter().filter_map(|id| self.state.calls.remove(id)) {
                self.rows.push(rows::forgotten_call(&call));
            }
        }
    }

    /// An item has its result.
    pub fn item_completed(&mut self, content: String, shown: Value) {
        match self.state.shape {
            Shape::Planned => {}
            Shape::Single => {
                let status = self.result_status();
                self.answer(content, shown, None, status, None);
            }
        }
    }

    /// An item's replies stay cut off. Half a result is none; of what would have been the answer it is shown.
    pub fn item_cut_off(&mut self, id: &ItemId, content: String) {
        self.fail_item(id, "reply_cut_off", "the model's replies were cut off for their length".into());
        match self.state.shape {
            Shape::Single if !content.trim().is_empty() => self.answer_half(
                SynthesisDraft { content, ui_metadata: None },
                Code::SynthesisFailed,
                "the model kept answering at too great a length",
            ),
            Shape::Single | Shape::Planned => {}
        }
    }

    /// Nothing is left to do and there was no answer: the single item failed, and with it the run.
    fn fail_with_single_item(&mut self) {
        let reason = self.settled_now().last().and_then(|item| item.track.reason.clone());
        let why = reason.unwrap_or_else(|| "the step did not end".into());
        self.fail_run(Code::ModelFailed, why, model::Phase::Execution);
    }
}
