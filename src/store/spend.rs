//! What was spent under the caps: one row for the server, each tenant and each key, for each day and month, written with the commits
//! that begin and end model calls ([`SpendChange`]).

use async_trait::async_trait;

use super::Result;
use super::columns::Columns;
use super::outbox::NewDelivery;
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::domain::spend::{Amount, Capped, Spender, SpentOfCap, Unit};
use crate::domain::usage::usd;

/// What one row counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpendKey {
    /// [`TenantPk::NONE`]: of the whole server.
    pub tenant: TenantPk,
    /// The name of a key; empty: all of the tenant.
    pub key: String,
    /// A day as `2026-11-24` or a month as `2026-11`, in UTC.
    pub period: String,
    pub unit: Unit,
}

/// What a commit adds to one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpendChange {
    pub of: SpendKey,
    /// Of calls that were answered, or began to be.
    pub used: Amount,
    /// Of calls that begin, less what those that end had held.
    pub held: Amount,
    /// The commit is stored only if the row has no more than this afterwards, used and held together. `None`: it is
    /// stored in any case, as it only settles what has begun.
    pub cap: Option<Amount>,
    /// What is left in the outbox with it, by rising `percent`.
    pub tells: Vec<SpendTell>,
}

/// That so much of a cap is used: left in the outbox by the commit that makes it so, if nobody was told of as much of
/// this cap before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpendTell {
    pub percent: i64,
    pub cap: Amount,
    /// It is so from this on.
    pub from: Amount,
    /// Where [`USED`] and [`HELD`] stand in their bodies, what the row says then is written.
    pub deliveries: Vec<NewDelivery>,
}

/// What stands in a body, as a JSON text, for what is used and held. No name has such a character.
pub const USED: &str = "\u{2}";
pub const HELD: &str = "\u{3}";

/// How they are written in JSON.
pub(crate) const USED_JSON: &str = r#""\u0002""#;
pub(crate) const HELD_JSON: &str = r#""\u0003""#;

impl SpendTell {
    /// What is left in the outbox by a row that stands so.
    pub(crate) fn filled_in(&self, spent: &Spent) -> impl Iterator<Item = NewDelivery> {
        let unit = spent.of.unit;
        let (used, held) = (unit.shown(spent.used), unit.shown(spent.held));
        self.deliveries.iter().map(move |new| {
            let body = new.body.replace(USED_JSON, &used).replace(HELD_JSON, &held);
            NewDelivery { body, ..new.clone() }
        })
    }
}

/// How one row stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spent {
    pub of: SpendKey,
    pub used: Amount,
    /// What calls under way may take at most.
    pub held: Amount,
    /// How many percent of a cap were told.
    pub told: i64,
    /// Of which cap; 0: an earlier release told them, of the cap that stands.
    pub told_of: Amount,
}

/// What follows the period of a row that counts tokens.
const OF_TOKENS: &str = " tokens";

/// The periods of these as they are stored, and with tokens counted.
pub(crate) fn stored_period(period: &str) -> [String; 2] {
    [period.to_owned(), format!("{period}{OF_TOKENS}")]
}

/// The period that is stored so, and what is counted in it.
pub(crate) fn read_period(stored: &str) -> (&str, Unit) {
    stored.strip_suffix(OF_TOKENS).map_or((stored, Unit::Usd), |period| (period, Unit::Tokens))
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
    pub cap: Amount,
    pub now: Millis,
    pub deliveries: Vec<NewDelivery>,
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait SpendStore: Send + Sync + 'static {
    /// How these stand, in their order; one that nothing was written to has nothing.
    async fn spent(&self, of: &[SpendKey]) -> Result<Vec<Spent>>;
    /// Leaves what is to be told of a row in the outbox, unless that, or more, was told of this cap before. `false`: it was.
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
    /// The row of what this cap is about at that time, for what a tenant's key asked for; `None`: the key is not known, and
    /// the cap is of keys.
    pub fn of(capped: Capped, tenant: TenantPk, key: Option<&str>, at: Millis) -> Option<Self> {
        let (tenant, key) = match capped.spender() {
            Spender::Server => (TenantPk::NONE, ""),
            Spender::Tenant => (tenant, ""),
            Spender::Key => (tenant, key.filter(|key| !key.is_empty())?),
        };
        Some(Self { tenant, key: key.to_owned(), period: capped.period(at), unit: capped.unit() })
    }

    /// The period as it is stored: it says, too, what is counted.
    pub(crate) fn row(&self) -> String {
        match self.unit {
            Unit::Usd => self.period.clone(),
            Unit::Tokens => format!("{}{OF_TOKENS}", self.period),
        }
    }

    /// One that nothing was written to.
    pub(crate) fn unspent(&self) -> Spent {
        Spent { of: self.clone(), used: 0, held: 0, told: 0, told_of: 0 }
    }
}

impl Spent {
    /// Whether so much of this cap, or more, was told. A cap that changed is told of anew.
    pub fn is_told(&self, percent: i64, cap: Amount) -> bool {
        self.told >= percent && (self.told_of == 0 || self.told_of == cap)
    }

    /// As it is shown, where this is the cap at this time.
    pub fn shown(&self, capped: Capped, cap: Amount, now: Millis) -> SpentOfCap {
        let in_unit = |amount: Amount, unit: Unit| (capped.unit() == unit).then_some(amount);
        let dollars = |amount: Amount| in_unit(amount, Unit::Usd).map(usd);
        let tokens = |amount: Amount| in_unit(amount, Unit::Tokens);
        SpentOfCap {
            cap: capped,
            key: Some(self.of.key.clone()).filter(|key| !key.is_empty()),
            period: self.of.period.clone(),
            cap_usd: dollars(cap),
            used_usd: dollars(self.used),
            held_usd: dollars(self.held),
            cap_tokens: tokens(cap),
            used_tokens: tokens(self.used),
            held_tokens: tokens(self.held),
            ends_at: capped.ends_at(now),
        }
    }

    pub(crate) fn read(of: &SpendKey, row: &impl Columns) -> Result<Self> {
        let [used, held] = [row.number("used")?, row.number("held")?];
        Ok(Self { of: of.clone(), used, held, told: row.number("told")?, told_of: row.number("told_of")? })
    }
}
