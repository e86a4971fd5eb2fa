//! Caps on what model calls may cost: of a tenant in a day and in a month, and of each key in a day, all in UTC.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use serde::{Deserialize, Serialize};

use super::Millis;
use super::usage::{Nanos, usd};

/// How much of a cap is told to webhooks, in percent.
pub const THRESHOLDS: [i64; 2] = [80, 100];

/// What may be spent at most; `None`: as much as anybody likes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpendCaps {
    pub tenant_day: Option<Nanos>,
    pub tenant_month: Option<Nanos>,
    pub key_day: Option<Nanos>,
}

/// The id of the one document in which a tenant's caps stand.
pub const CAPS_ID: &str = "caps";

/// No cap is higher: more would not fit into the store's numbers.
pub const MOST_USD: f64 = 1_000_000_000.0;

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
}

/// How much of a cap is used.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpentOfCap {
    pub cap: Capped,
    /// The name of the key, if the cap is a key's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// A day as `2026-11-24` or a month as `2026-11`, in UTC.
    pub period: String,
    pub cap_usd: f64,
    /// Of calls that were answered.
    pub used_usd: f64,
    /// What calls under way may cost at most.
    pub held_usd: f64,
    /// When the period ends: from then on nothing of it is used.
    pub ends_at: Millis,
}

impl Capped {
    pub const ALL: [Capped; 3] = [Capped::TenantDay, Capped::TenantMonth, Capped::KeyDay];

    /// What a row counts, by the form of its period.
    pub fn of_period(period: &str, is_key: bool) -> Self {
        match (period.len(), is_key) {
            (7, _) => Self::TenantMonth,
            (_, true) => Self::KeyDay,
            (_, false) => Self::TenantDay,
        }
    }

    /// As metrics name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TenantDay => "tenant_day",
            Self::TenantMonth => "tenant_month",
            Self::KeyDay => "key_day",
        }
    }

    /// The day or the month of this time, as `2026-11-24` or `2026-11`.
    pub fn period(self, at: Millis) -> String {
        let date = date(at);
        match self {
            Capped::TenantDay | Capped::KeyDay => date.to_string(),
            Capped::TenantMonth => format!("{:04}-{:02}", date.year(), date.month()),
        }
    }

    /// When the period of this time ends.
    pub fn ends_at(self, at: Millis) -> Millis {
        let date = date(at);
        let next = match self {
            Capped::TenantDay | Capped::KeyDay => date.checked_add(1.day()),
            Capped::TenantMonth => date.first_of_month().checked_add(1.month()),
        };
        let midnight = next.and_then(|next| next.to_zoned(TimeZone::UTC));
        midnight.map_or(Millis::MAX, |midnight| midnight.timestamp().as_millisecond())
    }

    /// The cap and until when it holds, in words.
    pub fn words(self, cap: Nanos, at: Millis) -> String {
        let whose = match self {
            Capped::TenantDay => "a day of the tenant",
            Capped::TenantMonth => "a month of the tenant",
            Capped::KeyDay => "a day of the key",
        };
        let ends = Timestamp::from_millisecond(self.ends_at(at)).unwrap_or(Timestamp::MAX);
        format!("the cap of {} US dollars {whose} is reached until {ends}", usd(cap))
    }
}

impl SpendCaps {
    pub fn of(&self, capped: Capped) -> Option<Nanos> {
        match capped {
            Capped::TenantDay => self.tenant_day,
            Capped::TenantMonth => self.tenant_month,
            Capped::KeyDay => self.key_day,
        }
    }

    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

fn date(at: Millis) -> Date {
    Timestamp::from_millisecond(at).unwrap_or_default().to_zoned(TimeZone::UTC).date()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_begin_at_midnight_and_on_the_first() {
        // 2026-12-31T23:59:59.999Z and a millisecond later.
        let (last, first) = (1_798_761_599_999, 1_798_761_600_000);
        assert_eq!(
            (Capped::TenantDay.period(last), Capped::KeyDay.period(first)),
            ("2026-12-31".into(), "2027-01-01".into())
        );
        assert_eq!(
            (Capped::TenantMonth.period(last), Capped::TenantMonth.period(first)),
            ("2026-12".into(), "2027-01".into())
        );
        for capped in Capped::ALL {
            assert_eq!(capped.ends_at(last), first, "{capped:?}");
        }
        assert_eq!(Capped::TenantDay.ends_at(first), first + 86_400_000);
        assert_eq!(Capped::TenantMonth.ends_at(first), first + 31 * 86_400_000);
        let words = Capped::TenantDay.words(5_500_000_000, last);
        assert_eq!(words, "the cap of 5.5 US dollars a day of the tenant is reached until 2027-01-01T00:00:00Z");
    }
}
