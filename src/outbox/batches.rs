//! Deliveries that go to the one receiver of all threads, in batches: those that come due within half a second are claimed,
//! sent and settled together. Each of them costs its thread little more than the row.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::outcome::AttemptResult;
use super::{Outbox, POLL_INTERVAL};
use crate::domain::Millis;
use crate::failpoint;
use crate::store::Store;
use crate::store::outbox::Delivery;

/// How long a due delivery waits for others to join its batch.
const GATHER_TIME: Duration = Duration::from_millis(500);
/// Bounds the deliveries that are claimed together.
const MAX_BATCH: u32 = 128;
/// Bounds how long the last batches may delay the end of the process.
const FINAL_TIMEOUT: Duration = Duration::from_secs(1);

pub struct Batches {
    pub store: Arc<dyn Store>,
    pub outbox: Arc<Outbox>,
    pub now: Arc<dyn Fn() -> Millis + Send + Sync>,
    pub send: BatchSender,
}

/// Sends a batch within the time of one attempt. Returns the result for each delivery.
pub type BatchSender = Arc<dyn Fn(Arc<[Delivery]>) -> BoxFuture<'static, Vec<AttemptResult>> + Send + Sync>;

impl Batches {
    /// Runs until `stop` is cancelled, then sends what is due by then.
    pub async fn run(self, stop: CancellationToken) {
        while stop.run_until_cancelled(self.wait_for_batch()).await.is_some() {
            while !stop.is_cancelled() && self.send_batch().await {}
        }
        // The next process sends the rest.
        let _ = timeout(FINAL_TIMEOUT, async { while self.send_batch().await {} }).await;
    }

    /// Waits until a delivery is due, and then for others to join its batch.
    async fn wait_for_batch(&self) {
        let next = self.store.next_batched().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the outbox cannot be read");
            None
        });
        let wait = next.map(|due| Duration::from_millis(u64::try_from(due.saturating_sub((self.now)())).unwrap_or(0)));
        // A notification and a timeout mean the same: look.
        let _ = timeout(wait.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL), self.outbox.wakeup.batched.notified()).await;
        sleep(GATHER_TIME).await;
    }

    /// Claims and sends one batch. `true`: the batch was full, so more may be due.
    async fn send_batch(&self) -> bool {
        let now = (self.now)();
        let until = self.outbox.claim_deadline(now);
        let claimed = match self.store.claim_batch(now, until, MAX_BATCH).await {
            Ok(claimed) if claimed.is_empty() => return false,
            Ok(claimed) => claimed,
            Err(error) => {
                tracing::warn!(%error, "the outbox cannot be read");
                return false;
            }
        };
        failpoint::reached("delivery.claimed");
        let deliveries: Arc<[Delivery]> = claimed.into();
        let results = (self.send)(deliveries.clone()).await;
        failpoint::reached("delivery.sent");
        let now = (self.now)();
        let settlement = |(delivery, result)| self.outbox.settlement(delivery, result, now);
        let settlements = deliveries.iter().zip(results).map(settlement).collect();
        if let Err(error) = self.store.settle_deliveries(settlements, now).await {
            tracing::warn!(%error, "the outcomes of attempts could not be stored; the attempts will be repeated");
        }
        deliveries.len() == MAX_BATCH as usize
    }
}
