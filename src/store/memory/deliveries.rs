//! The outbox.

use async_trait::async_trait;

use super::{Memory, State};
use crate::domain::Millis;
use crate::domain::ids::{DeliveryId, TenantPk, ThreadPk};
use crate::store::cursor::{Cursor, page};
use crate::store::delivery::{Deliveries, Delivery, DeliveryStatus, NewDelivery, Settled, TargetKind};
use crate::store::{IdempotencyRow, Page, PageAsk, Result};

#[async_trait]
impl Deliveries for Memory {
    async fn claim_deliveries(&self, now: Millis, until: Millis, limit: u32) -> Result<Vec<Delivery>> {
        Ok(self.state().claim(now, until, limit))
    }
    async fn settle_delivery(
        &self,
        id: &DeliveryId,
        attempt: u32,
        settled: Settled,
        said: &str,
        now: Millis,
    ) -> Result<bool> {
        Ok(self.state().settle(id, attempt, settled, said, now))
    }
    async fn next_delivery(&self) -> Result<Option<Millis>> {
        Ok(self.state().next_in_line())
    }
    async fn deliveries(
        &self,
        tenant: TenantPk,
        kind: TargetKind,
        target: &str,
        page: &PageAsk,
    ) -> Result<Page<Delivery>> {
        self.state().told(tenant, kind, target, page)
    }
    async fn replay_delivery(
        &self,
        tenant: TenantPk,
        id: &DeliveryId,
        now: Millis,
        kept: Option<IdempotencyRow>,
    ) -> Result<Option<bool>> {
        let mut state = self.state();
        if kept.as_ref().is_some_and(|kept| state.is_taken(kept)) {
            return Ok(Some(false));
        }
        let replayed = state.replay(tenant, id, now);
        if let (Some(true), Some(kept)) = (replayed, kept) {
            state.keep(ThreadPk::NONE, kept);
        }
        Ok(replayed)
    }
    async fn abandon_deliveries(
        &self,
        tenant: TenantPk,
        kind: TargetKind,
        target: &str,
        why: &str,
        now: Millis,
    ) -> Result<u64> {
        Ok(self.state().abandon(tenant, kind, target, why, now))
    }
    async fn forget_deliveries(&self, before: Millis, limit: u32) -> Result<u64> {
        Ok(self.state().forget(before, limit))
    }
}

impl State {
    pub(super) fn post(&mut self, thread: ThreadPk, tenant: TenantPk, now: Millis, new: NewDelivery) {
        let ord = self.deliveries.keys().last().map_or(1, |last| last + 1);
        let delivery = Delivery {
            id: new.id,
            tenant,
            thread,
            kind: new.kind,
            target: new.target,
            ordering_key: new.ordering_key,
            event: new.event,
            body: new.body,
            status: DeliveryStatus::Pending,
            due_at: Some(now),
            attempts: 0,
            said: None,
            created_at: now,
            finished_at: None,
        };
        self.deliveries.insert(ord, delivery);
    }

    /// Whether nothing with its ordering key is still to be made before it.
    fn is_first(&self, ord: i64, ordering_key: &Option<String>) -> bool {
        ordering_key.is_none()
            || !self.deliveries.range(..ord).any(|(_, e)| e.due_at.is_some() && e.ordering_key == *ordering_key)
    }

    fn next_in_line(&self) -> Option<Millis> {
        let next = self.deliveries.iter().filter(|(ord, one)| self.is_first(**ord, &one.ordering_key));
        next.filter_map(|(_, one)| one.due_at).min()
    }

    fn claim(&mut self, now: Millis, until: Millis, limit: u32) -> Vec<Delivery> {
        let due = self
            .deliveries
            .iter()
            .filter(|(ord, one)| one.due_at.is_some_and(|at| at <= now) && self.is_first(**ord, &one.ordering_key));
        let mut due: Vec<(Option<Millis>, i64)> = due.map(|(ord, one)| (one.due_at, *ord)).collect();
        due.sort_unstable();
        due.truncate(limit as usize);
        let mut claimed = Vec::with_capacity(due.len());
        for (_, ord) in due {
            let Some(one) = self.deliveries.get_mut(&ord) else { continue };
            one.due_at = Some(until);
            one.attempts += 1;
            claimed.push(one.clone());
        }
        claimed
    }

    fn settle(&mut self, id: &DeliveryId, attempt: u32, settled: Settled, said: &str, now: Millis) -> bool {
        let found = self.deliveries.values_mut().find(|one| one.id == *id);
        let Some(one) = found.filter(|one| one.attempts == attempt && one.due_at.is_some()) else { return false };
        (one.status, one.due_at) = settled.becomes();
        one.said = Some(said.to_owned());
        one.finished_at = one.due_at.is_none().then_some(now);
        true
    }

    fn told(&self, tenant: TenantPk, kind: TargetKind, target: &str, ask: &PageAsk) -> Result<Page<Delivery>> {
        let before = Cursor::of(ask)?.map_or(i64::MAX, |cursor| cursor.at);
        let is_theirs = |one: &Delivery| one.tenant == tenant && one.kind == kind && one.target == target;
        let found = self.deliveries.range(..before).rev().filter(|(_, one)| is_theirs(one));
        let found: Vec<(i64, Delivery)> =
            found.take(ask.limit as usize + 1).map(|(ord, one)| (*ord, one.clone())).collect();
        let found = page(found, ask.limit, |(ord, _)| Cursor::new(*ord, ""));
        Ok(Page { items: found.items.into_iter().map(|(_, one)| one).collect(), next_cursor: found.next_cursor })
    }

    fn replay(&mut self, tenant: TenantPk, id: &DeliveryId, now: Millis) -> Option<bool> {
        let one = self.deliveries.values_mut().find(|one| one.tenant == tenant && one.id == *id)?;
        let is_over = one.due_at.is_none();
        if is_over {
            (one.status, one.due_at, one.attempts, one.finished_at) = (DeliveryStatus::Pending, Some(now), 0, None);
        }
        Some(is_over)
    }

    fn abandon(&mut self, tenant: TenantPk, kind: TargetKind, target: &str, why: &str, now: Millis) -> u64 {
        let of_target = |one: &&mut Delivery| (one.tenant, one.kind, one.target.as_str()) == (tenant, kind, target);
        let open = self.deliveries.values_mut().filter(of_target).filter(|one| one.due_at.is_some());
        open.map(|one| {
            (one.status, one.due_at, one.finished_at) = (DeliveryStatus::Dead, None, Some(now));
            one.said = Some(why.to_owned());
        })
        .count() as u64
    }

    fn forget(&mut self, before: Millis, limit: u32) -> u64 {
        let is_old = |one: &Delivery| one.finished_at.is_some_and(|at| at < before);
        let old = self.deliveries.iter().filter(|(_, one)| is_old(one)).map(|(ord, _)| *ord);
        let old: Vec<_> = old.take(limit as usize).collect();
        old.iter().for_each(|ord| _ = self.deliveries.remove(ord));
        old.len() as u64
    }
}
