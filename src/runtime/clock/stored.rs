//! The stored times, behind which the clock of a process does not begin.

use super::Clock;
use crate::domain::Millis;
use crate::store::{self, Store};

/// How far the stored times may be ahead of the system's clock. A clock that was set in a wrong time zone is less than a day
/// ahead. By a time that is further off, everything would look old and be deleted.
const MAX_AHEAD: Millis = 24 * 3_600_000;

/// A smaller difference is not worth a warning.
const UNNOTICED: Millis = 60_000;

/// Begins the clock at the newest stored time if the system's clock is behind it. An earlier process had a clock that was
/// fast, or this one is slow; what was stored to happen seconds later is due seconds later.
pub(crate) async fn begin_at_stored_times(clock: &dyn Clock, store: &dyn Store) -> store::Result<()> {
    let system = clock.wall();
    let Some(mut newest) = store.newest_activity(Millis::MAX).await? else { return Ok(()) };
    if newest > system + MAX_AHEAD {
        tracing::warn!(
            ahead_s = (newest - system) / 1_000,
            "a stored time is more than a day ahead of the system's clock, and is not followed: what was to happen at such \
             times waits until then. If the clock is wrong, set it and start again; otherwise cancel the runs that wait, and \
             write the schedules again"
        );
        let Some(plausible) = store.newest_activity(system + MAX_AHEAD).await? else { return Ok(()) };
        newest = plausible;
    }
    if newest > system + UNNOTICED {
        tracing::warn!(
            ahead_s = (newest - system) / 1_000,
            "the stored times are ahead of the system's clock: time continues from the newest of them, a tenth slower, until \
             the clock has caught up. Check the clock of this machine"
        );
    }
    clock.begin_at(newest);
    Ok(())
}
