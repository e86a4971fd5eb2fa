//! A run that may not begin yet because its tenant has as many active runs as allowed. It is the first of the thread's
//! queue, and no run is active. A row of the kind `WaitsToBegin` tells the server, which wakes the thread when the run
//! may begin.

use crate::domain::fault::{Code, Fault};
use crate::domain::run::QueuedReason;
use crate::pes::run::finish;
use crate::pes::state::rows;
use crate::pes::tx::Tx;
use crate::world::RunAdmission;

const RETRY_AFTER_MS: i64 = 1_000;

/// Refuses a run that may neither begin nor wait.
pub(crate) fn check(tx: &Tx<'_>) -> Result<(), Fault> {
    let is_at_rest = tx.state.run.is_none() && tx.state.head.queue.is_empty();
    match tx.world.admission {
        RunAdmission::Refused { most } if is_at_rest => {
            let why = format!("At most {most} threads of this tenant may wait for its other runs; try again later.");
            Err(Fault::new(Code::QueueFull, why).retry_after(RETRY_AFTER_MS))
        }
        RunAdmission::Now | RunAdmission::Later | RunAdmission::Refused { .. } => Ok(()),
    }
}

/// Begins the run that waits for admission, if it may.
pub(crate) fn begin_next(tx: &mut Tx<'_>) {
    if tx.state.waits_to_begin() {
        finish::start_next(tx);
    }
}

/// Writes whether the thread's next run waits, and why its runs are queued, if that has changed.
pub(crate) fn write_changes(tx: &mut Tx<'_>, waited: bool) {
    let waits = tx.state.waits_to_begin();
    if waits != waited {
        tx.written.put(rows::waits_to_begin(waits.then_some(tx.stamp.now)));
    }
    let reason = waits.then_some(QueuedReason::TenantBusy);
    let mut changed = Vec::new();
    for (ord, run) in tx.state.queued.values_mut().filter(|(_, run)| run.reason != reason) {
        run.reason = reason;
        changed.push((*ord, run.clone()));
    }
    for (ord, run) in changed {
        tx.write_run(ord, &run);
    }
}
