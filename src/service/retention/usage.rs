//! Deletes the usage of model calls and the spending under the caps when they are too old, in small batches.

use crate::domain::ids::TenantPk;
use crate::service::Service;
use crate::service::chore_metrics::count_deleted;
use crate::store::{self, CallPosition, Pace, PastPeriods};

/// How many rows one statement deletes.
const BATCH: u32 = 500;

pub(super) async fn of_tenant(service: &Service, tenant: TenantPk) -> store::Result<()> {
    let Some(before) = service.config.retention.usage_days.cut_off(service.now()) else { return Ok(()) };
    let mut after = CallPosition::beginning();
    loop {
        let pace = Pace::begin();
        let forgotten = service.store.forget_usage(tenant, before, &after, BATCH).await?;
        count_deleted("usage", forgotten.deleted);
        let Some(next) = forgotten.next else { break };
        after = next;
        pace.rest(&*service.store).await;
    }
    of_spending(service, tenant).await
}

/// Deletes the old spending of a tenant, or with [`TenantPk::NONE`] of the whole server.
pub(super) async fn of_spending(service: &Service, tenant: TenantPk) -> store::Result<()> {
    let Some(before) = service.config.retention.usage_days.cut_off(service.now()) else { return Ok(()) };
    let past = PastPeriods::at(before);
    loop {
        let pace = Pace::begin();
        let deleted = service.store.forget_spend(tenant, &past, BATCH).await?;
        count_deleted("spend", deleted);
        if deleted < u64::from(BATCH) {
            return Ok(());
        }
        pace.rest(&*service.store).await;
    }
}
