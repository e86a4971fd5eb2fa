//! The pace of background chores: commits get nearly all of the store's time, unless chores would then never finish.
//!
//! The pause after a step is `held × 199 / hurry / shared`, but at least `4 × worked / hurry`, and never less than `worked`
//! or 5 ms. `held`: how long the step blocked commits; `worked`: how long the step took; `shared`: how many commits share a
//! transaction, 1 to 4; `hurry`: 1, which doubles, up to 16, each time that a late chore has not become less overdue. When
//! no process commits any more, the pause for `held` ends.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::{Store, Traffic};
use crate::domain::Millis;
use crate::domain::ids::TenantPk;

/// Chores pause this many times as long as they blocked commits: one commit in two hundred may be delayed.
const PAUSE_PER_BLOCKED: u32 = 199;
/// If commits share transactions, chores may block them up to this many times as long: the commits wait for each other
/// anyway.
const MAX_SHARED: u64 = 4;
/// A chore pauses at least this many times as long as it worked.
const MIN_PAUSE_PER_WORKED: u32 = 4;
/// The shortest pause, so that others get their turn.
const MIN_PAUSE: Duration = Duration::from_millis(5);
/// The highest `hurry` of an overdue chore.
const MAX_HURRY: u32 = 16;
/// A late chore's delay is compared with its last value this many times within the time that it may be overdue.
const CHECKS_PER_TERM: Millis = 24;
/// If commits run beside a chore over other connections, this fraction of its time counts as blocking them.
const CONCURRENT_DIVISOR: u32 = 4;

/// The state that a process's chores share. They run concurrently, but beside commits they pause one after another, so that
/// all of them together block commits no longer than one would.
pub struct Chores {
    /// The end of the last finished pause.
    rested: Mutex<Instant>,
    /// How many microseconds they have blocked commits without having paused for it.
    pub(crate) held_us: AtomicU64,
    /// They write over other connections than commits, so it is unknown for how long a commit is blocked.
    is_concurrent: bool,
    behind: parking_lot::Mutex<BTreeMap<Chore, Backlog>>,
}

/// The kind of chore, and its tenant.
type Chore = (&'static str, TenantPk);

/// A chore that is behind.
#[derive(Clone, Copy)]
struct Backlog {
    overdue: Millis,
    /// When `overdue` was compared last, and its value then.
    compared_at: Instant,
    was_overdue: Millis,
    /// How many times as long it may block commits: more than 1 if it is late.
    hurry: u32,
}

impl Chores {
    pub(super) fn new() -> Self {
        Self {
            rested: Mutex::new(Instant::now()),
            held_us: AtomicU64::new(0),
            is_concurrent: false,
            behind: Default::default(),
        }
    }

    /// They write over other connections than commits.
    pub(super) fn beside_commits() -> Self {
        Self { is_concurrent: true, ..Self::new() }
    }

    /// Reports how long the oldest work of this chore has been overdue, and how long it may be. The delay is compared with
    /// its last value from time to time: each time that it is no less, `hurry` doubles. That ends when the delay is below
    /// `may_be`, or when the chore has caught up.
    pub fn overdue(&self, chore: Chore, overdue: Millis, may_be: Millis) {
        let (mut all, now) = (self.behind.lock(), Instant::now());
        let begun = Backlog { overdue, compared_at: now, was_overdue: overdue, hurry: 1 };
        let behind = all.entry(chore).or_insert(begun);
        let every = Duration::from_millis((may_be / CHECKS_PER_TERM).unsigned_abs());
        behind.overdue = overdue;
        if overdue < may_be || behind.was_overdue < may_be {
            *behind = begun;
        } else if now.duration_since(behind.compared_at) >= every {
            let more = if overdue < behind.was_overdue { 1 } else { 2 };
            *behind = Backlog { hurry: (behind.hurry * more).min(MAX_HURRY), ..begun };
        }
    }

    /// The longest delay of the chores of this kind.
    pub fn most_overdue(&self, kind: &str) -> Millis {
        let all = self.behind.lock();
        all.iter().filter(|((of, _), _)| *of == kind).map(|(_, behind)| behind.overdue).max().unwrap_or(0)
    }

    /// Reports that the chore has nothing left to do.
    pub fn caught_up(&self, chore: Chore) {
        self.behind.lock().remove(&chore);
    }

    /// Reports that the chores of this kind have nothing left to do, for any tenant.
    pub fn all_caught_up(&self, kind: &str) {
        self.behind.lock().retain(|(of, _), _| *of != kind);
    }

    /// The highest `hurry` of all chores.
    pub(crate) fn hurry(&self) -> u32 {
        self.behind.lock().values().map(|behind| behind.hurry).max().unwrap_or(1)
    }

    /// Adds time for which commits were blocked.
    pub(super) fn held(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).expect("no write takes so many years");
        self.held_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Pauses after a step that took `worked`. Checks from time to time whether others still commit.
    async fn rest(&self, worked: Duration, traffic: impl Fn() -> Traffic) {
        let (ended, hurry) = (Instant::now(), self.hurry());
        let short = (worked * MIN_PAUSE_PER_WORKED / hurry).max(worked).max(MIN_PAUSE);
        let first = traffic();
        sleep(short).await;
        let mut before = traffic();
        if before.commits == first.commits {
            self.held_us.store(0, Ordering::Relaxed);
            return;
        }
        let mut rested = self.rested.lock().await;
        let begun = ended.max(*rested);
        let long = Duration::from_micros(self.held_us.swap(0, Ordering::Relaxed)) * PAUSE_PER_BLOCKED / hurry;
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
    /// How many commits shared a transaction on average, at most [`MAX_SHARED`].
    fn shared_since(self, earlier: Self) -> u32 {
        let (commits, transactions) = (self.commits - earlier.commits, self.transactions - earlier.transactions);
        let shared = commits / transactions.max(1);
        u32::try_from(shared.clamp(1, MAX_SHARED)).expect("it is small")
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

    /// Pauses after the step.
    pub async fn rest(self, store: &(impl Store + ?Sized)) {
        let (chores, worked) = (store.chores(), self.begun.elapsed());
        if chores.is_concurrent {
            chores.held(worked / CONCURRENT_DIVISOR);
        }
        chores.rest(worked, || store.traffic()).await;
    }
}

#[cfg(test)]
mod tests;
