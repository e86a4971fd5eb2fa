//! The beginning of a log whose runs ended longer ago than logs are kept is deleted. What it had told is put together first
//! and stands in its place, so that whatever comes later is read as before.

use futures_util::future::join_all;

use super::left::{Left, Step};
use super::{done, effective, kept, left, overdue};
use crate::domain::Millis;
use crate::domain::ids::{RunId, TenantPk, ThreadPk};
use crate::domain::observation::ObservationType;
use crate::domain::retention::Terms;
use crate::service::{Service, feed};
use crate::store::{Compaction, ObservationAsk, Pace, Result};

/// Runs whose logs are looked at in one turn of their tenant.
const PAGE: u32 = 200;
/// Logs that are shortened side by side, whose bases are in memory then; one rest is of all of them.
const TOGETHER: usize = 8;
/// Steps of a log in one turn, at most: a very long one takes several.
const STEPS: u32 = 50;
/// Observations that are read at once.
const CHUNK: u32 = 200;

/// Some of the logs of a tenant for which these terms hold that are too old at this time, by the ends of their runs. It goes on
/// where it stopped. `false`: no other is too old.
pub(super) async fn some_of_tenant(service: &Service, tenant: TenantPk, terms: Terms, now: Millis) -> Result<bool> {
    let Some(before) = kept(terms.log_days).cut_off(now) else { return Ok(false) };
    let behind = service.store.compacted(tenant).await?;
    let ends = service.store.runs_since(tenant, &behind, before, PAGE).await?;
    let (Some(first), Some(last)) = (ends.first(), ends.last().cloned()) else { return Ok(false) };
    overdue(service, "logs", tenant, before - first.at);
    let mut threads: Vec<_> = ends.into_iter().map(|end| (end.thread, terms)).collect();
    threads.sort_unstable_by_key(|(pk, _)| *pk);
    threads.dedup_by_key(|(pk, _)| *pk);
    if of_these(service, &threads).await? {
        service.store.set_compacted(tenant, &last).await?;
    }
    Ok(true)
}

/// The logs of these threads, by the terms of their tenants. `false`: something of them is left.
pub(super) async fn of_these(service: &Service, threads: &[(ThreadPk, Terms)]) -> Result<bool> {
    for some in threads.chunks(TOGETHER) {
        if !together(service, some).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A step of each of them side by side, then one rest, until nothing of them is too old. `false`: that took too many steps.
async fn together(service: &Service, threads: &[(ThreadPk, Terms)]) -> Result<bool> {
    let mut logs: Vec<OldLog> = threads.iter().map(|(pk, terms)| OldLog::new(*pk, *terms)).collect();
    for _ in 0..STEPS {
        if logs.is_empty() {
            break;
        }
        let pace = Pace::begin();
        let steps = join_all(logs.iter_mut().map(|log| log.step(service))).await;
        let (mut is_any, mut rest) = (false, Vec::new());
        for (step, log) in steps.into_iter().zip(logs) {
            is_any |= matches!(step, Ok(Step::Last | Step::More));
            if matches!(step, Ok(Step::More)) {
                rest.push(log);
            } else {
                done(step.map(drop), format_args!("the log of thread {}", log.left.thread().0))?;
            }
        }
        logs = rest;
        if is_any {
            pace.rest(&*service.store).await;
        }
    }
    Ok(logs.is_empty())
}

/// The log of a thread, while what is too old of it is deleted a little at a time. Where that was interrupted it is gone on
/// with.
struct OldLog {
    of_tenant: Terms,
    /// It begins later, and what is before that may be deleted.
    is_shortened: bool,
    left: Left,
}

impl OldLog {
    fn new(pk: ThreadPk, of_tenant: Terms) -> Self {
        Self { of_tenant, is_shortened: false, left: Left::of(pk) }
    }

    async fn step(&mut self, service: &Service) -> Result<Step> {
        // Looked up before each step: the thread may be on hold by now.
        let Some(terms) = effective(service, self.left.thread(), self.of_tenant).await? else {
            return Ok(Step::Nothing);
        };
        let Some(before) = kept(terms.log_days).cut_off(service.now()) else { return Ok(Step::Nothing) };
        if !self.is_shortened && !self.shorten(service, before).await? {
            return Ok(Step::Nothing);
        }
        self.is_shortened = true;
        self.left.drop_some(service).await
    }

    /// It begins later at once, unless the thread is on hold by then. `false`: the thread is gone.
    async fn shorten(&self, service: &Service, before: Millis) -> Result<bool> {
        let pk = self.left.thread();
        let Some(row) = service.store.thread_by_pk(pk).await? else { return Ok(false) };
        // An imported log may be older than its thread, and is kept as long from then on.
        if row.created_at < before
            && let Some(end) = end_of_old_runs(service, pk, row.min_seq, before).await?
            && let Some(upto) = service.store.last_entry(pk, end).await?.filter(|upto| *upto >= row.min_seq)
        {
            let base = feed::fold_to(service, pk, upto).await?.text();
            let unnamed = left::named_before(service, pk, upto, &base).await?;
            service.store.compact(Compaction { thread: pk, min_seq: row.min_seq, upto, base, unnamed }).await?;
        }
        Ok(true)
    }
}

/// The last observation before which every run ended before `before`.
async fn end_of_old_runs(service: &Service, pk: ThreadPk, min_seq: i64, before: Millis) -> Result<Option<i64>> {
    const BOUNDS: [ObservationType; 2] = [ObservationType::RunStarted, ObservationType::RunFinished];
    let (mut open, mut end, mut after): (Vec<RunId>, _, _) = (Vec::new(), None, min_seq - 1);
    loop {
        let ask = ObservationAsk { after, limit: CHUNK, types: BOUNDS.to_vec(), ..ObservationAsk::default() };
        let bounds = service.reads.observations(pk, &ask).await?;
        let Some(last) = bounds.last() else { return Ok(end) };
        after = last.seq;
        for bound in bounds {
            if bound.timestamp >= before {
                return Ok(end);
            }
            if bound.kind == ObservationType::RunStarted {
                open.push(bound.run_id);
            } else {
                open.retain(|run| *run != bound.run_id);
                if open.is_empty() {
                    end = Some(bound.seq);
                }
            }
        }
    }
}
