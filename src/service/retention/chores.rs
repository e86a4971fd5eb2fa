//! Looking for what is too old, again and again, beside the commits.

use std::time::Duration;

use tokio::time::sleep;

use super::{audit, compact, done, expire, usage};
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::service::Service;
use crate::service::chore_metrics::lags;
use crate::store::Result;

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(3_600);

/// Deletes what is too old, and looks again, for as long as it is let.
pub(in crate::service) async fn run(service: Service) {
    loop {
        if let Err(error) = sweep(&service).await {
            tracing::warn!(%error, "what is too old is kept a while longer");
        }
        sleep(EVERY).await;
    }
}

/// Deletes all that is too old now: threads, what is too old in the logs of others, then old usage and old lines of the audit.
/// Rests in between, so that nobody waits for it.
pub async fn sweep(service: &Service) -> Result<()> {
    let retention = &service.config.retention;
    for (tenant, name) in service.store.tenants().await? {
        if retention.hold_of(&name).is_none() {
            let terms = retention.of_tenant(&name);
            done(expire::of_tenant(service, tenant, terms).await, format_args!("a thread of tenant `{name}`"))?;
            service.store.chores().caught_up(("threads", tenant));
            done(compact::of_tenant(service, tenant, terms).await, format_args!("a log of tenant `{name}`"))?;
            service.store.chores().caught_up(("logs", tenant));
            done(usage::of_tenant(service, tenant).await, format_args!("the usage of tenant `{name}`"))?;
            done(audit::of_tenant(service, tenant).await, format_args!("the audit of tenant `{name}`"))?;
        }
    }
    done(usage::of_spending(service, TenantPk::NONE).await, format_args!("what the server spent"))?;
    of_their_own(service).await?;
    lags("threads", 0);
    lags("logs", 0);
    Ok(())
}

/// The threads that say themselves how long they are kept.
async fn of_their_own(service: &Service) -> Result<()> {
    const PAGE: u32 = 200;
    let mut behind = ThreadPk::NONE;
    loop {
        let page = service.store.threads_with_terms(behind, PAGE).await?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        behind = *last;
        let mut threads = Vec::new();
        for (pk, tenant) in page {
            let name = service.store.tenant_name(tenant).await?.unwrap_or_default();
            if service.config.retention.hold_of(&name).is_none() {
                threads.push((pk, service.config.retention.of_tenant(&name)));
            }
        }
        expire::of_these(service, &threads).await?;
        compact::of_these(service, &threads).await?;
    }
}
