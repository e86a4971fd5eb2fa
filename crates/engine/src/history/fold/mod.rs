//! The past from the log: lists that recorded changes imply, and the state as of any observation.
//!
//! What is recorded names changes only, so that a transition writes what it changes. A [`Fold`] that was told everything
//! up to a seq puts the rest back: whole lists for `PLAN` and `PLAN_UPDATE`, `previousItem` for each change, the view of
//! the thread, its messages, and the application's state. It never fails: what it does not understand it passes on as it
//! is. Payload references stay references.

mod calls;
mod list;
mod open;
mod tell;
mod view;
mod written;

use serde_json::Value;

use crate::domain::observation::ObservationType;

use list::List;
use open::Open;
use written::Written;

pub use written::agent_state;

/// What it was told so far. Begin with `default()` at the first observation, or, for whole lists alone, with
/// [`Fold::of_view`] further on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fold {
    intent: String,
    title: String,
    plan: Value,
    plan_version: i64,
    list: List,
    /// Changes of the last `PLAN`, until its `PLAN_UPDATE` comes.
    changed: Vec<Value>,
    open: Open,
    messages: Vec<Value>,
    /// What stands for the oldest of them, as it was recorded last.
    summary: Option<Value>,
    written: Written,
    seq: i64,
    /// It began in the middle, for whoever listens: it tells lists, and keeps nothing else.
    lists_only: bool,
}

impl Fold {
    /// Whoever wants whole lists only needs to tell these, in order and without a gap.
    pub const LISTED: [ObservationType; 3] =
        [ObservationType::Plan, ObservationType::PlanUpdate, ObservationType::ItemStatusChange];

    /// What it takes in memory, roughly, if it was told nothing but [`Self::LISTED`].
    pub fn bytes(&self) -> usize {
        let texts = self.intent.len() + self.title.len();
        let changed: usize = self.changed.iter().map(bytes).sum();
        size_of::<Self>() + texts + bytes(&self.plan) + changed + self.list.bytes()
    }
}

/// What a value takes in memory, roughly.
fn bytes(value: &Value) -> usize {
    const MEMBER: usize = 64;
    size_of::<Value>()
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(bytes).sum(),
            Value::Object(members) => members.iter().map(|(name, value)| MEMBER + name.len() + bytes(value)).sum(),
        }
}
