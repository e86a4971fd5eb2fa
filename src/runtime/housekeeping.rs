//! What is kept for a while only: answers to requests, and deliveries that are over. Forgotten in small batches with
//! pauses between them, beside the commits and the timers: however much there is, nobody waits for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::shared::Shared;
use crate::domain::Millis;
use crate::store::Result;

/// How long an answer to an `Idempotency-Key` is kept.
const KEPT: Millis = 24 * 3_600_000;
/// How often what is old is looked for.
const EVERY: Duration = Duration::from_secs(3_600);
/// How many rows are forgotten at once, and the pause after that.
const BATCH: u32 = 500;
const PAUSE: Duration = Duration::from_millis(20);

impl Shared {
    /// Keeps house until the process drains.
    pub(super) async fn keep_house(self: Arc<Self>) {
        self.draining.run_until_cancelled(self.forget_again_and_again()).await;
    }

    async fn forget_again_and_again(&self) {
        loop {
            for forget in [Old::Answers, Old::Deliveries] {
                if let Err(error) = self.forget(forget).await {
                    tracing::warn!(%error, "what is old is kept a while longer");
                }
            }
            sleep(EVERY).await;
        }
    }

    /// Batch by batch, until one is not full.
    async fn forget(&self, old: Old) -> Result<()> {
        let now = self.now();
        loop {
            let forgotten = match old {
                Old::Answers => self.store.forget_idempotency(now - KEPT, BATCH).await?,
                Old::Deliveries => self.store.forget_deliveries(now - self.outbox.pace.kept, BATCH).await?,
            };
            if forgotten < u64::from(BATCH) {
                return Ok(());
            }
            sleep(PAUSE).await;
        }
    }
}

/// What is forgotten.
#[derive(Clone, Copy)]
enum Old {
    Answers,
    Deliveries,
}
