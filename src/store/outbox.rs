//! The outbox as it is stored: one row per message to a webhook or another agent, from the commit that causes it to the
//! last attempt. In the table `deliveries`, `lane` holds the ordering key, and `said` the result of the last attempt in
//! words.

use std::slice;

use async_trait::async_trait;

use super::columns::Columns;
use super::page::{Cursor, Page, PageAsk, page_of};
use super::{AuditRow, ResponseToStore, Result, text};
use crate::domain::Millis;
use crate::domain::ids::{DeliveryId, TenantPk, ThreadPk};

text::words! {
    /// Who receives it.
    TargetKind {
        /// A tenant's or the operator's webhook.
        Webhook = "webhook",
        /// Another agent that subscribed to its task.
        Push = "push",
        /// A remote agent that works for a deleted thread.
        Agent = "agent",
        /// The operator's collector of traces.
        Collector = "collector",
    }
}

impl TargetKind {
    /// Each delivery is sent by itself, as soon as a permit is free.
    pub const SINGLE: &'static [TargetKind] = &[TargetKind::Webhook, TargetKind::Push, TargetKind::Agent];
    /// Deliveries of all threads go to one receiver, and are sent in batches.
    pub const BATCHED: &'static [TargetKind] = &[TargetKind::Collector];

    /// The stored names of these kinds.
    pub(crate) fn names(kinds: &[TargetKind]) -> Vec<&'static str> {
        kinds.iter().map(|kind| kind.as_str()).collect()
    }
}

text::words! {
    DeliveryStatus {
        Pending = "pending",
        Delivered = "delivered",
        /// Given up; it can be replayed.
        Dead = "dead",
    }
}

impl DeliveryStatus {
    /// The stored names of this status, or of all.
    pub(crate) fn wanted(status: Option<Self>) -> Vec<&'static str> {
        status.as_ref().map_or(Self::ALL, slice::from_ref).iter().map(|status| status.as_str()).collect()
    }
}

/// A delivery that a commit adds to the outbox. It is due at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDelivery {
    /// The same in every attempt, so that the receiver can recognise repetitions.
    pub id: DeliveryId,
    pub kind: TargetKind,
    pub target: String,
    /// Deliveries with the same key are made one after another, in the order in which they were written. Those without a key
    /// are independent.
    pub ordering_key: Option<String>,
    pub event: String,
    /// As it is sent.
    pub body: String,
}

/// One entry of the outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub id: DeliveryId,
    pub tenant: TenantPk,
    pub thread: ThreadPk,
    pub kind: TargetKind,
    pub target: String,
    pub ordering_key: Option<String>,
    pub event: String,
    pub body: String,
    pub status: DeliveryStatus,
    /// When it is tried next, or when the claim of its worker ends; `None` when it is finished.
    pub due_at: Option<Millis>,
    pub attempts: u32,
    /// The result of the last attempt, in words.
    pub said: Option<String>,
    pub created_at: Millis,
    pub finished_at: Option<Millis>,
}

/// The maximum number of deliveries that a tenant gets in one claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub tenant: TenantPk,
    pub most: u32,
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    Delivered,
    Later(Millis),
    Dead,
}

/// The outcome of an attempt at a delivery, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    pub id: DeliveryId,
    /// The number of the attempt.
    pub attempt: u32,
    pub settled: DeliveryOutcome,
    pub said: String,
}

/// How many deliveries one step gives up at most.
pub(crate) const ABANDONED_AT_ONCE: u32 = 500;

/// What one step of giving up deliveries did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abandoned {
    pub count: u64,
    /// Where the next step continues. `None`: no others are left.
    pub next: Option<i64>,
}

impl DeliveryOutcome {
    /// Status and next time.
    pub(crate) fn becomes(self) -> (DeliveryStatus, Option<Millis>) {
        match self {
            DeliveryOutcome::Delivered => (DeliveryStatus::Delivered, None),
            DeliveryOutcome::Later(at) => (DeliveryStatus::Pending, Some(at)),
            DeliveryOutcome::Dead => (DeliveryStatus::Dead, None),
        }
    }
}

/// The giving up of all pending deliveries to a target.
#[derive(Clone, Copy, Debug)]
pub struct Abandonment<'a> {
    pub tenant: TenantPk,
    pub kind: TargetKind,
    pub target: &'a str,
    /// The reason, as the deliveries show it.
    pub why: &'a str,
    pub now: Millis,
}

