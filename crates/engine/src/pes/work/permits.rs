//! The `maxParallelItems` permits: which items hold one, and which item is next.

use crate::domain::ids::ItemId;
use crate::domain::tool::CallCode;
use crate::pes::plan::names;
use crate::pes::settle::item;
use crate::pes::state::{ModelCall, State};
use crate::pes::tx::Tx;
use crate::pes::work::item_loop;

/// Takes the permit from items whose slots are all parked, for others to use.
pub(crate) fn release_idle(tx: &mut Tx<'_>) {
    let idle: Vec<ItemId> = tx
        .state
        .items_with_permit()
        .filter(|id| tx.state.loop_of(id).is_some_and(|work| !tx.state.is_busy(work)))
        .collect();
    for id in idle {
        tx.change_loop(&id, |work| work.has_permit = false);
    }
}

/// The item that gets the next free permit: first those that were resumed, then the first pending item.
pub(crate) fn next_item(state: &State) -> Option<ItemId> {
    let permits = state.run_settings().execution.max_parallel_items.max(1) as usize;
    if state.items_with_permit().count() >= permits {
        return None;
    }
    let resumed = state.list.open().filter_map(|item| {
        let work = item.progress.work.as_ref()?;
        (!work.has_permit && state.is_busy(work)).then_some((work.waits_since, item))
    });
    if let Some((_, item)) = resumed.min_by_key(|(since, _)| *since) {
        return Some(item.def.id.clone());
    }
    let is_stopped = state.head.active.as_ref().is_some_and(|active| active.is_stopped);
    let may_begin = !is_stopped && !state.is_review_open();
    state.list.next_ready().filter(|_| may_begin).map(|item| item.def.id.clone())
}

/// Gives the item a permit, and begins it if it is pending. `false`: it cannot be carried out, and has failed.
pub(crate) fn grant(tx: &mut Tx<'_>, id: &ItemId) -> bool {
    if tx.state.loop_of(id).is_some() {
        tx.change_loop(id, |work| {
            work.has_permit = true;
            work.waits_since = None;
        });
    } else if let Some(tool) = names::missing_tool_of(tx, id) {
        item_loop::begin(tx, id, None);
        let tools = tx.world.tools;
        let (code, why) = if tools.declared(tx.state.run_settings(), &tool).is_some() {
            (CallCode::DisabledTool, format!("it requires {tool}, which is not enabled for this thread"))
        } else if let Some(why) = tools.why_off(&tool) {
            (CallCode::UnknownTool, format!("it requires {tool}, which is off: {why}"))
        } else {
            (CallCode::UnknownTool, format!("it requires {tool}, and there is no such tool here"))
        };
        item::fail(tx, id, code.as_str(), why);
        return false;
    } else if tx.state.simple.is_some() {
        item_loop::begin(tx, id, None);
        // No model call has been made yet.
        tx.change_loop(id, |work| work.iteration = 0);
    } else {
        let shown = tx.state.head.plan_version;
        item_loop::begin(tx, id, Some(ModelCall::ready(1, shown)));
    }
    true
}

/// Marks that an item may continue, so that it waits for a permit in the order of resumption.
pub(crate) fn wait(tx: &mut Tx<'_>, id: &ItemId) {
    let ord = tx.next_ord();
    tx.change_loop(id, |work| {
        if !work.has_permit && work.waits_since.is_none() {
            work.waits_since = Some(ord);
        }
    });
}
