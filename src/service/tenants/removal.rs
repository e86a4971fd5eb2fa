//! Deletes what removed tenants have: keys and schedules first, then threads with their runs, and when no thread is left,
//! whose runs follow the tenant's policy and caps, the other documents. It works in small batches with pauses between them,
//! so that no request of another tenant waits for it, and can be interrupted at any point. It stops if the tenant is opened
//! again.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout};

use super::super::Service;
use super::super::chore_metrics::count_deleted;
use crate::auth;
use crate::domain::actor::ServerActor;
use crate::domain::ids::TenantPk;
use crate::runtime::CommandError;
use crate::store::documents::{Change, Document, DocumentKind, Expected};
use crate::store::outbox::{DeliveryStatus, TargetKind};
use crate::store::{self, Pace, PageAsk, ThreadFilter, ThreadRow};

/// How often the removed tenants are looked through if nothing was left of them.
const SWEEP_INTERVAL: Duration = Duration::from_secs(3_600);
/// The pause after something was deleted: requests that were under way, and other processes, which notice a removal within
/// two seconds, may have added something.
const PAUSE: Duration = Duration::from_secs(10);
/// The pause after something could not be deleted.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// How many threads are read at once, and how many of these are deleted concurrently.
const PAGE: u32 = 100;
const CONCURRENCY: usize = 16;

/// What a sweep did. Of several, the last in this order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    NothingFound,
    /// Something was deleted, or requests that were under way may still add something.
    Deleted,
    /// Something could not be deleted.
    Left,
}

/// Removed tenants of which nothing was left, each with the version of its removal, and when that was seen.
type EmptyTenants = HashMap<(TenantPk, i64), Instant>;

/// Deletes after each removal, whichever process it was made by, and periodically, until the server drains.
pub(in crate::service) async fn run(service: Service) {
    let (mut changes, mut empty) = (service.documents.changes(), EmptyTenants::new());
    loop {
        // The sweep is about these, so that one whose removal is seen meanwhile is not swept twice.
        let refreshed = service.documents.refresh().await;
        let removed = removed_tenants(&service);
        let swept = match refreshed {
            Ok(()) => sweep_others(&service, &removed, &mut empty).await,
            Err(error) => Err(error),
        };
        let pause = match swept {
            Ok(Progress::NothingFound) => SWEEP_INTERVAL,
            Ok(Progress::Deleted) => PAUSE,
            Ok(Progress::Left) => RETRY_INTERVAL,
            Err(error) => {
                tracing::warn!(%error, "what removed tenants have could not be deleted; retrying in a minute");
                RETRY_INTERVAL
            }
        };
        let another_is_removed =
            async { while removed_tenants(&service) == removed && changes.changed().await.is_ok() {} };
        // The timeout means that no other was removed in the meantime.
        let _ = timeout(pause, another_is_removed).await;
    }
}

fn removed_tenants(service: &Service) -> Vec<TenantPk> {
    service.documents.all(DocumentKind::Removal).iter().map(|removal| removal.tenant).collect()
}

/// Takes the next step of deleting what each removed tenant has.
#[cfg(feature = "internals")]
pub async fn sweep(service: &Service) -> store::Result<Progress> {
    service.documents.refresh().await?;
    sweep_others(service, &removed_tenants(service), &mut EmptyTenants::new()).await
}

/// Takes the next step of deleting what each removed tenant has, but for those of which nothing was left at the last look,
/// unless that was an hour ago: a removal stays, so there are ever more of them.
async fn sweep_others(service: &Service, removed: &[TenantPk], empty: &mut EmptyTenants) -> store::Result<Progress> {
    empty.retain(|_, seen_at| seen_at.elapsed() < SWEEP_INTERVAL);
    let mut progress = Progress::NothingFound;
    let removals = service.documents.all(DocumentKind::Removal).into_iter();
    for removal in removals.filter(|removal| removed.contains(&removal.tenant)) {
        let key = (removal.tenant, removal.version);
        if empty.contains_key(&key) {
            continue;
        }
        let one = left_if_damaged(delete_next(service, &removal).await, removal.tenant)?;
        if one == Progress::NothingFound {
            empty.insert(key, Instant::now());
        }
        progress = progress.max(one);
    }
    Ok(progress)
}

/// Data that cannot be read delays neither other tenants nor the next step.
fn left_if_damaged(done: store::Result<Progress>, tenant: TenantPk) -> store::Result<Progress> {
    match done {
        Err(error) if error.is_of_data() => {
            tracing::error!(tenant = tenant.0, %error, "a removed tenant has something that cannot be read, which stays");
            Ok(Progress::Left)
        }
        done => done,
    }
}

