//! The threads and the questions of a tenant as they change: whole rows, of which the latest counts. What changed before
//! is not told; whoever begins to listen reads the lists then.
//!
//! However many listen, what changes is read once: by the tenant's [`Feed`], which lives as long as somebody listens.

mod feed;
mod quiet;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use self::feed::{Batch, Feed};
use super::{Result, Service};
use crate::domain::caller::Caller;
use crate::domain::ids::TenantPk;
use crate::live::Encoded;

/// The feeds of the tenants whose changes somebody listened to.
#[derive(Default)]
pub(super) struct Feeds(Mutex<HashMap<TenantPk, Arc<Slot>>>);

/// Locked while a feed begins: whoever comes meanwhile waits for it.
type Slot = tokio::sync::Mutex<Weak<Feed>>;

/// The changes for one reader. Dropping it leaves.
pub struct Changes {
    caller: Caller,
    batches: broadcast::Receiver<Arc<Batch>>,
    is_new: bool,
    _feed: Arc<Feed>,
}

/// Everything that changes from now on. The first frame says that it is told from here.
pub async fn open(service: &Service, caller: &Caller) -> Result<Changes> {
    let slot = {
        let mut feeds = service.feeds.0.lock().unwrap_or_else(PoisonError::into_inner);
        feeds.entry(caller.tenant).or_default().clone()
    };
    let mut slot = slot.lock().await;
    let feed = match slot.upgrade() {
        Some(feed) => feed,
        None => {
            let feed = Arc::new(Feed::begin(service, caller.tenant).await?);
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
            // The server is gone; whoever reads is told elsewhere.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}
