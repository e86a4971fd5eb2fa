//! The outcome of an attempt: whether and when there is another one, and what is stored about it.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{DeliveryTiming, Outbox};
use crate::domain::Millis;
use crate::store::outbox::{Delivery, DeliveryOutcome, Settlement, TargetKind};

/// How an attempt to deliver ended, with a sentence about it that is stored with the delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    Delivered(String),
    /// It may be retried.
    Failed(String),
    /// No retry can succeed.
    Undeliverable(String),
}

/// The time that a claim has besides two attempts, to store the outcome.
const CLAIM_MARGIN: Millis = 1_000;

impl Outbox {
    /// When a claim that is made now expires.
    pub(super) fn claim_deadline(&self, now: Millis) -> Millis {
        now + 2 * i64::try_from(self.timing.attempt_timeout.as_millis()).unwrap_or(CLAIM_MARGIN) + CLAIM_MARGIN
    }

    /// What is stored about the attempt. Counts it in the metrics, and warns if the delivery is given up.
    pub(super) fn settlement(&self, delivery: &Delivery, result: AttemptResult, now: Millis) -> Settlement {
        let (settled, said) = match result {
            AttemptResult::Delivered(said) => (DeliveryOutcome::Delivered, said),
            AttemptResult::Undeliverable(said) => (DeliveryOutcome::Dead, said),
            AttemptResult::Failed(said) => match self.timing.retry_pause(delivery, now) {
                Some(pause) => (DeliveryOutcome::Later(now + jittered(pause, delivery)), said),
                None => (DeliveryOutcome::Dead, said),
            },
        };
        let label = match settled {
            DeliveryOutcome::Delivered => "delivered",
            DeliveryOutcome::Later(_) => "failed",
            DeliveryOutcome::Dead => "dead",
        };
        let labels = [("kind", delivery.kind.as_str()), ("outcome", label)];
        metrics::counter!("pes_outbox_deliveries_total", &labels).increment(1);
        if settled == DeliveryOutcome::Dead {
            let (target, attempts) = (&delivery.target, delivery.attempts);
            tracing::warn!(deliveryId = %delivery.id, target, attempts, said, "a delivery is given up");
        }
        Settlement { id: delivery.id.clone(), attempt: delivery.attempts, settled, said }
    }
}

impl DeliveryTiming {
    /// The pause before the next attempt; `None`: the delivery is given up.
    fn retry_pause(&self, delivery: &Delivery, now: Millis) -> Option<Millis> {
        let made = delivery.attempts.saturating_sub(1) as usize;
        match delivery.kind {
            TargetKind::Webhook | TargetKind::Agent | TargetKind::Collector => self.backoff.get(made).copied(),
            TargetKind::Push => {
                let is_early = now - delivery.created_at < self.push_retry_for;
                // However old the delivery is: it may have waited for earlier ones with the same ordering key.
                let pause = self.push_backoff.get(made);
                pause.or(self.push_backoff.last().filter(|_| is_early)).copied()
            }
        }
    }
}

/// Up to a fifth more or less, so that deliveries that failed together are not retried together.
fn jittered(pause: Millis, delivery: &Delivery) -> Millis {
    let mut hasher = DefaultHasher::new();
    (delivery.id.as_str(), delivery.attempts).hash(&mut hasher);
    let share = i64::try_from(hasher.finish() % 401).unwrap_or(0) - 200;
    pause + pause * share / 1_000
}

#[cfg(test)]
mod tests;
