//! The background task that deletes what is older than its retention.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::expire::OldThreads;
use super::{audit, compact, expire, keys, report_caught_up, skip_damaged, usage};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::domain::retention::Terms;
use crate::service::Service;
use crate::service::chore_metrics::set_lag;
use crate::store;

/// How often a sweep runs, and how long one may take.
const SWEEP_INTERVAL: Duration = Duration::from_secs(3_600);
/// The pause after a failed sweep.
const RETRY_INTERVAL: Duration = Duration::from_secs(300);
/// After errors with so many tenants in a row, the database is assumed to be failing, and the sweep ends.
const MAX_FAILED_IN_A_ROW: usize = 3;

/// Sweeps periodically, until the server drains.
pub(in crate::service) async fn run(service: Service) {
    loop {
        let pause = match sweep(&service).await {
            Ok(true) => SWEEP_INTERVAL,
            Ok(false) => Duration::ZERO,
            Err(error) => {
                tracing::warn!(%error, "the retention sweep failed; retrying in 5 minutes");
                RETRY_INTERVAL
            }
        };
        sleep(pause).await;
    }
}

/// Deletes everything that is too old now: usage, audit lines, ended keys, threads, and the old part of the logs of other
/// threads. It pauses between batches, so that no request waits. Tenants take turns, so that one with much to delete does
/// not delay the others. Returns `false` if something is left because the sweep took too long.
pub async fn sweep(service: &Service) -> store::Result<bool> {
    let (begun, now, retention) = (Instant::now(), service.now(), &service.config.retention);
    let tenants = service.store.tenants().await?.into_iter().filter(|(_, name)| retention.hold_of(name).is_none());
    let mut turns: VecDeque<OldOfTenant> =
        tenants.map(|(pk, name)| OldOfTenant::new(pk, retention.of_tenant(&name), name, now)).collect();
    let (mut failed, mut in_a_row) = (None, 0);
    while begun.elapsed() < SWEEP_INTERVAL
        && let Some(mut tenant) = turns.pop_front()
    {
        let turn = tenant.delete_some(service).await;
        in_a_row = if turn.is_err() { in_a_row + 1 } else { 0 };
        match turn {
            Ok(true) => turns.push_back(tenant),
            Ok(false) => {}
            Err(error) if in_a_row < MAX_FAILED_IN_A_ROW => failed = failed.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    skip_damaged(usage::of_spending(service, TenantPk::NONE).await, format_args!("what the server spent"))?;
    sweep_threads_with_terms(service).await?;
    if let Some(error) = failed {
        return Err(error);
    }
    if !turns.is_empty() {
        return Ok(false);
    }
    for what in ["threads", "logs"] {
        service.store.chores().all_caught_up(what);
        set_lag(what, 0);
    }
    Ok(true)
}

/// The deletion of one tenant's old data, a little at a time.
struct OldOfTenant {
    pk: TenantPk,
    name: String,
    terms: Terms,
    now: Millis,
    threads: OldThreads,
    /// Which kinds may have something left.
    has_records: bool,
    has_threads: bool,
    has_logs: bool,
}

impl OldOfTenant {
    fn new(pk: TenantPk, terms: Terms, name: String, now: Millis) -> Self {
        let threads = OldThreads::new(pk, terms, now);
        Self { pk, name, terms, now, threads, has_records: true, has_threads: true, has_logs: true }
    }

    /// Takes one turn: deletes some of each kind. Returns `false` if nothing is left.
    async fn delete_some(&mut self, service: &Service) -> store::Result<bool> {
        let Self { pk, name, terms, now, threads, has_records, has_threads, has_logs } = self;
        if *has_records {
            skip_damaged(usage::of_tenant(service, *pk).await, format_args!("the usage of tenant `{name}`"))?;
            skip_damaged(audit::of_tenant(service, *pk).await, format_args!("the audit of tenant `{name}`"))?;
            let ended = keys::of_tenant(service, *pk, *terms).await;
            skip_damaged(ended, format_args!("an ended key of tenant `{name}`"))?;
            *has_records = false;
        }
        if *has_threads {
            let some = threads.delete_some(service).await;
            *has_threads = skip_damaged(some, format_args!("a thread of tenant `{name}`"))?;
            if !*has_threads {
                report_caught_up(service, "threads", *pk);
            }
        }
        if *has_logs {
            let some = compact::some_of_tenant(service, *pk, *terms, *now).await;
            *has_logs = skip_damaged(some, format_args!("a log of tenant `{name}`"))?;
            if !*has_logs {
                report_caught_up(service, "logs", *pk);
            }
        }
        Ok(*has_threads || *has_logs)
    }
}

/// Sweeps the threads with retention terms of their own, and the imported ones.
async fn sweep_threads_with_terms(service: &Service) -> store::Result<()> {
    const PAGE: u32 = 200;
    let mut after = ThreadPk::NONE;
    loop {
        let page = service.store.threads_with_terms(after, PAGE).await?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = *last;
        let mut threads = Vec::new();
        for (pk, tenant) in page {
            let name = service.store.tenant_name(tenant).await?.unwrap_or_default();
            if service.config.retention.hold_of(&name).is_none() {
                threads.push((pk, service.config.retention.of_tenant(&name)));
            }
        }
        expire::expire_threads(service, &threads).await?;
        while !compact::compact_threads(service, &threads).await? {}
    }
}
