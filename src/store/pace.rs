//! How fast chores go: those who commit have nearly all of the store's time, unless chores would never be done then.
//!
//! A rest after a step is `held × 199 / hurry / shared`, but at least `4 × worked / hurry`, and never less than `worked`
//! or 5 ms. `held`: for how long no commit could be written; `worked`: how long the step took; `shared`: how many commits
//! share a transaction, 1 to 4; `hurry`: 1, which doubles, up to 16, each time that a late chore is no less overdue. Where
//! nobody commits any more, what `held` asks for is over.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::{Store, Traffic};
use crate::domain::Millis;
use crate::domain::ids::TenantPk;

/// How many times as long as they held up commits chores rest: one commit in two hundred may be held up.
const RESTS_BESIDE_COMMITS: u32 = 199;
/// So many times as much may be held up where so many commits share a transaction: each waits for the others anyway.
const MORE_AT_MOST: u64 = 4;
/// How many times as long as it worked a chore rests at least.
const RESTS: u32 = 4;
/// The shortest rest, so that others get their turn.
const SHORTEST: Duration = Duration::from_millis(5);
/// So many times as much may be held up at most where what is overdue gets more.
const HURRY_AT_MOST: u32 = 16;
/// How long a late chore is overdue is compared with what it was after one part of so many of the time that it may be.
const LOOKS: Millis = 24;
/// Where commits go on beside a chore, its time counts as if it held them up for one part of so many.
const PARTS_BESIDE_COMMITS: u32 = 4;

/// What the chores of a process share: they work side by side, but beside commits they rest one after another, so that all
/// of them together hold commits up no more than one would.
pub struct Chores {
    /// Until when the rests were that are over.
    rested: Mutex<Instant>,
    /// For how many microseconds they held up commits, and have not rested for it yet.
    pub(crate) held_us: AtomicU64,
    /// They write over other connections than commits: it is not seen how long one is held up.
    are_beside: bool,
    behind: parking_lot::Mutex<BTreeMap<Chore, Behind>>,
}

/// What is done, and for which tenant.
type Chore = (&'static str, TenantPk);

/// A chore that has not caught up.
#[derive(Clone, Copy)]
struct Behind {
    overdue: Millis,
    /// When that was compared the last time, and what it was then.
    looked_at: Instant,
    was_overdue: Millis,
    /// How many times as much may be held up for it: more than once where it is late.
    hurry: u32,
}

impl Chores {
    pub(super) fn new() -> Self {
        Self {
            rested: Mutex::new(Instant::now()),
            held_us: AtomicU64::new(0),
            are_beside: false,
            behind: Default::default(),
        }
    }

    /// They write over other connections than commits.
    pub(super) fn beside_commits() -> Self {
        Self { are_beside: true, ..Self::new() }
    }

    /// Tells how long the oldest that this chore is about has been overdue, and how long it may be. From then on that is
    /// compared now and then with what it was: each time that it is no less, twice as much may be held up. That ends when
    /// it is less than it may be, or the chore has caught up.
    pub fn overdue(&self, chore: Chore, overdue: Millis, may_be: Millis) {
        let (mut all, now) = (self.behind.lock(), Instant::now());
        let begun = Behind { overdue, looked_at: now, was_overdue: overdue, hurry: 1 };
        let behind = all.entry(chore).or_insert(begun);
        let every = Duration::from_millis((may_be / LOOKS).unsigned_abs());
        behind.overdue = overdue;
        if overdue < may_be || behind.was_overdue < may_be {
            *behind = begun;
        } else if now.duration_since(behind.looked_at) >= every {
            let more = if overdue < behind.was_overdue { 1 } else { 2 };
            *behind = Behind { hurry: (behind.hurry * more).min(HURRY_AT_MOST), ..begun };
        }
    }

    /// How long the oldest that chores of this kind are about has been overdue.
    pub fn most_overdue(&self, kind: &str) -> Millis {
        let all = self.behind.lock();
        all.iter().filter(|((of, _), _)| *of == kind).map(|(_, behind)| behind.overdue).max().unwrap_or(0)
    }

    /// Nothing that this chore is about is left.
    pub fn caught_up(&self, chore: Chore) {
        self.behind.lock().remove(&chore);
    }

    /// Nothing that chores of this kind are about is left, of no tenant.
    pub fn all_caught_up(&self, kind: &str) {
        self.behind.lock().retain(|(of, _), _| *of != kind);
    }

    /// How many times as much may be held up now.
    pub(crate) fn hurry(&self) -> u32 {
        self.behind.lock().values().map(|behind| behind.hurry).max().unwrap_or(1)
    }

    /// So long no commit could be made beside them.
    pub(super) fn held(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).expect("no write takes so many years");
        self.held_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Rests after a step that took so long. Looks now and then whether others still commit.
    async fn rest(&self, worked: Duration, traffic: impl Fn() -> Traffic) {
        let (ended, hurry) = (Instant::now(), self.hurry());
        let short = (worked * RESTS / hurry).max(worked).max(SHORTEST);
        let first = traffic();
        sleep(short).await;
        let mut before = traffic();
        if before.commits == first.commits {
            self.held_us.store(0, Ordering::Relaxed);
            return;
        }
        let mut rested = self.rested.lock().await;
        let begun = ended.max(*rested);
        let long = Duration::from_micros(self.held_us.swap(0, Ordering::Relaxed)) * RESTS_BESIDE_COMMITS / hurry;
        loop {
            let left = (long / before.shared_since(first)).saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            sleep(left.min(short)).await;
            let now = traffic();
            if now.commits == before.commits {
                break;
            }
            before = now;
        }
        *rested = Instant::now();
    }
}

impl Traffic {
    /// How many times as much may be held up as where each commit has a transaction of its own.
    fn shared_since(self, earlier: Self) -> u32 {
        let (commits, transactions) = (self.commits - earlier.commits, self.transactions - earlier.transactions);
        let shared = commits / transactions.max(1);
        u32::try_from(shared.clamp(1, MORE_AT_MOST)).expect("it is small")
    }
}

/// A step of a chore, from its beginning.
pub struct Pace {
    begun: Instant,
}

impl Pace {
    pub fn begin() -> Self {
        Self { begun: Instant::now() }
    }

    /// Rests after the step.
    pub async fn rest(self, store: &(impl Store + ?Sized)) {
        let (chores, worked) = (store.chores(), self.begun.elapsed());
        if chores.are_beside {
            chores.held(worked / PARTS_BESIDE_COMMITS);
        }
        chores.rest(worked, || store.traffic()).await;
    }
}

#[cfg(test)]
mod tests;
