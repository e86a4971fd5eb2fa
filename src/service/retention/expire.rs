//! Threads at rest that nobody used for longer than they are kept are deleted, as if an administrator did.

use futures_util::future::join_all;

use super::{done, effective, kept, overdue};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::domain::retention::Terms;
use crate::runtime::Refusal;
use crate::service::Service;
use crate::service::chore_metrics::deleted;
use crate::store::{Pace, Result};

/// Threads that are looked at together.
const PAGE: u32 = 100;
/// Threads that are deleted side by side. Each waits for the same reads, turns and commits meanwhile, so all of them take
/// little longer than one, and the rest after that is of all of them.
const TOGETHER: usize = 16;

/// The threads of a tenant, the longest unused first.
pub(super) struct OldThreads {
    tenant: TenantPk,
    of_tenant: Terms,
    /// Those before this one were looked at.
    behind: (Millis, ThreadPk),
}

impl OldThreads {
    pub(super) fn new(tenant: TenantPk, of_tenant: Terms) -> Self {
        Self { tenant, of_tenant, behind: (Millis::MIN, ThreadPk::NONE) }
    }

    /// Deletes some. `false`: no other is too old.
    pub(super) async fn delete_some(&mut self, service: &Service) -> Result<bool> {
        let Some(before) = kept(self.of_tenant.thread_days).cut_off(service.now()) else { return Ok(false) };
        let page = service.store.threads_at_rest(self.tenant, before, self.behind, PAGE).await?;
        let Some(last) = page.last() else { return Ok(false) };
        self.behind = *last;
        let threads: Vec<_> = page.into_iter().map(|(_, pk)| (pk, self.of_tenant)).collect();
        of_these(service, &threads).await?;
        Ok(true)
    }
}

/// Those of these threads that are too old, by the terms of their tenants.
pub(super) async fn of_these(service: &Service, threads: &[(ThreadPk, Terms)]) -> Result<()> {
    for some in threads.chunks(TOGETHER) {
        together(service, some).await?;
    }
    Ok(())
}

async fn together(service: &Service, threads: &[(ThreadPk, Terms)]) -> Result<()> {
    let pace = Pace::begin();
    let mut is_any = false;
    for (expired, (pk, _)) in
        join_all(threads.iter().map(|thread| one(service, *thread))).await.into_iter().zip(threads)
    {
        is_any |= matches!(expired, Ok(true));
        done(expired.map(drop), format_args!("thread {}", pk.0))?;
    }
    if is_any {
        pace.rest(&*service.store).await;
    }
    Ok(())
}

/// Whether it was too old, and was deleted.
async fn one(service: &Service, (pk, of_tenant): (ThreadPk, Terms)) -> Result<bool> {
    let Some(terms) = effective(service, pk, of_tenant).await? else { return Ok(false) };
    let Some(before) = kept(terms.thread_days).cut_off(service.now()) else { return Ok(false) };
    let row = service.store.thread_by_pk(pk).await?;
    let Some(row) = row.filter(|row| row.updated_at < before) else { return Ok(false) };
    match service.runtime.expire(pk, before).await {
        Ok(false) | Err(Refusal::Gone) => Ok(false),
        Ok(true) => {
            deleted("thread", 1);
            overdue(service, "threads", row.tenant, before - row.updated_at);
            Ok(true)
        }
        Err(refusal) => {
            tracing::warn!(thread = pk.0, ?refusal, "a thread that is too old is kept a while longer");
            Ok(false)
        }
    }
}
