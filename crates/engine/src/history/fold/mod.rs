//! Past states, rebuilt from the log: the lists that recorded changes imply, and the state as of any observation.
//!
//! Records hold changes only, so that a transition writes only what it changes. A [`Fold`] that has applied every
//! observation up to a seq restores the rest: whole lists for `PLAN` and `PLAN_UPDATE`, `previousItem` for each change,
//! the view of the thread, its messages, and the application's state. An observation that it cannot read is an error
//! and changes nothing. Payload references stay references.

mod apply;
mod calls;
mod list;
mod open;
mod size;
mod view;
mod written;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::facts::{RecordedMessage, Summary};
use crate::domain::observation::ObservationType;
use crate::domain::plan::TodoItemChange;

use list::ListFold;
use open::OpenWork;
use written::AgentStateFold;

pub use written::{StateWrite, StateWrites};

/// The result of the observations so far. Begin with `default()` at the first observation, or, if only whole lists are
/// wanted, with [`Fold::of_view`] at a later one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fold {
    intent: String,
    title: String,
    plan: Value,
    plan_version: i64,
    list: ListFold,
    /// The changes of the last `PLAN`, until its `PLAN_UPDATE` arrives.
    changed: Vec<TodoItemChange>,
    open: OpenWork,
    messages: Vec<RecordedMessage>,
    /// The last recorded summary of the oldest of them.
    summary: Option<Summary>,
    written: AgentStateFold,
    seq: i64,
    /// It began in the middle of the log, for live readers: it provides lists, and tracks nothing else.
    #[serde(skip)]
    lists_only: bool,
}

impl Fold {
    /// If only whole lists are wanted, it is enough to apply these, in order and without a gap.
    pub const LISTED: [ObservationType; 3] =
        [ObservationType::Plan, ObservationType::PlanUpdate, ObservationType::ItemStatusChange];

    /// The stored form, which replaces the observations that were applied.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("strings, numbers and JSON values always have a text")
    }

    /// Reads the stored form.
    pub fn of_text(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// The approximate memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        let texts = self.intent.len() + self.title.len();
        let changed: usize = self.changed.iter().map(size::change).sum();
        let messages: usize = self.messages.iter().map(size::message).sum();
        let summary = self.summary.as_ref().map_or(0, |summary| size::value(&summary.text));
        let state = self.open.bytes() + self.written.bytes();
        size_of::<Self>() + texts + size::value(&self.plan) + changed + self.list.bytes() + messages + summary + state
    }
}
