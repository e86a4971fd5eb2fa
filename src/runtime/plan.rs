//! The todo list as people read and edit it.

mod patch;

use serde_json::{Value, json};

use super::command::CommitExtras;
use super::{PlanPatch, Result, Runtime};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::forecast::PlanForecast;
use crate::domain::ids::ThreadId;
use crate::domain::settings::{CallOptions, RunSettings};
use crate::engine::event::{Event, PersonEvent};
use crate::engine::{Machine, Stamp};
use crate::store::ThreadRow;

impl Runtime {
    /// The todo list and its planVersion.
    pub async fn plan(&self, caller: &Caller, id: &ThreadId) -> Result<(Value, i64)> {
        let row = self.row(caller, id).await?;
        let (row, mut view) = self.view(&row).await?;
        let version = view["planVersion"].as_i64().unwrap_or(0);
        Ok((self.0.shown(row.pk, view["todoList"].take()).await?, version))
    }

    /// What the plan may do: under the settings of the active run, or those that the next one would have.
    pub async fn plan_forecast(&self, caller: &Caller, id: &ThreadId) -> Result<PlanForecast> {
        let row = self.row(caller, id).await?;
        let (row, machine) = self.loaded(&row).await?;
        self.forecast_of(caller, &row, &*machine)
    }

    /// The same of the plan with this edit, which changes nothing and must be one that could be made.
    pub async fn edited_forecast(&self, caller: &Caller, id: &ThreadId, patch: PlanPatch) -> Result<PlanForecast> {
        let row = self.row(caller, id).await?;
        let (row, mut machine) = self.loaded(&row).await?;
        let mut view = machine.view();
        let expected = view["planVersion"].as_i64().unwrap_or(0);
        let list = self.0.shown(row.pk, view["todoList"].take()).await?;
        let list = patch::apply(list, patch, &self.0.config.limits)?;
        let settings = Box::new(self.next_settings(caller, &row)?);
        let tools = self.0.tools.toolset(caller.tenant);
        let stamp = Stamp { now: self.0.now(), seed: 0, holder: None };
        let event = Event::Person(PersonEvent::PlanEdited { expected, list, by: caller.name.clone(), settings });
        machine.decide(&self.0.world(&tools), stamp, event).map_err(|illegal| illegal.0)?;
        self.forecast_of(caller, &row, &*machine)
    }

    fn forecast_of(&self, caller: &Caller, row: &ThreadRow, machine: &dyn Machine) -> Result<PlanForecast> {
        let tools = self.0.tools.toolset(caller.tenant);
        let forecast = machine.forecast(&self.0.world(&tools), &self.next_settings(caller, row)?);
        forecast.ok_or_else(|| {
            let detail = format!("The agent core `{}` works without a plan; there is nothing to foresee.", row.core);
            Fault::new(Code::PlanNotEditable, detail)
        })
    }

    fn next_settings(&self, caller: &Caller, row: &ThreadRow) -> Result<RunSettings> {
        self.0.settings(caller, &row.core, &row.sheet.config, &CallOptions::default())
    }

    /// Edits the list that stands at version `if_match`; answers with the list after it.
    pub async fn edit_plan(
        &self,
        caller: &Caller,
        id: &ThreadId,
        patch: PlanPatch,
        if_match: i64,
    ) -> Result<(Value, i64)> {
        self.0.accepting()?;
        let row = self.row(caller, id).await?;
        let (list, version) = self.plan(caller, id).await?;
        if version != if_match {
            return Err(stale(version));
        }
        let list = patch::apply(list, patch, &self.0.config.limits)?;
        let (by, settings) = (caller.name.clone(), Box::new(self.next_settings(caller, &row)?));
        let event = Event::Person(PersonEvent::PlanEdited { expected: if_match, list, by, settings });
        let audit = (caller.name.clone(), "edit plan", json!({ "basedOn": if_match }));
        let extras = CommitExtras { audit: Some(audit), wants_plan: true, ..CommitExtras::default() };
        let decided = self.decide(row.pk, event, extras).await?;
        let (list, version) = decided.plan.unwrap_or_default();
        Ok((self.0.shown(row.pk, list).await?, version))
    }
}

fn stale(version: i64) -> Fault {
    let detail = format!("The plan is at version {version} now; read it again and repeat the edit.");
    Fault::new(Code::PreconditionFailed, detail).with("planVersion", version)
}
