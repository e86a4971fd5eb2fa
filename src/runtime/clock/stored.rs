//! The times of the store: the clock of a shared database, which that of a process follows, and the stored times, behind which
//! it does not begin.

use super::{Clock, MAX_OFF};
use crate::domain::Millis;
use crate::store::{self, Store};

/// A smaller difference is not worth a warning.
const UNNOTICED: Millis = 60_000;

/// Begins the clock at the database's time, and then at the newest stored time if that is later. An earlier process had a
/// clock that was fast, or the clock is slow; what was stored to happen seconds later is due seconds later.
pub(crate) async fn begin_at_stored_times(clock: &dyn Clock, store: &dyn Store) -> store::Result<()> {
    let (followed, whose) = match ahead_of_database(clock, store).await? {
        Some(ahead) => (clock.wall() - ahead, "the database"),
        None => (clock.wall(), "this machine"),
    };
    let Some(mut newest) = store.newest_activity(Millis::MAX).await? else { return Ok(()) };
    if newest > followed + MAX_OFF {
        tracing::warn!(
            ahead_s = (newest - followed) / 1_000,
            "a stored time is more than a day ahead of the clock of {whose}, and is not followed: what was to happen at such \
             times waits until then. If the clock is wrong, set it and start again; otherwise cancel the runs that wait, and \
             write the schedules again"
        );
        let Some(plausible) = store.newest_activity(followed + MAX_OFF).await? else { return Ok(()) };
        newest = plausible;
    }
    if newest > followed + UNNOTICED {
        tracing::warn!(
            ahead_s = (newest - followed) / 1_000,
            "the stored times are ahead of the clock of {whose}: time continues from the newest of them, a tenth slower, until \
             the clock has caught up. Check that clock"
        );
    }
    clock.begin_at(newest);
    Ok(())
}

/// Has the clock follow the database's. Returns how far the system's clock is ahead of that; `None`: the database has no clock
/// of its own, or this one follows none.
async fn ahead_of_database(clock: &dyn Clock, store: &dyn Store) -> store::Result<Option<Millis>> {
    let asked = clock.uptime();
    let time = store.database_time().await?;
    let ahead = time.and_then(|time| clock.follow(time, asked));
    match ahead {
        Some(ahead) if ahead.abs() > MAX_OFF => Err(store::Error::Unusable(format!(
            "the clock of this machine and that of {} differ by more than a day: here it is {}, there {}. Set the one that is \
             wrong, and start again",
            store.describe(),
            shown(clock.wall()),
            shown(clock.wall() - ahead),
        ))),
        Some(_) | None => Ok(ahead),
    }
}

fn shown(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at).map_or_else(|_| at.to_string(), |at| at.to_string())
}
