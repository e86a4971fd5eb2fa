//! A read-only copy of a stored thread, for views and for decisions that are only tried. It is never written back.

use std::sync::Arc;

use serde_json::Value;

use super::Runtime;
use super::shared::Shared;
use crate::domain::fault::{Code, Fault};
use crate::domain::forecast::PlanForecast;
use crate::domain::ids::ThreadPk;
use crate::domain::run::Run;
use crate::domain::settings::RunSettings;
use crate::domain::usage::Nanos;
use crate::engine::event::Event;
use crate::engine::history::ShownPlan;
use crate::engine::{Machine, Stamp, step};
use crate::store::ThreadRow;
use crate::tool::Toolset;

/// The thread's row, the machine built from the rows of the same read, and the tools that its tenant had then.
pub(crate) struct ThreadSnapshot {
    pub(crate) row: ThreadRow,
    machine: Box<dyn Machine>,
    tools: Arc<Toolset>,
    shared: Arc<Shared>,
}

impl Runtime {
    /// Reads the thread over the connections for readers.
    pub(crate) async fn snapshot(&self, pk: ThreadPk) -> Result<ThreadSnapshot, Fault> {
        let (row, rows) = self.0.reads.load(pk).await?.ok_or_else(|| Fault::not_found("thread"))?;
        let loaded = row.loaded_with(rows);
        let machine = self.0.core(&row.core)?.load(loaded)?;
        let tools = self.0.tools.toolset(row.tenant).await;
        Ok(ThreadSnapshot { row, machine, tools, shared: self.0.clone() })
    }
}

impl ThreadSnapshot {
    /// `PESAgentStateData`, with payload references.
    pub(crate) fn view(&self) -> Value {
        self.machine.view()
    }

    /// The plan of the view, with payload references.
    pub(crate) fn plan(&self) -> Result<ShownPlan, Fault> {
        plan_of(&*self.machine)
    }

    /// The forecast of the plan under the settings of the active run, else under `next`; `None`: its core makes no plan.
    pub(crate) fn forecast(&self, next: &RunSettings) -> Option<PlanForecast> {
        self.machine.forecast(&self.shared.world(&self.tools), next)
    }

    /// The active run.
    pub(crate) fn run(&self) -> Option<&Run> {
        self.machine.run()
    }

    /// The money that is left of the active run's budget. `None`: no run is active, or its money is not bounded.
    pub(crate) fn budget_left(&self) -> Option<Nanos> {
        self.machine.budget_left()
    }

    /// The snapshot after a decision on this event. Nothing is started or stored. The error says why the event is refused.
    pub(crate) fn after(mut self, event: Event) -> Result<Self, Fault> {
        let stamp = Stamp { now: self.shared.now(), seed: 0, holder: None };
        step::decide(&mut *self.machine, &self.shared.world(&self.tools), stamp, event)?;
        Ok(self)
    }
}

/// The plan of a machine's view. A core from outside may have a view in another shape, which is an error.
pub(super) fn plan_of(machine: &dyn Machine) -> Result<ShownPlan, Fault> {
    let unreadable = |error| Fault::new(Code::Internal, format!("The thread's state tells no plan: {error}."));
    machine.plan().map_err(unreadable)
}
