//! When a schedule is due, as the store has it.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::json;

use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::domain::schedule::{ScheduleStanding, StoredSchedule, Timing};
use crate::service::{Result, Service};
use crate::store::documents::{Document, DocumentKind};
use crate::store::{self, Due, PlannedSchedule};

/// The versions of schedules that this process has planned.
#[derive(Default)]
pub struct Planned {
    versions: Mutex<HashMap<(TenantPk, String), i64>>,
    /// Held by who looks: two looks of one process would only be in each other's way.
    pub(super) looking: tokio::sync::Mutex<()>,
    /// When it looked last whether the keys count that wrote them.
    keys_seen_at: Mutex<Option<Millis>>,
}

impl Planned {
    /// Whether nobody looked at keys for so long.
    pub(super) fn is_time_for_keys(&self, now: Millis, rest: Millis) -> bool {
        self.keys_seen_at.lock().is_none_or(|at| now - at >= rest)
    }

    pub(super) fn keys_seen(&self, now: Millis) {
        *self.keys_seen_at.lock() = Some(now);
    }
}

/// Plans what is new, and forgets what is gone.
pub(super) async fn all(service: &Service) {
    let documents = service.documents.all(DocumentKind::Schedule);
    let is_planned = |document: &Document| {
        let key = (document.tenant, document.id.clone());
        service.schedules.versions.lock().get(&key).is_some_and(|version| *version >= document.version)
    };
    for document in documents.iter().filter(|document| !is_planned(document)) {
        plan(service, document).await;
    }
    let there = |key: &(TenantPk, String)| service.documents.get(key.0, DocumentKind::Schedule, &key.1).is_some();
    service.schedules.versions.lock().retain(|key, _| there(key));
}

/// Stores when this version of a schedule is due, from the moment on at which it was written.
pub(in crate::service) async fn plan(service: &Service, document: &Document) {
    let Ok(stored) = document.legible::<StoredSchedule>() else { return };
    match store_plan(service, document, &stored).await {
        Ok(()) => {
            let key = (document.tenant, document.id.clone());
            service.schedules.versions.lock().insert(key, document.version);
        }
        Err(error) => {
            tracing::warn!(schedule = document.id, %error, "a schedule could not be planned; it is tried again")
        }
    }
}

async fn store_plan(service: &Service, document: &Document, stored: &StoredSchedule) -> store::Result<()> {
    let spec = &stored.spec;
    // One that an older version let pass and this one does not has no times.
    let timing = Timing::of(spec).ok();
    let next = timing.as_ref().and_then(|timing| due(timing, &spec.id, timing.next(document.updated_at)));
    let said = json!([
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
    service.store.plan_schedule(PlannedSchedule { tenant, id, version, timing: said.to_string(), next }).await
}

/// A time, and when its run begins.
pub(super) fn due(timing: &Timing, id: &str, time: Option<i64>) -> Option<Due> {
    time.map(|due| Due { due, look_at: timing.begins(id, due) })
}

/// How a schedule stands; `None`: nobody has planned it yet.
pub(in crate::service) async fn standing(service: &Service, document: &Document) -> Result<Option<ScheduleStanding>> {
    let state = service.reads.schedule_state(document.tenant, &document.id).await?;
    Ok(state.map(|state| ScheduleStanding {
        next_due: state.next.map(|next| next.due),
        last_due: state.last_due,
        missed: state.missed,
        last_error: state.said,
    }))
}
