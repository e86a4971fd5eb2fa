//! The deletion of old rows of which some have to stay. Those that stay are the oldest ones every time, so one step
//! examines a bounded number of rows, and the next step continues after them.

use super::Result;
use super::columns::Columns;

/// How many rows one step examines at most.
pub(crate) const MAX_EXAMINED: u32 = 2_000;

/// What one step did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgotten<P> {
    /// How many rows it deleted.
    pub deleted: u64,
    /// The position after which the next step continues. `None`: all rows were examined.
    pub next: Option<P>,
}

/// The rows that one step examined, by their positions.
pub(crate) struct Examined<P> {
    pub deletable: Vec<P>,
    pub next: Option<P>,
}

impl<P: Clone> Examined<P> {
    /// Reads rows in their order, [`MAX_EXAMINED`] at most, up to the last of `limit` that may be deleted: those whose
    /// column `may_go` says so.
    pub fn read<R: Columns>(rows: &[R], limit: u64, position: impl Fn(&R) -> Result<P>) -> Result<Self> {
        let mut deletable = Vec::new();
        for row in rows {
            if row.flag("may_go")? {
                deletable.push(position(row)?);
            }
            if deletable.len() as u64 >= limit {
                return Ok(Self { next: deletable.last().cloned(), deletable });
            }
        }
        let is_cut = rows.len() >= MAX_EXAMINED as usize;
        let next = rows.last().filter(|_| is_cut).map(position).transpose()?;
        Ok(Self { deletable, next })
    }
}
