//! Threads at rest that nobody used for longer than they are kept are deleted, as if an administrator did.

use super::{done, effective, kept};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::domain::retention::Terms;
use crate::runtime::Refusal;
use crate::service::Service;
use crate::service::chore_metrics::{deleted, lags};
use crate::store::{Pace, Result};

/// Threads that are looked at together.
const PAGE: u32 = 100;

/// Those of a tenant for which these terms hold, the longest unused first.
pub(super) async fn of_tenant(service: &Service, tenant: TenantPk, terms: Terms) -> Result<()> {
    let Some(before) = kept(terms.thread_days).cut_off(service.now()) else { return Ok(()) };
    let mut behind = (Millis::MIN, ThreadPk::NONE);
    loop {
        let page = service.store.threads_at_rest(tenant, before, behind, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        behind = *last;
        for (_, pk) in page {
            done(one(service, pk, terms).await, format_args!("thread {}", pk.0))?;
        }
    }
}

/// This one, if it is too old.
pub(super) async fn one(service: &Service, pk: ThreadPk, of_tenant: Terms) -> Result<()> {
    let pace = Pace::begin(&*service.store);
    let Some(terms) = effective(service, pk, of_tenant).await? else { return Ok(()) };
    let Some(before) = kept(terms.thread_days).cut_off(service.now()) else { return Ok(()) };
    let row = service.store.thread_by_pk(pk).await?;
    let Some(row) = row.filter(|row| row.updated_at < before) else { return Ok(()) };
    match service.runtime.expire(pk, before).await {
        Ok(false) => {}
        Ok(true) => {
            deleted("thread", 1);
            lags("threads", before - row.updated_at);
            pace.rest(&*service.store).await;
        }
        Err(Refusal::Gone) => {}
        Err(refusal) => tracing::warn!(thread = pk.0, ?refusal, "a thread that is too old is kept a while longer"),
    }
    Ok(())
}
