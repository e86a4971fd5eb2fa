//! What is asked of the rows that say where runs stand.

use super::cursor::Cursor;
use super::{PageAsk, Result};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::domain::run::CallerStatus;

/// Which runs to list.
#[derive(Clone, Debug)]
pub struct StandingAsk {
    pub tenant: TenantPk,
    pub thread: Option<ThreadPk>,
    /// Empty = all.
    pub standings: Vec<CallerStatus>,
    /// Only those that changed then or later.
    pub since: Option<Millis>,
    pub page: PageAsk,
}

impl StandingAsk {
    /// The texts of the rows that are wanted.
    pub(crate) fn bodies(&self) -> Vec<String> {
        let text = |standing: &CallerStatus| serde_json::to_string(standing).expect("a word is JSON");
        self.standings.iter().map(text).collect()
    }

    /// Where the page begins: before everything, or behind the last one.
    pub(crate) fn before(&self) -> Result<Cursor> {
        let top = || Cursor::new(Millis::MAX, "");
        Ok(Cursor::of(&self.page)?.unwrap_or_else(top))
    }
}
