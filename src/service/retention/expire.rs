//! Threads at rest that nobody used for longer than they are kept are deleted, as if an administrator did.

use futures_util::future::join_all;

use super::{done, effective, kept, overdue};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::domain::retention::Terms;
use crate::runtime::CommandError;
use crate::service::Service;
use crate::service::chore_metrics::deleted;
use crate::store::{Pace, Result};

/// Threads that are looked at in one turn of their tenant.
const PAGE: u32 = 100;
/// Threads that are deleted side by side. Each waits for the same reads, turns and commits meanwhile, so all of them take
/// little longer than one, and the rest after that is of all of them.
const TOGETHER: usize = 16;

/// The threads of a tenant, the longest unused first.
pub(super) struct OldThreads {
    tenant: TenantPk,
    of_tenant: Terms,
    now: Millis,
    /// Those up to this one were looked at.
    behind: (Millis, ThreadPk),
}

impl OldThreads {
    /// Those that are too old at this time.
    pub(super) fn new(tenant: TenantPk, of_tenant: Terms, now: Millis) -> Self {
        Self { tenant, of_tenant, now, behind: (Millis::MIN, ThreadPk::NONE) }
    }

    /// Deletes some. `false`: no other is too old.
    pub(super) async fn delete_some(&mut self, service: &Service) -> Result<bool> {
        let Some(before) = kept(self.of_tenant.thread_days).cut_off(self.now) else { return Ok(false) };
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
    let tried = join_all(threads.iter().map(|thread| one(service, *thread))).await;
    let mut expired = Vec::with_capacity(threads.len());
    for (one, (pk, _)) in tried.into_iter().zip(threads) {
        expired.extend(done(one, format_args!("thread {}", pk.0))?);
    }
    // What is said of a tenant last is of its oldest.
    expired.sort_unstable_by_key(|thread| thread.overdue);
    expired.iter().for_each(|thread| overdue(service, "threads", thread.tenant, thread.overdue));
    if !expired.is_empty() {
        pace.rest(&*service.store).await;
    }
    Ok(())
}

/// A thread that was deleted.
struct Expired {
    tenant: TenantPk,
    overdue: Millis,
}

/// `None`: it is not too old, or cannot be deleted now.
async fn one(service: &Service, (pk, of_tenant): (ThreadPk, Terms)) -> Result<Option<Expired>> {
    let Some(terms) = effective(service, pk, of_tenant).await? else { return Ok(None) };
    let Some(before) = kept(terms.thread_days).cut_off(service.now()) else { return Ok(None) };
    let row = service.store.thread_by_pk(pk).await?;
    let Some(row) = row.filter(|row| row.updated_at < before) else { return Ok(None) };
    match service.runtime.expire(pk, before).await {
        Ok(false) | Err(CommandError::Gone) => Ok(None),
        Ok(true) => {
            deleted("thread", 1);
            Ok(Some(Expired { tenant: row.tenant, overdue: before - row.updated_at }))
        }
        Err(refusal) => {
            tracing::warn!(threadId = %row.thread_id, ?refusal, "a thread that is too old is kept a while longer");
            Ok(None)
        }
    }
}
