//! Caps on the cost of model calls, in US dollars and in tokens: for the whole server, a tenant and each key, per day
//! and per month in UTC.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use serde::{Deserialize, Serialize};

use super::Millis;
use super::usage::{CapSet, nanos, usd};

/// At which percentages of a cap webhooks are notified.
pub const THRESHOLDS: [i64; 2] = [80, 100];

/// The unit of amounts: billionths of a US dollar, or tokens.
pub type Amount = i64;

/// The caps, in the order of [`Capped::ALL`]; `None`: no cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpendCaps([Option<Amount>; Capped::ALL.len()]);

/// The id of the only document with a tenant's caps.
pub const CAPS_ID: &str = "caps";

/// The highest cap: the store's numbers could not hold more.
pub const MAX_USD: f64 = 1_000_000_000.0;
pub const MAX_TOKENS: i64 = 1_000_000_000_000_000;

/// What a tenant may spend; what is absent is as in the server's settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TenantCaps {
    /// In a day, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_day_usd: Option<f64>,
    /// In a month.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_month_usd: Option<f64>,
    /// With each of its keys in a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_day_usd: Option<f64>,
    /// With each of its keys in a month.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_month_usd: Option<f64>,
    /// The same in tokens, of prompts and replies together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_day_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_month_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_day_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_month_tokens: Option<i64>,
}

/// What each cap is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SpendCap)]
pub enum Capped {
    TenantDay,
    TenantMonth,
    /// Of the caller's key.
    KeyDay,
    KeyMonth,
    TenantDayTokens,
    TenantMonthTokens,
    KeyDayTokens,
    KeyMonthTokens,
    /// Of all tenants together.
    ServerDay,
    ServerMonth,
    ServerDayTokens,
    ServerMonthTokens,
}

/// Whose calls a cap bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spender {
    Server,
    Tenant,
    Key,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Every {
    Day,
    Month,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unit {
    /// Billionths of a US dollar.
    Usd,
    Tokens,
}

/// How much of a cap is used: in US dollars or in tokens.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpentOfCap {
    pub cap: Capped,
    /// The name of the key, if the cap is a key's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// A day as `2026-11-24` or a month as `2026-11`, in UTC.
    pub period: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap_usd: Option<f64>,
    /// Of calls that were answered, or began to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_usd: Option<f64>,
    /// What calls under way may cost at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_usd: Option<f64>,
    /// The same of a cap in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_tokens: Option<i64>,
    /// When the period ends: from then on nothing of it is used.
    pub ends_at: Millis,
}

impl Unit {
    /// An amount as it is displayed.
    pub fn shown(self, amount: Amount) -> String {
        match self {
            Unit::Usd => usd(amount).to_string(),
            Unit::Tokens => amount.to_string(),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Unit::Usd => "US dollars",
            Unit::Tokens => "tokens",
        }
    }
}

impl Capped {
    /// Their positions in a [`CapSet`] are stored: add new ones at the end.
    pub const ALL: [Capped; 12] = [
        Capped::TenantDay,
        Capped::TenantMonth,
        Capped::KeyDay,
        Capped::KeyMonth,
        Capped::TenantDayTokens,
        Capped::TenantMonthTokens,
        Capped::KeyDayTokens,
        Capped::KeyMonthTokens,
        Capped::ServerDay,
        Capped::ServerMonth,
        Capped::ServerDayTokens,
        Capped::ServerMonthTokens,
    ];

    fn facts(self) -> (Spender, Every, Unit) {
        match self {
            Self::TenantDay => (Spender::Tenant, Every::Day, Unit::Usd),
            Self::TenantMonth => (Spender::Tenant, Every::Month, Unit::Usd),
            Self::KeyDay => (Spender::Key, Every::Day, Unit::Usd),
            Self::KeyMonth => (Spender::Key, Every::Month, Unit::Usd),
            Self::TenantDayTokens => (Spender::Tenant, Every::Day, Unit::Tokens),
            Self::TenantMonthTokens => (Spender::Tenant, Every::Month, Unit::Tokens),
            Self::KeyDayTokens => (Spender::Key, Every::Day, Unit::Tokens),
            Self::KeyMonthTokens => (Spender::Key, Every::Month, Unit::Tokens),
            Self::ServerDay => (Spender::Server, Every::Day, Unit::Usd),
            Self::ServerMonth => (Spender::Server, Every::Month, Unit::Usd),
            Self::ServerDayTokens => (Spender::Server, Every::Day, Unit::Tokens),
            Self::ServerMonthTokens => (Spender::Server, Every::Month, Unit::Tokens),
        }
    }

