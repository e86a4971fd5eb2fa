//! What a step changes of what is spent under the caps. It is derived, as effects are: what calls hold is what they had
//! reserved after the step, less what they had before; what is used is what the step's usage rows say. So it is counted
//! once, however a call ends and whoever records it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::shared::Shared;
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::domain::spend::{CAPS_ID, Capped, SpendCaps, THRESHOLDS, TenantCaps};
use crate::domain::usage::{ModelUse, Nanos, nanos};
use crate::domain::webhook::WebhookEvent;
use crate::engine::step::{Row, RowKind};
use crate::engine::{Allowance, Reservation, Room};
use crate::outbox::{SpendThreshold, Webhook};
use crate::store::documents::DocumentKind;
use crate::store::{self, SpendChange, SpendKey, Spent, TellSpent};

/// How soon a call looks again whether others left room for it.
const LOOK_AGAIN: Millis = 1_000;

/// What a step spends.
#[derive(Default)]
pub(super) struct Spending {
    rows: BTreeMap<SpendKey, Change>,
    /// Held before the step and after it.
    kept: Nanos,
    now: Millis,
}

#[derive(Default)]
struct Change {
    capped: Option<Capped>,
    used: Nanos,
    /// Held by calls that begin.
    begun: Nanos,
    /// Held by calls that end.
    ended: Nanos,
    /// Held by this thread's calls before the step.
    own: Nanos,
    cap: Option<Nanos>,
}

impl Spending {
    pub(super) fn of(
        (tenant, caps): (TenantPk, &SpendCaps),
        before: &[Reservation],
        after: &[Reservation],
        rows: &[Row],
        now: Millis,
    ) -> Self {
        let mut spending = Spending { now, ..Self::default() };
        let has = |some: &[Reservation], one: &Reservation| some.iter().any(|other| other.stream == one.stream);
        for reserved in before {
            let goes_on = has(after, reserved);
            if goes_on {
                spending.kept += reserved.cost;
            }
            spending.change((tenant, reserved.key.as_deref(), reserved.at), |_, change| {
                change.own += reserved.cost;
                change.ended += if goes_on { 0 } else { reserved.cost };
            });
        }
        for row in rows.iter().filter(|row| row.kind == RowKind::Usage) {
            let reserved = before.iter().find(|reserved| reserved.stream.as_str() == row.id);
            // Of a call that began when there was no cap, its key is not known here.
            let whose = match reserved {
                Some(reserved) => (tenant, reserved.key.as_deref(), reserved.at),
                None if caps.is_none() => continue,
                None => (tenant, None, now),
            };
            let Ok(took) = serde_json::from_str::<ModelUse>(&row.body) else { continue };
            let cost = took.cost_nanos.unwrap_or(0);
            spending.change(whose, |_, change| change.used += cost);
        }
        for reserved in after.iter().filter(|reserved| !has(before, reserved)) {
            spending.change((tenant, reserved.key.as_deref(), reserved.at), |capped, change| {
                change.begun += reserved.cost;
                change.cap = caps.of(capped);
            });
        }
        spending
    }

    fn change(&mut self, (tenant, key, at): (TenantPk, Option<&str>, Millis), change: impl Fn(Capped, &mut Change)) {
        for capped in Capped::ALL {
            let key = match (capped, key) {
                (Capped::TenantDay | Capped::TenantMonth, _) => "",
                (Capped::KeyDay, Some(key)) if !key.is_empty() => key,
                (Capped::KeyDay, _) => continue,
            };
            let of = SpendKey { tenant, key: key.to_owned(), period: capped.period(at) };
            let row = self.rows.entry(of).or_default();
            row.capped = Some(capped);
            change(capped, row);
        }
    }

    /// What its commit carries.
    pub(super) fn changes(&self) -> Vec<SpendChange> {
        let change = |(of, change): (&SpendKey, &Change)| {
            let &Change { used, begun, ended, cap, .. } = change;
            (used != 0 || begun != ended).then(|| SpendChange { of: of.clone(), used, held: begun - ended, cap })
        };
        self.rows.iter().filter_map(change).collect()
    }
}

