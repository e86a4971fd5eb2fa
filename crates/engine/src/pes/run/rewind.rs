//! A thread is rewound to an earlier point of its conversation: later messages are superseded, and the plan is restored
//! as it was then. Nothing is deleted; the log records the rewind and continues.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::facts::{IntentBody, StateUpdateBody, Summary};
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{CallId, MessageId};
use crate::domain::message::ConversationMessage;
use crate::domain::plan::TodoItem;
use crate::domain::tool::CallRecord;
use crate::event::Rewind;
use crate::history::{ShownPlan, view};
use crate::pes::plan::later_calls;
use crate::pes::run::{fork, summary};
use crate::pes::state::calls::may_have_effect;
use crate::pes::state::{Definition, Item, Shape, rows};
use crate::pes::tx::{self, Tx};

/// Refuses a rewind while there is a run, which relies on its plan, or if anything happened since the point was looked
/// up.
pub(crate) fn check(tx: &Tx<'_>, rewind: &Rewind) -> Result<(), Fault> {
    if tx.state.run.is_some() || !tx.state.head.queue.is_empty() {
        return Err(busy());
    }
    if tx.state.last_seq != rewind.as_of {
        return Err(Fault::new(Code::ThreadBusy, "Something happened on the thread meanwhile; ask again."));
    }
    Ok(())
}

/// The fault for a rewind of a thread with a run.
pub(crate) fn busy() -> Fault {
    let detail = "A run is active, and a thread goes back only without one; wait for it, or set onBusy to interrupt.";
    Fault::new(Code::ThreadBusy, detail)
}

pub(crate) fn apply(tx: &mut Tx<'_>, rewind: Rewind) {
    let Rewind { as_of: _, superseded, plan, calls, summary, history_bytes, askers, later } = rewind;
    if superseded.is_empty() {
        return;
    }
    supersede(tx, superseded, summary, history_bytes);
    later_calls::remember(tx, later);
    if tx.state.shape == Shape::Planned {
        restore(tx, plan, calls, &askers);
    }
}

/// Marks the messages as superseded and records that. A summary that covers one of them is replaced by the one of then.
fn supersede(tx: &mut Tx<'_>, superseded: Vec<(i64, ConversationMessage)>, then: Option<Summary>, history_bytes: u64) {
    let mut bytes = 0;
    for (ord, message) in &superseded {
        tx.written.put(rows::superseded_message(*ord, message));
        bytes += if message.is_error() { 0 } else { message.content.len() as u64 };
    }
    let ids: Vec<MessageId> = superseded.into_iter().map(|(_, message)| message.message_id).collect();
    let covers_superseded = tx.state.head.summary.as_ref().is_some_and(|summary| ids.contains(&summary.upto));
    let body = StateUpdateBody { superseded: ids, ..tx.state_update(vec!["messages".to_owned()]) };
    tx.record(None, "Conversation taken back", body);
    if !covers_superseded {
        tx.state.head.history_bytes = tx.state.head.history_bytes.saturating_sub(bytes);
        return;
    }
    tx.state.head.summary = None;
    tx.state.head.history_bytes = history_bytes;
    if let Some(then) = then {
        summary::set_summary(tx, then, 0);
    }
}

/// Replaces the plan by the one of then. It gets a new planVersion: a client that saw a later plan under the old number
/// must not be able to edit this one with it.
fn restore(tx: &mut Tx<'_>, then: ShownPlan, calls: Vec<CallRecord>, askers: &[String]) {
    let now = view::plan(tx.state);
    if now.intent != then.intent {
        tx.state.head.intent.clone_from(&then.intent);
        tx.record(None, "Intent", IntentBody { intent: then.intent });
    }
    if now.plan == then.plan && now.todo_list == then.todo_list {
        return;
    }
    tx.state.head.plan = then.plan;
    tx.state.head.plan_version += 1;
    let mut known: BTreeMap<CallId, CallRecord> =
        calls.into_iter().map(|record| (record.call_id.clone(), record)).collect();
    let then_version = then.plan_version;
    let items: Vec<Item> = then
        .todo_list
        .into_iter()
        .enumerate()
        .map(|(at, todo)| restore_item(tx, at as i64, todo, then_version, &mut known))
        .collect();
    forget_others(tx, &items);
    if items.iter().any(Item::may_be_done_as_shaped) {
        tx::add_names(&mut tx.state.head.shapers, askers);
    }
    for item in &items {
        tx.mark_definition_changed(&item.def.id);
    }
    tx.state.list.rebuild(|list| *list = items);
    fork::record_whole_plan(tx, "Plan restored");
}

/// With the calls that it had made by then. Of those that ended later, the ones that may have had an effect count, so that
/// nothing is done twice unasked.
fn restore_item(
    tx: &mut Tx<'_>,
    ord: i64,
    todo: TodoItem,
    then_version: i64,
    known: &mut BTreeMap<CallId, CallRecord>,
) -> Item {
    let mut calls = Vec::with_capacity(todo.tool_calls.len());
    for id in todo.tool_calls.iter().map(|called| &called.call_id) {
        let loaded = tx.state.calls.get(id).map(|call| &call.record);
        let Some(record) = loaded.or_else(|| known.get(id)) else { continue };
        let had_ended = todo.tool_results.iter().any(|result| result.call_id == *id);
        if !had_ended && !may_have_effect(record) {
            continue;
        }
        if let Some(record) = known.remove(id).filter(|_| !tx.state.calls.contains_key(id)) {
            tx.add_call(record);
        }
        calls.push(id.clone());
    }
    let edited = match tx.state.item(&todo.id) {
        Some(now) => now.def.edited.filter(|version| fork::keeps_mark(&todo, *version, then_version)),
        // Its edits are not known any more.
        None => todo.status.is_settled().then_some(tx.state.head.plan_version),
    };
    let restored = fork::item_of(ord, todo, calls, tx.state.head.plan_version);
    Item { def: Definition { edited, ..restored.def }, ..restored }
}

/// Items that are not in the restored list are no longer loaded; their calls stay readable.
fn forget_others(tx: &mut Tx<'_>, restored: &[Item]) {
    let ids: BTreeSet<_> = restored.iter().map(|item| &item.def.id).collect();
    let calls: BTreeSet<_> = restored.iter().flat_map(|item| &item.calls).collect();
    let others = tx.state.list.iter().filter(|item| !ids.contains(&item.def.id));
    let rows: Vec<_> = others.flat_map(rows::unloaded_item).collect();
    rows.into_iter().for_each(|row| tx.written.put(row));
    let listed = tx.state.list.iter().flat_map(|item| &item.calls);
    let gone: Vec<CallId> = listed.filter(|id| !calls.contains(id)).cloned().collect();
    gone.iter().for_each(|id| tx.unload_call(id));
}
