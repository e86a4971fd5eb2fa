//! A run begins: it becomes the active one, its start is recorded, and its first work is made ready.

use crate::domain::ids::ItemId;
use crate::domain::run::{Counters, Run, RunStatus};
use crate::pes::run::message;
use crate::pes::state::{Active, Definition, Item, ModelCall, Progress, RunPhase, Shape, rows};
use crate::pes::tx::{self, Tx};

/// Makes the run the active one and records its start.
pub(crate) fn start(tx: &mut Tx<'_>, ord: i64, mut run: Run) {
    (run.status, run.reason) = (RunStatus::Running, None);
    run.started_at = Some(tx.stamp.now);
    tx::add_names(&mut run.requested_by, &std::mem::take(&mut tx.state.head.shapers));
    let message = message::user_message(&run);
    // The message gets a new number: contexts are ordered by run, and this run begins now.
    let message_ord = tx.next_ord();
    tx.write_message(message_ord, &message);
    tx.state.head.active = Some(Active::begin(run.run_id.clone(), ord, Counters::default()));
    let shown = message::recorded(tx, &message);
    tx.state.run = Some(run);
    tx.mark_run_changed();
    tx.record_run_started(shown);
    open_first_work(tx);
}

/// Opens the run's first work.
fn open_first_work(tx: &mut Tx<'_>) {
    match tx.state.shape {
        Shape::Planned => {
            let has_plan = !tx.state.list.is_empty();
            tx.state.head.phase = if has_plan { RunPhase::Refining } else { RunPhase::Planning };
            let shown = tx.state.head.plan_version;
            tx.active().model = Some(ModelCall::ready(1, shown));
        }
        Shape::Single => {
            tx.state.head.phase = RunPhase::Executing;
            add_single_item(tx);
        }
    }
}

/// Adds the one item of a run without a plan, named after the run; it replaces the last run's item.
fn add_single_item(tx: &mut Tx<'_>) {
    let run = tx.state.active_run();
    let id: ItemId = run.run_id.as_str().into();
    let def = Definition {
        id: id.clone(),
        description: run.query.to_string(),
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
    tx.mark_definition_changed(&id);
}

/// Unloads the items of earlier runs.
fn forget_items(tx: &mut Tx<'_>) {
    let mut old = Vec::new();
    tx.state.list.rebuild(|list| old = std::mem::take(list));
    for item in old {
        rows::unloaded_item(&item).into_iter().for_each(|row| tx.written.put(row));
        item.calls.iter().for_each(|id| tx.unload_call(id));
    }
}
