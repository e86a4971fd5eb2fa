//! Schedules: each due time gets its run once, whichever of several processes is first ([`Fire`](crate::store::Fire)); and
//! the requests about schedules.

mod fire;
mod pause;
mod plan;
mod sweep;

use serde_json::json;

use super::once::{Answered, Idempotent};
use super::runs::{self, Receipt};
use super::{Result, Service};
use crate::domain::caller::Caller;
use crate::domain::digest;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;
use crate::domain::lookup::LookupKey;
use crate::domain::run::RunResource;
use crate::domain::schedule::{ScheduledTime, StoredSchedule, Timing};
use crate::store::documents::DocumentKind;

pub(super) use plan::{PlannerState, plan, standing};
pub(super) use sweep::run;
pub use sweep::{fire_due, lag};

/// Starts a run of a schedule now, even if it is paused or has an unfinished run.
pub async fn trigger(
    service: &Service,
    caller: &Caller,
    id: &str,
    key: Option<Idempotent>,
) -> Result<Answered<Receipt>> {
    let stored = known(service, caller.tenant, id)?;
    if let Some(why) = pause::of_ended_key(service, caller.tenant, &stored).await? {
        return Err(Fault::new(Code::Forbidden, why));
    }
    let mut asked = fire::request(&stored, caller.tenant);
    // Neither the writer of the schedule nor this caller may approve what the run asks for.
    asked.shaped_by.push(caller.name.clone());
    let acting = fire::acting(caller.tenant, caller.tenant_name.clone(), &stored);
    let thread = fire::thread(service, &stored);
    runs::process(service, &acting, &thread, asked, key).await
}

/// The next `count` times of a schedule.
pub fn next(service: &Service, caller: &Caller, id: &str, count: usize) -> Result<Vec<ScheduledTime>> {
    let timing = Timing::of(&known(service, caller.tenant, id)?.spec)?;
    let times = std::iter::successors(timing.next(service.now()), |time| timing.next(*time));
    Ok(times.take(count).map(|due| ScheduledTime { due, local: timing.shown(due) }).collect())
}

/// The runs of a schedule in the last 30 days, the newest first, at most `limit`.
pub async fn runs_of(service: &Service, caller: &Caller, id: &str, limit: u32) -> Result<Vec<RunResource>> {
    let stored = known(service, caller.tenant, id)?;
    let found = service.reads.lookups(caller.tenant, &key_of(caller.tenant, &stored), limit).await?;
    let mut shown = Vec::new();
    for found in found {
        // `None`: its thread was deleted in the meantime, or it cannot be read.
        if let Some((pk, run)) = runs::legible_run(service, caller, &found.run_id).await? {
            shown.push(runs::resource(service, pk, run).await?);
        }
    }
    Ok(shown)
}

fn known(service: &Service, tenant: TenantPk, id: &str) -> Result<StoredSchedule> {
    let document = service.documents.get(tenant, DocumentKind::Schedule, id);
    let document = document.ok_or_else(|| Fault::not_found("schedule"))?;
    document.legible().map_err(|why| Fault::new(Code::Invalid, format!("{why}; replace or delete the schedule.")))
}

/// The lookup key of the schedule's runs.
fn key_of(tenant: TenantPk, stored: &StoredSchedule) -> LookupKey {
    LookupKey { kind: "schedule", digest: digest::of(&json!([tenant.0, stored.spec.id, stored.uid])) }
}
