//! The todo list as people read and edit it.

mod cost;
mod patch;

use serde_json::{Value, json};

use super::{Result, Service, settings, threads};
use crate::domain::caller::Caller;
use crate::domain::expected_cost::Forecast;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::ThreadId;
use crate::domain::plan::TodoItem;
use crate::domain::settings::RunSettings;
use crate::domain::usage::nanos;
use crate::engine::event::{Event, PersonEvent};
use crate::runtime::{CommitExtras, ThreadSnapshot};

use patch::Naming;

/// How a person edits the todo list.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanPatch {
    /// RFC 6902 operations on the list.
    JsonPatch(json_patch::Patch),
    /// RFC 7386, where an object `{id: change}` merges by item id and an array replaces the list.
    MergePatch(Value),
}

/// The todo list and its planVersion.
pub async fn get(service: &Service, caller: &Caller, id: &ThreadId) -> Result<(Value, i64)> {
    let row = threads::row(service, caller, id).await?;
    list(service, &service.runtime.snapshot(row.pk).await?).await
}

/// The items alone. Their results may be payload references.
pub async fn items(service: &Service, caller: &Caller, id: &ThreadId) -> Result<Vec<TodoItem>> {
    let row = threads::row(service, caller, id).await?;
    Ok(service.runtime.snapshot(row.pk).await?.plan()?.todo_list)
}

async fn list(service: &Service, thread: &ThreadSnapshot) -> Result<(Value, i64)> {
    let plan = thread.plan()?;
    Ok((service.with_payloads(thread.row.pk, json!(plan.todo_list)).await?, plan.plan_version))
}

/// What the plan may do and cost, under the settings of the active run, or of the next run if none is active.
pub async fn forecast(service: &Service, caller: &Caller, id: &ThreadId) -> Result<Forecast> {
    let row = threads::row(service, caller, id).await?;
    let thread = service.runtime.snapshot(row.pk).await?;
    let next = settings::of_next_run(service, caller, &thread.row)?;
    forecast_of(service, caller, &thread, &next).await
}

/// The same forecast for the plan after this edit. The edit must be valid; it is not stored.
pub async fn forecast_edit(service: &Service, caller: &Caller, id: &ThreadId, patch: PlanPatch) -> Result<Forecast> {
    let row = threads::row(service, caller, id).await?;
    let thread = service.runtime.snapshot(row.pk).await?;
    let (list, expected) = list(service, &thread).await?;
    let naming = Naming::of(&patch);
    let list = patch::apply(list, patch, &service.config.limits)?;
    let ids = patch::ids(&list);
    let next = settings::of_next_run(service, caller, &thread.row)?;
    let settings = Box::new(next.clone());
    let event = Event::Person(PersonEvent::PlanEdited { expected, list, by: caller.name.clone(), settings });
    let edited = thread.after(event).map_err(|fault| naming.point_into_patch(&ids, fault))?;
    forecast_of(service, caller, &edited, &next).await
}

async fn forecast_of(
    service: &Service,
    caller: &Caller,
    thread: &ThreadSnapshot,
    next: &RunSettings,
) -> Result<Forecast> {
    let plan = thread.forecast(next).ok_or_else(|| {
        let core = &thread.row.core;
        let detail = format!("The agent core `{core}` works without a plan; there is nothing to foresee.");
        Fault::new(Code::PlanNotEditable, detail)
    })?;
    let (settings, left) = match thread.run() {
        Some(run) => (&*run.settings, thread.budget_left()),
        None => (next, next.budget.as_ref().and_then(|budget| budget.max_cost_usd).map(nanos)),
    };
    let cost = cost::expected(service, caller, &plan, settings, left).await?;
    Ok(Forecast { plan, cost })
}

/// Edits the list, whose version must be `if_match`. Returns the new list and its version.
pub async fn edit(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    patch: PlanPatch,
    if_match: i64,
) -> Result<(Value, i64)> {
    service.runtime.accepting()?;
    let row = threads::row(service, caller, id).await?;
    let (list, version) = list(service, &service.runtime.snapshot(row.pk).await?).await?;
    if version != if_match {
        return Err(stale(version));
    }
    let naming = Naming::of(&patch);
    let list = patch::apply(list, patch, &service.config.limits)?;
    let ids = patch::ids(&list);
    let (by, settings) = (caller.name.clone(), Box::new(settings::of_next_run(service, caller, &row)?));
    let event = Event::Person(PersonEvent::PlanEdited { expected: if_match, list, by, settings });
    let audited = CommitExtras::audited(caller.name.clone(), "edit plan", json!({ "basedOn": if_match }));
    let extras = CommitExtras { wants_plan: true, ..audited };
    let decided = service.runtime.decide(row.pk, event, extras).await;
    let decided = decided.map_err(|refusal| naming.point_into_patch(&ids, refusal.into()))?;
    let plan = decided.plan.transpose()?.unwrap_or_default();
    Ok((service.with_payloads(row.pk, json!(plan.todo_list)).await?, plan.plan_version))
}

fn stale(version: i64) -> Fault {
    let detail = format!("The plan is at version {version} now; read it again and repeat the edit.");
    Fault::new(Code::PreconditionFailed, detail).with("planVersion", version)
}