    /// The cap that a row counts, by the form of its period.
    pub fn of_period(period: &str, unit: Unit, spender: Spender) -> Option<Self> {
        let every = if period.len() == "2026-11".len() { Every::Month } else { Every::Day };
        Self::ALL.into_iter().find(|capped| capped.facts() == (spender, every, unit))
    }

    /// The name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TenantDay => "tenant_day",
            Self::TenantMonth => "tenant_month",
            Self::KeyDay => "key_day",
            Self::KeyMonth => "key_month",
            Self::TenantDayTokens => "tenant_day_tokens",
            Self::TenantMonthTokens => "tenant_month_tokens",
            Self::KeyDayTokens => "key_day_tokens",
            Self::KeyMonthTokens => "key_month_tokens",
            Self::ServerDay => "server_day",
            Self::ServerMonth => "server_month",
            Self::ServerDayTokens => "server_day_tokens",
            Self::ServerMonthTokens => "server_month_tokens",
        }
    }

    pub fn unit(self) -> Unit {
        self.facts().2
    }

    pub fn spender(self) -> Spender {
        self.facts().0
    }

    fn is_monthly(self) -> bool {
        self.facts().1 == Every::Month
    }

    /// Its bit in a [`CapSet`].
    fn bit(self) -> u16 {
        1 << self as u16
    }

    /// Whether it is in the set.
    pub fn is_in(self, set: CapSet) -> bool {
        set.0 & self.bit() != 0
    }

    /// The day or the month of this time, as `2026-11-24` or `2026-11`.
    pub fn period(self, at: Millis) -> String {
        let date = date(at);
        if self.is_monthly() { format!("{:04}-{:02}", date.year(), date.month()) } else { date.to_string() }
    }

    /// When the period of this time ends.
    pub fn ends_at(self, at: Millis) -> Millis {
        let date = date(at);
        let next =
            if self.is_monthly() { date.first_of_month().checked_add(1.month()) } else { date.checked_add(1.day()) };
        let midnight = next.and_then(|next| next.to_zoned(TimeZone::UTC));
        midnight.map_or(Millis::MAX, |midnight| midnight.timestamp().as_millisecond())
    }

    /// That the cap is reached, and until when.
    pub fn words(self, cap: Amount, at: Millis) -> String {
        let ends = Timestamp::from_millisecond(self.ends_at(at)).unwrap_or(Timestamp::MAX);
        format!("{} is reached until {ends}", self.named(cap))
    }

    /// That the cap is less than what a call may use at least: no period has room for it.
    pub fn words_of_too_little(self, cap: Amount, least: Amount) -> String {
        let unit = self.unit();
        format!(
            "{} is less than the first model call needs, which is {} {}; raise it",
            self.named(cap),
            unit.shown(least),
            unit.words()
        )
    }

    /// The cap as text.
    fn named(self, cap: Amount) -> String {
        let period = if self.is_monthly() { "month" } else { "day" };
        let whose = match self.spender() {
            Spender::Server => "server",
            Spender::Tenant => "tenant",
            Spender::Key => "key",
        };
        let unit = self.unit();
        format!("the cap of {} {} a {period} of the {whose}", unit.shown(cap), unit.words())
    }
}

/// The amount at which this percentage of a cap is used.
pub fn part_of(cap: Amount, percent: i64) -> Amount {
    let part = (i128::from(cap) * i128::from(percent) + 99) / 100;
    Amount::try_from(part).unwrap_or(Amount::MAX)
}

