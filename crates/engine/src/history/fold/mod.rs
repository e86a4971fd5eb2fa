//! The past from the log: lists that recorded changes imply, and the state as of any observation.
//!
//! What is recorded names changes only, so that a transition writes what it changes. A [`Fold`] that was told everything
//! up to a seq puts the rest back: whole lists for `PLAN` and `PLAN_UPDATE`, `previousItem` for each change, the view of
//! the thread, its messages, and the application's state. What it cannot read changes nothing, and is said to the caller.
//! Payload references stay references.

mod calls;
mod list;
mod open;
mod size;
mod tell;
mod view;
mod written;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::facts::{RecordedMessage, Summary};
use crate::domain::observation::ObservationType;
use crate::domain::plan::TodoItemChange;

use list::List;
use open::Open;
use written::Written;

pub use written::{StateWrite, StateWrites};

/// What it was told so far. Begin with `default()` at the first observation, or, for whole lists alone, with
/// [`Fold::of_view`] further on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fold {
    intent: String,
    title: String,
    plan: Value,
    plan_version: i64,
    list: List,
    /// Changes of the last `PLAN`, until its `PLAN_UPDATE` comes.
    changed: Vec<TodoItemChange>,
    open: Open,
    messages: Vec<RecordedMessage>,
    /// What stands for the oldest of them, as it was recorded last.
    summary: Option<Summary>,
    written: Written,
    seq: i64,
    /// It began in the middle, for whoever listens: it tells lists, and keeps nothing else.
    #[serde(skip)]
    lists_only: bool,
}

impl Fold {
    /// Whoever wants whole lists only needs to tell these, in order and without a gap.
    pub const LISTED: [ObservationType; 3] =
        [ObservationType::Plan, ObservationType::PlanUpdate, ObservationType::ItemStatusChange];

    /// As it is stored: what stands for the observations that it was told.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("strings, numbers and JSON values always have a text")
    }

    /// As it was stored.
    pub fn of_text(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// What it takes in memory, roughly.
    pub fn bytes(&self) -> usize {
        let texts = self.intent.len() + self.title.len();
        let changed: usize = self.changed.iter().map(size::change).sum();
        let messages: usize = self.messages.iter().map(size::message).sum();
        let summary = self.summary.as_ref().map_or(0, |summary| size::value(&summary.text));
        let state = self.open.bytes() + self.written.bytes();
        size_of::<Self>() + texts + size::value(&self.plan) + changed + self.list.bytes() + messages + summary + state
    }
}
