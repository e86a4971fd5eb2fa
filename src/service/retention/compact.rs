//! The beginning of a log whose runs ended longer ago than logs are kept is deleted. What it had told is put together first
//! and stands in its place, so that whatever comes later is read as before.

use super::{done, effective, kept, left};
use crate::domain::Millis;
use crate::domain::ids::{RunId, TenantPk, ThreadPk};
use crate::domain::observation::ObservationType;
use crate::domain::retention::Terms;
use crate::service::chore_metrics::lags;
use crate::service::{Service, feed};
use crate::store::{Compaction, ObservationAsk, Result};

/// Runs that are looked at together.
const PAGE: u32 = 200;
/// Observations that are read at once.
const CHUNK: u32 = 200;

/// The logs of a tenant for which these terms hold, by the ends of their runs. It goes on where it stopped.
pub(super) async fn of_tenant(service: &Service, tenant: TenantPk, terms: Terms) -> Result<()> {
    let Some(before) = kept(terms.log_days).cut_off(service.now()) else { return Ok(()) };
    loop {
        let behind = service.store.compacted(tenant).await?;
        let ends = service.store.runs_since(tenant, &behind, before, PAGE).await?;
        let (Some(first), Some(last)) = (ends.first(), ends.last().cloned()) else { return Ok(()) };
        lags("logs", before - first.at);
        let mut threads: Vec<ThreadPk> = ends.into_iter().map(|end| end.thread).collect();
        threads.sort_unstable();
        threads.dedup();
        for pk in threads {
            done(one(service, pk, terms).await, format_args!("the log of thread {}", pk.0))?;
        }
        service.store.set_compacted(tenant, &last).await?;
    }
}

/// The log of this thread: it begins later at once, and what is before that is deleted then, a little at a time. Where that
/// was interrupted it is gone on with.
pub(super) async fn one(service: &Service, pk: ThreadPk, of_tenant: Terms) -> Result<()> {
    let Some(terms) = effective(service, pk, of_tenant).await? else { return Ok(()) };
    let Some(before) = kept(terms.log_days).cut_off(service.now()) else { return Ok(()) };
    let Some(row) = service.store.thread_by_pk(pk).await? else { return Ok(()) };
    if let Some(end) = end_of_old_runs(service, pk, row.min_seq, before).await?
        && let Some(upto) = service.store.last_entry(pk, end).await?.filter(|upto| *upto >= row.min_seq)
    {
        let base = feed::fold_to(service, pk, upto).await?.text();
        let rows = left::named_before(service, pk, &base).await?;
        service.store.compact(Compaction { thread: pk, min_seq: row.min_seq, upto, base, rows }).await?;
    }
    left::drop_old(service, pk).await
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
