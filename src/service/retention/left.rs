//! What is before the beginning of a log is deleted, and with it what its runs left beside the log: items and calls that left
//! the plan, questions and tasks that are over, who was told of them, their payloads, and the turns of loops. What the
//! base, the thread or its plan still name stays, and so do messages and runs.

use std::collections::BTreeSet;

use crate::domain::ids::ThreadPk;
use crate::domain::observation::ObservationType;
use crate::engine::history::left::{names, names_of, rows_named};
use crate::engine::step::RowKind;
use crate::service::Service;
use crate::service::chore_metrics::deleted;
use crate::service::pages::Entries;
use crate::store::{Dropped, ObservationAsk, PageAsk, Result};

/// Entries of the log that one transaction deletes at most.
const ENTRIES: u32 = 200;
/// Rows that one transaction looks for, or deletes at most.
const ROWS: u32 = 500;
/// Plans that are in memory at once: each may hold a whole list.
const PLANS_AT_ONCE: u32 = 20;

/// What a step came to.
pub(super) enum Step {
    Nothing,
    /// Something was deleted, and nothing is left.
    Last,
    More,
}

/// What a thread has before the beginning of its log. The rows of an entry go before it does, so where it was interrupted
/// it is gone on with.
pub(super) struct Left {
    pk: ThreadPk,
    /// What stays names these; known from the first step on that deletes entries.
    kept: Option<BTreeSet<String>>,
}

impl Left {
    pub(super) fn of(pk: ThreadPk) -> Self {
        Self { pk, kept: None }
    }

    pub(super) fn thread(&self) -> ThreadPk {
        self.pk
    }

    /// Deletes a little of it: entries and what they name, and behind the last of these turns.
    pub(super) async fn drop_some(&mut self, service: &Service) -> Result<Step> {
        let Some(row) = service.store.thread_by_pk(self.pk).await? else { return Ok(Step::Nothing) };
        let entries = service.store.old_entries(self.pk, row.min_seq - 1, ENTRIES).await?;
        if let Some((upto, _)) = entries.last() {
            let mut told = BTreeSet::new();
            entries.iter().for_each(|(_, body)| names(body, &mut told));
            if !drop_rows(service, self.pk, &told, self.kept(service).await?).await? {
                return Ok(Step::More);
            }
            let dropped = service.store.drop_entries(self.pk, *upto).await?;
            deleted("entry", dropped.count);
            if dropped.is_more || entries.len() == ENTRIES as usize {
                return Ok(Step::More);
            }
        }
        // Turns are shown to models while their run lasts, and to nobody afterwards.
        let turns = service.store.drop_below_floor(self.pk, ROWS).await?;
        deleted("row", turns.count);
        Ok(match turns {
            Dropped { is_more: true, .. } => Step::More,
            Dropped { count: 0, .. } if entries.is_empty() => Step::Nothing,
            Dropped { .. } => Step::Last,
        })
    }

    async fn kept(&mut self, service: &Service) -> Result<&BTreeSet<String>> {
        let kept = match self.kept.take() {
            Some(kept) => kept,
            None => {
                let base = service.store.base(self.pk).await?;
                let (upto, base) = base.unwrap_or_default();
                names_kept(service, self.pk, upto, &base).await?
            }
        };
        Ok(self.kept.insert(kept))
    }
}

/// What the base names that there is, and neither this next one nor what is told behind it does.
pub(super) async fn named_before(service: &Service, pk: ThreadPk, upto: i64, next: &str) -> Result<Vec<String>> {
    let Some((_, base)) = service.store.base(pk).await? else { return Ok(Vec::new()) };
    let mut named = BTreeSet::new();
    names(&base, &mut named);
    let kept = names_kept(service, pk, upto, next).await?;
    Ok(named.difference(&kept).cloned().collect())
}

/// What is named by what stays: the base, which may be of a later end than the one that is gone up to, the plans that are
/// told behind it, and the thread as it is loaded.
async fn names_kept(service: &Service, pk: ThreadPk, upto: i64, base: &str) -> Result<BTreeSet<String>> {
    let mut kept = BTreeSet::new();
    names(base, &mut kept);
    names_of_plans(service, pk, upto, &mut kept).await?;
    if let Some((thread, rows)) = service.store.load(pk).await? {
        names(&thread.head, &mut kept);
        rows.iter().for_each(|row| names(&row.body, &mut kept));
    }
    Ok(kept)
}

/// Where a thread went back, its plan is of items whose runs are long over.
async fn names_of_plans(service: &Service, pk: ThreadPk, mut after: i64, kept: &mut BTreeSet<String>) -> Result<()> {
    const PLANS: [ObservationType; 2] = [ObservationType::Plan, ObservationType::PlanUpdate];
    loop {
        let ask = ObservationAsk { after, limit: PLANS_AT_ONCE, types: PLANS.to_vec(), ..ObservationAsk::default() };
        let told = service.store.observations(pk, &ask).await?;
        let Some(last) = told.last() else { return Ok(()) };
        after = last.seq;
        told.into_iter().for_each(|told| names_of(told.content, kept));
    }
}

fn gone(told: &BTreeSet<String>, kept: &BTreeSet<String>) -> Vec<(RowKind, String)> {
    let named = told.iter().filter(|name| !kept.contains(*name)).flat_map(|name| rows_named(name));
    named.filter(|(_, id)| !kept.contains(id)).collect()
}

/// `false`: that was as much as one transaction may delete, and some are left.
async fn drop_rows(service: &Service, pk: ThreadPk, told: &BTreeSet<String>, kept: &BTreeSet<String>) -> Result<bool> {
    let mut gone = gone(told, kept);
    gone.extend(receivers(service, pk, told).await?.into_iter().map(|name| (RowKind::Push, name)));
    for some in gone.chunks(ROWS as usize) {
        let dropped = service.store.drop_rows(pk, some.to_vec()).await?;
        deleted("row", dropped.count);
        if dropped.is_more {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The receivers of changes of these runs.
async fn receivers(service: &Service, pk: ThreadPk, told: &BTreeSet<String>) -> Result<Vec<String>> {
    let mut rows = Entries::from(PageAsk { cursor: None, limit: ROWS }, |page| async move {
        service.store.rows(pk, RowKind::Push, false, &page).await
    });
    let mut found = Vec::new();
    while let Some(row) = rows.next().await? {
        if row.id.split_once('/').is_some_and(|(run, _)| told.contains(run)) {
            found.push(row.id);
        }
    }
    Ok(found)
}
