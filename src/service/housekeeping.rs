//! What is kept for a while only: answers to requests, keys of runs, deliveries and sessions that are over. Forgotten in small batches with
//! pauses between them, beside the commits and the timers: however much there is, nobody waits for it.

use std::time::Duration;

use tokio::time::sleep;

use super::Service;
use crate::domain::Millis;
use crate::store::Result;

/// How long an answer to an `Idempotency-Key` is kept.
const KEPT: Millis = 24 * 3_600_000;
/// How long a run is found by what was sent.
const LOOKUPS_KEPT: Millis = 30 * KEPT;
/// How often what is old is looked for.
const EVERY: Duration = Duration::from_secs(3_600);
/// How many rows are forgotten at once, and the pause after that.
const BATCH: u32 = 500;
const PAUSE: Duration = Duration::from_millis(20);

/// Forgets, and looks again, for as long as it is let.
pub(super) async fn run(service: Service) {
    loop {
        for old in [Old::Answers, Old::Lookups, Old::Deliveries, Old::Sessions] {
            if let Err(error) = forget(&service, old).await {
                tracing::warn!(%error, "what is old is kept a while longer");
            }
        }
        sleep(EVERY).await;
    }
}

/// Batch by batch, until one is not full.
async fn forget(service: &Service, old: Old) -> Result<()> {
    let now = service.now();
    loop {
        let forgotten = match old {
            Old::Answers => service.store.forget_idempotency(now - KEPT, BATCH).await?,
            Old::Lookups => service.store.forget_lookups(now - LOOKUPS_KEPT, BATCH).await?,
            Old::Deliveries => service.store.forget_deliveries(now - service.outbox.pace.kept, BATCH).await?,
            Old::Sessions => service.store.forget_sessions(now, BATCH).await?,
        };
        if forgotten < u64::from(BATCH) {
            return Ok(());
        }
        sleep(PAUSE).await;
    }
}

/// What is forgotten.
#[derive(Clone, Copy)]
enum Old {
    Answers,
    Lookups,
    Deliveries,
    Sessions,
}
