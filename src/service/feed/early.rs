//! Subscriptions that exist before the event that their reader waits for.

use std::sync::Arc;

use super::After;
use crate::domain::ids::ThreadPk;
use crate::live::{Hub, Subscription, SubscriptionFilter};
use crate::service::{Result, Service};

/// A subscription that was created before an event was committed, so that nothing of the event is missed.
pub struct EarlySubscription {
    pub(super) live: Subscription,
    /// The last seq of the log when the subscription was created.
    after: i64,
}

impl EarlySubscription {
    /// Subscribes to a thread that does not exist yet.
    pub(crate) fn of_new(hub: &Arc<Hub>, pk: ThreadPk) -> Self {
        Self { live: hub.subscribe(pk, SubscriptionFilter::default()), after: 0 }
    }

    /// Subscribes to an existing thread.
    pub(crate) async fn of(service: &Service, pk: ThreadPk) -> Result<Self> {
        let live = service.hub.subscribe(pk, SubscriptionFilter::default());
        // Read after the subscription, which receives everything that is committed from here on.
        let after = service.store.thread_by_pk(pk).await?.map_or(0, |row| row.last_seq);
        live.mark_read(after);
        Ok(Self { live, after })
    }

    /// The position in the log at which the subscription began.
    pub fn after(&self) -> After {
        After::Seq(self.after)
    }
}