/// What is read of deliveries. A part of [`Reads`](super::Reads).
#[async_trait]
pub trait OutboxReads: Send + Sync + 'static {
    /// Tenants with deliveries of [`TargetKind::SINGLE`] that can be made now. Their backlogs are not read.
    async fn tenants_due(&self, now: Millis) -> Result<Vec<TenantPk>>;
    /// When the next of [`TargetKind::SINGLE`] is due that is the first of its ordering key; `None`: none is left.
    async fn next_single(&self) -> Result<Option<Millis>>;
    /// The same for [`TargetKind::BATCHED`].
    async fn next_batched(&self) -> Result<Option<Millis>>;
    /// A target's deliveries, sent and pending, newest first.
    async fn deliveries(
        &self,
        tenant: TenantPk,
        kind: TargetKind,
        target: &str,
        page: &PageAsk,
    ) -> Result<Page<Delivery>>;
    /// The tenant's deliveries to targets of this kind, or those of this status, newest first.
    async fn deliveries_of_tenant(
        &self,
        tenant: TenantPk,
        kind: TargetKind,
        status: Option<DeliveryStatus>,
        page: &PageAsk,
    ) -> Result<Page<Delivery>>;
}

/// The outbox; a part of every [`Store`](super::Store).
#[async_trait]
pub trait OutboxStore: Send + Sync + 'static {
    /// Claims due deliveries of [`TargetKind::SINGLE`], oldest first, at most each tenant's share, and counts an attempt for
    /// each. Until `until` no other process gets them. Of an ordering key only the first unfinished delivery is claimed.
    /// Deliveries to unknown kinds are left to the newer release that stored them. Those that cannot be read are logged and
    /// end dead.
    async fn claim_deliveries(&self, shares: &[Share], now: Millis, until: Millis) -> Result<Vec<Delivery>>;
    /// The same for [`TargetKind::BATCHED`], whatever tenants they are of.
    async fn claim_batch(&self, now: Millis, until: Millis, limit: u32) -> Result<Vec<Delivery>>;
    /// Records the outcomes of attempts in one transaction. Returns how many were still the caller's: the others were
    /// claimed again, replayed, or deleted. Later deliveries of the same ordering key that are due before its next attempt
    /// are postponed to it. There is one outcome of each delivery; of two of one ordering key either is recorded first.
    async fn settle_deliveries(&self, settlements: Vec<Settlement>, now: Millis) -> Result<usize>;
    /// Makes a finished delivery due again, from its first attempt. `None`: the tenant has no delivery with that id.
    /// `false`: it is not finished, or the key of `response` is taken. `audit` and `response` are stored only with `true`.
    async fn replay_delivery(
        &self,
        tenant: TenantPk,
        id: &DeliveryId,
        now: Millis,
        audit: AuditRow,
        response: ResponseToStore,
    ) -> Result<Option<bool>>;
    /// One step of giving up a target's pending deliveries: the first after `behind`, in the order in which they were
    /// written.
    async fn abandon_deliveries(&self, abandonment: &Abandonment<'_>, behind: i64) -> Result<Abandoned>;
    /// Deletes at most `limit` deliveries that finished before this; returns how many.
    async fn forget_deliveries(&self, before: Millis, limit: u32) -> Result<u64>;
}

/// What a delivery that cannot be read says when it is ended.
pub(crate) const UNREADABLE: &str = "nothing was sent: what is stored of it cannot be read";

impl Delivery {
    /// Reads a claimed row. `Err`: it cannot be read, which is logged; this is its `ord`. The caller ends it: otherwise it
    /// would be claimed again and again, and hold back the later ones of its ordering key.
    pub(crate) fn read_claimed(row: &impl Columns, ord: i64) -> std::result::Result<Self, i64> {
        Self::read(row).map_err(|error| {
            tracing::error!(%error, ord, "a delivery cannot be read and is given up");
            ord
        })
    }

    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self {
            id: row.text("id")?.to_owned().into(),
            tenant: TenantPk(row.number("tenant")?),
            thread: ThreadPk(row.number("pk")?),
            kind: text::word(row.text("target_kind")?)?,
            target: row.name("target")?,
            ordering_key: row.name_or_none("lane")?,
            event: row.text("event")?.to_owned(),
            body: row.text("body")?.to_owned(),
            status: text::word(row.text("status")?)?,
            due_at: row.number_or_none("due_at")?,
            attempts: u32::try_from(row.number("attempts")?).unwrap_or(u32::MAX),
            said: row.name_or_none("said")?,
            created_at: row.number("created_at")?,
            finished_at: row.number_or_none("finished_at")?,
        })
    }
}

/// A page of deliveries, newest first; `ord` is in the order in which they were written.
pub(crate) fn page_of_deliveries(rows: &[impl Columns], ask: &PageAsk) -> Result<Page<Delivery>> {
    page_of(rows, ask, Delivery::read, |row, _| Ok(Cursor::new(row.number("ord")?, "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_claimed_by_one_of_the_two() {
        let is_in = |kinds: &[TargetKind], kind: &TargetKind| usize::from(kinds.contains(kind));
        for kind in TargetKind::ALL {
            assert_eq!(is_in(TargetKind::SINGLE, kind) + is_in(TargetKind::BATCHED, kind), 1, "{kind:?}");
        }
    }
}
