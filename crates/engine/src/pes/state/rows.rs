//! The stored form: which rows the state consists of.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::domain::Millis;
use crate::domain::ids::{ItemId, PayloadId, StreamId};
use crate::domain::message::ConversationMessage;
use crate::domain::run::Run;
use crate::domain::task::Task;
use crate::domain::thread::AgentState;
use crate::domain::usage::ModelUse;
use crate::pes::state::{Call, Definition, Item, Turn};
use crate::step::{Keep, Row, RowKind};

/// The version of the head and of the rows that are the core's own.
pub(crate) const VERSION: u32 = 1;

pub(crate) fn text(body: &impl Serialize) -> String {
    serde_json::to_string(body).expect("our own types have string keys and finite numbers")
}

pub(crate) fn row(kind: RowKind, id: impl Into<String>, ord: i64, keep: Keep, body: &impl Serialize) -> Row {
    Row { kind, id: id.into(), ord, keep, body: text(body) }
}

/// What an item is.
pub(crate) fn definition(item: &Item) -> Row {
    row(RowKind::Item, item.def.id.as_str(), item.ord, Keep::Always, &item.def)
}

/// How an item goes: apart, so that a transition of it does not write its description again.
pub(crate) fn progress(item: &Item) -> Row {
    row(RowKind::Progress, item.def.id.as_str(), item.ord, Keep::Always, &item.progress)
}

/// What the row of an item holds.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum StoredItem {
    Removed(Tombstone),
    Defined(Box<Definition>),
}

/// Of a removed item, the version of the plan that has it no more.
#[derive(Serialize, Deserialize)]
pub(crate) struct Tombstone {
    pub removed: i64,
}

/// A removed item: remembered until the run ends, so that a model that had seen it cannot bring it back.
pub(crate) fn tombstone(id: &ItemId, ord: i64, version: i64) -> [Row; 2] {
    [
        row(RowKind::Item, id.as_str(), ord, Keep::UntilFloor, &Tombstone { removed: version }),
        row(RowKind::Progress, id.as_str(), ord, Keep::Never, &json!({})),
    ]
}

/// An item that is no longer loaded.
pub(crate) fn forgotten_item(item: &Item) -> [Row; 2] {
    [definition(item), progress(item)].map(|row| Row { keep: Keep::Never, ..row })
}

pub(crate) fn call(call: &Call) -> Row {
    row(RowKind::Call, call.record.call_id.as_str(), call.ord, Keep::Always, &call.record)
}

/// A call whose item is gone: readable by its id, no longer loaded.
pub(crate) fn forgotten_call(call: &Call) -> Row {
    Row { keep: Keep::Never, ..self::call(call) }
}

/// Loaded as long as something is left to do about it.
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

/// A message that counts no more, under the number that it has.
pub(crate) fn superseded_message(ord: i64, message: &ConversationMessage) -> Row {
    Row { keep: Keep::Superseded, ..self::message(ord, message) }
}

pub(crate) fn run(ord: i64, run: &Run) -> Row {
    let keep = if run.status.is_terminal() { Keep::Never } else { Keep::Always };
    row(RowKind::Run, run.run_id.as_str(), ord, keep, run)
}

/// Since when the thread's next run waits until it may begin; `None`: it does not.
pub(crate) fn waits_to_begin(since: Option<Millis>) -> Row {
    row(RowKind::WaitsToBegin, "", since.unwrap_or_default(), Keep::Never, &())
}

pub(crate) fn payload(id: &PayloadId, value: &Value) -> Row {
    row(RowKind::Payload, id.as_str(), 0, Keep::Never, value)
}

/// What a model call took, at that time.
pub(crate) fn used(stream: &StreamId, at: Millis, used: &ModelUse) -> Row {
    row(RowKind::Usage, stream.as_str(), at, Keep::Never, used)
}

pub(crate) fn agent_state(state: &AgentState) -> Row {
    row(RowKind::AgentState, "", 0, Keep::Always, state)
}
