//! Deliveries to webhooks and other agents. Each is stored with the transition that causes it, and sent by a worker at
//! least once.
//!
//! [`announce`](Directory::announce) turns what a commit records into deliveries, one per webhook that subscribed to
//! the event. They are stored by that commit, so every event that happened is sent, and no other. [`Worker`] claims
//! what is due (one replica at a time), sends it under the same `webhook-id` in every attempt, and settles it. What all
//! threads leave for the one collector of traces goes out together ([`Batches`]). A receiver that does not answer keeps no
//! other waiting ([`Unanswered`]), and no tenant another ([`Turns`]). A process that dies in between leaves a claim that
//! runs out.

mod announce;
mod batches;
mod directory;
mod outcome;
mod push;
mod turns;
mod unanswered;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::domain::Millis;
use crate::egress::Egress;
use crate::store::outbox::TargetKind;

pub use announce::SpendThreshold;
pub use batches::{Batches, SendsAll};
pub use directory::{Directory, StoredWebhook, Webhook};
pub use outcome::Outcome;
pub use push::PushTarget;
pub use worker::Worker;

use turns::Turns;
use unanswered::Unanswered;

/// The receivers of deliveries, and how they are reached.
pub struct Outbox {
    pub directory: Directory,
    pub egress: Arc<Egress>,
    pub pace: Pace,
    pub bell: Bell,
    unanswered: Unanswered,
    turns: Arc<Turns>,
}

impl Outbox {
    pub fn new(directory: Directory, egress: Arc<Egress>, pace: Pace) -> Self {
        let (bell, unanswered, turns) = (Bell::default(), Unanswered::default(), Arc::default());
        Self { directory, egress, pace, bell, unanswered, turns }
    }
}

/// What another replica left is looked for as often.
const HORIZON: Duration = Duration::from_secs(5);

/// Rung when something was left in the outbox here.
#[derive(Default)]
pub struct Bell {
    /// For what goes out by itself.
    single: Notify,
    /// For what goes out together.
    batched: Notify,
}

impl Bell {
    /// For a delivery of each of these kinds.
    pub fn ring(&self, kinds: impl IntoIterator<Item = TargetKind>) {
        for kind in kinds {
            let side = if TargetKind::BATCHED.contains(&kind) { &self.batched } else { &self.single };
            side.notify_one();
        }
    }
}

/// When attempts are made, and for how long what is over is kept.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Between one attempt and the next; after the last one a delivery is dead.
    pub backoff: Vec<Millis>,
    /// The same for pushes; the last pause is repeated.
    pub push_backoff: Vec<Millis>,
    /// How long a push is tried, and no shorter than those pauses take.
    pub push_for: Millis,
    /// What one attempt may take.
    pub attempt: Duration,
    pub kept: Millis,
}
