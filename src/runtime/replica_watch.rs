//! Commits of other processes that matter here: to threads whose lease we hold, and to threads that somebody listens to
//! here. There is no notification channel: the store is polled every 250 ms.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::shared::Shared;
use crate::domain::ids::ThreadPk;
use crate::store::{Mark, Result};

const BEAT: Duration = Duration::from_millis(250);
/// Every so many polls the store is asked whether the threads in memory still exist.
const ROUND: usize = 4;

/// The threads that somebody listens to here, each with the version at which the hub was last told of it.
type Followed = HashMap<ThreadPk, i64>;

impl Shared {
    /// Polls until the process halts: also while it drains, because another process may cancel what still runs.
    pub(super) async fn watch_other_replicas(self: Arc<Self>) {
        let (mut followed, mut rounds) = (Followed::new(), (0..ROUND).cycle());
        while self.store.is_shared() && self.halted.run_until_cancelled(sleep(BEAT)).await.is_some() {
            let with_ours = rounds.next() == Some(0);
            let looked = self.halted.run_until_cancelled(self.look_around(&mut followed, with_ours)).await;
            if let Some(Err(error)) = looked {
                tracing::debug!(%error, "other processes cannot be watched now");
            }
        }
    }

    async fn look_around(self: &Arc<Self>, followed: &mut Followed, with_ours: bool) -> Result<()> {
        if let Some(hold) = self.lease_keeper.hold() {
            let due = self.store.due(hold.replica, self.now(), self.wake_backoff.limit()).await?;
            let is_draining = self.draining.is_cancelled();
            // While it drains nothing begins any more: only what is under way may have to be stopped.
            due.into_iter()
                .filter(|pk| !is_draining || self.actors.is_live(*pk))
                .for_each(|pk| drop(self.wake_with_backoff(pk)));
        }
        self.look_at_followed(followed).await?;
        if with_ours {
            self.look_at_ours().await?;
        }
        Ok(())
    }

    async fn look_at_followed(&self, followed: &mut Followed) -> Result<()> {
        let mut pks = self.hub.subscribed_threads();
        pks.extend(self.waiters.threads());
        pks.sort_unstable();
        pks.dedup();
        let marks = self.marks(&pks).await?;
        let before = std::mem::replace(followed, marks.iter().map(|mark| (mark.pk, mark.version)).collect());
        for mark in marks.iter().filter(|mark| before.get(&mark.pk) != Some(&mark.version)) {
            // Also where we hold the lease: a call may take long, and the thread's actor does not read the store meanwhile.
            self.hub.publish_gap_up_to(mark.pk, mark.last_seq);
            // It does say how runs end.
            if !self.actors.holds(mark.pk) {
                self.waiters.notify_thread(mark.pk);
            }
        }
        // The thread was deleted: those who read it again find that.
        for pk in pks.iter().filter(|pk| !followed.contains_key(pk)) {
            self.hub.publish_gap(*pk);
            self.waiters.notify_thread(*pk);
        }
        Ok(())
    }

    /// Wakes the actors of threads that another process deleted, so that they stop their effects.
    async fn look_at_ours(self: &Arc<Self>) -> Result<()> {
        let mut pks = self.actors.all();
        let there: HashSet<ThreadPk> = self.marks(&pks).await?.into_iter().map(|mark| mark.pk).collect();
        pks.retain(|pk| !there.contains(pk));
        pks.into_iter().for_each(|pk| drop(self.wake_with_backoff(pk)));
        Ok(())
    }

    async fn marks(&self, pks: &[ThreadPk]) -> Result<Vec<Mark>> {
        if pks.is_empty() { Ok(Vec::new()) } else { self.store.marks(pks).await }
    }
}
