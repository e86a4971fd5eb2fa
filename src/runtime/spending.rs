//! The changes of a step to the spending under the caps. They are derived like effects: the change of reservations is what
//! calls have reserved after the step minus what they had before, and the used amounts are those of the step's usage rows.
//! So each amount counts once, however a call ends and whichever process records it.

use std::collections::BTreeMap;

use serde_json::json;

use super::Runtime;
use super::shared::Shared;
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::domain::spend::{Amount, CAPS_ID, Capped, SpendCaps, THRESHOLDS, TenantCaps, Unit, part_of};
use crate::domain::usage::{CapSet, ModelUse};
use crate::domain::webhook::WebhookEvent;
use crate::engine::step::{Row, RowKind};
use crate::engine::{Allowance, CapRoom, Remaining, Reservation};
use crate::outbox::{SpendThreshold, deliveries_to};
use crate::store::documents::DocumentKind;
use crate::store::outbox::{NewDelivery, TargetKind};
use crate::store::spend::{HELD, USED};
use crate::store::{self, NewSpendNotice, SpendChange, SpendKey, SpendNotice, Spent};

/// The delay before a call without room checks again whether others have released some.
const RECHECK_INTERVAL: Millis = 1_000;

/// The changes of a step of one tenant to the spending.
pub(super) struct Spending {
    tenant: TenantPk,
    rows: BTreeMap<SpendKey, RowChange>,
    /// Reserved before the step and after it.
    kept: Amounts,
    now: Millis,
}

/// An amount in each unit.
#[derive(Clone, Copy, Default)]
struct Amounts {
    cost: Amount,
    tokens: Amount,
}

impl Amounts {
    fn held(reserved: &Reservation) -> Self {
        Self { cost: reserved.cost, tokens: reserved.tokens }
    }

    fn used(model_use: &ModelUse) -> Self {
        let tokens = model_use.usage.input_tokens.saturating_add(model_use.usage.output_tokens);
        Self { cost: model_use.cost_nanos.unwrap_or(0), tokens: Amount::try_from(tokens).unwrap_or(Amount::MAX) }
    }

    fn add(&mut self, other: Self) {
        self.cost = self.cost.saturating_add(other.cost);
        self.tokens = self.tokens.saturating_add(other.tokens);
    }

    fn of(self, unit: Unit) -> Amount {
        match unit {
            Unit::Usd => self.cost,
            Unit::Tokens => self.tokens,
        }
    }
}

/// The change to one row of the spending.
struct RowChange {
    capped: Capped,
    used: Amount,
    /// Reserved by calls that begin.
    begun: Amount,
    /// Reserved by calls that end.
    ended: Amount,
    /// Reserved by this thread's calls before the step.
    own: Amount,
    /// The cap that applies to calls that begin.
    cap: Option<Amount>,
    notices: Vec<SpendNotice>,
}

impl RowChange {
    fn of(capped: Capped) -> Self {
        Self { capped, used: 0, begun: 0, ended: 0, own: 0, cap: None, notices: Vec::new() }
    }
}

/// What a thread's model calls have reserved before a step and after it.
#[derive(Clone, Copy)]
pub(super) struct Reservations<'a> {
    pub(super) before: &'a [Reservation],
    pub(super) after: &'a [Reservation],
}

/// Which rows of the tenant and of the server an amount counts in: those of the period of `at`, under these caps.
struct RowScope<'a> {
    /// `None`: it is not known, and the amount counts for no key.
    key: Option<&'a str>,
    at: Millis,
    caps: CapSet,
}

impl<'a> RowScope<'a> {
    fn of(reserved: &'a Reservation) -> Self {
        Self { key: reserved.key.as_deref(), at: reserved.at, caps: reserved.caps }
    }
}

impl Spending {
    /// No changes.
    pub(super) fn none(tenant: TenantPk, now: Millis) -> Self {
        Self { tenant, rows: BTreeMap::new(), kept: Amounts::default(), now }
    }

    /// The changes of a step that writes these usage rows, under the caps of its tenant.
    pub(super) fn of(
        tenant: TenantPk,
        caps: &SpendCaps,
        reserved: Reservations<'_>,
        usage: &[Row],
        now: Millis,
    ) -> Self {
        let mut spending = Self::none(tenant, now);
        spending.count_reserved_before(reserved);
        spending.count_used(caps, reserved.before, usage);
        spending.count_begun(caps, reserved);
        spending
    }

