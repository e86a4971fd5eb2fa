//! The machine's memory: data, and pure questions about it.
//!
//! The data (`head`, `item`, `model_call`, `list`) is stored as rows (`rows`, `load`). Everything else here only reads:
//! nothing in this folder changes a state, except [`load`]. The methods of [`State`] are in `run.rs` (the active run),
//! `calls.rs` (calls, questions, tasks), `outcome.rs` (what settled) and `funds.rs` (the budget).

pub(crate) mod calls;
pub(crate) mod effects;
pub(crate) mod funds;
pub(crate) mod head;
pub(crate) mod item;
pub(crate) mod list;
pub(crate) mod load;
pub(crate) mod model_call;
pub(crate) mod outcome;
pub(crate) mod rows;
pub(crate) mod run;
pub(crate) mod text;
pub(crate) mod wake;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::hitl::Suspension;
use crate::domain::ids::{CallId, ItemId, RunId, TaskId, ThreadId};
use crate::domain::run::Run;
use crate::domain::task::Task;
use crate::domain::thread::AgentState;
use crate::simple::SimpleCore;
use crate::step::Row;

pub(crate) use head::*;
pub(crate) use item::*;
pub(crate) use list::TodoList;
pub(crate) use model_call::*;

/// Which phases the runs of a core have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Plan, items, synthesis.
    #[default]
    Planned,
    /// One implicit item, whose result is the answer.
    Single,
}

pub(crate) struct State {
    pub(crate) shape: Shape,
    /// Decides the next step of a run of the shape `Single`, if the core is a [`SimpleCore`].
    pub(crate) simple: Option<Arc<dyn SimpleCore>>,
    pub(crate) thread_id: ThreadId,
    pub(crate) head: Head,
    /// The active run. Its counters are updated from the head when a transition ends.
    pub(crate) run: Option<Run>,
    /// Queued runs by id, each with its row's number; `head.queue` holds their order.
    pub(crate) queued: BTreeMap<RunId, (i64, Run)>,
    pub(crate) list: TodoList,
    pub(crate) calls: BTreeMap<CallId, Call>,
    /// Delegated tasks that need further work, each with its row's number.
    pub(crate) tasks: BTreeMap<TaskId, (i64, Task)>,
    /// The open ones only, oldest first.
    pub(crate) suspensions: BTreeMap<i64, Suspension>,
    pub(crate) agent_state: AgentState,
    /// Items that were removed from the list during this run, with the planVersion of that change.
    pub(crate) removed: BTreeMap<ItemId, i64>,
    pub(crate) last_seq: i64,
    pub(crate) unreadable: UnreadableParts,
}

/// What could not be read of a thread's stored state.
#[derive(Default)]
pub(crate) struct UnreadableParts {
    /// A name for each unreadable part.
    pub(crate) names: Vec<String>,
    /// Rows that must not be loaded again.
    pub(crate) rows: Vec<Row>,
}
