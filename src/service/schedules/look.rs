//! Looking for schedules that are due, as long as the process runs. Every process does: the store says who is first.

use std::time::Duration;

use futures_util::StreamExt;
use metrics::gauge;
use tokio::time::timeout;

use super::{fire, pause, plan};
use crate::domain::Millis;
use crate::service::Service;
use crate::store::documents::DocumentKind;
use crate::store::{Result, ScheduleState};

/// How many are read, and fired side by side.
const BATCH: u32 = 200;
const AT_ONCE: usize = 8;
/// What others may have written is looked for so often.
const LONGEST_REST: Millis = 1_000;

/// Looks, and looks again, for as long as it is let.
pub(in crate::service) async fn run(service: Service) {
    let mut changes = service.documents.changes();
    loop {
        changes.mark_unchanged();
        if service.documents.all(DocumentKind::Schedule).is_empty() {
            gauge!("pes_schedule_lag_seconds").set(0.0);
            // The cache outlives the service that reads it.
            let _ = changes.changed().await;
            continue;
        }
        let rest = match rest(&service).await {
            Ok(rest) => rest,
            Err(error) => {
                tracing::warn!(%error, "schedules that are due wait a moment longer");
                LONGEST_REST
            }
        };
        // Something was written, or it is time: both mean look.
        let _ = timeout(Duration::from_millis(rest.unsigned_abs()), changes.changed()).await;
    }
}

/// Fires what is due; how long until something will be, at most.
async fn rest(service: &Service) -> Result<Millis> {
    if !service.runtime.holds_lease() {
        return Ok(LONGEST_REST);
    }
    look(service).await?;
    let next = service.store.next_schedule().await?.unwrap_or(Millis::MAX);
    // What is due and could not be fired is tried again, not at once.
    let due_in = next.saturating_sub(service.now());
    Ok(if due_in <= 0 { LONGEST_REST } else { due_in.min(LONGEST_REST) })
}

/// Fires what is due now: one time of each schedule after the other, until nothing more can be.
pub async fn look(service: &Service) -> Result<()> {
    let _looking = service.schedules.looking.lock().await;
    plan::all(service).await;
    pause::all_of_ended_keys(service).await?;
    loop {
        let now = service.now();
        let due = service.store.due_schedules(now, BATCH).await?;
        let late = due.iter().filter_map(|state| state.next).map(|next| now - next.look_at).max();
        gauge!("pes_schedule_lag_seconds").set(late.unwrap_or(0) as f64 / 1_000.0);
        let fired = futures_util::stream::iter(due).map(|state| one(service, state)).buffer_unordered(AT_ONCE);
        let is_any_moved = fired.fold(false, async |is_any, moved| is_any || moved).await;
        if !is_any_moved {
            return Ok(());
        }
    }
}

/// Whether it stands otherwise now.
async fn one(service: &Service, state: ScheduleState) -> bool {
    let id = state.id.clone();
    match fire::due(service, state).await {
        Ok(moved) => moved,
        Err(error) => {
            tracing::warn!(schedule = id, %error, "a schedule that is due waits a moment longer");
            false
        }
    }
}
