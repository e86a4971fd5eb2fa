//! Deletes what lies before the beginning of a compacted log, and the rows that its runs left beside the log: items and
//! calls that are no longer in the plan, ended questions and tasks, push receivers, the progress of exported traces,
//! payloads, and the turns of item loops.
//! Rows that the base, the thread or its plan still name are kept, and so are messages and runs.

use std::collections::BTreeSet;

use crate::domain::ids::ThreadPk;
use crate::domain::observation::ObservationType;
use crate::engine::history::unloaded_rows::{names, names_of, rows_named};
use crate::engine::step::RowKind;
use crate::service::Service;
use crate::service::chore_metrics::count_deleted;
use crate::service::pages::{Entries, Observations};
use crate::store::{self, Dropped, ObservationAsk, Order, PageAsk};

/// Entries of the log that one transaction deletes at most.
const MAX_ENTRIES: u32 = 200;
/// Rows that one transaction looks up or deletes at most.
const MAX_ROWS: u32 = 500;
/// Plans that are in memory at once: each may hold a whole list.
const PLAN_PAGE: u32 = 20;

/// The result of a step.
pub(super) enum DeletionStep {
    Nothing,
    /// Something was deleted, and nothing is left.
    Last,
    More,
}

/// What a thread still has before the beginning of its log. The rows of an entry are deleted before the entry, so that an
/// interrupted deletion can be continued.
pub(super) struct LogRemains {
    pk: ThreadPk,
    /// The names that kept rows refer to, while the log begins at this seq. They are read again if another process has
    /// shortened the log since: its base names rows of entries that were not too old before.
    kept: Option<(i64, BTreeSet<String>)>,
}

impl LogRemains {
    pub(super) fn of(pk: ThreadPk) -> Self {
        Self { pk, kept: None }
    }

    pub(super) fn thread(&self) -> ThreadPk {
        self.pk
    }

    /// Deletes some entries and the rows that they name; after the last entry, turns.
    pub(super) async fn drop_some(&mut self, service: &Service) -> store::Result<DeletionStep> {
        let Some(row) = service.store.thread_by_pk(self.pk).await? else { return Ok(DeletionStep::Nothing) };
        let entries = service.store.old_entries(self.pk, row.min_seq - 1, MAX_ENTRIES).await?;
        if let Some((upto, _)) = entries.last() {
            let mut named = BTreeSet::new();
            entries.iter().for_each(|(_, body)| names(body, &mut named));
            if !drop_rows(service, self.pk, &named, self.kept(service, row.min_seq).await?).await? {
                return Ok(DeletionStep::More);
            }
            let dropped = service.store.drop_entries(self.pk, *upto).await?;
            count_deleted("entry", dropped.count);
            if dropped.is_more || entries.len() == MAX_ENTRIES as usize {
                return Ok(DeletionStep::More);
            }
        }
        // Turns are used in prompts while their run lasts, and never afterwards.
        let turns = service.store.drop_below_floor(self.pk, MAX_ROWS).await?;
        count_deleted("row", turns.count);
        Ok(match turns {
            Dropped { is_more: true, .. } => DeletionStep::More,
            Dropped { count: 0, .. } if entries.is_empty() => DeletionStep::Nothing,
            Dropped { .. } => DeletionStep::Last,
        })
    }

    async fn kept(&mut self, service: &Service, min_seq: i64) -> store::Result<&BTreeSet<String>> {
        let kept = match self.kept.take() {
            Some((from, kept)) if from == min_seq => kept,
            Some(_) | None => {
                let base = service.store.base(self.pk).await?;
                let (upto, base) = base.unwrap_or_default();
                names_kept(service, self.pk, upto, &base).await?
            }
        };
        Ok(&self.kept.insert((min_seq, kept)).1)
    }
}

/// The names in the current base that neither the `next` base nor the observations after it refer to.
pub(super) async fn named_before(service: &Service, pk: ThreadPk, upto: i64, next: &str) -> store::Result<Vec<String>> {
    let Some((_, base)) = service.store.base(pk).await? else { return Ok(Vec::new()) };
    let mut named = BTreeSet::new();
    names(&base, &mut named);
    let kept = names_kept(service, pk, upto, next).await?;
    Ok(named.difference(&kept).cloned().collect())
}

/// The names that kept data refers to: the base, which may extend beyond `upto`, the plans that the log records after it,
/// and the loaded thread.
async fn names_kept(service: &Service, pk: ThreadPk, upto: i64, base: &str) -> store::Result<BTreeSet<String>> {
    let mut kept = BTreeSet::new();
    names(base, &mut kept);
    names_of_plans(service, pk, upto, &mut kept).await?;
    if let Some((thread, rows)) = service.store.load(pk).await? {
        names(&thread.head, &mut kept);
        rows.iter().for_each(|row| names(&row.body, &mut kept));
    }
    Ok(kept)
}

/// Adds the names in the plans of the log: after a rewind the plan has items of runs that ended long ago.
async fn names_of_plans(service: &Service, pk: ThreadPk, after: i64, kept: &mut BTreeSet<String>) -> store::Result<()> {
    let types = vec![ObservationType::Plan, ObservationType::PlanUpdate];
    let ask = ObservationAsk { after, limit: PLAN_PAGE, types, ..ObservationAsk::default() };
    let mut plans = Observations::from(&*service.store, pk, ask);
    while let Some(plan) = plans.next().await? {
        names_of(plan.content, kept);
    }
    Ok(())
}

fn gone(named: &BTreeSet<String>, kept: &BTreeSet<String>) -> Vec<(RowKind, String)> {
    let rows = named.iter().filter(|name| !kept.contains(*name)).flat_map(|name| rows_named(name));
    rows.filter(|(_, id)| !kept.contains(id)).collect()
}

/// Returns `false` if one transaction's maximum was deleted and rows are left.
async fn drop_rows(
    service: &Service,
    pk: ThreadPk,
    named: &BTreeSet<String>,
    kept: &BTreeSet<String>,
) -> store::Result<bool> {
    let mut gone = gone(named, kept);
    gone.extend(receivers(service, pk, named).await?.into_iter().map(|name| (RowKind::Push, name)));
    // How much of a run was sent to a collector stands under the run's own id, which the base goes on to name.
    gone.extend(named.iter().filter(|name| name.starts_with("run_")).map(|run| (RowKind::Traced, run.clone())));
    for some in gone.chunks(MAX_ROWS as usize) {
        let dropped = service.store.drop_rows(pk, some.to_vec()).await?;
        count_deleted("row", dropped.count);
        if dropped.is_more {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The push receivers of these runs.
async fn receivers(service: &Service, pk: ThreadPk, named: &BTreeSet<String>) -> store::Result<Vec<String>> {
    let mut rows = Entries::from(PageAsk::first(MAX_ROWS), |page| async move {
        service.store.rows(pk, RowKind::Push, Order::Ascending, &page).await
    });
    let mut found = Vec::new();
    while let Some(row) = rows.next().await? {
        if row.id.split_once('/').is_some_and(|(run, _)| named.contains(run)) {
            found.push(row.id);
        }
    }
    Ok(found)
}
