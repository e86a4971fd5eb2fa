//! What model calls took and cost, and what was spent under the caps, is forgotten when it is too old: a little at a time.

use crate::domain::ids::TenantPk;
use crate::service::Service;
use crate::service::chore_metrics::deleted;
use crate::store::{Pace, PastPeriods, Result};

/// How many rows are forgotten at once.
const BATCH: u32 = 500;

pub(super) async fn of_tenant(service: &Service, tenant: TenantPk) -> Result<()> {
    let Some(before) = service.config.retention.usage_days.cut_off(service.now()) else { return Ok(()) };
    loop {
        let pace = Pace::begin();
        let forgotten = service.store.forget_usage(tenant, before, BATCH).await?;
        deleted("usage", forgotten);
        if forgotten < u64::from(BATCH) {
            break;
        }
        pace.rest(&*service.store).await;
    }
    of_spending(service, tenant).await
}

/// Of a tenant, or of the whole server.
pub(super) async fn of_spending(service: &Service, tenant: TenantPk) -> Result<()> {
    let Some(before) = service.config.retention.usage_days.cut_off(service.now()) else { return Ok(()) };
    let past = PastPeriods::at(before);
    loop {
        let pace = Pace::begin();
        let forgotten = service.store.forget_spend(tenant, &past, BATCH).await?;
        deleted("spend", forgotten);
        if forgotten < u64::from(BATCH) {
            return Ok(());
        }
        pace.rest(&*service.store).await;
    }
}
