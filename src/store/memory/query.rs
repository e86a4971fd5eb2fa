//! Reading: every list filtered and sorted from scratch.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use super::{Kept, State};
use crate::domain::Millis;
use crate::domain::ids::{MessageId, PayloadId, TenantPk, ThreadId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::observation::Observation;
use crate::engine::step::{Keep, Row, RowKind};
use crate::store::cursor::{Cursor, page};
use crate::store::{
    Figures, Found, LOOKED_AT, ObservationAsk, Page, PageAsk, Result, StandingAsk, ThreadFilter, ThreadRow, text,
};

impl Kept {
    pub(super) fn loaded(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = self
            .rows
            .values()
            .filter(|row| match row.keep {
                Keep::Never => false,
                Keep::Always => true,
                Keep::UntilFloor => row.ord >= self.thread.floor,
            })
            .cloned()
            .collect();
        rows.sort_by(|a, b| (a.kind, a.ord, &a.id).cmp(&(b.kind, b.ord, &b.id)));
        rows
    }

    fn of_kind(&self, kind: RowKind) -> Vec<Row> {
        let mut rows: Vec<Row> = self.rows.values().filter(|row| row.kind == kind).cloned().collect();
        rows.sort_by(|a, b| (a.ord, &a.id).cmp(&(b.ord, &b.id)));
        rows
    }
}

impl State {
    pub(super) fn named(&self, tenant: TenantPk, id: &ThreadId) -> Option<&Kept> {
        self.threads.values().find(|kept| kept.thread.tenant == tenant && kept.thread.thread_id == *id)
    }

    pub(super) fn list(&self, tenant: TenantPk, filter: &ThreadFilter, ask: &PageAsk) -> Result<Page<ThreadRow>> {
        let cursor = Cursor::of(ask)?;
        let wanted = filter.q.as_deref().map(text::folded);
        let mut found: Vec<&ThreadRow> = self
            .threads
            .values()
            .map(|kept| &kept.thread)
            .filter(|thread| thread.tenant == tenant)
            .filter(|thread| {
                cursor.as_ref().is_none_or(|c| (thread.updated_at, thread.pk.0) < (c.at, c.id.parse().unwrap_or(0)))
            })
            .collect();
        found.sort_by_key(|thread| Reverse((thread.updated_at, thread.pk)));
        let cursor = |thread: &ThreadRow| Cursor::new(thread.updated_at, thread.pk.0.to_string());
        let last = found.get(LOOKED_AT as usize - 1).filter(|_| filter.is_narrow()).map(|last| cursor(last));
        let looked_at = if filter.is_narrow() { LOOKED_AT as usize } else { found.len() };
        let is_wanted = |thread: &&ThreadRow| {
            filter.status.is_none_or(|status| thread.status == status)
                && wanted.as_ref().is_none_or(|q| {
                    text::folded(thread.thread_id.as_str()).contains(q.as_str())
                        || text::folded_title(&thread.sheet).contains(q.as_str())
                })
        };
        let found = found.into_iter().take(looked_at).filter(is_wanted);
        let found = found.take(ask.limit as usize + 1).cloned().collect();
        Ok(page(found, ask.limit, cursor).or_behind(last))
    }

    pub(super) fn rows(&self, pk: ThreadPk, kind: RowKind, descending: bool, ask: &PageAsk) -> Result<Page<Row>> {
        let cursor = Cursor::of(ask)?;
        let mut rows = self.threads.get(&pk).map(|kept| kept.of_kind(kind)).unwrap_or_default();
        if descending {
            rows.reverse();
        }
        rows.retain(|row| {
            cursor.as_ref().is_none_or(|c| {
                let (this, last) = ((row.ord, row.id.as_str()), (c.at, c.id.as_str()));
                if descending { this < last } else { this > last }
            })
        });
        Ok(page(rows, ask.limit, |row| Cursor::new(row.ord, row.id.clone())))
    }

    pub(super) fn history(&self, pk: ThreadPk, before: &MessageId, limit: u32) -> Result<Vec<ConversationMessage>> {
        let mut rows = self.threads.get(&pk).map(|kept| kept.of_kind(RowKind::Message)).unwrap_or_default();
        let before = rows.iter().find(|row| row.id == before.as_str()).map_or(i64::MAX, |row| row.ord);
        rows.retain(|row| row.ord < before);
        let from = rows.len().saturating_sub(limit as usize);
        Ok(rows[from..].iter().filter_map(|row| text::message(&row.body)).collect())
    }

    pub(super) fn payloads(&self, pk: ThreadPk, ids: &[PayloadId]) -> Result<Vec<(PayloadId, Arc<Value>)>> {
        let Some(kept) = self.threads.get(&pk) else { return Ok(Vec::new()) };
        let found = ids.iter().filter_map(|id| kept.rows.get(&(RowKind::Payload, id.as_str().to_owned())));
        Ok(found.filter_map(|row| text::payload(&row.id, &row.body)).collect())
    }

    /// Every row of a kind of a tenant, if rows of this kind are found across threads.
    pub(super) fn found(&self, tenant: TenantPk, kind: RowKind) -> Vec<Found> {
        if !matches!(kind, RowKind::Run | RowKind::Suspension | RowKind::Task) {
            return Vec::new();
        }
        let of_tenant = self.threads.values().filter(|kept| kept.thread.tenant == tenant);
        of_tenant
            .flat_map(|kept| kept.of_kind(kind).into_iter().map(move |row| (kept, row)))
            .map(|(kept, row)| Found { pk: kept.thread.pk, thread_id: kept.thread.thread_id.clone(), row })
            .collect()
    }

    pub(super) fn open_suspensions(&self, tenant: TenantPk, ask: &PageAsk) -> Result<Page<Found>> {
        let cursor = Cursor::of(ask)?;
        let mut open = self.found(tenant, RowKind::Suspension);
        open.retain(|found| found.row.keep == Keep::Always);
        open.retain(|found| cursor.as_ref().is_none_or(|c| found.row.id > c.id));
        open.sort_by(|a, b| a.row.id.cmp(&b.row.id));
        Ok(page(open, ask.limit, |found| Cursor::new(0, found.row.id.clone())))
    }

    pub(super) fn tasks(&self, tenant: TenantPk, ask: &PageAsk) -> Result<Page<Found>> {
        let cursor = Cursor::of(ask)?;
        let mut tasks = self.found(tenant, RowKind::Task);
        tasks.retain(|found| cursor.as_ref().is_none_or(|c| found.row.id < c.id));
        tasks.sort_by(|a, b| b.row.id.cmp(&a.row.id));
        Ok(page(tasks, ask.limit, |found| Cursor::new(0, found.row.id.clone())))
    }

    pub(super) fn figures(&self) -> Result<Figures> {
        let mut figures = Figures::default();
        let (mut runs, mut questions) = (BTreeMap::new(), BTreeMap::new());
        for row in self.threads.values().flat_map(|kept| kept.rows.values()).filter(|row| row.keep == Keep::Always) {
            let body = text::json(&row.body);
            let word = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
            if row.kind == RowKind::Run {
                *runs.entry(word("status")).or_insert(0) += 1;
            } else if row.kind == RowKind::Suspension {
                let at = body["createdAt"].as_i64().unwrap_or(0);
                let (count, since) = questions.entry(word("kind")).or_insert((0, at));
                (*count, *since) = (*count + 1, at.min(*since));
            }
        }
        runs.iter().try_for_each(|(status, count)| figures.run(status, *count))?;
        questions.iter().try_for_each(|(kind, (count, since))| figures.question(kind, *count, *since))?;
        let due = || self.deliveries.values().filter_map(|delivery| delivery.due_at);
        (figures.deliveries, figures.oldest_due) = (due().count() as u64, due().min());
        Ok(figures)
    }

    pub(super) fn by_standing(&self, ask: &StandingAsk) -> Result<(Page<Found>, u64)> {
        let (before, bodies) = (ask.before()?, ask.bodies());
        let mut runs = Vec::new();
        for run in self.found(ask.tenant, RowKind::Run) {
            let Some(kept) = self.threads.get(&run.pk) else { continue };
            let Some(row) = kept.rows.get(&(RowKind::CallerStatus, run.row.id.clone())) else { continue };
            let is_wanted = ask.thread.is_none_or(|pk| pk == run.pk)
                && ask.since.is_none_or(|since| row.ord >= since)
                && (bodies.is_empty() || bodies.contains(&row.body));
            if is_wanted {
                runs.push((row.ord, run));
            }
        }
        let total = runs.len() as u64;
        runs.sort_by(|(a, one), (b, other)| (b, &other.row.id).cmp(&(a, &one.row.id)));
        runs.retain(|(since, run)| (*since, &run.row.id) < (before.at, &before.id));
        let runs = page(runs, ask.page.limit, |(since, run)| Cursor::new(*since, run.row.id.clone()));
        Ok((runs.map(|(_, run)| run), total))
    }

    pub(super) fn observations(&self, pk: ThreadPk, ask: &ObservationAsk) -> Vec<Observation> {
        let Some(kept) = self.threads.get(&pk) else { return Vec::new() };
        kept.observations.iter().filter(|told| ask.is_met_by(told)).take(ask.limit as usize).cloned().collect()
    }

    pub(super) fn due(&self, replica: Uuid, now: Millis, limit: u32) -> Vec<ThreadPk> {
        self.overdue(limit, |thread| thread.replica == Some(replica) && thread.wake_at.is_some_and(|at| at <= now))
    }

    pub(super) fn overdue(&self, limit: u32, is_wanted: impl Fn(&ThreadRow) -> bool) -> Vec<ThreadPk> {
        let mut found: Vec<&ThreadRow> =
            self.threads.values().map(|kept| &kept.thread).filter(|thread| is_wanted(thread)).collect();
        found.sort_by_key(|thread| (thread.wake_at.unwrap_or(thread.updated_at), thread.pk));
        found.into_iter().take(limit as usize).map(|thread| thread.pk).collect()
    }
}
