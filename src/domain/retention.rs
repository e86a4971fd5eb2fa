//! How long things are kept: of the server, of a tenant, of one thread; and what may not be deleted at all.

use serde::{Deserialize, Serialize};

use crate::domain::Millis;

const DAY: Millis = 86_400_000;

/// How long something is kept. For ever only where somebody wrote so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged, expecting = "expected a number of days, or \"forever\"")]
pub enum Kept {
    /// At least 1.
    Days(u32),
    Forever(Forever),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Forever {
    Forever,
}

impl Kept {
    pub const FOREVER: Self = Self::Forever(Forever::Forever);

    /// Items older than this are deleted; `None`: none are.
    pub fn cut_off(self, now: Millis) -> Option<Millis> {
        match self {
            Self::Days(days) => Some(now - Millis::from(days) * DAY),
            Self::Forever(Forever::Forever) => None,
        }
    }

    pub fn is_valid(self) -> bool {
        self != Self::Days(0)
    }
}

/// How long threads and their logs are kept; what is absent is as it is for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = RetentionTerms)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Terms {
    /// The observations of runs that are over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_days: Option<Kept>,
    /// A thread at rest, from its last activity on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_days: Option<Kept>,
}

impl Terms {
    /// These terms, completed by `others`.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self { log_days: self.log_days.or(others.log_days), thread_days: self.thread_days.or(others.thread_days) }
    }
}

/// Nothing of the thread may be deleted, whoever asks and however old it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    pub reason: String,
    /// The name of the key that set it.
    pub by: String,
    #[schema(value_type = i64)]
    pub at: Millis,
}

/// What holds for one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ThreadTerms {
    pub terms: Terms,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
}
