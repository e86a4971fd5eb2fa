//! A person has one item of the active run done again, or skipped.

use crate::domain::facts::PlanSource;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::ItemId;
use crate::domain::observation::RecordMetadata;
use crate::domain::plan::ItemStatus;
use crate::parse::ItemDraft;
use crate::pes::plan::change::{self, PlanMerge};
use crate::pes::plan::{merge, redo};
use crate::pes::settle::item;
use crate::pes::state::{RunPhase, Shape};
use crate::pes::tx::{EventOutcome, HandlerResult, Tx};

/// Begins the item anew, as a refinement can; dependants that were cancelled because of it wait for it again.
pub(crate) fn retry(tx: &mut Tx<'_>, id: &ItemId, by: &str) -> HandlerResult {
    let mut merged = PlanMerge::default();
    match status(tx, id)? {
        ItemStatus::Pending => return Ok(EventOutcome::Ignored),
        ItemStatus::InProgress | ItemStatus::Waiting => {
            return Err(Fault::new(Code::ItemInProgress, format!("Item {id} is under way; skip it, or let it end.")));
        }
        ItemStatus::Completed => redo::redo(tx, id, &ItemDraft::default(), &mut merged),
        ItemStatus::Failed | ItemStatus::Cancelled => {
            change::change_status(tx, id, ItemStatus::Pending, &mut merged, None);
            item::withdraw_failure(tx, id);
            reopen_dependants(tx, id, &mut merged);
        }
    }
    // A plan that was stopped by a failure continues when a person has an item done again.
    if std::mem::take(&mut tx.active().is_stopped) {
        reopen_stopped(tx, &mut merged);
    }
    let version = tx.state.head.plan_version + 1;
    if let Some(item) = tx.state.list.get_mut(id) {
        item.def.edited = Some(version);
    }
    tx.state.list.rebuild(|_| ());
    let merged = merge::snapshot(tx, merged);
    let update = change::new_update(tx, PlanSource::User, &merged.changes);
    change::record_update(tx, None, update);
    tx.annotate(decided_by(by));
    change::record_status_changes(tx, &merged);
    tx.add_requesters(&[by.to_owned()]);
    Ok(EventOutcome::Applied)
}

/// Ends the item now, whatever of it is in progress, and cancels the items that depend on it.
pub(crate) fn skip(tx: &mut Tx<'_>, id: &ItemId, by: &str) -> HandlerResult {
    match status(tx, id)? {
        ItemStatus::Cancelled => return Ok(EventOutcome::Ignored),
        ItemStatus::Completed | ItemStatus::Failed => {
            return Err(Fault::new(Code::FinishedItem, format!("Item {id} is over; it can be done again.")));
        }
        ItemStatus::Pending | ItemStatus::InProgress | ItemStatus::Waiting => {}
    }
    item::cancel(tx, id, "skipped by a person".to_owned());
    tx.annotate(decided_by(by));
    tx.change_progress(id, |progress| progress.edited_away = true);
    item::cancel_dependants(tx, id);
    tx.add_requesters(&[by.to_owned()]);
    Ok(EventOutcome::Applied)
}

/// The item's status, if the active run is working through its plan.
fn status(tx: &Tx<'_>, id: &ItemId) -> Result<ItemStatus, Fault> {
    if tx.state.shape == Shape::Single {
        return Err(Fault::new(Code::PlanNotEditable, "This thread's agent core works without a plan."));
    }
    let known = tx.state.item(id).map(|item| item.progress.status);
    let known = known.ok_or_else(|| Fault::not_found("item in the plan"))?;
    let is_cancelled = tx.state.head.active.as_ref().is_none_or(|active| active.cancel.is_some());
    match tx.state.phase() {
        RunPhase::Executing if !is_cancelled => Ok(known),
        RunPhase::Executing | RunPhase::Idle => {
            Err(Fault::new(Code::RunFinished, "No run is active; ask again, and say what is to be done again."))
        }
        RunPhase::Planning | RunPhase::Refining | RunPhase::Synthesizing => {
            let detail = "The plan is being made or summed up; try again after that.";
            Err(Fault::new(Code::PlanNotEditable, detail))
        }
    }
}

/// Makes the items pending again that were cancelled because this one failed, and those that depend on them.
fn reopen_dependants(tx: &mut Tx<'_>, id: &ItemId, merged: &mut PlanMerge) {
    let mut causes = vec![id.clone()];
    while let Some(cause) = causes.pop() {
        let waited: Vec<ItemId> = tx
            .state
            .list
            .dependants(&cause)
            .filter(|item| item.progress.status == ItemStatus::Cancelled)
            .filter(|item| item.progress.reason.as_deref() == Some(item::DEPENDENCY_FAILED))
            .map(|item| item.def.id.clone())
            .collect();
        for dependant in waited {
            change::change_status(tx, &dependant, ItemStatus::Pending, merged, None);
            causes.push(dependant);
        }
    }
}

/// Makes the items pending again that were cancelled because a failure had stopped the plan of this run.
fn reopen_stopped(tx: &mut Tx<'_>, merged: &mut PlanMerge) {
    let run = tx.state.active_run().run_id.clone();
    let stopped = tx.state.list.iter().filter(|item| {
        let progress = &item.progress;
        progress.status == ItemStatus::Cancelled
            && progress.reason.as_deref() == Some(item::STOPPED)
            && progress.run.as_ref() == Some(&run)
    });
    let stopped: Vec<ItemId> = stopped.map(|item| item.def.id.clone()).collect();
    for id in stopped {
        change::change_status(tx, &id, ItemStatus::Pending, merged, None);
    }
}

fn decided_by(by: &str) -> RecordMetadata {
    RecordMetadata { by: Some(by.to_owned()), ..RecordMetadata::default() }
}
