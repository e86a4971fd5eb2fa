//! Deliveries that go out together, to the one receiver of all threads: what came due within half a second is claimed at
//! once, sent as one, and settled at once. For a thread such a delivery costs its row, and little else.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::outcome::Outcome;
use super::{HORIZON, Outbox};
use crate::domain::Millis;
use crate::failpoint;
use crate::store::Store;
use crate::store::outbox::Delivery;

/// How long what is due waits for what comes after it.
const GATHERED: Duration = Duration::from_millis(500);
/// Deliveries that are claimed at once.
const AT_ONCE: u32 = 128;
/// What the last of them may hold up the end of the process.
const LAST: Duration = Duration::from_secs(1);

pub struct Batches {
    pub store: Arc<dyn Store>,
    pub outbox: Arc<Outbox>,
    pub now: Arc<dyn Fn() -> Millis + Send + Sync>,
    pub send: SendsAll,
}

/// Makes deliveries, in the time that an attempt may take: for each, what came of it, in a word and in a sentence.
pub type SendsAll = Arc<dyn Fn(Arc<[Delivery]>) -> BoxFuture<'static, Vec<(Outcome, String)>> + Send + Sync>;

impl Batches {
    /// Works until stopped; then sends what was left here before.
    pub async fn run(self, stop: CancellationToken) {
        while stop.run_until_cancelled(self.gather()).await.is_some() {
            while !stop.is_cancelled() && self.send_some().await {}
        }
        // Whoever starts next has the rest.
        let _ = timeout(LAST, async { while self.send_some().await {} }).await;
    }

    /// Returns when something is due, and has waited for more.
    async fn gather(&self) {
        let next = self.store.next_batched().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the outbox cannot be read");
            None
        });
        let left = next.map(|due| Duration::from_millis(u64::try_from(due.saturating_sub((self.now)())).unwrap_or(0)));
        // Rung or slept out: both mean look.
        let _ = timeout(left.unwrap_or(HORIZON).min(HORIZON), self.outbox.bell.batched.notified()).await;
        sleep(GATHERED).await;
    }

    /// Whether there may be more than what was due now, and is claimed at once.
    async fn send_some(&self) -> bool {
        let now = (self.now)();
        let until = self.outbox.claim_ends(now);
        let claimed = match self.store.claim_batch(now, until, AT_ONCE).await {
            Ok(claimed) if claimed.is_empty() => return false,
            Ok(claimed) => claimed,
            Err(error) => {
                tracing::warn!(%error, "the outbox cannot be read");
                return false;
            }
        };
        failpoint::reached("delivery.claimed");
        let deliveries: Arc<[Delivery]> = claimed.into();
        let outcomes = (self.send)(deliveries.clone()).await;
        failpoint::reached("delivery.sent");
        let now = (self.now)();
        let settlement = |(delivery, (outcome, said))| self.outbox.settlement(delivery, outcome, said, now);
        let settlements = deliveries.iter().zip(outcomes).map(settlement).collect();
        if let Err(error) = self.store.settle_deliveries(settlements, now).await {
            tracing::warn!(%error, "attempts are not written down; they are made again");
        }
        deliveries.len() == AT_ONCE as usize
    }
}
