//! The stored form: the rows that a state consists of.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::domain::Millis;
use crate::domain::ids::{PayloadId, StreamId};
use crate::domain::message::ConversationMessage;
use crate::domain::run::Run;
use crate::domain::task::Task;
use crate::domain::thread::AgentState;
use crate::domain::usage::ModelUse;
use crate::pes::state::{Call, Definition, Item, Turn};
use crate::step::{Keep, Row, RowKind};

/// The version of the head and of the core's own rows.
pub(crate) const VERSION: u32 = 1;

pub(crate) fn text(body: &impl Serialize) -> String {
    serde_json::to_string(body).expect("our own types have string keys and finite numbers")
}

pub(crate) fn row(kind: RowKind, id: impl Into<String>, ord: i64, keep: Keep, body: &impl Serialize) -> Row {
    Row { kind, id: id.into(), ord, keep, body: text(body) }
}

/// An item's definition.
pub(crate) fn definition(item: &Item) -> Row {
    row(RowKind::Item, item.def.id.as_str(), item.ord, Keep::Always, &item.def)
}

/// An item's progress: a row of its own, so that a transition does not write the description again.
pub(crate) fn progress(item: &Item) -> Row {
    row(RowKind::Progress, item.def.id.as_str(), item.ord, Keep::Always, &item.progress)
}

/// The content of an item's row.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum StoredItem {
    Removed(Tombstone),
    Defined(Box<Definition>),
}

/// A removed item: the version of the plan that first lacked it, and its description, which is shown beside the
/// questions that it had.
#[derive(Serialize, Deserialize)]
pub(crate) struct Tombstone {
    pub removed: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A removed item is remembered until the run ends, so that a model that saw it cannot add it back.
pub(crate) fn tombstone(removed: &Definition, ord: i64, version: i64) -> [Row; 2] {
    let id = &removed.id;
    let body = Tombstone { removed: version, description: Some(removed.description.clone()) };
    [
        row(RowKind::Item, id.as_str(), ord, Keep::UntilFloor, &body),
        row(RowKind::Progress, id.as_str(), ord, Keep::Never, &json!({})),
    ]
}

/// An item that is no longer loaded.
pub(crate) fn unloaded_item(item: &Item) -> [Row; 2] {
    [definition(item), progress(item)].map(|row| Row { keep: Keep::Never, ..row })
}

pub(crate) fn call(call: &Call) -> Row {
    row(RowKind::Call, call.record.call_id.as_str(), call.ord, Keep::Always, &call.record)
}

/// A call whose item was removed: readable by its id, no longer loaded.
pub(crate) fn unloaded_call(call: &Call) -> Row {
    Row { keep: Keep::Never, ..self::call(call) }
}

/// Loaded as long as the task needs further work.
pub(crate) fn task(ord: i64, task: &Task) -> Row {
    let keep = if task.is_over() { Keep::Never } else { Keep::Always };
    row(RowKind::Task, task.task_id.as_str(), ord, keep, task)
}

pub(crate) fn turn(ord: i64, turn: &Turn) -> Row {
    row(RowKind::Turn, ord.to_string(), ord, Keep::UntilFloor, turn)
}

pub(crate) fn message(ord: i64, message: &ConversationMessage) -> Row {
    row(RowKind::Message, message.message_id.as_str(), ord, Keep::Never, message)
}

/// A superseded message, under its existing number.
pub(crate) fn superseded_message(ord: i64, message: &ConversationMessage) -> Row {
    Row { keep: Keep::Superseded, ..self::message(ord, message) }
}

pub(crate) fn run(ord: i64, run: &Run) -> Row {
    let keep = if run.status.is_terminal() { Keep::Never } else { Keep::Always };
    row(RowKind::Run, run.run_id.as_str(), ord, keep, run)
}

/// Since when the thread's next run waits for admission; `None`: it does not.
pub(crate) fn waits_to_begin(since: Option<Millis>) -> Row {
    row(RowKind::WaitsToBegin, "", since.unwrap_or_default(), Keep::Never, &())
}

pub(crate) fn payload(id: &PayloadId, value: &Value) -> Row {
    row(RowKind::Payload, id.as_str(), 0, Keep::Never, value)
}

/// What a model call used, at that time.
pub(crate) fn usage(stream: &StreamId, at: Millis, usage: &ModelUse) -> Row {
    row(RowKind::Usage, stream.as_str(), at, Keep::Never, usage)
}

pub(crate) fn agent_state(state: &AgentState) -> Row {
    row(RowKind::AgentState, "", 0, Keep::Always, state)
}
