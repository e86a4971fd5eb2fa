//! Spending under the caps: one row for the server, each tenant and each key, for each day and month. It is written by the
//! commits that begin and end model calls ([`SpendChange`]). In the table `spend`, `told` holds the highest percentage of a
//! cap for which a notice was sent, and `told_of` that cap.

use async_trait::async_trait;

use super::Result;
use super::columns::Columns;
use super::outbox::NewDelivery;
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::domain::spend::{Amount, Capped, Spender, SpentOfCap, Unit};
use crate::domain::usage::usd;

/// The key of a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpendKey {
    /// [`TenantPk::NONE`]: of the whole server.
    pub tenant: TenantPk,
    /// The name of an API key; empty: all of the tenant.
    pub key_name: String,
    /// A day as `2026-11-24` or a month as `2026-11`, in UTC.
    pub period: String,
    pub unit: Unit,
}

/// A change of one row by a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpendChange {
    pub key: SpendKey,
    /// The amount of calls whose reply has come, or has begun to.
    pub used: Amount,
    /// The amount reserved by calls that begin, less the reservations of those that end.
    pub held: Amount,
    /// The commit is stored only if the row's used and held amounts together do not exceed this afterwards. `None`: it is
    /// always stored, because it only settles calls that have begun.
    pub cap: Option<Amount>,
    /// Notices to send with the change, by rising `percent`.
    pub notices: Vec<SpendNotice>,
}

/// A notice that a percentage of a cap is used. The commit that reaches it adds it to the outbox, unless a notice of at
/// least that percentage of this cap was sent before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpendNotice {
    pub percent: i64,
    pub cap: Amount,
    /// The used amount from which the notice is due.
    pub from: Amount,
    /// [`USED`] and [`HELD`] in their bodies are replaced by the amounts of the row. They have no ordering key, and any place
    /// among the other deliveries of their commit.
    pub deliveries: Vec<NewDelivery>,
}

/// Placeholders in a body for the used and held amounts, as JSON texts. No name contains these characters.
pub const USED: &str = "\u{2}";
pub const HELD: &str = "\u{3}";

/// How they are written in JSON.
pub(crate) const USED_JSON: &str = r#""\u0002""#;
pub(crate) const HELD_JSON: &str = r#""\u0003""#;

impl SpendNotice {
    /// The deliveries with the amounts of this row.
    pub(crate) fn filled_in(&self, spent: &Spent) -> impl Iterator<Item = NewDelivery> {
        let unit = spent.key.unit;
        let (used, held) = (unit.shown(spent.used), unit.shown(spent.held));
        self.deliveries.iter().map(move |new| {
            let body = new.body.replace(USED_JSON, &used).replace(HELD_JSON, &held);
            NewDelivery { body, ..new.clone() }
        })
    }
}

/// The state of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spent {
    pub key: SpendKey,
    pub used: Amount,
    /// The maximum that running calls may still use.
    pub held: Amount,
    /// The highest percentage of a cap for which a notice was sent.
    pub told: i64,
    /// The cap of that notice; 0: an earlier release sent it, for the current cap.
    pub told_of: Amount,
}

/// The suffix of the stored period of rows that count tokens.
const OF_TOKENS: &str = " tokens";

/// The stored forms of a period: for dollars and for tokens.
pub(crate) fn stored_periods(period: &str) -> [String; 2] {
    [period.to_owned(), format!("{period}{OF_TOKENS}")]
}

/// Parses a stored period into the period and its unit.
pub(crate) fn read_period(stored: &str) -> (&str, Unit) {
    stored.strip_suffix(OF_TOKENS).map_or((stored, Unit::Usd), |period| (period, Unit::Tokens))
}

/// The first day and the first month that are not over yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastPeriods {
    pub day: String,
    pub month: String,
}

/// A notice that is sent without a change of the row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSpendNotice {
    pub key: SpendKey,
    pub percent: i64,
    pub cap: Amount,
    pub now: Millis,
    pub deliveries: Vec<NewDelivery>,
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait SpendStore: Send + Sync + 'static {
    /// The states of these rows, in order. A row that does not exist has spent nothing.
    async fn spent(&self, keys: &[SpendKey]) -> Result<Vec<Spent>>;
    /// Adds a notice to the outbox, also of a row that does not exist yet. `false`: a notice of at least that percentage of
    /// this cap was sent before, and nothing is stored.
    async fn add_spend_notice(&self, notice: NewSpendNotice) -> Result<bool>;
    /// Deletes at most `limit` rows of periods that ended before this day and this month; returns how many. Some of them may
    /// have spent nothing: a commit that is refused may leave such a row.
    async fn forget_spend(&self, tenant: TenantPk, before: &PastPeriods, limit: u32) -> Result<u64>;
}

impl PastPeriods {
    /// The periods that were over at this time.
    pub fn at(time: Millis) -> Self {
        Self { day: Capped::TenantDay.period(time), month: Capped::TenantMonth.period(time) }
    }
}

impl SpendKey {
    /// The row of this cap at that time, for a request of a tenant's key. `None`: the cap is for keys, and the key is not
    /// known.
    pub fn of(capped: Capped, tenant: TenantPk, key: Option<&str>, at: Millis) -> Option<Self> {
        let (tenant, key) = match capped.spender() {
            Spender::Server => (TenantPk::NONE, ""),
            Spender::Tenant => (tenant, ""),
            Spender::Key => (tenant, key.filter(|key| !key.is_empty())?),
        };
        Some(Self { tenant, key_name: key.to_owned(), period: capped.period(at), unit: capped.unit() })
    }

    /// The period as it is stored, which includes the unit.
    pub(crate) fn stored_period(&self) -> String {
        match self.unit {
            Unit::Usd => self.period.clone(),
            Unit::Tokens => format!("{}{OF_TOKENS}", self.period),
        }
    }

    /// The state of a row that does not exist.
    pub(crate) fn unspent(&self) -> Spent {
        Spent { key: self.clone(), used: 0, held: 0, told: 0, told_of: 0 }
    }
}

impl Spent {
    /// Whether a notice of at least this percentage of this cap was sent. After a change of the cap notices are sent again.
    pub fn is_told(&self, percent: i64, cap: Amount) -> bool {
        self.told >= percent && (self.told_of == 0 || self.told_of == cap)
    }

    /// The representation for clients, given the current cap.
    pub fn shown(&self, capped: Capped, cap: Amount, now: Millis) -> SpentOfCap {
        let in_unit = |amount: Amount, unit: Unit| (capped.unit() == unit).then_some(amount);
        let dollars = |amount: Amount| in_unit(amount, Unit::Usd).map(usd);
        let tokens = |amount: Amount| in_unit(amount, Unit::Tokens);
        SpentOfCap {
            cap: capped,
            key: Some(self.key.key_name.clone()).filter(|key| !key.is_empty()),
            period: self.key.period.clone(),
            cap_usd: dollars(cap),
            used_usd: dollars(self.used),
            held_usd: dollars(self.held),
            cap_tokens: tokens(cap),
            used_tokens: tokens(self.used),
            held_tokens: tokens(self.held),
            ends_at: capped.ends_at(now),
        }
    }

    pub(crate) fn read(key: &SpendKey, row: &impl Columns) -> Result<Self> {
        let [used, held] = [row.number("used")?, row.number("held")?];
        Ok(Self { key: key.clone(), used, held, told: row.number("told")?, told_of: row.number("told_of")? })
    }
}
