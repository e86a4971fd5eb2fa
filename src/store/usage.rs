//! What is asked of the rows that say what model calls took.

use super::cursor::Cursor;
use super::{PageAsk, Result};
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::domain::usage::{UsageGroup, UsageSum};

/// Which model calls to sum.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageAsk {
    pub tenant: TenantPk,
    pub group: UsageGroup,
    /// Calls answered from then on.
    pub from: Millis,
    /// And before then.
    pub to: Millis,
    /// By key, then sub-key.
    pub page: PageAsk,
}

impl UsageAsk {
    /// The group that the last page ended with.
    pub(crate) fn after(&self) -> Result<(String, String)> {
        let id = Cursor::of(&self.page)?.map(|cursor| cursor.id).unwrap_or_default();
        let (key, sub) = id.split_once('\u{1f}').unwrap_or_default();
        Ok((key.to_owned(), sub.to_owned()))
    }
}

/// Where a page of sums ends. Keys hold no control characters.
pub(crate) fn sum_cursor(sum: &UsageSum) -> Cursor {
    Cursor::new(0, format!("{}\u{1f}{}", sum.key, sum.sub))
}
