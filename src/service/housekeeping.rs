//! What is kept for a while only: answers to requests, keys of runs, deliveries and sessions that are over, what is left of
//! deleted documents; and what deleted threads leave. Forgotten in small batches with rests between them, beside the commits and the timers: however much
//! there is, nobody waits for it.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::Service;
use super::chore_metrics::{deleted, lags};
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::store::{Pace, Result};

/// How long an answer to an `Idempotency-Key` is kept.
const KEPT: Millis = 24 * 3_600_000;
/// How long a run is found by what was sent.
const LOOKUPS_KEPT: Millis = 30 * KEPT;
/// How long it is told that a document was deleted: processes that were stopped for longer read all documents anew.
const DELETED_DOCUMENTS_KEPT: Millis = 30 * KEPT;
/// How often what is old is looked for.
const EVERY: Duration = Duration::from_secs(3_600);
/// How many rows are forgotten at once.
const BATCH: u32 = 500;
/// How often it is looked for what deleted threads left if none is deleted: what readers were in the way of.
const ERASED_EVERY: Duration = Duration::from_secs(15);

/// How long it may be there before its removal counts as late.
const MAY_BE_LEFT: Millis = 10 * 60_000;

/// What lies between two rounds of it, at least and at most: four times as long as the last one took.
const ROUND: Duration = Duration::from_secs(1);
const LONGEST_ROUND: Duration = Duration::from_secs(900);

/// Forgets, and looks again, for as long as it is let.
pub(super) async fn run(service: Service) {
    loop {
        for old in Old::ALL {
            if let Err(error) = forget(&service, old).await {
                tracing::warn!(kind = old.kind(), %error, "expired rows could not be deleted; retrying in an hour");
            }
        }
        sleep(EVERY).await;
    }
}

/// Forgets all that is old now, and removes what deleted threads left, as far as no reader is in the way.
pub async fn sweep(service: &Service) -> Result<()> {
    for old in Old::ALL {
        forget(service, old).await?;
    }
    erase_rest(service, service.now()).await.map(drop)
}

/// Removes what deleted threads left, and looks again, for as long as it is let.
pub(super) async fn erase(service: Service) {
    let mut behind_since = None;
    loop {
        let begun = Instant::now();
        let since = *behind_since.get_or_insert_with(|| service.now());
        match erase_rest(&service, since).await {
            Ok(true) => behind_since = None,
            Ok(false) => tracing::debug!("readers are in the way of what deleted threads left; it is tried again"),
            Err(error) => tracing::warn!(%error, "what deleted threads left is there a while longer"),
        }
        lags("erasure", behind_since.map_or(0, |_| service.now() - since));
        sleep((begun.elapsed() * 4).clamp(ROUND, LONGEST_ROUND)).await;
        // Nobody deleted one for so long.
        let _ = timeout(ERASED_EVERY, service.runtime.wait_for_erasure()).await;
    }
}

/// `false`: readers are in the way of some of it. `since`: so long it has been there.
async fn erase_rest(service: &Service, since: Millis) -> Result<bool> {
    const ERASURE: (&str, TenantPk) = ("erasure", TenantPk::NONE);
    loop {
        let (pace, chores) = (Pace::begin(), service.store.chores());
        let erased = service.store.erase_rows(BATCH).await?;
        if erased == 0 {
            // A reader that is in the way is not gone sooner if others wait longer.
            chores.caught_up(ERASURE);
            return service.store.overwrite_erased().await;
        }
        deleted("row", erased);
        let overdue = service.now() - since;
        lags(ERASURE.0, overdue);
        chores.overdue(ERASURE, overdue, MAY_BE_LEFT);
        pace.rest(&*service.store).await;
    }
}

/// Batch by batch, until one is not full.
async fn forget(service: &Service, old: Old) -> Result<()> {
    let now = service.now();
    loop {
        let pace = Pace::begin();
        let forgotten = match old {
            Old::Answers => service.store.forget_idempotency(now - KEPT, BATCH).await?,
            Old::Lookups => service.store.forget_lookups(now - LOOKUPS_KEPT, BATCH).await?,
            Old::Deliveries => service.store.forget_deliveries(now - service.outbox.timing.retention, BATCH).await?,
            Old::Sessions => service.store.forget_sessions(now, BATCH).await?,
            Old::Documents => service.store.forget_documents(now - DELETED_DOCUMENTS_KEPT, BATCH).await?,
        };
        deleted(old.kind(), forgotten);
        if forgotten < u64::from(BATCH) {
            return Ok(());
        }
        pace.rest(&*service.store).await;
    }
}

/// What is forgotten.
#[derive(Clone, Copy)]
enum Old {
    Answers,
    Lookups,
    Deliveries,
    Sessions,
    /// Those that were deleted.
    Documents,
}

impl Old {
    const ALL: [Self; 5] = [Self::Answers, Self::Lookups, Self::Deliveries, Self::Sessions, Self::Documents];

    fn kind(self) -> &'static str {
        match self {
            Self::Answers => "answer",
            Self::Lookups => "lookup",
            Self::Deliveries => "delivery",
            Self::Sessions => "session",
            Self::Documents => "document",
        }
    }
}