impl Shared {
    /// The server's caps, where the tenant has none of its own.
    pub(super) fn caps(&self, tenant: TenantPk) -> SpendCaps {
        let spend = &self.config.limits.spend;
        let own = self.documents.get(tenant, DocumentKind::SpendCaps, CAPS_ID);
        let own: TenantCaps = own.and_then(|document| document.legible().ok()).unwrap_or_default();
        SpendCaps {
            tenant_day: own.tenant_day_usd.or(spend.tenant_day_usd).map(nanos),
            tenant_month: own.tenant_month_usd.or(spend.tenant_month_usd).map(nanos),
            key_day: own.key_day_usd.or(spend.key_day_usd).map(nanos),
        }
    }

    /// What a thread's calls may reserve. `room` is known after the caps had none for what was to be reserved.
    pub(super) fn allowance(&self, caps: &SpendCaps, room: Option<Room>) -> Allowance {
        match room {
            _ if caps.is_none() => Allowance::Uncapped,
            Some(room) => Allowance::Room(room),
            None => Allowance::Reserve,
        }
    }

    /// Tells webhooks how much of each cap is used, if this step used some of it. A process that dies before it leaves that
    /// to the next step.
    pub(super) async fn tell_used(&self, tenant: TenantPk, caps: &SpendCaps, spending: &Spending) {
        let of_caps = |(of, change): (&SpendKey, &Change)| {
            let capped = change.capped.filter(|capped| change.used > 0 && of.period == capped.period(spending.now))?;
            Some((of.clone(), capped, caps.of(capped)?))
        };
        if !self.tells_of_caps(tenant) {
            return;
        }
        let of_caps: Vec<_> = spending.rows.iter().filter_map(of_caps).collect();
        let keys: Vec<SpendKey> = of_caps.iter().map(|(of, ..)| of.clone()).collect();
        match self.store.spent(&keys).await {
            Ok(all) => {
                for (spent, (_, capped, cap)) in all.iter().zip(of_caps) {
                    self.tell_cap(spent, capped, cap, false).await;
                }
            }
            Err(error) => tracing::warn!(%error, "how much of the caps is used was not told; the next call tells it"),
        }
    }

    fn tells_of_caps(&self, tenant: TenantPk) -> bool {
        let wants = |webhook: &Arc<Webhook>| webhook.events.contains(&WebhookEvent::SpendThreshold);
        self.outbox.directory.of(tenant).iter().any(wants)
    }

    /// Tells webhooks of this cap what they were not told yet. `is_reached`: it leaves nothing for another run.
    pub(super) async fn tell_cap(&self, spent: &Spent, capped: Capped, cap: Nanos, is_reached: bool) {
        let is_new = |percent: i64| spent.told < percent && (is_reached || spent.used >= cap / 100 * percent);
        if !THRESHOLDS.into_iter().any(is_new) || !self.tells_of_caps(spent.of.tenant) {
            return;
        }
        let now = self.now();
        let shown = spent.shown(capped, cap, now);
        for percent in THRESHOLDS.into_iter().filter(|percent| is_new(*percent)) {
            let threshold = SpendThreshold { percent, spent: &shown };
            let tenant = spent.of.tenant;
            let deliveries = self.outbox.directory.announce_spending(tenant, &threshold, now, &mut self.mint());
            match self.store.tell_spent(TellSpent { of: spent.of.clone(), percent, now, deliveries }).await {
                Ok(is_told) if is_told => self.outbox.bell.ring(),
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, percent, "that a cap is used was not told; the next call tells it")
                }
            }
        }
    }

    /// What the caps leave to a thread whose step they had no room for.
    pub(super) async fn room_for(&self, spending: &Spending) -> store::Result<Room> {
        let capped = spending.rows.iter().filter(|(_, change)| change.cap.is_some());
        let keys: Vec<SpendKey> = capped.map(|(of, _)| of.clone()).collect();
        let mut room = Room { most: Nanos::MAX, again_at: None, why: String::new() };
        for spent in self.store.spent(&keys).await? {
            let Change { capped: Some(capped), used, ended, own, cap: Some(cap), .. } = &spending.rows[&spent.of]
            else {
                continue;
            };
            let most = spending.kept + cap - (spent.used + spent.held) - used + ended;
            if most < room.most {
                let is_held_by_others = spent.held > *own;
                room = Room {
                    most,
                    again_at: is_held_by_others.then_some(spending.now + LOOK_AGAIN),
                    why: capped.words(*cap, spending.now),
                };
            }
        }
        Ok(room)
    }
}
