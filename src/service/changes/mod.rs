//! The threads and the questions of a tenant as they change: whole rows, of which the latest counts. Earlier changes are not
//! sent: a subscriber reads the lists when it begins.
//!
//! However many subscribers there are, changes are read once: by the tenant's `ChangeFeed`, which lives as long as it has
//! subscribers.

mod dormant;
mod feed;

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use self::feed::{ChangeBatch, ChangeFeed};
use super::{Result, Service};
use crate::domain::caller::Caller;
use crate::domain::ids::TenantPk;
use crate::live::Encoded;

/// The feeds of the tenants that have, or had, subscribers.
#[derive(Default)]
pub(super) struct Feeds(Mutex<HashMap<TenantPk, Arc<FeedSlot>>>);

/// Locked while a feed starts, so that concurrent subscribers share it.
type FeedSlot = tokio::sync::Mutex<Weak<ChangeFeed>>;

/// The changes for one subscriber. Dropping it unsubscribes.
pub struct Changes {
    caller: Caller,
    batches: broadcast::Receiver<Arc<ChangeBatch>>,
    is_new: bool,
    _feed: Arc<ChangeFeed>,
}

/// Subscribes to all changes from now on. The first frame is `caught_up`.
pub async fn open(service: &Service, caller: &Caller) -> Result<Changes> {
    let slot = service.feeds.0.lock().entry(caller.tenant).or_default().clone();
    let mut slot = slot.lock().await;
    let feed = match slot.upgrade() {
        Some(feed) => feed,
        None => {
            let feed = Arc::new(ChangeFeed::begin(service, caller.tenant).await?);
            *slot = Arc::downgrade(&feed);
            feed
        }
    };
    Ok(Changes { caller: caller.clone(), batches: feed.batches(), is_new: true, _feed: feed })
}

impl Changes {
    /// The next frames.
    pub async fn next(&mut self) -> Vec<Arc<Encoded>> {
        if std::mem::take(&mut self.is_new) {
            return vec![Arc::new(Encoded::caught_up(0))];
        }
        match self.batches.recv().await {
            Ok(batch) => batch.frames(&self.caller),
            Err(RecvError::Lagged(_)) => vec![Arc::new(Encoded::gap(0))],
            // The server is stopping. The subscriber's socket is closed elsewhere.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}
