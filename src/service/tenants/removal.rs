//! Deletes what removed tenants have: keys, documents, threads. It works in small batches with pauses between them, so that
//! no request of another tenant waits for it, and can be interrupted at any point.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::super::Service;
use super::super::chore_metrics::count_deleted;
use crate::auth;
use crate::domain::actor::ServerActor;
use crate::domain::ids::TenantPk;
use crate::runtime::CommandError;
use crate::store::documents::{Change, Document, DocumentKind, Expected};
use crate::store::{self, Pace, PageAsk, ThreadFilter, ThreadRow};

/// How often the tenants that were removed are looked through again: a request that was under way at the removal may have
/// left a thread.
const SWEEP_INTERVAL: Duration = Duration::from_secs(3_600);
/// The pause after a failed sweep.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// How many threads are read at once, and how many of these are deleted concurrently.
const PAGE: u32 = 100;
const CONCURRENCY: usize = 16;

/// Deletes after each removal, and periodically, until the server drains.
pub(in crate::service) async fn run(service: Service) {
    loop {
        let pause = match sweep(&service).await {
            Ok(()) => SWEEP_INTERVAL,
            Err(error) => {
                tracing::warn!(%error, "what removed tenants have could not be deleted; retrying in a minute");
                RETRY_INTERVAL
            }
        };
        // The timeout means that no tenant was removed in the meantime.
        let _ = timeout(pause, service.removals.notified()).await;
    }
}

/// Deletes everything that removed tenants have now.
pub async fn sweep(service: &Service) -> store::Result<()> {
    for document in service.documents.all(DocumentKind::Removal) {
        revoke_keys(service, document.tenant).await?;
        delete_documents(service, document.tenant).await?;
        delete_threads(service, document.tenant).await?;
    }
    Ok(())
}

async fn revoke_keys(service: &Service, tenant: TenantPk) -> store::Result<()> {
    for key in service.store.keys_of(tenant).await?.into_iter().filter(|key| key.revoked_at.is_none()) {
        auth::revoke(&*service.store, &key.key_id, ServerActor::Server.as_str(), service.now()).await?;
    }
    Ok(())
}

async fn delete_documents(service: &Service, tenant: TenantPk) -> store::Result<()> {
    let own = |document: &Document| document.tenant == tenant && document.kind != DocumentKind::Removal;
    for document in service.documents.of_all().into_iter().filter(|document| own(document)) {
        let (kind, id, by) = (document.kind, document.id.clone(), ServerActor::Server.as_str().to_owned());
        let (why, now) = (Some("the tenant was removed".to_owned()), service.now());
        let change = Change { tenant, kind, id, body: None, former: None, by, by_tenant: None, why, now };
        service.documents.write(change, Expected::Any).await?;
        if kind == DocumentKind::Schedule {
            service.store.forget_schedule(tenant, &document.id).await?;
        }
    }
    Ok(())
}

/// Stops if the tenant is opened again.
async fn delete_threads(service: &Service, tenant: TenantPk) -> store::Result<()> {
    let mut ask = PageAsk { limit: PAGE, ..PageAsk::default() };
    loop {
        let page = service.store.threads(tenant, &ThreadFilter::default(), &ask).await?;
        for some in page.items.chunks(CONCURRENCY) {
            if !service.documents.is_removed(tenant) {
                return Ok(());
            }
            let pace = Pace::begin();
            join_all(some.iter().map(|thread| delete_thread(service, thread))).await;
            pace.rest(&*service.store).await;
        }
        if page.next_cursor.is_none() {
            return Ok(());
        }
        ask.cursor = page.next_cursor;
    }
}

/// A thread that cannot be deleted now is left for the next sweep.
async fn delete_thread(service: &Service, thread: &ThreadRow) {
    match service.runtime.delete(thread.pk, ServerActor::Server.as_str().to_owned()).await {
        Ok(()) => count_deleted("thread", 1),
        Err(CommandError::Gone) => {}
        Err(refusal) => {
            tracing::warn!(threadId = %thread.thread_id, ?refusal, "a thread of a removed tenant is kept a while longer");
        }
    }
}
