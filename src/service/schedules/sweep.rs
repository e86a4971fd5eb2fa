//! The background task that fires due schedules. Every process runs it; the store decides which one is first.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tokio::time::timeout;

use super::{fire, pause, plan};
use crate::domain::Millis;
use crate::domain::schedule::{StoredSchedule, Timing};
use crate::service::Service;
use crate::store::documents::DocumentKind;
use crate::store::{self, DueSchedule, Figures, ScheduleState};

/// How many due schedules are read at once, and how many are fired concurrently.
const BATCH: u32 = 200;
const CONCURRENCY: usize = 8;
/// The longest time between two polls of the store, which finds what other processes have written.
const POLL_INTERVAL: Millis = 1_000;

/// Fires due schedules, until the server drains.
pub(in crate::service) async fn run(service: Service) {
    let mut changes = service.documents.changes();
    loop {
        changes.mark_unchanged();
        if service.documents.all(DocumentKind::Schedule).is_empty() {
            // An error would mean that the cache is gone, and it outlives the service.
            let _ = changes.changed().await;
            continue;
        }
        let wait = match fire_and_wait_time(&service).await {
            Ok(wait) => wait,
            Err(error) => {
                tracing::warn!(%error, "schedules that are due wait a moment longer");
                POLL_INTERVAL
            }
        };
        // Both a change and the timeout mean that it is time for the next poll.
        let _ = timeout(Duration::from_millis(wait.unsigned_abs()), changes.changed()).await;
    }
}

/// Fires what is due. Returns how long to wait before the next poll.
async fn fire_and_wait_time(service: &Service) -> store::Result<Millis> {
    if !service.runtime.holds_lease() {
        return Ok(POLL_INTERVAL);
    }
    fire_due(service).await?;
    let next = service.store.next_schedule().await?.unwrap_or(Millis::MAX);
    // A due schedule that could not be fired is tried again at the next poll, not at once.
    let due_in = next.saturating_sub(service.now());
    Ok(if due_in <= 0 { POLL_INTERVAL } else { due_in.min(POLL_INTERVAL) })
}

/// Fires what is due now: one time of each schedule per round, until no schedule changes.
pub async fn fire_due(service: &Service) -> store::Result<()> {
    let _guard = service.schedules.sweep_lock.lock().await;
    plan::all(service).await;
    pause::all_of_ended_keys(service).await?;
    loop {
        let due = service.store.due_schedules(service.now(), BATCH).await?;
        let fired = futures_util::stream::iter(due).map(|state| fire_one(service, state)).buffer_unordered(CONCURRENCY);
        let is_any_moved = fired.fold(false, async |is_any, moved| is_any || moved).await;
        if !is_any_moved {
            return Ok(());
        }
    }
}

/// Fires one schedule. Returns whether its state has changed. If a tool source or a model of the embedding program panics,
/// only this schedule waits.
async fn fire_one(service: &Service, state: ScheduleState) -> bool {
    let id = state.id.clone();
    match AssertUnwindSafe(fire::due(service, state)).catch_unwind().await {
        Ok(Ok(moved)) => moved,
        Ok(Err(error)) => {
            tracing::warn!(schedule = id, %error, "a schedule that is due waits a moment longer");
            false
        }
        Err(_) => {
            tracing::error!(schedule = id, "firing a schedule panicked; it stays due and is tried again");
            false
        }
    }
}

/// How late the schedule is that is due the longest: since when the run of its next time could have begun. A time that is
/// postponed is as late as one that nobody handles.
pub fn lag(service: &Service, figures: &Figures) -> Millis {
    let late = |schedule: &DueSchedule| {
        let document = service.documents.get(schedule.tenant, DocumentKind::Schedule, &schedule.id)?;
        let stored = document.legible::<StoredSchedule>().ok();
        let timing = stored.and_then(|stored| Timing::of(&stored.spec).ok());
        // The jitter of a schedule that cannot be read is not known.
        let starts_at = timing.map_or(schedule.due, |timing| timing.starts_at(&schedule.id, schedule.due));
        Some(service.now() - starts_at)
    };
    figures.schedules.iter().filter_map(late).fold(0, Millis::max)
}
