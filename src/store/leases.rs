//! Leases: which process may start effects of a thread, the fence of its commits, and how often processes crashed with it.

use async_trait::async_trait;

use super::Result;
use super::columns::Columns;
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};

/// Who may write a thread: compared as a whole under the row lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    pub epoch: i64,
    pub lease: Option<uuid::Uuid>,
    pub version: i64,
}

impl Fence {
    /// What the commit that creates a thread must carry.
    pub const NEW: Fence = Fence { epoch: 0, lease: None, version: 0 };
}

/// What a commit does to the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseChange {
    Keep,
    /// Take an unowned thread, one whose owner's registration has ended, or one that this replica already owns (its
    /// engine was lost, not the process): epoch + 1 and this lease. `Stale` while another's registration owns it.
    Claim {
        lease: uuid::Uuid,
        replica: uuid::Uuid,
    },
    /// Give it back; the next one claims.
    Release,
}

/// No thread has this key: under it stand the processes that have died, whatever they had in hand.
pub const NO_THREAD: ThreadPk = ThreadPk(0);

/// Processes that died while they had a thread in hand, since it last got on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crashes {
    pub times: i64,
    /// Those of them that point at this thread: nothing else was in hand, or its own task broke.
    pub alone: i64,
    /// Of how many threads it was one, at the fewest; 0: there was no crash.
    pub among: i64,
}

/// A thread that nobody takes care of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimable {
    pub pk: ThreadPk,
    pub crashes: Crashes,
}

/// A process, as long as it says so.
#[derive(Clone, Debug)]
pub struct Registration {
    pub replica: uuid::Uuid,
    /// At most one process of a name is alive: one that starts with it replaces the one before.
    pub name: Option<String>,
    /// What this very process was registered as before: that ended without a crash.
    pub former: Option<uuid::Uuid>,
}

/// Tenants take turns among so many threads that are the most overdue: what a look costs is bounded.
pub(crate) const IN_TURN: u32 = 20_000;

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait LeaseStore: Send + Sync + 'static {
    /// Whether a registration ends by itself. Where one process holds the folder, nobody can take its place.
    fn leases_expire(&self) -> bool {
        true
    }
    /// Registers this process for `ttl` by the store's clock, and ends, as [`Self::end_expired`] does, every registration
    /// that it takes the place of: an older one of its name; on SQLite, where one process holds the folder,
    /// all. A registration whose answer was lost may be made again, under the same id. `Unusable` if it was registered
    /// before and another process has its name now.
    async fn register(&self, new: Registration, ttl: Millis) -> Result<()>;
    /// `false`: it had expired; register a new one.
    async fn renew(&self, replica: uuid::Uuid, ttl: Millis) -> Result<bool>;
    /// Ends the registration; other processes may claim its threads, and no crash is counted.
    async fn unregister(&self, replica: uuid::Uuid) -> Result<()>;
    /// Ends registrations that have expired. In the same transaction, a crash is counted for each thread that such a
    /// process had in hand: it points at a thread that was the only one, or that alone of them had been in hand at two
    /// crashes before.
    async fn end_expired(&self) -> Result<()>;
    /// Threads to take care of: `wake_at` due (by the given time) or `running`, and of no registered replica, or reserved
    /// by this one and not claimed under this lease; in rounds, one thread of each tenant, its most overdue first.
    async fn claimable(
        &self,
        now: Millis,
        replica: uuid::Uuid,
        lease: uuid::Uuid,
        limit: u32,
    ) -> Result<Vec<Claimable>>;
    /// Says, before these are so much as read, that this replica has them in hand; returns those that nobody else has.
    async fn reserve(&self, replica: uuid::Uuid, pks: &[ThreadPk]) -> Result<Vec<ThreadPk>>;
    /// How many processes have died, whatever they had in hand, since [`Self::forget_crashes`] of [`NO_THREAD`].
    async fn deaths(&self) -> Result<i64>;
    /// Counts a crash that points at the thread.
    async fn count_crash(&self, pk: ThreadPk) -> Result<()>;
    /// Forgets the crashes of these threads; with `keeps_alone`, only those that do not point at them.
    async fn forget_crashes(&self, pks: &[ThreadPk], keeps_alone: bool) -> Result<()>;
    /// Threads of this replica whose `wake_at` is due, in the same rounds.
    async fn due(&self, replica: uuid::Uuid, now: Millis, limit: u32) -> Result<Vec<ThreadPk>>;
    /// Tenants with threads whose next run waits until it may begin.
    async fn tenants_to_begin(&self) -> Result<Vec<TenantPk>>;
    /// Such threads of a tenant, the longest waiting first.
    async fn threads_to_begin(&self, tenant: TenantPk, limit: u32) -> Result<Vec<ThreadPk>>;
    /// How many there are, counted up to `most`.
    async fn count_to_begin(&self, tenant: TenantPk, most: u32) -> Result<u32>;
    /// When the next timer is due, if any.
    async fn next_wake(&self) -> Result<Option<Millis>>;
}

impl Crashes {
    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self { times: row.number("times")?, alone: row.number("alone")?, among: row.number("among")? })
    }
}

impl Claimable {
    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self { pk: ThreadPk(row.number("pk")?), crashes: Crashes::read(row)? })
    }
}