    /// Counts what was reserved before the step, and what of that the step ends.
    fn count_reserved_before(&mut self, Reservations { before, after }: Reservations<'_>) {
        for reserved in before {
            let (continues, held) = (has_stream(after, reserved), Amounts::held(reserved));
            if continues {
                self.kept.add(held);
            }
            self.change(RowScope::of(reserved), |change| {
                let held = held.of(change.capped.unit());
                change.own = change.own.saturating_add(held);
                change.ended = change.ended.saturating_add(if continues { 0 } else { held });
            });
        }
    }

    /// Counts what the usage rows say.
    fn count_used(&mut self, caps: &SpendCaps, before: &[Reservation], usage: &[Row]) {
        for row in usage.iter().filter(|row| row.kind == RowKind::Usage) {
            let reserved = before.iter().find(|reserved| reserved.stream.as_str() == row.id);
            // The key of a call that began without a cap is not known here.
            let scope = match reserved {
                Some(reserved) => RowScope::of(reserved),
                None if caps.is_none() => continue,
                None => RowScope { key: None, at: self.now, caps: caps.set() },
            };
            let Ok(model_use) = serde_json::from_str::<ModelUse>(&row.body) else { continue };
            let used = Amounts::used(&model_use);
            self.change(scope, |change| change.used = change.used.saturating_add(used.of(change.capped.unit())));
        }
    }

    /// Counts what the calls reserve that the step begins.
    fn count_begun(&mut self, caps: &SpendCaps, Reservations { before, after }: Reservations<'_>) {
        for reserved in after.iter().filter(|reserved| !has_stream(before, reserved)) {
            let held = Amounts::held(reserved);
            self.change(RowScope::of(reserved), |change| {
                change.begun = change.begun.saturating_add(held.of(change.capped.unit()));
                change.cap = caps.of(change.capped);
            });
        }
    }

    /// Counts the whole reservation as used, for calls whose result will never be seen.
    pub(super) fn use_reserved(&mut self, reservations: &[&Reservation]) {
        for reserved in reservations {
            let held = Amounts::held(reserved);
            self.change(RowScope::of(reserved), |change| {
                change.used = change.used.saturating_add(held.of(change.capped.unit()));
            });
        }
    }

    fn change(&mut self, RowScope { key, at, caps }: RowScope<'_>, change: impl Fn(&mut RowChange)) {
        for capped in Capped::ALL.into_iter().filter(|capped| capped.is_in(caps)) {
            let Some(key) = SpendKey::of(capped, self.tenant, key, at) else { continue };
            change(self.rows.entry(key).or_insert_with(|| RowChange::of(capped)));
        }
    }

    /// The changes that the commit stores.
    pub(super) fn changes(&self) -> Vec<SpendChange> {
        let change = |(key, change): (&SpendKey, &RowChange)| {
            let &RowChange { used, begun, ended, cap, .. } = change;
            let (key, held, notices) = (key.clone(), begun - ended, change.notices.clone());
            (used != 0 || held != 0).then_some(SpendChange { key, used, held, cap, notices })
        };
        self.rows.iter().filter_map(change).collect()
    }

    /// Whether the commit may notify webhooks of a cap.
    pub(super) fn has_notices(&self) -> bool {
        self.rows.values().any(|change| !change.notices.is_empty())
    }
}

fn has_stream(reservations: &[Reservation], wanted: &Reservation) -> bool {
    reservations.iter().any(|reserved| reserved.stream == wanted.stream)
}

impl Shared {
    /// The tenant's caps; the server's where it has none of its own.
    pub(super) fn caps(&self, tenant: TenantPk) -> SpendCaps {
        let spend = &self.config.limits.spend;
        let own = self.documents.get(tenant, DocumentKind::SpendCaps, CAPS_ID);
        let own: TenantCaps = own.and_then(|document| document.legible().ok()).unwrap_or_default();
        SpendCaps::new(|capped| own.of(capped).or(spend.of(capped)))
    }

    /// What a thread's calls may reserve. `room` is given after a commit failed because the caps had no room.
    pub(super) fn allowance(&self, caps: &SpendCaps, room: Option<CapRoom>) -> Allowance {
        match room {
            _ if caps.is_none() => Allowance::Uncapped,
            Some(room) => Allowance::Room(caps.set(), room),
            None => Allowance::Reserve(caps.set()),
        }
    }

