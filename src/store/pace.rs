//! How fast chores go: those who commit have nearly all of the store's time, unless chores would never be done then.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::{Store, Traffic};
use crate::domain::Millis;

/// How many times as long as they held up commits chores rest: one commit in two hundred may be held up.
const RESTS_BESIDE_COMMITS: u32 = 199;
/// So many times as much may be held up where so many commits share a transaction: each waits for the others anyway.
const MORE_AT_MOST: u64 = 4;
/// How many times as long as it worked a chore rests at least.
const RESTS: u32 = 4;
/// The shortest rest, so that others get their turn.
const SHORTEST: Duration = Duration::from_millis(5);
/// From so much on what is overdue counts, and is it looked whether it gets less.
const LATE: Millis = 24 * 3_600_000;
const LOOKED_AT_EVERY: Duration = Duration::from_secs(3_600);
/// So many times as much may be held up at most where what is overdue gets more.
const HURRY_AT_MOST: u32 = 16;
/// Where commits go on beside a chore, this part of its time counts as if it held them up.
const SHARED: u32 = 4;

/// What the chores of a process share: they work side by side, but beside commits they rest one after another, so that all
/// of them together hold commits up no more than one would.
#[derive(Default)]
pub struct Chores {
    resting: Mutex<()>,
    /// For how many microseconds they held up commits so far.
    held_us: AtomicU64,
    /// Commits go on beside them: it is not seen how long one is held up.
    are_beside: bool,
    late: std::sync::Mutex<BTreeMap<&'static str, Late>>,
}

/// A chore that is late.
struct Late {
    looked_at: Instant,
    overdue: Millis,
    /// How many times as much may be held up for it.
    hurry: u32,
}

impl Chores {
    /// They write over other connections than commits.
    pub(super) fn beside_commits() -> Self {
        Self { are_beside: true, ..Self::default() }
    }

    /// For so long the oldest that this chore is about has been overdue. Where that gets more from one hour to the next,
    /// twice as much may be held up; where it gets less, half as much.
    pub fn overdue(&self, chore: &'static str, overdue: Millis) {
        let (mut all, now) = (self.late.lock().unwrap(), Instant::now());
        if overdue < LATE {
            all.remove(chore);
            return;
        }
        let late = all.entry(chore).or_insert(Late { looked_at: now, overdue, hurry: 1 });
        if now.duration_since(late.looked_at) >= LOOKED_AT_EVERY {
            let hurry = if overdue < late.overdue { late.hurry / 2 } else { late.hurry * 2 };
            *late = Late { looked_at: now, overdue, hurry: hurry.clamp(1, HURRY_AT_MOST) };
        }
    }

    fn hurry(&self) -> u32 {
        self.late.lock().unwrap().values().map(|late| late.hurry).max().unwrap_or(1)
    }

    /// So long no commit could be made beside them.
    pub(super) fn held(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).expect("it ends within the age of the world");
        self.held_us.fetch_add(us, Ordering::Relaxed);
    }

    pub(super) fn held_us(&self) -> u64 {
        self.held_us.load(Ordering::Relaxed)
    }

    /// Rests after a step that took so long and held commits up for so long. Looks now and then whether others still commit.
    async fn rest(&self, worked: Duration, held: Duration, traffic: impl Fn() -> Traffic) {
        let short = worked.max(SHORTEST / RESTS) * RESTS;
        let first = traffic();
        sleep(short).await;
        let mut before = traffic();
        if before.commits == first.commits {
            return;
        }
        let _resting = self.resting.lock().await;
        let (begun, long) = (Instant::now(), held * RESTS_BESIDE_COMMITS / self.hurry());
        while begun.elapsed() < long / before.shared_since(first) {
            sleep(short).await;
            let now = traffic();
            if now.commits == before.commits {
                return;
            }
            before = now;
        }
    }
}

impl Traffic {
    /// How many times as much may be held up as where each commit has a transaction of its own.
    fn shared_since(self, before: Self) -> u32 {
        let (commits, transactions) = (self.commits - before.commits, self.transactions - before.transactions);
        let shared = commits / transactions.max(1);
        u32::try_from(shared.clamp(1, MORE_AT_MOST)).expect("it is small")
    }
}

/// A step of a chore, from its beginning.
pub struct Pace {
    begun: Instant,
    held_us: u64,
}

impl Pace {
    pub fn begin(store: &(impl Store + ?Sized)) -> Self {
        Self { begun: Instant::now(), held_us: store.chores().held_us() }
    }

    /// Rests after the step.
    pub async fn rest(self, store: &(impl Store + ?Sized)) {
        let (chores, worked) = (store.chores(), self.begun.elapsed());
        let held = match chores.are_beside {
            true => worked / SHARED,
            false => Duration::from_micros(chores.held_us() - self.held_us),
        };
        chores.rest(worked, held, || store.traffic()).await;
    }
}

#[cfg(test)]
mod tests;
