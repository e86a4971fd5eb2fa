//! Commits of other processes to threads of which something is under way here, and to threads with subscribers here. There is no
//! notification channel: the store is polled every 250 ms.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::shared::Shared;
use crate::domain::ids::ThreadPk;
use crate::store::{Result, ThreadVersion};

const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The threads with subscribers or waiting requests here, each with the version that was seen last.
type SeenVersions = HashMap<ThreadPk, i64>;

impl Shared {
    /// Polls until the process halts, also while it drains: another process may cancel what still runs.
    pub(super) async fn watch_other_replicas(self: Arc<Self>) {
        let mut seen = SeenVersions::new();
        while self.store.is_shared() && self.stop.halted.run_until_cancelled(sleep(POLL_INTERVAL)).await.is_some() {
            let polled = self.stop.halted.run_until_cancelled(self.poll_store(&mut seen)).await;
            if let Some(Err(error)) = polled {
                tracing::debug!(%error, "other processes cannot be watched now");
            }
        }
    }

    async fn poll_store(self: &Arc<Self>, seen: &mut SeenVersions) -> Result<()> {
        if let Some(lease) = self.lease_keeper.current_lease() {
            let due = self.store.due(lease.replica, self.now(), self.sweeper.backoff.limit()).await?;
            let is_draining = self.stop.is_draining();
            // While draining, nothing new starts; only running effects may have to be stopped.
            due.into_iter()
                .filter(|pk| !is_draining || self.actors.is_live(*pk))
                .for_each(|pk| drop(self.wake_with_backoff(pk)));
        }
        self.check_watched_threads(seen).await?;
        self.wake_outdated_actors().await
    }

    async fn check_watched_threads(&self, seen: &mut SeenVersions) -> Result<()> {
        let mut pks = self.hub.subscribed_threads();
        pks.extend(self.waiters.threads());
        pks.sort_unstable();
        pks.dedup();
        let versions = self.versions(&pks).await?;
        let before = std::mem::replace(seen, versions.iter().map(|one| (one.pk, one.version)).collect());
        let mut went_back = Vec::new();
        for one in versions.iter().filter(|one| before.get(&one.pk) != Some(&one.version)) {
            match before.get(&one.pk) {
                Some(known) if one.version < *known => {
                    self.hub.publish_shortened(one.pk, one.last_seq);
                    went_back.push((one.pk, *known));
                }
                // Also for threads whose lease is ours: their actor does not read the store while a call runs.
                Some(_) | None => self.hub.publish_gap_up_to(one.pk, one.last_seq),
            }
            self.waiters.notify_thread(one.pk);
        }
        // The thread was deleted: subscribers and waiters read the store and find it gone.
        for pk in pks.iter().filter(|pk| !seen.contains_key(pk)) {
            self.hub.publish_gap(*pk);
            self.waiters.notify_thread(*pk);
        }
        // Last, because the store may fail now.
        let mut failed = None;
        for (pk, known) in went_back {
            match self.store.thread_by_pk(pk).await {
                Ok(stored) => stored.iter().for_each(|stored| self.report_if_went_back(stored, known)),
                Err(error) => {
                    // It is compared with this version again.
                    seen.insert(pk, known);
                    failed = Some(error);
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Wakes the actors whose thread another process wrote or deleted, or the database has in an earlier state, while they wait
    /// for what is under way. They read it again, stop the effects that it has no more, and reply to its running calls.
    async fn wake_outdated_actors(self: &Arc<Self>) -> Result<()> {
        let before = self.actors.known_versions();
        let pks: Vec<ThreadPk> = before.keys().copied().collect();
        let stored: HashMap<ThreadPk, i64> =
            self.versions(&pks).await?.into_iter().map(|one| (one.pk, one.version)).collect();
        // Read after the store: an actor that waits by now knows its own commits that were found there.
        let known = self.actors.known_versions();
        let is_outdated = |pk: &ThreadPk| {
            let differs = |known: &i64| stored.get(pk).is_none_or(|version| version > known || *version < before[pk]);
            known.get(pk).is_some_and(differs)
        };
        pks.into_iter().filter(is_outdated).for_each(|pk| drop(self.wake_with_backoff(pk)));
        Ok(())
    }

    async fn versions(&self, pks: &[ThreadPk]) -> Result<Vec<ThreadVersion>> {
        if pks.is_empty() { Ok(Vec::new()) } else { self.store.thread_versions(pks).await }
    }
}
