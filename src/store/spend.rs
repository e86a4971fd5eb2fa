//! What was spent under the caps: one row for each tenant and each key, for each day and month, written with the commits
//! that begin and end model calls ([`SpendChange`]).

use async_trait::async_trait;

use super::Result;
use super::columns::Columns;
use super::outbox::NewDelivery;
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::domain::spend::{Capped, SpentOfCap};
use crate::domain::usage::{Nanos, usd};

/// What one row counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpendKey {
    pub tenant: TenantPk,
    /// The name of a key; empty: all of the tenant.
    pub key: String,
    /// A day as `2026-11-24` or a month as `2026-11`, in UTC.
    pub period: String,
}

/// What a commit adds to one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpendChange {
    pub of: SpendKey,
    /// Of calls that were answered.
    pub used: Nanos,
    /// Of calls that begin, less what those that end had held.
    pub held: Nanos,
    /// The commit is stored only if the row has no more than this afterwards, used and held together. `None`: it is
    /// stored in any case, as it only settles what has begun.
    pub cap: Option<Nanos>,
}

/// How one row stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spent {
    pub of: SpendKey,
    pub used: Nanos,
    /// What calls under way may take at most.
    pub held: Nanos,
    /// How many percent of the cap were told.
    pub told: i64,
}

/// The first day and the first month that are not past yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastPeriods {
    pub day: String,
    pub month: String,
}

/// That so much of a cap is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TellSpent {
    pub of: SpendKey,
    pub percent: i64,
    pub now: Millis,
    pub deliveries: Vec<NewDelivery>,
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait SpendStore: Send + Sync + 'static {
    /// How these stand, in their order; one that nothing was written to has nothing.
    async fn spent(&self, of: &[SpendKey]) -> Result<Vec<Spent>>;
    /// Leaves what is to be told of a row in the outbox, unless that, or more, was told before. `false`: it was.
    async fn tell_spent(&self, told: TellSpent) -> Result<bool>;
    /// Forgets at most so many rows of periods that were over before this day and this month; returns how many.
    async fn forget_spend(&self, tenant: TenantPk, before: &PastPeriods, limit: u32) -> Result<u64>;
}

impl PastPeriods {
    /// Those that were over at this time.
    pub fn at(time: Millis) -> Self {
        Self { day: Capped::TenantDay.period(time), month: Capped::TenantMonth.period(time) }
    }
}

impl SpendKey {
    /// One that nothing was written to.
    pub(crate) fn unspent(&self) -> Spent {
        Spent { of: self.clone(), used: 0, held: 0, told: 0 }
    }
}

impl Spent {
    /// As it is shown, where this is the cap at this time.
    pub fn shown(&self, capped: Capped, cap: Nanos, now: Millis) -> SpentOfCap {
        SpentOfCap {
            cap: capped,
            key: Some(self.of.key.clone()).filter(|key| !key.is_empty()),
            period: self.of.period.clone(),
            cap_usd: usd(cap),
            used_usd: usd(self.used),
            held_usd: usd(self.held),
            ends_at: capped.ends_at(now),
        }
    }

    pub(crate) fn read(of: &SpendKey, row: &impl Columns) -> Result<Self> {
        Ok(Self { of: of.clone(), used: row.number("used")?, held: row.number("held")?, told: row.number("told")? })
    }
}
