//! The todo list as people read and edit it.

mod cost;
mod patch;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::if_match::IfMatch;
use super::once::{self, Answered, Idempotent, StoredResponse};
use super::{Result, Service, settings, threads};
use crate::domain::caller::Caller;
use crate::domain::expected_cost::Forecast;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::ThreadId;
use crate::domain::plan::TodoItem;
use crate::domain::settings::RunSettings;
use crate::domain::usage::nanos;
use crate::engine::event::{Event, PersonEvent};
use crate::engine::history::ShownPlan;
use crate::runtime::{CommandError, CommitExtras, IdempotencyRowFn, ThreadSnapshot};
use crate::store::ThreadRow;

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

/// The todo list after an edit.
#[derive(Clone, Debug, PartialEq)]
pub struct EditedPlan {
    pub list: Value,
    pub version: i64,
    /// An earlier request with the same idempotency key made the edit.
    pub is_replay: bool,
}

/// Edits the list, on whose version the precondition must agree.
pub async fn edit(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    patch: PlanPatch,
    on: &IfMatch,
    key: Option<Idempotent>,
) -> Result<EditedPlan> {
    service.runtime.accepting()?;
    let row = threads::row(service, caller, id).await?;
    let work = make_edit(service, caller, &row, patch, on, key.as_ref());
    let answered = once::perform(service, caller, key.as_ref(), work).await?;
    let is_replay = matches!(answered, Answered::Replayed(_));
    let StoredPlan { list, version } = answered.into_value()?;
    Ok(EditedPlan { list: service.with_payloads(row.pk, list).await?, version, is_replay })
}

async fn make_edit(
    service: &Service,
    caller: &Caller,
    row: &ThreadRow,
    patch: PlanPatch,
    on: &IfMatch,
    key: Option<&Idempotent>,
) -> std::result::Result<StoredPlan, CommandError> {
    let (list, current) = list(service, &service.runtime.snapshot(row.pk).await?).await?;
    let expected = on
        .against(current)?
        .ok_or_else(|| Fault::new(Code::PreconditionRequired, "Read the plan, and send its ETag in If-Match."))?;
    let naming = Naming::of(&patch);
    let list = patch::apply(list, patch, &service.config.limits)?;
    let ids = patch::ids(&list);
    let (by, settings) = (caller.name.clone(), Box::new(settings::of_next_run(service, caller, row)?));
    let event = Event::Person(PersonEvent::PlanEdited { expected, list, by, settings });
    let audited = CommitExtras::audited(caller.name.clone(), "edit plan", json!({ "basedOn": expected }));
    let extras = CommitExtras { wants_plan: true, idempotency: stored_plan(caller, key), ..audited };
    let decided = service.runtime.decide(row.pk, event, extras).await.map_err(|refusal| match refusal {
        CommandError::Fault(fault) => naming.point_into_patch(&ids, fault).into(),
        CommandError::Exists
        | CommandError::Gone
        | CommandError::Duplicate
        | CommandError::NotDue
        | CommandError::Capped => refusal,
    })?;
    let plan = decided.plan.transpose()?.unwrap_or_default();
    Ok(StoredPlan::of(&plan))
}

/// The list as it is stored under an idempotency key: with payload references.
#[derive(Serialize, Deserialize)]
struct StoredPlan {
    list: Value,
    version: i64,
}

impl StoredPlan {
    fn of(plan: &ShownPlan) -> Self {
        Self { list: json!(plan.todo_list), version: plan.plan_version }
    }
}

fn stored_plan(caller: &Caller, key: Option<&Idempotent>) -> Option<IdempotencyRowFn> {
    let (key, tenant) = (key?.clone(), caller.tenant);
    Some(Box::new(move |decided, now| {
        let plan = decided.plan.as_ref().and_then(|plan| plan.as_ref().ok()).map(StoredPlan::of);
        let body = serde_json::to_string(&plan).expect("a plan is plain data");
        key.row(tenant, now, StoredResponse { status: 200, body, location: None })
    }))
}
