//! A thread as it is stored, for those who look at it or try something on it. Nothing of that is ever written.

use std::sync::Arc;

use serde_json::Value;

use super::Runtime;
use super::shared::Shared;
use crate::domain::fault::{Code, Fault};
use crate::domain::forecast::PlanForecast;
use crate::domain::ids::ThreadPk;
use crate::domain::run::Run;
use crate::domain::settings::RunSettings;
use crate::engine::event::Event;
use crate::engine::history::ShownPlan;
use crate::engine::{Loaded, Machine, Stamp};
use crate::store::ThreadRow;

/// The row, and the engine that was made of it and its other rows in the same look at the store.
pub(crate) struct ThreadSnapshot {
    pub(crate) row: ThreadRow,
    machine: Box<dyn Machine>,
    shared: Arc<Shared>,
}

impl Runtime {
    /// Reads the thread over the connections for readers.
    pub(crate) async fn snapshot(&self, pk: ThreadPk) -> Result<ThreadSnapshot, Fault> {
        let (row, rows) = self.0.reads.load(pk).await?.ok_or_else(|| Fault::not_found("thread"))?;
        let loaded =
            Loaded { thread_id: Some(row.thread_id.clone()), head: row.head.clone(), rows, last_seq: row.last_seq };
        let machine = self.0.core(&row.core)?.load(loaded)?;
        self.0.tools.prepare(row.tenant).await;
        Ok(ThreadSnapshot { row, machine, shared: self.0.clone() })
    }
}

impl ThreadSnapshot {
    /// `PESAgentStateData`, with payload references.
    pub(crate) fn view(&self) -> Value {
        self.machine.view()
    }

    /// What the view shows of the plan, with payload references.
    pub(crate) fn plan(&self) -> Result<ShownPlan, Fault> {
        plan_of(&*self.machine)
    }

    /// What the plan may do under the settings of the active run, else under these; `None`: its core makes no plan.
    pub(crate) fn forecast(&self, next: &RunSettings) -> Option<PlanForecast> {
        let tools = self.shared.tools.toolset(self.row.tenant);
        self.machine.forecast(&self.shared.world(&tools), next)
    }

    /// The active run.
    pub(crate) fn run(&self) -> Option<&Run> {
        self.machine.run()
    }

    /// The snapshot after a decision on this event, which starts nothing and is not stored; or why it is refused.
    pub(crate) fn after(mut self, event: Event) -> Result<Self, Fault> {
        let tools = self.shared.tools.toolset(self.row.tenant);
        let stamp = Stamp { now: self.shared.now(), seed: 0, holder: None };
        self.machine.decide(&self.shared.world(&tools), stamp, event).map_err(|illegal| illegal.0)?;
        Ok(self)
    }
}

/// What a core's view shows of the plan. A core of somebody else's may have a view that is none.
pub(super) fn plan_of(machine: &dyn Machine) -> Result<ShownPlan, Fault> {
    let unreadable = |error| Fault::new(Code::Internal, format!("The thread's state tells no plan: {error}."));
    machine.plan().map_err(unreadable)
}
