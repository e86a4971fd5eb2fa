//! How fast chores go: those who commit have nearly all of the store's time.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Store;

/// How many times as long as it worked a chore rests while others commit: it may hold up one commit in two hundred.
const RESTS_BESIDE_COMMITS: u32 = 199;
/// The same while nobody does.
const RESTS_ALONE: u32 = 4;
/// The shortest rest, so that others get their turn.
const SHORTEST: Duration = Duration::from_millis(5);

/// A step of a chore, from its beginning.
pub struct Pace {
    begun: Instant,
    commits: u64,
}

impl Pace {
    pub fn begin(store: &(impl Store + ?Sized)) -> Self {
        Self { begun: Instant::now(), commits: store.commits() }
    }

    /// Rests after the step. Looks now and then whether others still commit.
    pub async fn rest(self, store: &(impl Store + ?Sized)) {
        let worked = self.begun.elapsed().max(SHORTEST / RESTS_ALONE);
        let (mut commits, mut rested) = (self.commits, 0);
        loop {
            sleep(worked * RESTS_ALONE).await;
            rested += RESTS_ALONE;
            let are_there_others = store.commits() != commits;
            commits = store.commits();
            if rested >= RESTS_BESIDE_COMMITS || !are_there_others {
                return;
            }
        }
    }
}
