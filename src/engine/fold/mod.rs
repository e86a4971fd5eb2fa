//! The past from the log: lists that recorded changes imply, and the state as of any observation.
//!
//! What is recorded names changes only, so that a transition writes what it changes. A [`Fold`] that was told everything
//! up to a seq puts the rest back: whole lists for `PLAN` and `PLAN_UPDATE`, `previousItem` for each change, the view of
//! the thread, and its messages. It never fails: what it does not understand it passes on as it is. Payload references
//! stay references.

mod calls;
mod list;
mod open;
mod tell;
mod view;

use serde_json::Value;

use crate::domain::observation::ObservationType;

use calls::Calls;
use list::List;
use open::Open;

/// What it was told so far. Begin with `default()` at the first observation, or with [`Fold::of_view`] further on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fold {
    intent: String,
    title: String,
    plan: Value,
    plan_version: i64,
    list: List,
    calls: Calls,
    /// Changes of the last `PLAN`, until its `PLAN_UPDATE` comes.
    changed: Vec<Value>,
    open: Open,
    messages: Vec<Value>,
    /// What stands for the oldest of them, as it was recorded last.
    summary: Option<Value>,
    seq: i64,
}

impl Fold {
    /// Whoever wants whole lists only needs to tell these, in order and without a gap.
    pub const LISTED: [ObservationType; 3] =
        [ObservationType::Plan, ObservationType::PlanUpdate, ObservationType::ItemStatusChange];
}
