//! Stores when each schedule is due.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::json;

use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::domain::schedule::{ScheduleStanding, StoredSchedule, Timing};
use crate::service::{Result, Service};
use crate::store::documents::{Document, DocumentKind};
use crate::store::{self, Due, PlannedSchedule};

/// What this process has planned and checked.
#[derive(Default)]
pub struct PlannerState {
    /// The versions of schedules that this process has planned.
    planned_versions: Mutex<HashMap<(TenantPk, String), i64>>,
    /// Held during a sweep, because concurrent sweeps of one process would only slow each other down.
    pub(super) sweep_lock: tokio::sync::Mutex<()>,
    /// When the keys of the schedules' writers were last checked.
    keys_checked_at: Mutex<Option<Millis>>,
}

impl PlannerState {
    /// Whether the last check of the keys is at least `interval` ago.
    pub(super) fn is_key_check_due(&self, now: Millis, interval: Millis) -> bool {
        self.keys_checked_at.lock().is_none_or(|at| now - at >= interval)
    }

    pub(super) fn set_keys_checked(&self, now: Millis) {
        *self.keys_checked_at.lock() = Some(now);
    }
}

/// Plans new versions, and drops what is known of deleted schedules.
pub(super) async fn all(service: &Service) {
    let documents = service.documents.all(DocumentKind::Schedule);
    let is_planned = |document: &Document| {
        let key = (document.tenant, document.id.clone());
        service.schedules.planned_versions.lock().get(&key).is_some_and(|version| *version >= document.version)
    };
    for document in documents.iter().filter(|document| !is_planned(document)) {
        plan(service, document).await;
    }
    let there = |key: &(TenantPk, String)| service.documents.get(key.0, DocumentKind::Schedule, &key.1).is_some();
    service.schedules.planned_versions.lock().retain(|key, _| there(key));
}

/// Stores when this version of a schedule is due next, counted from the time of its writing.
pub(in crate::service) async fn plan(service: &Service, document: &Document) {
    let Ok(stored) = document.legible::<StoredSchedule>() else { return };
    match store_plan(service, document, &stored).await {
        Ok(()) => {
            let key = (document.tenant, document.id.clone());
            service.schedules.planned_versions.lock().insert(key, document.version);
        }
        Err(error) => {
            tracing::warn!(schedule = document.id, %error, "a schedule could not be planned; it is tried again")
        }
    }
}

async fn store_plan(service: &Service, document: &Document, stored: &StoredSchedule) -> store::Result<()> {
    let spec = &stored.spec;
    // A specification that an older version of the server accepted and this one does not has no times.
    let timing = Timing::of(spec).ok();
    let next = timing.as_ref().and_then(|timing| due(timing, &spec.id, timing.next(document.updated_at)));
    let fingerprint = json!([
        spec.cron,
        spec.every_ms,
        spec.at,
        spec.timezone,
        spec.jitter_ms,
        spec.start_at,
        spec.end_at,
        spec.paused,
        stored.uid,
    ]);
    let (tenant, id, version) = (document.tenant, document.id.clone(), document.version);
    service.store.plan_schedule(PlannedSchedule { tenant, id, version, timing: fingerprint.to_string(), next }).await
}

/// A due time with the time at which its run begins.
pub(super) fn due(timing: &Timing, id: &str, time: Option<i64>) -> Option<Due> {
    time.map(|due| Due { due, look_at: timing.starts_at(id, due) })
}

/// The state of a schedule. `None`: it was not planned yet.
pub(in crate::service) async fn standing(service: &Service, document: &Document) -> Result<Option<ScheduleStanding>> {
    let state = service.reads.schedule_state(document.tenant, &document.id).await?;
    Ok(state.map(|state| ScheduleStanding {
        next_due: state.next.map(|next| next.due),
        last_due: state.last_due,
        missed: state.missed,
        last_error: state.said,
    }))
}
