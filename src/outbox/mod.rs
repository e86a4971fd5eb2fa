//! Deliveries to webhooks and other agents. Each is stored with the transition that causes it, and sent by a worker at
//! least once.
//!
//! [`announce`](WebhookDirectory::announce) turns what a commit records into deliveries, one per webhook that subscribed
//! to the event. They are stored by that commit, so every event that happened is sent, and no other. [`Worker`] claims
//! what is due (one replica at a time), sends it under the same `webhook-id` in every attempt, and settles it. Deliveries to
//! the collector of traces are sent in batches ([`Batches`]). A receiver that does not answer delays no other
//! ([`Unanswered`]), and a tenant's backlog delays no other tenant ([`TenantTurns`]). The claim of a process that dies
//! in between expires.

mod announce;
mod batches;
mod outcome;
mod push;
mod turns;
mod unanswered;
mod webhooks;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::domain::Millis;
use crate::egress::Egress;
use crate::store::outbox::TargetKind;

pub use announce::{SpendThreshold, deliveries_to};
pub use batches::{BatchSender, Batches};
pub use outcome::AttemptResult;
pub use push::PushTarget;
pub use webhooks::{StoredWebhook, Webhook, WebhookDirectory};
pub use worker::Worker;

use turns::TenantTurns;
use unanswered::Unanswered;

/// The receivers of deliveries, and how they are reached.
pub struct Outbox {
    pub webhooks: WebhookDirectory,
    pub egress: Arc<Egress>,
    pub timing: DeliveryTiming,
    pub wakeup: Wakeup,
    unanswered: Unanswered,
    turns: Arc<TenantTurns>,
}

impl Outbox {
    pub fn new(webhooks: WebhookDirectory, egress: Arc<Egress>, timing: DeliveryTiming) -> Self {
        let (wakeup, unanswered, turns) = (Wakeup::default(), Unanswered::default(), Arc::default());
        Self { webhooks, egress, timing, wakeup, unanswered, turns }
    }
}

/// How often the store is polled for deliveries that other replicas stored.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Wakes the senders when this process stored a delivery.
#[derive(Default)]
pub struct Wakeup {
    /// For deliveries that are sent one by one.
    single: Notify,
    /// For deliveries that are sent in batches.
    batched: Notify,
}

impl Wakeup {
    /// Wakes the senders of deliveries of these kinds.
    pub fn notify(&self, kinds: impl IntoIterator<Item = TargetKind>) {
        for kind in kinds {
            let sender = if TargetKind::BATCHED.contains(&kind) { &self.batched } else { &self.single };
            sender.notify_one();
        }
    }
}

/// When attempts are made, and how long finished deliveries are kept.
#[derive(Clone, Debug)]
pub struct DeliveryTiming {
    /// The pauses between attempts. When they are used up, a delivery is dead.
    pub backoff: Vec<Millis>,
    /// The pauses between attempts of pushes; the last one is repeated.
    pub push_backoff: Vec<Millis>,
    /// How long a push is retried; at least until each of those pauses was taken once.
    pub push_retry_for: Millis,
    /// Bounds the duration of one attempt.
    pub attempt_timeout: Duration,
    /// How long finished deliveries are kept.
    pub retention: Millis,
}
