//! The seam between phases: what a run begins with, and what follows when its items are settled. Queue, items, batches,
//! suspensions, cancel and recovery know nothing of it.

use super::{finish, item, synthesize};
use serde_json::Value;

use super::rows;
use super::state::{Definition, Item, ModelCall, Phase, Progress, Shape};
use super::tx::Tx;
use crate::domain::fault::Code;
use crate::domain::ids::ItemId;
use crate::domain::model;
use crate::parse::SynthesisDraft;

/// What a run begins with.
pub(super) fn begin(tx: &mut Tx<'_>) {
    match tx.state.shape {
        Shape::Planned => {
            let has_plan = !tx.state.list.is_empty();
            tx.state.head.phase = if has_plan { Phase::Refining } else { Phase::Planning };
            let shown = tx.state.head.plan_version;
            tx.active().model = Some(ModelCall::ready(1, shown));
        }
        Shape::Single => {
            tx.state.head.phase = Phase::Executing;
            add_single_item(tx);
        }
    }
}

/// What follows when nothing of the plan is left to do.
pub(super) fn end_items(tx: &mut Tx<'_>) {
    match tx.state.shape {
        Shape::Planned => synthesize::begin(tx),
        Shape::Single => fail_with_single_item(tx),
    }
}

/// The one item of a run without a plan, named after the run; it takes the place of the last run's.
fn add_single_item(tx: &mut Tx<'_>) {
    let run = tx.state.active_run();
    let id: ItemId = run.run_id.as_str().into();
    let def = Definition {
        id: id.clone(),
        description: run.query.clone(),
        dependencies: Vec::new(),
        step_type: None,
        required_tools: Vec::new(),
        expected_outcome: None,
        tool_validation_mode: None,
        created: tx.stamp.now,
        since: tx.state.head.plan_version,
        edited: None,
    };
    let progress = Progress { updated: tx.stamp.now, run: Some(run.run_id.clone()), ..Progress::default() };
    forget_items(tx);
    let item = Item { ord: tx.state.list.next_ord(), def, progress, calls: Vec::new(), turns: Vec::new() };
    tx.state.list.rebuild(|list| list.push(item));
    tx.definition_changed(&id);
}

/// The items of earlier runs are no longer loaded.
fn forget_items(tx: &mut Tx<'_>) {
    let mut old = Vec::new();
    tx.state.list.rebuild(|list| old = std::mem::take(list));
    for item in old {
        tx.rows.extend(rows::forgotten_item(&item));
        for call in item.calls.iter().filter_map(|id| tx.state.calls.remove(id)) {
            tx.rows.push(rows::forgotten_call(&call));
        }
    }
}

/// An item has its result.
pub(super) fn item_completed(tx: &mut Tx<'_>, content: String, shown: Value) {
    match tx.state.shape {
        Shape::Planned => {}
        Shape::Single => {
            let status = tx.state.result_status();
            finish::answer(tx, content, shown, None, status, None);
        }
    }
}

/// An item's replies stay cut off. Half a result is none; of what would have been the answer it is shown.
pub(super) fn item_cut_off(tx: &mut Tx<'_>, id: &ItemId, content: String) {
    item::fail(tx, id, "reply_cut_off", "the model's replies were cut off for their length".into());
    match tx.state.shape {
        Shape::Single if !content.trim().is_empty() => synthesize::answer_half(
            tx,
            SynthesisDraft { content, ui_metadata: None },
            Code::SynthesisFailed,
            "the model kept answering at too great a length",
        ),
        Shape::Single | Shape::Planned => {}
    }
}

/// Nothing is left to do and there was no answer: the single item failed, and with it the run.
fn fail_with_single_item(tx: &mut Tx<'_>) {
    let reason = tx.state.settled_now().last().and_then(|item| item.progress.reason.clone());
    let why = reason.unwrap_or_else(|| "the step did not end".into());
    finish::fail(tx, Code::ModelFailed, why, model::Phase::Execution);
}
