//! What was spent under the caps: one row for each tenant and each key, for each day and month, written with the commits
//! that begin and end model calls ([`SpendChange`]).

use async_trait::async_trait;

use super::Result;
use super::columns::Columns;
use crate::domain::ids::TenantPk;
use crate::domain::usage::Nanos;

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
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait SpendStore: Send + Sync + 'static {
    /// How these stand, in their order; one that nothing was written to has nothing.
    async fn spent(&self, of: &[SpendKey]) -> Result<Vec<Spent>>;
}

impl SpendKey {
    /// One that nothing was written to.
    pub(crate) fn unspent(&self) -> Spent {
        Spent { of: self.clone(), used: 0, held: 0 }
    }
}

impl Spent {
    pub(crate) fn read(of: &SpendKey, row: &impl Columns) -> Result<Self> {
        Ok(Self { of: of.clone(), used: row.number("used")?, held: row.number("held")? })
    }
}
