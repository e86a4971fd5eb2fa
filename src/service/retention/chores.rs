//! Looking for what is too old, again and again, beside the commits.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::expire::OldThreads;
use super::{audit, caught_up, compact, done, expire, usage};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::domain::retention::Terms;
use crate::service::Service;
use crate::service::chore_metrics::lags;
use crate::store::Result;

/// How often it is looked, and how long one look may take.
const EVERY: Duration = Duration::from_secs(3_600);
/// How soon it is looked again after an error.
const AGAIN: Duration = Duration::from_secs(300);
/// After errors of so many tenants in a row it is the database that fails.
const FAILED_IN_A_ROW: usize = 3;

/// Deletes what is too old, and looks again, for as long as it is let.
pub(in crate::service) async fn run(service: Service) {
    loop {
        let pause = match sweep(&service).await {
            Ok(true) => EVERY,
            Ok(false) => Duration::ZERO,
            Err(error) => {
                tracing::warn!(%error, "the retention sweep failed; retrying in 5 minutes");
                AGAIN
            }
        };
        sleep(pause).await;
    }
}

/// Deletes all that is too old now: old usage and old lines of the audit, threads, and what is too old in the logs of others.
/// Rests in between, so that nobody waits for it. Tenants take turns, so that one with much that is old keeps no other waiting.
/// `false`: something is left, as it took so long that others may have got too old.
pub async fn sweep(service: &Service) -> Result<bool> {
    let (begun, now, retention) = (Instant::now(), service.now(), &service.config.retention);
    let tenants = service.store.tenants().await?.into_iter().filter(|(_, name)| retention.hold_of(name).is_none());
    let mut turns: VecDeque<OldOfTenant> =
        tenants.map(|(pk, name)| OldOfTenant::new(pk, retention.of_tenant(&name), name, now)).collect();
    let (mut failed, mut in_a_row) = (None, 0);
    while begun.elapsed() < EVERY
        && let Some(mut tenant) = turns.pop_front()
    {
        let turn = tenant.delete_some(service).await;
        in_a_row = if turn.is_err() { in_a_row + 1 } else { 0 };
        match turn {
            Ok(true) => turns.push_back(tenant),
            Ok(false) => {}
            Err(error) if in_a_row < FAILED_IN_A_ROW => failed = failed.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    done(usage::of_spending(service, TenantPk::NONE).await, format_args!("what the server spent"))?;
    of_their_own(service).await?;
    if let Some(error) = failed {
        return Err(error);
    }
    if !turns.is_empty() {
        return Ok(false);
    }
    for what in ["threads", "logs"] {
        service.store.chores().all_caught_up(what);
        lags(what, 0);
    }
    Ok(true)
}

/// What of a tenant is too old, while it is deleted a little at a time.
struct OldOfTenant {
    pk: TenantPk,
    name: String,
    terms: Terms,
    now: Millis,
    threads: OldThreads,
    /// What may be left.
    has_records: bool,
    has_threads: bool,
    has_logs: bool,
}

impl OldOfTenant {
    fn new(pk: TenantPk, terms: Terms, name: String, now: Millis) -> Self {
        let threads = OldThreads::new(pk, terms, now);
        Self { pk, name, terms, now, threads, has_records: true, has_threads: true, has_logs: true }
    }

    /// A turn: some of each. `false`: nothing is left.
    async fn delete_some(&mut self, service: &Service) -> Result<bool> {
        let Self { pk, name, terms, now, threads, has_records, has_threads, has_logs } = self;
        if *has_records {
            done(usage::of_tenant(service, *pk).await, format_args!("the usage of tenant `{name}`"))?;
            done(audit::of_tenant(service, *pk).await, format_args!("the audit of tenant `{name}`"))?;
            *has_records = false;
        }
        if *has_threads {
            let some = threads.delete_some(service).await;
            *has_threads = done(some, format_args!("a thread of tenant `{name}`"))?;
            if !*has_threads {
                caught_up(service, "threads", *pk);
            }
        }
        if *has_logs {
            let some = compact::some_of_tenant(service, *pk, *terms, *now).await;
            *has_logs = done(some, format_args!("a log of tenant `{name}`"))?;
            if !*has_logs {
                caught_up(service, "logs", *pk);
            }
        }
        Ok(*has_threads || *has_logs)
    }
}

/// The threads that say themselves how long they are kept, and those that were imported.
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
        while !compact::of_these(service, &threads).await? {}
    }
}
