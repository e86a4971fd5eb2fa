//! Where a chain begins whose first lines were forgotten because of their age: the checkpoint up to which they were stands
//! for them, and a line says so.

use std::collections::VecDeque;

use super::{Checked, Kept};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::store::chain::FORGOTTEN;
use crate::store::{AuditRow, Checkpoint, Result, Store};

/// The checkpoint before the first line that is there; `None`: nothing was forgotten, or taken away up to no checkpoint.
pub(super) async fn find(store: &dyn Store, tenant: TenantPk) -> Result<Option<Checkpoint>> {
    let Some(first) = store.chained_lines(tenant, 0, 1).await?.pop() else { return Ok(None) };
    let before = store.checkpoints(tenant, first.n - 2, 1).await?.pop();
    Ok(before.filter(|before| before.n > 0 && before.n == first.n - 1))
}

/// Neither it nor what others kept of the lines before it is so young that they had to stay.
pub(super) fn check_age(base: &Checkpoint, kept: &VecDeque<&Kept>, oldest: Option<Millis>) -> Checked {
    let Some(oldest) = oldest else { return Ok(()) };
    let is_young = |kept: &&Kept| kept.n <= base.n && kept.payload["at"].as_i64().is_some_and(|at| at >= oldest);
    if base.at < oldest && !kept.iter().any(is_young) {
        return Ok(());
    }
    Err(format!(
        "lines 1 to {} were taken away before they were as old as `retention.audit_days` says, or that was less then",
        base.n
    ))
}

/// Up to which line others were forgotten, if it says that they were; else 0.
pub(super) fn told(line: &AuditRow) -> i64 {
    let is_told = line.action == FORGOTTEN && line.thread == ThreadPk::NONE;
    line.detail["upto"].as_i64().filter(|_| is_told).unwrap_or(0)
}
