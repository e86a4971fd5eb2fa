//! Deletes API keys that were revoked or have expired, when they have been so for as long as the audit and the threads of
//! their tenant are kept. Their names may be given again then, so a key stays while the audit has lines of its time, or a
//! schedule names it as a writer. Keys are deleted after the audit.

use super::or_forever;
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::domain::retention::Terms;
use crate::domain::schedule::StoredSchedule;
use crate::service::Service;
use crate::service::chore_metrics::count_deleted;
use crate::store::documents::DocumentKind;
use crate::store::{self, Pace};

/// How many rows one statement deletes.
const BATCH: u32 = 500;

pub(super) async fn of_tenant(service: &Service, tenant: TenantPk, terms: Terms) -> store::Result<()> {
    let Some(before) = ended_before(service, tenant, terms).await? else { return Ok(()) };
    service.documents.refresh().await?;
    let Some(writers) = writers_of_schedules(service, tenant) else { return Ok(()) };
    loop {
        let pace = Pace::begin();
        let deleted = service.store.forget_keys(tenant, before, &writers, BATCH).await?;
        count_deleted("key", deleted);
        if deleted < u64::from(BATCH) {
            return Ok(());
        }
        pace.rest(&*service.store).await;
    }
}

/// Keys that ended before this time may be deleted. `None`: none may.
async fn ended_before(service: &Service, tenant: TenantPk, terms: Terms) -> store::Result<Option<Millis>> {
    let now = service.now();
    let kept = [service.config.retention.audit_days, or_forever(terms.thread_days)];
    let Some(before) = kept.into_iter().try_fold(now, |before, kept| Some(before.min(kept.cut_off(now)?))) else {
        return Ok(None);
    };
    let oldest = service.store.chained_lines(tenant, 0, 1).await?.pop();
    Ok(Some(oldest.map_or(before, |oldest| before.min(oldest.line.at))))
}

/// The names of the keys that wrote the tenant's schedules. `None`: one of them cannot be read.
fn writers_of_schedules(service: &Service, tenant: TenantPk) -> Option<Vec<String>> {
    let mut writers = Vec::new();
    for schedule in service.documents.of(tenant, DocumentKind::Schedule) {
        writers.extend(schedule.legible::<StoredSchedule>().ok()?.writers);
    }
    Some(writers)
}
