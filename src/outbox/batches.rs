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
use crate::store::outbox::{Delivery, TargetKind};
use crate::store::{self, Store};

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

/// Makes deliveries: for each, what came of it, in a word and in a sentence.
pub type SendsAll = Arc<dyn Fn(Arc<[Delivery]>) -> BoxFuture<'static, Vec<(Outcome, String)>> + Send + Sync>;

impl Batches {
    /// Works until stopped; then sends what was left here before.
    pub async fn run(self, stop: CancellationToken) {
        while stop.run_until_cancelled(self.gather()).await.is_some() {
            self.send_due().await;
        }
        // Whoever starts next has the rest.
        let _ = timeout(LAST, self.send_due()).await;
    }

    /// Returns when something is due, and has waited for more.
    async fn gather(&self) {
        let next = self.store.next_delivery(TargetKind::BATCHED).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the outbox cannot be read");
            None
        });
        let left = next.map(|due| Duration::from_millis(u64::try_from(due.saturating_sub((self.now)())).unwrap_or(0)));
        // Rung or slept out: both mean look.
        let _ = timeout(left.unwrap_or(HORIZON).min(HORIZON), self.outbox.bell.batched.notified()).await;
        sleep(GATHERED).await;
    }

    async fn send_due(&self) {
        loop {
            match self.send_some().await {
                Ok(sent) if sent == AT_ONCE as usize => {}
                Ok(_) => return,
                Err(error) => return tracing::warn!(%error, "the outbox cannot be read"),
            }
        }
    }

    /// How many were due, of as many as are claimed at once.
    async fn send_some(&self) -> store::Result<usize> {
        let (now, attempt) = ((self.now)(), self.outbox.pace.attempt);
        let claimed =
            self.store.claim_deliveries(TargetKind::BATCHED, now, self.outbox.claim_ends(now), AT_ONCE).await?;
        if claimed.is_empty() {
            return Ok(0);
        }
        failpoint::reached("delivery.claimed");
        let deliveries: Arc<[Delivery]> = claimed.into();
        let outcomes = timeout(attempt, (self.send)(deliveries.clone())).await;
        failpoint::reached("delivery.sent");
        let outcomes = outcomes
            .unwrap_or_else(|_| deliveries.iter().map(|_| (Outcome::Failed, "it took too long".to_owned())).collect());
        let now = (self.now)();
        let settlement = |(delivery, (outcome, said))| self.outbox.settlement(delivery, outcome, said, now);
        let settlements = deliveries.iter().zip(outcomes).map(settlement).collect();
        if let Err(error) = self.store.settle_deliveries(settlements, now).await {
            tracing::warn!(%error, "attempts are not written down; they are made again");
        }
        Ok(deliveries.len())
    }
}
