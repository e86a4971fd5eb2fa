//! Deletes idle threads that were not used for longer than they are kept, in the same way as a deletion by an administrator.

use futures_util::future::join_all;

use super::{effective, or_forever, report_overdue, skip_damaged};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::domain::retention::Terms;
use crate::runtime::CommandError;
use crate::service::Service;
use crate::service::chore_metrics::count_deleted;
use crate::store::{self, Pace};

/// How many threads are examined in one turn of their tenant.
const PAGE: u32 = 100;
/// How many threads are deleted concurrently. They wait for the same reads and commits, so all of them take little longer
/// than one, and they share one pause.
const CONCURRENCY: usize = 16;

/// The old threads of a tenant, the longest unused first.
pub(super) struct OldThreads {
    tenant: TenantPk,
    of_tenant: Terms,
    now: Millis,
    /// The last thread that was examined.
    last_examined: (Millis, ThreadPk),
}

impl OldThreads {
    /// The threads that are too old at `now`.
    pub(super) fn new(tenant: TenantPk, of_tenant: Terms, now: Millis) -> Self {
        Self { tenant, of_tenant, now, last_examined: (Millis::MIN, ThreadPk::NONE) }
    }

    /// Deletes some threads. Returns `false` if no other is too old.
    pub(super) async fn delete_some(&mut self, service: &Service) -> store::Result<bool> {
        let Some(before) = or_forever(self.of_tenant.thread_days).cut_off(self.now) else { return Ok(false) };
        let page = service.store.threads_at_rest(self.tenant, before, self.last_examined, PAGE).await?;
        let Some(last) = page.last() else { return Ok(false) };
        self.last_examined = *last;
        let threads: Vec<_> = page.into_iter().map(|(_, pk)| (pk, self.of_tenant)).collect();
        expire_threads(service, &threads).await?;
        Ok(true)
    }
}

/// Deletes those of these threads that are too old, by the terms of their tenants.
pub(super) async fn expire_threads(service: &Service, threads: &[(ThreadPk, Terms)]) -> store::Result<()> {
    for some in threads.chunks(CONCURRENCY) {
        expire_chunk(service, some).await?;
    }
    Ok(())
}

async fn expire_chunk(service: &Service, threads: &[(ThreadPk, Terms)]) -> store::Result<()> {
    let pace = Pace::begin();
    let tried = join_all(threads.iter().map(|thread| expire_thread(service, *thread))).await;
    let mut expired = Vec::with_capacity(threads.len());
    for (one, (pk, _)) in tried.into_iter().zip(threads) {
        expired.extend(skip_damaged(one, format_args!("thread {}", pk.0))?);
    }
    // Sorted, so that the last report for a tenant is about its oldest thread.
    expired.sort_unstable_by_key(|thread| thread.overdue);
    expired.iter().for_each(|thread| report_overdue(service, "threads", thread.tenant, thread.overdue));
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

/// Deletes one thread. Returns `None` if it is not too old, or cannot be deleted now.
async fn expire_thread(service: &Service, (pk, of_tenant): (ThreadPk, Terms)) -> store::Result<Option<Expired>> {
    let Some(terms) = effective(service, pk, of_tenant).await? else { return Ok(None) };
    let Some(before) = or_forever(terms.thread_days).cut_off(service.now()) else { return Ok(None) };
    let row = service.store.thread_by_pk(pk).await?;
    let Some(row) = row.filter(|row| row.updated_at < before) else { return Ok(None) };
    match service.runtime.expire(pk, before).await {
        Ok(false) | Err(CommandError::Gone) => Ok(None),
        Ok(true) => {
            count_deleted("thread", 1);
            Ok(Some(Expired { tenant: row.tenant, overdue: before - row.updated_at }))
        }
        Err(refusal) => {
            tracing::warn!(threadId = %row.thread_id, ?refusal, "a thread that is too old is kept a while longer");
            Ok(None)
        }
    }
}
