//! Deletes what is kept for a limited time only: responses stored for idempotency keys, lookup keys of runs, finished
//! deliveries, expired sessions, tombstones of documents. Also deletes the rows of deleted threads. It works in small
//! batches with pauses between them, beside the commits and the timers: however many rows there are, no request waits for
//! it.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::Service;
use super::chore_metrics::{count_deleted, set_lag};
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::runtime::clock::MAX_OFF;
use crate::store::{self, LookupPosition, Pace};

/// How long the response stored for an `Idempotency-Key` is kept.
const IDEMPOTENCY_RETENTION: Millis = 24 * 3_600_000;
/// How long a run can be found by a lookup key.
const LOOKUP_RETENTION: Millis = 30 * IDEMPOTENCY_RETENTION;
/// How long the tombstone of a deleted document is kept. A process that was stopped for longer reads all documents again.
const DELETED_DOCUMENT_RETENTION: Millis = 30 * IDEMPOTENCY_RETENTION;
/// How often expired rows are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(3_600);
/// How many rows one statement deletes.
const BATCH: u32 = 500;
/// How often rows of deleted threads are looked for while no thread is deleted: open readers may have prevented the
/// overwriting of some.
const ERASE_INTERVAL: Duration = Duration::from_secs(15);

/// After this time the removal of such rows counts as late.
const MAX_ERASE_LAG: Millis = 10 * 60_000;

/// Bounds of the pause between two rounds of erasure. Within them it is four times as long as the last round took.
const MIN_ERASE_PAUSE: Duration = Duration::from_secs(1);
const MAX_ERASE_PAUSE: Duration = Duration::from_secs(900);

/// Deletes expired rows periodically, until the server drains.
pub(super) async fn run(service: Service) {
    loop {
        for kind in ExpiredKind::ALL {
            if let Err(error) = delete_expired(&service, kind).await {
                tracing::warn!(kind = kind.label(), %error, "expired rows could not be deleted; retrying in an hour");
            }
        }
        sleep(SWEEP_INTERVAL).await;
    }
}

/// Deletes all rows that have expired now, and the rows of deleted threads, as far as no open reader prevents it.
pub async fn sweep(service: &Service) -> store::Result<()> {
    for kind in ExpiredKind::ALL {
        delete_expired(service, kind).await?;
    }
    erase_rows_of_deleted_threads(service, service.now()).await.map(drop)
}

/// Removes the rows of deleted threads periodically, until the server drains.
pub(super) async fn run_erasure(service: Service) {
    let mut behind_since = None;
    loop {
        let begun = Instant::now();
        let since = *behind_since.get_or_insert_with(|| service.now());
        match erase_rows_of_deleted_threads(&service, since).await {
            Ok(true) => behind_since = None,
            Ok(false) => tracing::debug!("readers are in the way of what deleted threads left; it is tried again"),
            Err(error) => tracing::warn!(%error, "what deleted threads left is there a while longer"),
        }
        set_lag("erasure", behind_since.map_or(0, |_| service.now() - since));
        sleep((begun.elapsed() * 4).clamp(MIN_ERASE_PAUSE, MAX_ERASE_PAUSE)).await;
        // The timeout means that no thread was deleted in the meantime.
        let _ = timeout(ERASE_INTERVAL, service.runtime.wait_for_erasure()).await;
    }
}

/// Returns `false` if open readers prevent the overwriting of some rows. `since`: when the oldest of these rows was deleted,
/// at the earliest.
async fn erase_rows_of_deleted_threads(service: &Service, since: Millis) -> store::Result<bool> {
    const ERASURE: (&str, TenantPk) = ("erasure", TenantPk::NONE);
    loop {
        let (pace, chores) = (Pace::begin(), service.store.chores());
        let erased = service.store.erase_rows(BATCH).await?;
        if erased == 0 {
            // Pausing longer would not end the open readers sooner.
            chores.caught_up(ERASURE);
            return service.store.overwrite_erased().await;
        }
        count_deleted("row", erased);
        let overdue = service.now() - since;
        set_lag(ERASURE.0, overdue);
        chores.overdue(ERASURE, overdue, MAX_ERASE_LAG);
        pace.rest(&*service.store).await;
    }
}

/// Deletes batch after batch, until one is not full, or everything was examined.
async fn delete_expired(service: &Service, kind: ExpiredKind) -> store::Result<()> {
    let now = service.now();
    let mut after = LookupPosition::beginning();
    loop {
        let pace = Pace::begin();
        let count = match kind {
            ExpiredKind::Answers => service.store.forget_idempotency(now - IDEMPOTENCY_RETENTION, BATCH).await?,
            ExpiredKind::Lookups => {
                let forgotten = service.store.forget_lookups(now - LOOKUP_RETENTION, &after, BATCH).await?;
                count_deleted(kind.label(), forgotten.deleted);
                let Some(next) = forgotten.next else { return Ok(()) };
                after = next;
                pace.rest(&*service.store).await;
                continue;
            }
            ExpiredKind::Deliveries => {
                service.store.forget_deliveries(now - service.outbox.timing.retention, BATCH).await?
            }
            // They expire by the clocks of the machines, which may be behind this time. Expired ones are refused until then.
            ExpiredKind::Sessions => service.store.forget_sessions(now - MAX_OFF, BATCH).await?,
            ExpiredKind::Documents => service.store.forget_documents(now - DELETED_DOCUMENT_RETENTION, BATCH).await?,
        };
        count_deleted(kind.label(), count);
        if count < u64::from(BATCH) {
            return Ok(());
        }
        pace.rest(&*service.store).await;
    }
}

/// The kinds of rows that expire.
#[derive(Clone, Copy)]
enum ExpiredKind {
    Answers,
    Lookups,
    Deliveries,
    Sessions,
    /// Tombstones of deleted documents.
    Documents,
}

impl ExpiredKind {
    const ALL: [Self; 5] = [Self::Answers, Self::Lookups, Self::Deliveries, Self::Sessions, Self::Documents];

    fn label(self) -> &'static str {
        match self {
            Self::Answers => "answer",
            Self::Lookups => "lookup",
            Self::Deliveries => "delivery",
            Self::Sessions => "session",
            Self::Documents => "document",
        }
    }
}