    /// Adds webhook deliveries to the step's commit, for the thresholds of each cap that it uses some of.
    pub(super) fn add_notices(&self, caps: &SpendCaps, spending: &mut Spending) {
        let now = spending.now;
        let mut subscribers = BTreeMap::new();
        for (key, change) in &mut spending.rows {
            let is_current = key.period == change.capped.period(now);
            let Some(cap) = caps.of(change.capped).filter(|_| change.used > 0 && is_current) else { continue };
            let to = subscribers.entry(key.tenant).or_insert_with(|| self.cap_subscribers(key.tenant));
            if to.is_empty() {
                continue;
            }
            let mut shown = json!(key.unspent().shown(change.capped, cap, now));
            let (used, held) = match key.unit {
                Unit::Usd => ("usedUsd", "heldUsd"),
                Unit::Tokens => ("usedTokens", "heldTokens"),
            };
            // Placeholders: the store fills in the values of the row at the commit.
            (shown[used], shown[held]) = (USED.into(), HELD.into());
            change.notices = THRESHOLDS
                .map(|percent| {
                    let threshold = SpendThreshold { percent, spent: &shown };
                    let deliveries = self.cap_deliveries(to, &threshold, now);
                    SpendNotice { percent, cap, from: part_of(cap, percent), deliveries }
                })
                .into();
        }
    }

    fn cap_subscribers(&self, tenant: TenantPk) -> Vec<String> {
        self.outbox.webhooks.subscribers(tenant, WebhookEvent::SpendThreshold)
    }

    fn cap_deliveries(&self, to: &[String], threshold: &SpendThreshold<'_>, now: Millis) -> Vec<NewDelivery> {
        deliveries_to(to, WebhookEvent::SpendThreshold, threshold, now, &mut self.mint())
    }

    /// What the caps leave to a thread, after they had no room for its step.
    pub(super) async fn room_for(&self, spending: &Spending) -> store::Result<CapRoom> {
        let capped = spending.rows.iter().filter(|(_, change)| change.cap.is_some());
        let keys: Vec<SpendKey> = capped.map(|(key, _)| key.clone()).collect();
        let mut room = CapRoom { cost: Remaining::unbounded(), tokens: Remaining::unbounded() };
        for spent in self.store.spent(&keys).await? {
            let RowChange { capped, used, ended, own, cap: Some(cap), .. } = &spending.rows[&spent.key] else {
                continue;
            };
            let left = match capped.unit() {
                Unit::Usd => &mut room.cost,
                Unit::Tokens => &mut room.tokens,
            };
            let free = spending.kept.of(capped.unit()).saturating_add(*cap).saturating_add(*ended);
            let most = free.saturating_sub(spent.used).saturating_sub(spent.held).saturating_sub(*used);
            if most < left.most {
                let is_reserved_by_others = spent.held > *own;
                *left = Remaining {
                    most,
                    again_at: is_reserved_by_others.then_some(spending.now + RECHECK_INTERVAL),
                    why: capped.words(*cap, spending.now),
                };
            }
        }
        Ok(room)
    }
}

impl Runtime {
    /// Notifies webhooks of a cap that leaves nothing for another run, for the thresholds of which they were not notified yet.
    pub(crate) async fn notify_cap_reached(&self, spent: &Spent, capped: Capped, cap: Amount) {
        let shared = &self.0;
        let is_new = |percent: i64| !spent.is_told(percent, cap);
        if !THRESHOLDS.into_iter().any(is_new) {
            return;
        }
        let to = shared.cap_subscribers(spent.key.tenant);
        if to.is_empty() {
            return;
        }
        let now = shared.now();
        let shown = json!(spent.shown(capped, cap, now));
        for percent in THRESHOLDS.into_iter().filter(|percent| is_new(*percent)) {
            let deliveries = shared.cap_deliveries(&to, &SpendThreshold { percent, spent: &shown }, now);
            let notice = NewSpendNotice { key: spent.key.clone(), percent, cap, now, deliveries };
            match shared.store.add_spend_notice(notice).await {
                Ok(true) => shared.outbox.wakeup.notify([TargetKind::Webhook]),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%error, percent, "the spend.threshold webhook was not queued; the next refused run queues it")
                }
            }
        }
    }

    /// Counts the usage of a tenant's model calls outside of runs, and what they spend under the caps of this key.
    pub(crate) async fn count_calls(&self, tenant: TenantPk, key: &str, calls: Vec<ModelUse>) -> store::Result<()> {
        if calls.is_empty() {
            return Ok(());
        }
        let shared = &self.0;
        let (now, caps) = (shared.now(), shared.caps(tenant));
        let mut spending = Spending::none(tenant, now);
        for used in calls.iter().map(Amounts::used) {
            spending.change(RowScope { key: Some(key), at: now, caps: caps.set() }, |change| {
                change.used = change.used.saturating_add(used.of(change.capped.unit()));
            });
        }
        shared.add_notices(&caps, &mut spending);
        shared.store.add_usage(tenant, now, calls.clone(), spending.changes()).await?;
        calls.iter().for_each(|call| shared.models.meters.record_usage(call));
        shared.outbox.wakeup.notify(spending.has_notices().then_some(TargetKind::Webhook));
        Ok(())
    }
}
