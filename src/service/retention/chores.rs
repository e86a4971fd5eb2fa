//! Looking for what is too old, again and again, beside the commits.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::sleep;

use super::expire::OldThreads;
use super::{audit, compact, done, expire, usage};
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::domain::retention::Terms;
use crate::service::Service;
use crate::service::chore_metrics::lags;
use crate::store::Result;

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(3_600);
/// How soon again where that failed.
const AGAIN: Duration = Duration::from_secs(60);

/// Deletes what is too old, and looks again, for as long as it is let.
pub(in crate::service) async fn run(service: Service) {
    loop {
        let swept = sweep(&service).await;
        if let Err(error) = &swept {
            tracing::warn!(%error, "what is too old is kept a while longer");
        }
        sleep(if swept.is_ok() { EVERY } else { AGAIN }).await;
    }
}

/// Deletes all that is too old now: threads, what is too old in the logs of others, then old usage and old lines of the audit.
/// Rests in between, so that nobody waits for it. Tenants take turns, so that one with much that is old keeps no other waiting.
pub async fn sweep(service: &Service) -> Result<()> {
    let retention = &service.config.retention;
    let tenants = service.store.tenants().await?.into_iter().filter(|(_, name)| retention.hold_of(name).is_none());
    let mut turns: VecDeque<OldOfTenant> =
        tenants.map(|(pk, name)| OldOfTenant::new(pk, retention.of_tenant(&name), name)).collect();
    while let Some(mut tenant) = turns.pop_front() {
        if tenant.delete_some(service).await? {
            turns.push_back(tenant);
        }
    }
    done(usage::of_spending(service, TenantPk::NONE).await, format_args!("what the server spent"))?;
    of_their_own(service).await?;
    for what in ["threads", "logs"] {
        service.store.chores().all_caught_up(what);
        lags(what, 0);
    }
    Ok(())
}

/// What of a tenant is too old, while it is deleted a little at a time.
struct OldOfTenant {
    pk: TenantPk,
    name: String,
    terms: Terms,
    stage: Stage,
}

enum Stage {
    Threads(OldThreads),
    Logs,
    Rest,
}

impl OldOfTenant {
    fn new(pk: TenantPk, terms: Terms, name: String) -> Self {
        Self { pk, name, terms, stage: Stage::Threads(OldThreads::new(pk, terms)) }
    }

    /// `false`: nothing is left.
    async fn delete_some(&mut self, service: &Service) -> Result<bool> {
        let Self { pk, name, terms, stage } = self;
        match stage {
            Stage::Threads(threads) => {
                let some = threads.delete_some(service).await;
                if !done(some, format_args!("a thread of tenant `{name}`"))? {
                    service.store.chores().caught_up(("threads", *pk));
                    *stage = Stage::Logs;
                }
                Ok(true)
            }
            Stage::Logs => {
                let some = compact::some_of_tenant(service, *pk, *terms).await;
                if !done(some, format_args!("a log of tenant `{name}`"))? {
                    service.store.chores().caught_up(("logs", *pk));
                    *stage = Stage::Rest;
                }
                Ok(true)
            }
            Stage::Rest => {
                done(usage::of_tenant(service, *pk).await, format_args!("the usage of tenant `{name}`"))?;
                done(audit::of_tenant(service, *pk).await, format_args!("the audit of tenant `{name}`"))?;
                Ok(false)
            }
        }
    }
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