impl SpendCaps {
    pub fn new(cap: impl FnMut(Capped) -> Option<Amount>) -> Self {
        Self(Capped::ALL.map(cap))
    }

    pub fn of(&self, capped: Capped) -> Option<Amount> {
        self.0[capped as usize]
    }

    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether any cap is in US dollars.
    pub fn has_money(&self) -> bool {
        Capped::ALL.into_iter().any(|capped| capped.unit() == Unit::Usd && self.of(capped).is_some())
    }

    /// The caps that are set.
    pub fn set(&self) -> CapSet {
        let those = Capped::ALL.into_iter().filter(|capped| self.of(*capped).is_some());
        CapSet(those.map(Capped::bit).sum())
    }
}

impl TenantCaps {
    /// The value of this cap.
    pub fn of(&self, capped: Capped) -> Option<Amount> {
        match capped {
            Capped::TenantDay => self.tenant_day_usd.map(nanos),
            Capped::TenantMonth => self.tenant_month_usd.map(nanos),
            Capped::KeyDay => self.key_day_usd.map(nanos),
            Capped::KeyMonth => self.key_month_usd.map(nanos),
            Capped::TenantDayTokens => self.tenant_day_tokens,
            Capped::TenantMonthTokens => self.tenant_month_tokens,
            Capped::KeyDayTokens => self.key_day_tokens,
            Capped::KeyMonthTokens => self.key_month_tokens,
            Capped::ServerDay | Capped::ServerMonth | Capped::ServerDayTokens | Capped::ServerMonthTokens => None,
        }
    }

    /// The name of the first invalid cap, and what it must be.
    pub fn unsound(&self) -> Option<(&'static str, String)> {
        let usd = [
            ("tenantDayUsd", self.tenant_day_usd),
            ("tenantMonthUsd", self.tenant_month_usd),
            ("keyDayUsd", self.key_day_usd),
            ("keyMonthUsd", self.key_month_usd),
        ];
        let tokens = [
            ("tenantDayTokens", self.tenant_day_tokens),
            ("tenantMonthTokens", self.tenant_month_tokens),
            ("keyDayTokens", self.key_day_tokens),
            ("keyMonthTokens", self.key_month_tokens),
        ];
        unsound(&usd, &tokens)
    }
}

/// The name of the first invalid cap among these, and what it must be.
pub fn unsound(
    usd: &[(&'static str, Option<f64>)],
    tokens: &[(&'static str, Option<i64>)],
) -> Option<(&'static str, String)> {
    let is_sound = |cap: f64| cap > 0.0 && cap <= MAX_USD;
    let usd = usd.iter().find(|(_, cap)| cap.is_some_and(|cap| !is_sound(cap)));
    let tokens = tokens.iter().find(|(_, cap)| cap.is_some_and(|cap| !(1..=MAX_TOKENS).contains(&cap)));
    usd.map(|(name, _)| (*name, format!("must be more than 0, and {MAX_USD} at most")))
        .or_else(|| tokens.map(|(name, _)| (*name, format!("must be from 1 to {MAX_TOKENS}"))))
}

impl From<SpendCaps> for TenantCaps {
    fn from(caps: SpendCaps) -> Self {
        let dollars = |capped| caps.of(capped).map(usd);
        Self {
            tenant_day_usd: dollars(Capped::TenantDay),
            tenant_month_usd: dollars(Capped::TenantMonth),
            key_day_usd: dollars(Capped::KeyDay),
            key_month_usd: dollars(Capped::KeyMonth),
            tenant_day_tokens: caps.of(Capped::TenantDayTokens),
            tenant_month_tokens: caps.of(Capped::TenantMonthTokens),
            key_day_tokens: caps.of(Capped::KeyDayTokens),
            key_month_tokens: caps.of(Capped::KeyMonthTokens),
        }
    }
}

fn date(at: Millis) -> Date {
    Timestamp::from_millisecond(at).unwrap_or_default().to_zoned(TimeZone::UTC).date()
}

#[cfg(test)]
mod tests;
