//! The schedules of a tenant.

use serde_json::{Value, json};

use super::{Collection, Draft, Resource, Versioned, wrong};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::schedule::{ScheduleResource, ScheduleSpec, StoredSchedule, Timing};
use crate::domain::settings::ThreadConfig;
use crate::service::{Result, Service, schedules, settings, threads};
use crate::store::documents::{Document, DocumentKind};
use crate::tool::Toolset;

/// Schedules, by the ids that the tenant chose.
pub struct Schedules;

impl Resource for Schedules {
    const KIND: DocumentKind = DocumentKind::Schedule;
    const NAME: &'static str = "schedule";
    type Spec = ScheduleSpec;
    type View = ScheduleResource;

    async fn get(service: &Service, caller: &Caller, id: &str) -> Result<Versioned<ScheduleResource>> {
        let document = service.documents.get(caller.tenant, Self::KIND, id);
        let document = document.ok_or_else(|| Fault::not_found(Self::NAME))?;
        let standing = schedules::standing(service, &document).await?;
        Ok(Versioned { value: ScheduleResource { standing, ..shown(&document) }, version: document.version })
    }

    fn replaced_body(
        service: &Service,
        caller: &Caller,
        tools: &Toolset,
        known: &Document,
        spec: ScheduleSpec,
    ) -> Result<Value> {
        if spec.id != known.id {
            return Err(Fault::new(Code::Invalid, "A schedule keeps its id.").at("/id", "is not the one in the path"));
        }
        let before: Option<StoredSchedule> = known.legible().ok();
        if before.as_ref().is_none_or(|before| before.spec.at != spec.at) {
            check_at(service, &spec)?;
        }
        match before {
            // What it names may be gone: that must not keep it active.
            Some(before) if only_pauses(&before.spec, &spec) => Ok(stored(service, caller, spec, Some(before))),
            before => body(service, caller, tools, spec, before),
        }
    }

    fn as_spec(known: &Document) -> Result<Value> {
        let spec = known.body.as_ref().and_then(|body| body.get("spec"));
        Ok(spec.cloned().unwrap_or_default())
    }

    fn view_of(_: &Service, _: &Caller, document: &Document) -> Result<ScheduleResource> {
        Ok(shown(document))
    }

    async fn follow_up(service: &Service, caller: &Caller, id: &str) {
        if let Some(document) = service.documents.get(caller.tenant, Self::KIND, id) {
            schedules::plan(service, &document).await;
        }
    }
}

impl Collection for Schedules {
    fn id(view: &ScheduleResource) -> &str {
        &view.spec.id
    }

    fn list(service: &Service, caller: &Caller) -> Result<Vec<ScheduleResource>> {
        let documents = service.documents.of(caller.tenant, Self::KIND);
        Ok(documents.iter().map(|document| shown(document)).collect())
    }

    fn draft(
        service: &Service,
        caller: &Caller,
        tools: &Toolset,
        spec: ScheduleSpec,
    ) -> Result<Draft<ScheduleResource>> {
        check_id(service, &spec.id)?;
        check_at(service, &spec)?;
        let id = spec.id.clone();
        let body = body(service, caller, tools, spec.clone(), None)?;
        let written_by = vec![caller.name.clone()];
        let view = ScheduleResource { spec, written_by, paused_because: None, standing: None, stored_error: None };
        Ok(Draft { id, body, view })
    }

    fn id_taken() -> Fault {
        Fault::new(Code::ScheduleExists, "A schedule with this id exists; use PUT or PATCH to change it.")
    }

    async fn after_removal(service: &Service, caller: &Caller, id: &str) -> Result<()> {
        Ok(service.store.forget_schedule(caller.tenant, id).await?)
    }
}

fn check_id(service: &Service, id: &str) -> Result<()> {
    let most = service.config.limits.id_length;
    if threads::is_valid_id(id, most) {
        return Ok(());
    }
    Err(wrong("id", format!("has 1 to {most} characters of A-Z a-z 0-9 . _ : - and one letter or digit")))
}

/// Refuses a time in the past. It is checked only if it is new: an unchanged time may have passed since it was written.
fn check_at(service: &Service, spec: &ScheduleSpec) -> Result<()> {
    match spec.at {
        Some(at) if at <= service.now() => Err(wrong("at", "has passed already".to_owned())),
        Some(_) | None => Ok(()),
    }
}

/// Whether the new specification is the known one, paused.
fn only_pauses(known: &ScheduleSpec, spec: &ScheduleSpec) -> bool {
    spec.paused && ScheduleSpec { paused: true, ..known.clone() } == *spec
}

/// The body to store, if a run of the schedule could be accepted now.
fn body(
    service: &Service,
    caller: &Caller,
    tools: &Toolset,
    spec: ScheduleSpec,
    known: Option<StoredSchedule>,
) -> Result<Value> {
    Timing::of(&spec)?;
    if let Some(thread) = &spec.thread.id {
        threads::check_id(service, thread).map_err(|fault| {
            let how = fault.detail.clone();
            Fault { errors: Vec::new(), ..fault }.at("/thread/id", how)
        })?;
    }
    tools.check_client_tools(&spec.options.client_tools)?;
    if let Some(budget) = &spec.options.budget {
        budget.check("/options/budget")?;
    }
    let core = &service.config.agent.core;
    settings::of_run(service, caller, core, &ThreadConfig::default(), &spec.options)?;
    Ok(stored(service, caller, spec, known))
}

/// The uid and the writers of `known` are kept.
fn stored(service: &Service, caller: &Caller, spec: ScheduleSpec, known: Option<StoredSchedule>) -> Value {
    let (uid, mut writers) = match known {
        Some(known) => (known.uid, known.writers),
        None => (service.mint().hex(), Vec::new()),
    };
    writers.retain(|name| *name != caller.name);
    writers.push(caller.name.clone());
    json!(StoredSchedule { spec, uid, writers, scopes: caller.scopes.clone(), paused_because: None })
}

fn shown(document: &Document) -> ScheduleResource {
    match document.legible::<StoredSchedule>() {
        Ok(stored) => stored.resource(),
        Err(why) => ScheduleResource::illegible(document.id.clone(), why.to_string()),
    }
}
