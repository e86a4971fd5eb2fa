//! The todo list as people read and edit it.

mod patch;

use serde_json::{Value, json};

use super::command::CommitExtras;
use super::{PlanPatch, Result, Runtime};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::ThreadId;
use crate::domain::settings::CallOptions;
use crate::engine::event::Event;

impl Runtime {
    /// The todo list and its planVersion.
    pub async fn plan(&self, caller: &Caller, id: &ThreadId) -> Result<(Value, i64)> {
        let row = self.row(caller, id).await?;
        let (row, mut view) = self.view(&row).await?;
        let version = view["planVersion"].as_i64().unwrap_or(0);
        Ok((self.0.shown(row.pk, view["todoList"].take()).await?, version))
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
        let settings = self.0.settings(caller, &row.core, &row.sheet.config, &CallOptions::default())?;
        let (by, settings) = (caller.name.clone(), Box::new(settings));
        let event = Event::PlanEdited { expected: if_match, list, by, settings };
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