async fn delete_next(service: &Service, removal: &Document) -> store::Result<Progress> {
    let tenant = removal.tenant;
    let keys = left_if_damaged(revoke_keys(service, tenant).await, tenant)?;
    let schedules = delete_documents(service, tenant, |kind| kind == DocumentKind::Schedule).await?;
    let threads = delete_threads(service, tenant).await?;
    let progress = keys.max(schedules).max(threads);
    if progress > Progress::NothingFound {
        return Ok(progress);
    }
    // A request that was admitted before may still begin a run, whose body may take that long.
    let last_request = Duration::from_millis(service.config.limits.body_timeout_ms) + PAUSE;
    if service.now() - removal.updated_at < i64::try_from(last_request.as_millis()).unwrap_or(i64::MAX) {
        return Ok(Progress::Deleted);
    }
    // Agents that worked for deleted threads are told to stop.
    let pending = PageAsk::first(1);
    let pending =
        service.store.deliveries_of_tenant(tenant, TargetKind::Agent, Some(DeliveryStatus::Pending), &pending).await?;
    let are_agents_told = pending.items.is_empty();
    let others = delete_documents(service, tenant, |kind| are_agents_told || kind != DocumentKind::Agent).await?;
    Ok(if are_agents_told { others } else { Progress::Left })
}

/// As of now, whatever other processes did.
async fn is_removed(service: &Service, tenant: TenantPk) -> store::Result<bool> {
    service.documents.refresh().await?;
    Ok(service.documents.is_removed(tenant))
}

async fn revoke_keys(service: &Service, tenant: TenantPk) -> store::Result<Progress> {
    let mut progress = Progress::NothingFound;
    for key in service.store.keys_of(tenant).await?.into_iter().filter(|key| key.revoked_at.is_none()) {
        if !is_removed(service, tenant).await? {
            break;
        }
        auth::revoke(&*service.store, &key.key_id, ServerActor::Server.as_str(), service.now()).await?;
        progress = Progress::Deleted;
    }
    Ok(progress)
}

/// Deletes the tenant's documents of these kinds, except for the removal itself.
async fn delete_documents(
    service: &Service,
    tenant: TenantPk,
    is_meant: impl Fn(DocumentKind) -> bool,
) -> store::Result<Progress> {
    let mut progress = Progress::NothingFound;
    let documents = service.documents.of_tenant(tenant).into_iter();
    for document in documents.filter(|document| document.kind != DocumentKind::Removal && is_meant(document.kind)) {
        if !is_removed(service, tenant).await? {
            break;
        }
        let (kind, id, by) = (document.kind, document.id.clone(), ServerActor::Server.as_str().to_owned());
        let (why, now) = (Some("the tenant was removed".to_owned()), service.now());
        let change = Change { tenant, kind, id, body: None, former: None, by, by_tenant: None, why, now };
        service.documents.write(change, Expected::Any).await?;
        if kind == DocumentKind::Schedule {
            service.store.forget_schedule(tenant, &document.id).await?;
        }
        progress = Progress::Deleted;
    }
    Ok(progress)
}

/// Deletes the tenant's threads, until it finds none that can be deleted: one that changes meanwhile may escape a pass.
async fn delete_threads(service: &Service, tenant: TenantPk) -> store::Result<Progress> {
    let mut has_deleted = false;
    loop {
        let pass = delete_threads_once(service, tenant).await?;
        has_deleted |= pass.deleted > 0;
        if pass.deleted > 0 {
            continue;
        }
        if pass.left > 0 {
            tracing::warn!(tenant = tenant.0, threads = pass.left, "threads of a removed tenant cannot be deleted now");
            return Ok(Progress::Left);
        }
        return Ok(if has_deleted { Progress::Deleted } else { Progress::NothingFound });
    }
}

/// How many threads a pass deleted, and how many it could not delete.
#[derive(Default)]
struct Pass {
    deleted: usize,
    left: usize,
}

async fn delete_threads_once(service: &Service, tenant: TenantPk) -> store::Result<Pass> {
    let (mut pass, mut ask) = (Pass::default(), PageAsk::first(PAGE));
    loop {
        let page = service.store.threads(tenant, &ThreadFilter::default(), &ask).await?;
        for some in page.items.chunks(CONCURRENCY) {
            if !is_removed(service, tenant).await? {
                return Ok(pass);
            }
            let pace = Pace::begin();
            let tried = join_all(some.iter().map(|thread| delete_thread(service, thread))).await;
            let deleted = tried.into_iter().filter(|is_deleted| *is_deleted).count();
            pass.deleted += deleted;
            pass.left += some.len() - deleted;
            pace.rest(&*service.store).await;
        }
        if page.next_cursor.is_none() {
            return Ok(pass);
        }
        ask.cursor = page.next_cursor;
    }
}

/// `false`: it cannot be deleted now.
async fn delete_thread(service: &Service, thread: &ThreadRow) -> bool {
    match service.runtime.delete(thread.pk, ServerActor::Server.as_str().to_owned()).await {
        Ok(()) => {
            count_deleted("thread", 1);
            true
        }
        Err(CommandError::Gone) => true,
        Err(refusal) => {
            tracing::debug!(threadId = %thread.thread_id, ?refusal, "a thread of a removed tenant is kept a while longer");
            false
        }
    }
}
