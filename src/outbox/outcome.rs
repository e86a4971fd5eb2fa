//! What an attempt comes to: whether there is another one, when, and how that is written down.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Outbox, Pace};
use crate::domain::Millis;
use crate::store::outbox::{Delivery, Settled, Settlement, TargetKind};

/// What an attempt means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Taken,
    Failed,
    /// Trying again is no use.
    Useless,
}

/// What a claim has beyond twice its attempt: for writing down what came of it.
const MARGIN: Millis = 1_000;

impl Outbox {
    /// Until when nobody else is given what is claimed now.
    pub(super) fn claim_ends(&self, now: Millis) -> Millis {
        now + 2 * i64::try_from(self.pace.attempt.as_millis()).unwrap_or(MARGIN) + MARGIN
    }

    /// How the attempt is to be written down. Counts it, and warns where the delivery is given up.
    pub(super) fn settlement(&self, delivery: &Delivery, outcome: Outcome, said: String, now: Millis) -> Settlement {
        let settled = match outcome {
            Outcome::Taken => Settled::Delivered,
            Outcome::Useless => Settled::Dead,
            Outcome::Failed => match self.pace.pause(delivery, now) {
                Some(pause) => Settled::Later(now + jittered(pause, delivery)),
                None => Settled::Dead,
            },
        };
        let outcome = match settled {
            Settled::Delivered => "delivered",
            Settled::Later(_) => "failed",
            Settled::Dead => "dead",
        };
        let labels = [("kind", delivery.kind.as_str()), ("outcome", outcome)];
        metrics::counter!("pes_outbox_deliveries_total", &labels).increment(1);
        if settled == Settled::Dead {
            let (target, attempts) = (&delivery.target, delivery.attempts);
            tracing::warn!(deliveryId = %delivery.id, target, attempts, said, "a delivery is given up");
        }
        Settlement { id: delivery.id.clone(), attempt: delivery.attempts, settled, said }
    }
}

impl Pace {
    /// Until the next attempt; `None`: there is none.
    fn pause(&self, delivery: &Delivery, now: Millis) -> Option<Millis> {
        let made = delivery.attempts.saturating_sub(1) as usize;
        match delivery.kind {
            TargetKind::Webhook | TargetKind::Agent | TargetKind::Collector => self.backoff.get(made).copied(),
            TargetKind::Push => {
                let is_early = now - delivery.created_at < self.push_for;
                // However old it is: it may have waited for those before it with the same ordering key.
                let pause = self.push_backoff.get(made);
                pause.or(self.push_backoff.last().filter(|_| is_early)).copied()
            }
        }
    }
}

/// A fifth more or less, so that what failed together is not tried together.
fn jittered(pause: Millis, delivery: &Delivery) -> Millis {
    let mut hasher = DefaultHasher::new();
    (delivery.id.as_str(), delivery.attempts).hash(&mut hasher);
    let share = i64::try_from(hasher.finish() % 401).unwrap_or(0) - 200;
    pause + pause * share / 1_000
}

#[cfg(test)]
mod tests;
