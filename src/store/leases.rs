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
    /// Takes an unowned thread, one whose owner's registration has ended, or one that this replica already owns (its
    /// engine was lost, not the process): epoch + 1 and this lease. `Stale` while another's registration owns it.
    Claim {
        lease: uuid::Uuid,
        replica: uuid::Uuid,
    },
    /// Releases the lease. The next process claims it.
    Release,
}

/// The key under which the crashes of processes are counted, whatever threads they owned.
pub const PROCESS_CRASHES: ThreadPk = ThreadPk::NONE;

/// Crashes of processes that owned the thread, since it last made progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crashes {
    pub times: i64,
    /// The crashes that are attributed to this thread: it was the only one owned, or its own actor panicked.
    pub attributed: i64,
    /// The smallest number of threads that a crashed process owned; 0: there was no crash.
    pub among: i64,
}

/// A thread that no process owns, or whose next run may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimable {
    pub pk: ThreadPk,
    pub crashes: Crashes,
}

/// A process that must renew its registration.
#[derive(Clone, Debug)]
pub struct Registration {
    pub replica: uuid::Uuid,
    /// At most one process with this name is alive: a new one replaces it.
    pub name: Option<String>,
    /// The earlier registration of this same process, which ended without a crash.
    pub former: Option<uuid::Uuid>,
}

/// What became of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The registration had expired; register a new one.
    Expired,
    /// It holds. The time by the database's clock is that of [`LeaseStore::database_time`].
    Renewed { database_time: Option<Millis> },
}

impl Renewal {
    pub fn is_renewed(self) -> bool {
        match self {
            Renewal::Expired => false,
            Renewal::Renewed { .. } => true,
        }
    }
}

/// How many of the most overdue threads a query scans to let tenants take turns. This bounds the cost of the query.
pub(crate) const MAX_OVERDUE_SCANNED: u32 = 20_000;

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait LeaseStore: Send + Sync + 'static {
    /// Whether a registration expires. It does not if one process holds the folder, because no other can replace it.
    fn leases_expire(&self) -> bool {
        true
    }
    /// Registers this process for `ttl` by the store's clock. Ends, as [`Self::end_expired`] does, every registration that
    /// it replaces: an older one with its name; on SQLite, where one process holds the folder, all. A registration whose
    /// response was lost may be repeated under the same id. `Unusable` if it was registered before and another process has
    /// its name now.
    async fn register(&self, new: Registration, ttl: Millis) -> Result<()>;
    /// Renews a registration.
    async fn renew(&self, replica: uuid::Uuid, ttl: Millis) -> Result<Renewal>;
    /// The time by the database's own clock. `None`: it has none, because it is a file of this machine.
    async fn database_time(&self) -> Result<Option<Millis>> {
        Ok(None)
    }
    /// Ends the registration; other processes may claim its threads, and no crash is counted.
    async fn unregister(&self, replica: uuid::Uuid) -> Result<()>;
    /// Ends expired registrations. In the same transaction, counts a crash for each thread that such a process owned. The
    /// crash is attributed to a thread that was the only one, or the only one of them that had been owned at two crashes
    /// before.
    async fn end_expired(&self) -> Result<()>;
    /// Threads to claim: their `wake_at` is due (at the given time) or they are `running`, and they belong to no registered
    /// replica, or are reserved by this one and not claimed under this lease. In rounds: one thread of each tenant, its most
    /// overdue first.
    async fn claimable(
        &self,
        now: Millis,
        replica: uuid::Uuid,
        lease: uuid::Uuid,
        limit: u32,
    ) -> Result<Vec<Claimable>>;
    /// Marks these threads as owned by this replica, before they are read. Returns those that no other replica owns.
    async fn reserve(&self, replica: uuid::Uuid, pks: &[ThreadPk]) -> Result<Vec<ThreadPk>>;
    /// How many processes have crashed, whatever they owned, since [`Self::forget_crashes`] of [`PROCESS_CRASHES`].
    async fn process_crashes(&self) -> Result<i64>;
    /// Those of these threads with which processes have crashed, and how often.
    async fn crashed(&self, pks: &[ThreadPk]) -> Result<Vec<Claimable>>;
    /// Counts a crash that is attributed to the thread.
    async fn count_crash(&self, pk: ThreadPk) -> Result<()>;
    /// Deletes the crashes of these threads.
    async fn forget_crashes(&self, pks: &[ThreadPk]) -> Result<()>;
    /// Deletes those crashes of these threads that are not attributed to them.
    async fn forget_crashes_of_others(&self, pks: &[ThreadPk]) -> Result<()>;
    /// Threads of this replica whose `wake_at` is due, in rounds as for [`Self::claimable`].
    async fn due(&self, replica: uuid::Uuid, now: Millis, limit: u32) -> Result<Vec<ThreadPk>>;
    /// Tenants with threads whose next run is waiting for a slot.
    async fn tenants_to_begin(&self) -> Result<Vec<TenantPk>>;
    /// Such threads of a tenant, the longest waiting first.
    async fn threads_to_begin(&self, tenant: TenantPk, limit: u32) -> Result<Vec<ThreadPk>>;
    /// How many such threads the tenant has, counted up to `most`.
    async fn count_to_begin(&self, tenant: TenantPk, most: u32) -> Result<u32>;
    /// When the next timer is due, if any.
    async fn next_wake(&self) -> Result<Option<Millis>>;
}

impl Crashes {
    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self { times: row.number("times")?, attributed: row.number("attributed")?, among: row.number("among")? })
    }
}

impl Claimable {
    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self { pk: ThreadPk(row.number("pk")?), crashes: Crashes::read(row)? })
    }
}
