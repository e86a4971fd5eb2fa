//! Compaction: deletes the beginning of a log whose runs ended longer ago than logs are kept. A base replaces it: the fold
//! of the deleted part, so that the rest of the log is read as before.

use futures_util::future::join_all;

use super::remains::{DeletionStep, LogRemains};
use super::{effective, or_forever, remains, report_overdue, skip_damaged};
use crate::domain::Millis;
use crate::domain::ids::{RunId, TenantPk, ThreadPk};
use crate::domain::observation::ObservationType;
use crate::domain::retention::Terms;
use crate::service::pages::Observations;
use crate::service::{Service, feed};
use crate::store::{self, Compaction, ObservationAsk, Pace, ThreadRow};

/// How many ended runs are examined in one turn of their tenant.
const PAGE: u32 = 200;
/// How many logs are compacted concurrently. Their bases are in memory then, and they share one pause.
const CONCURRENCY: usize = 8;
/// How many steps a log gets in one turn. A very long log takes several turns.
const MAX_STEPS: u32 = 50;
/// Observations that are read at once.
const CHUNK: u32 = 200;

/// Compacts some of the logs of a tenant with these terms that are too old at `now`, ordered by the ends of their runs. It
/// continues where the last call stopped. Returns `false` if no other log is too old.
pub(super) async fn some_of_tenant(
    service: &Service,
    tenant: TenantPk,
    terms: Terms,
    now: Millis,
) -> store::Result<bool> {
    let Some(before) = or_forever(terms.log_days).cut_off(now) else { return Ok(false) };
    let after = service.store.compacted(tenant).await?;
    let ends = service.store.runs_since(tenant, &after, before, PAGE).await?;
    let (Some(first), Some(last)) = (ends.first(), ends.last().cloned()) else { return Ok(false) };
    report_overdue(service, "logs", tenant, before - first.at);
    let mut threads: Vec<_> = ends.into_iter().map(|end| (end.thread, terms)).collect();
    threads.sort_unstable_by_key(|(pk, _)| *pk);
    threads.dedup_by_key(|(pk, _)| *pk);
    if compact_threads(service, &threads).await? {
        service.store.set_compacted(tenant, &last).await?;
    }
    Ok(true)
}

/// Compacts the logs of these threads, by the terms of their tenants. Returns `false` if something is left.
pub(super) async fn compact_threads(service: &Service, threads: &[(ThreadPk, Terms)]) -> store::Result<bool> {
    for some in threads.chunks(CONCURRENCY) {
        if !compact_chunk(service, some).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Repeats: one step of each log concurrently, then one pause, until nothing is too old. Returns `false` after too many
/// steps.
async fn compact_chunk(service: &Service, threads: &[(ThreadPk, Terms)]) -> store::Result<bool> {
    let mut logs: Vec<OldLog> = threads.iter().map(|(pk, terms)| OldLog::new(*pk, *terms)).collect();
    for _ in 0..MAX_STEPS {
        if logs.is_empty() {
            break;
        }
        let pace = Pace::begin();
        let steps = join_all(logs.iter_mut().map(|log| log.step(service))).await;
        let (mut is_any, mut rest) = (false, Vec::new());
        for (step, log) in steps.into_iter().zip(logs) {
            is_any |= matches!(step, Ok(DeletionStep::Last | DeletionStep::More));
            if matches!(step, Ok(DeletionStep::More)) {
                rest.push(log);
            } else {
                skip_damaged(step.map(drop), format_args!("the log of thread {}", log.remains.thread().0))?;
            }
        }
        logs = rest;
        if is_any {
            pace.rest(&*service.store).await;
        }
    }
    Ok(logs.is_empty())
}

/// The compaction of one log, a little at a time. After an interruption the next call continues it.
struct OldLog {
    of_tenant: Terms,
    /// The beginning of the log has been moved, so what lies before it may be deleted.
    is_shortened: bool,
    remains: LogRemains,
}

impl OldLog {
    fn new(pk: ThreadPk, of_tenant: Terms) -> Self {
        Self { of_tenant, is_shortened: false, remains: LogRemains::of(pk) }
    }

    async fn step(&mut self, service: &Service) -> store::Result<DeletionStep> {
        // Read before each step, because the thread may have been put on hold.
        let Some(terms) = effective(service, self.remains.thread(), self.of_tenant).await? else {
            return Ok(DeletionStep::Nothing);
        };
        let Some(before) = or_forever(terms.log_days).cut_off(service.now()) else { return Ok(DeletionStep::Nothing) };
        if !self.is_shortened {
            let pk = self.remains.thread();
            let Some(row) = service.store.thread_by_pk(pk).await? else { return Ok(DeletionStep::Nothing) };
            if let Err(error) = shorten(service, &row, before).await {
                // Another process shortened or deleted it while it was read here: the next step reads what is left.
                let now = service.store.thread_by_pk(pk).await?;
                let is_moved = now.is_none_or(|now| now.min_seq != row.min_seq);
                return if is_moved { Ok(DeletionStep::More) } else { Err(error) };
            }
            self.is_shortened = true;
        }
        self.remains.drop_some(service).await
    }
}

/// Moves the beginning of the thread's log in one transaction, unless the thread is on hold or deleted by then.
async fn shorten(service: &Service, row: &ThreadRow, before: Millis) -> store::Result<()> {
    let pk = row.pk;
    // An imported log may be older than its thread. It is kept as long as if it began with the thread.
    if row.created_at < before
        && let Some(end) = end_of_old_runs(service, pk, row.min_seq, before).await?
        && let Some(upto) = service.store.last_entry(pk, end).await?.filter(|upto| *upto >= row.min_seq)
    {
        let base = feed::fold_to(service, pk, upto).await?.text();
        let unnamed = remains::named_before(service, pk, upto, &base).await?;
        service.store.compact(Compaction { thread: pk, min_seq: row.min_seq, upto, base, unnamed }).await?;
    }
    Ok(())
}

/// The seq of the last observation up to which every run ended before `before`.
async fn end_of_old_runs(service: &Service, pk: ThreadPk, min_seq: i64, before: Millis) -> store::Result<Option<i64>> {
    let types = vec![ObservationType::RunStarted, ObservationType::RunFinished];
    let ask = ObservationAsk { after: min_seq - 1, limit: CHUNK, types, ..ObservationAsk::default() };
    let mut bounds = Observations::from(&*service.reads, pk, ask);
    let (mut open, mut end): (Vec<RunId>, _) = (Vec::new(), None);
    while let Some(bound) = bounds.next().await?.filter(|bound| bound.timestamp < before) {
        if bound.kind == ObservationType::RunStarted {
            open.push(bound.run_id);
        } else {
            open.retain(|run| *run != bound.run_id);
            if open.is_empty() {
                end = Some(bound.seq);
            }
        }
    }
    Ok(end)
}
