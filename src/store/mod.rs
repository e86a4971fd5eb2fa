//! The store: what holds after each call returns. Two implementations (SQLite, PostgreSQL), one conformance suite
//! (`tests/it/store`).
//!
//! A transition is one [`Commit`]: small head, changed rows, records; accepted iff its fence still holds, as a whole, and
//! durable when the call returns. Commits of many threads share a database transaction (`committer`).
//!
//! Both databases store the same texts: a commit becomes a `PreparedCommit` before it is sent, and what is read back is
//! decoded by `text`.

mod ask;
pub(crate) mod committer;
mod cursor;
pub mod delivery;
pub mod document;
mod figures;
mod lease;
mod ledger;
mod log;
mod open;
pub mod postgres;
pub mod sealed;
pub mod sqlite;
mod standing;
mod text;
mod usage;

pub use ask::{LOOKED_AT, ObservationAsk, Page, PageAsk, ThreadFilter};
pub use figures::{Figures, OpenQuestions};
pub use lease::*;
pub use ledger::{AuditRow, KeyRow};
pub use open::open;
pub use standing::StandingAsk;
pub use usage::UsageAsk;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::domain::Millis;
use crate::domain::ids::{MessageId, PayloadId, TenantPk, ThreadId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::observation::{Observation, Record};
use crate::domain::thread::{ThreadProfile, ThreadStatus};
use crate::domain::usage::UsageSum;
use crate::engine::step::{Row, RowKind};
use delivery::{Deliveries, NewDelivery};
use document::{Document, DocumentKind, Expected};
use sealed::SealedRows;

/// What a caller can do about a failed store call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store does not answer; nothing is known to have changed. Try later.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// This data cannot be stored (an oversized value, an invalid character); trying again is useless.
    #[error("the data was refused: {0}")]
    Refused(String),
    /// What is stored cannot be read: a defect, or another program's write.
    #[error("the stored data is damaged: {0}")]
    Damaged(String),
    /// The database cannot be opened at all; the sentence says what to do.
    #[error("{0}")]
    Unusable(String),
}

pub type Result<T> = std::result::Result<T, Error>;

/// A thread's own row.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadRow {
    pub pk: ThreadPk,
    pub tenant: TenantPk,
    pub thread_id: ThreadId,
    pub fence: Fence,
    /// The replica that took the lease, alive or not.
    pub replica: Option<uuid::Uuid>,
    pub core: String,
    /// Empty until a commit brought one.
    pub head: String,
    pub status: ThreadStatus,
    pub sheet: ThreadProfile,
    pub wake_at: Option<Millis>,
    pub floor: i64,
    pub last_seq: i64,
    pub min_seq: i64,
    /// Whether its replica is registered: alive, or not known to be dead yet.
    pub is_owned: bool,
    pub crashes: Crashes,
    pub created_at: Millis,
    /// The last activity that people see: a new status, a message, an edit of the profile.
    pub updated_at: Millis,
    /// The name of the key that created it.
    pub created_by: String,
}

/// A thread to be created by the commit that carries it: version 0 is inserted, then the commit applies.
#[derive(Clone, Debug, PartialEq)]
pub struct NewThread {
    pub tenant: TenantPk,
    pub thread_id: ThreadId,
    pub core: String,
    pub created_at: Millis,
    /// The name of the key.
    pub created_by: String,
}

/// One transition of one thread. The version moves by one with each.
#[derive(Clone, Debug)]
pub struct Commit {
    /// A new thread's is made by whoever creates it: never used before, roughly rising.
    pub pk: ThreadPk,
    /// With [`Fence::NEW`] only.
    pub create: Option<NewThread>,
    pub fence: Fence,
    pub lease: LeaseChange,
    /// Unique for ever: after a lost connection it tells whether our write landed.
    pub token: uuid::Uuid,
    pub now: Millis,
    /// `None`: unchanged.
    pub head: Option<String>,
    pub sheet: Option<ThreadProfile>,
    pub status: ThreadStatus,
    pub wake_at: Option<Millis>,
    pub floor: i64,
    pub rows: Vec<Row>,
    /// The thread's `last_seq` as the caller knows it; compared with the fence, so no number is left out or used twice.
    /// Records are numbered from `last_seq + 1`, contiguously, in their order.
    pub last_seq: i64,
    pub records: Vec<Record>,
    pub idempotency: Option<IdempotencyRow>,
    /// Audit lines written with it (who decided what).
    pub audit: Vec<AuditRow>,
    /// What it leaves in the outbox, due at once.
    pub deliveries: Vec<NewDelivery>,
}

impl Commit {
    /// Creates an idle thread, and nothing else.
    pub fn creating(pk: ThreadPk, new: NewThread, sheet: ThreadProfile, idempotency: Option<IdempotencyRow>) -> Self {
        Self {
            pk,
            fence: Fence::NEW,
            lease: LeaseChange::Keep,
            token: uuid::Uuid::new_v4(),
            now: new.created_at,
            create: Some(new),
            head: None,
            sheet: Some(sheet),
            status: ThreadStatus::Idle,
            wake_at: None,
            floor: 0,
            rows: Vec::new(),
            last_seq: 0,
            records: Vec::new(),
            idempotency,
            audit: Vec::new(),
            deliveries: Vec::new(),
        }
    }

    /// Whether people see it as activity whatever the status does.
    pub(crate) fn is_activity(&self) -> bool {
        self.sheet.is_some() || self.rows.iter().any(|row| row.kind == RowKind::Message)
    }
}

/// What became of a commit. In every case but `Done` nothing of it is stored. Where several hold, `Duplicate` is told
/// before `Exists`, and `Exists` before `Stale`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    Done,
    /// The fence does not hold any more: read again.
    Stale,
    /// `create` found the id taken: read it.
    Exists,
    /// The idempotency key is taken: read it.
    Duplicate,
}

/// An answer to be stored with what it tells of.
pub type Kept = Option<IdempotencyRow>;

/// A stored answer to a request, under its `Idempotency-Key`.
#[derive(Clone, Debug, PartialEq)]
pub struct IdempotencyRow {
    pub tenant: TenantPk,
    /// Method and path.
    pub scope: String,
    pub key: String,
    /// SHA-256 of the body, hex.
    pub fingerprint: String,
    pub status: u16,
    /// The answer's body as JSON text, and its Location.
    pub body: String,
    pub location: Option<String>,
    pub created_at: Millis,
}

/// A row found by its id, with its thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub pk: ThreadPk,
    pub thread_id: ThreadId,
    pub row: Row,
}

#[async_trait]
pub trait Store: Deliveries + SealedRows {
    /// `sqlite` or `postgres`, and where; for the start line.
    fn describe(&self) -> String;
    /// Whether other processes write here too. What they do must be looked for.
    fn is_shared(&self) -> bool {
        false
    }
    /// Why what is acknowledged may be lost when the machine fails; `None`: it is not.
    fn weakness(&self) -> Option<String> {
        None
    }
    /// The same store, read over other connections: what people ask for does not stand in the way of the engine. `None`:
    /// there is nothing that can run out.
    fn for_readers(&self) -> Option<Arc<dyn Store>> {
        None
    }
    /// Creates an idle thread unless its id is taken. After `Ok` it is durable; `created` tells who won.
    async fn create_thread(
        &self,
        pk: ThreadPk,
        new: NewThread,
        sheet: ThreadProfile,
        idempotency: Option<IdempotencyRow>,
    ) -> Result<Committed> {
        self.commit(Commit::creating(pk, new, sheet, idempotency)).await
    }

    /// Applies one transition. After `Ok(Done)` all of it is durable and readable by everybody; otherwise nothing of it
    /// is stored. `Err(Unavailable)` is returned only when it is certain that it was not applied: an ambiguous end is
    /// settled by the token first. Commits of one thread are applied in the order in which they were sent. Dropping the
    /// future does not cancel a commit that was sent.
    async fn commit(&self, commit: Commit) -> Result<Committed>;

    async fn thread(&self, tenant: TenantPk, id: &ThreadId) -> Result<Option<ThreadRow>>;
    async fn thread_by_pk(&self, pk: ThreadPk) -> Result<Option<ThreadRow>>;
    /// The thread and the rows it is rebuilt from (`Keep::Always`, and `UntilFloor` from the floor on), read in one
    /// snapshot, ordered by kind, then `ord`, then id.
    async fn load(&self, pk: ThreadPk) -> Result<Option<(ThreadRow, Vec<Row>)>>;
    /// Where these stand now, in no order; those that are gone are left out.
    async fn marks(&self, pks: &[ThreadPk]) -> Result<Vec<Mark>>;
    /// Newest activity first. Looks at [`LOOKED_AT`] threads at most: a page may end early, or be empty, and go on at its
    /// cursor.
    async fn threads(&self, tenant: TenantPk, filter: &ThreadFilter, page: &PageAsk) -> Result<Page<ThreadRow>>;
    /// Erases everything of it but its audit, to which a line is added, and what its model calls took, which counts for a
    /// run called `deleted` from then on.
    /// `false`: it is not as it was read, and stays.
    async fn delete_thread(&self, erasure: delivery::Erasure) -> Result<bool>;

    async fn row(&self, pk: ThreadPk, kind: RowKind, id: &str) -> Result<Option<Row>>;
    /// A run, suspension or task of this tenant by its id; rows of other kinds are not found this way.
    async fn find_row(&self, tenant: TenantPk, kind: RowKind, id: &str) -> Result<Option<Found>>;
    /// Rows of a kind by `ord`, ascending or descending; the cursor is opaque.
    async fn rows(&self, pk: ThreadPk, kind: RowKind, descending: bool, page: &PageAsk) -> Result<Page<Row>>;
    /// The newest `limit` messages before this one (of all, if it is not there), oldest first.
    async fn history(&self, pk: ThreadPk, before: &MessageId, limit: u32) -> Result<Vec<ConversationMessage>>;
    async fn payloads(&self, pk: ThreadPk, ids: &[PayloadId]) -> Result<Vec<(PayloadId, Arc<Value>)>>;
    /// Open suspensions of a tenant, oldest first (their ids sort by time).
    async fn open_suspensions(&self, tenant: TenantPk, page: &PageAsk) -> Result<Page<Found>>;

    /// The tasks that the tenant's threads gave to other agents, newest first.
    async fn tasks(&self, tenant: TenantPk, page: &PageAsk) -> Result<Page<Found>>;

    /// The tenant's runs with where they stand, the last to change first, and how many there are on all pages.
    async fn runs_by_standing(&self, ask: &StandingAsk) -> Result<(Page<Found>, u64)>;

    /// As recorded: payload references and shortened plans are still in them.
    async fn observations(&self, pk: ThreadPk, ask: &ObservationAsk) -> Result<Vec<Observation>>;

    /// What the tenant's model calls took, of threads that were not erased; an empty group is left out.
    async fn usage(&self, ask: &UsageAsk) -> Result<Page<UsageSum>>;

    /// Who decided what on the threads that have or had this id, oldest first.
    async fn audit(&self, tenant: TenantPk, thread: &ThreadId) -> Result<Vec<AuditRow>>;
    /// Who configured what of this tenant, made its keys and erased its threads; newest first.
    async fn audit_of_tenant(&self, tenant: TenantPk, page: &PageAsk) -> Result<Page<AuditRow>>;

    /// Stores a document, or deletes it (no `body`), with its audit line, if what is stored is what was expected; returns
    /// its new version, greater than every version of any document before. `None`: it was not, or `kept` has a key that is
    /// taken, and nothing is stored.
    async fn write_document(&self, new: Document, old: Expected, audit: AuditRow, kept: Kept) -> Result<Option<i64>>;
    async fn document(&self, tenant: TenantPk, kind: DocumentKind, id: &str) -> Result<Option<Document>>;
    /// Every document written after the one of version `after`, whose tenant it may be, by version; of each its newest
    /// version, and deleted ones without a body. None is ever seen before one of a smaller version.
    async fn documents_since(&self, after: i64) -> Result<Vec<Document>>;

    async fn idempotency(&self, tenant: TenantPk, scope: &str, key: &str) -> Result<Option<IdempotencyRow>>;
    /// Forgets answers older than this, at most so many; returns how many.
    async fn forget_idempotency(&self, before: Millis, limit: u32) -> Result<u64>;

    /// The tenant of that name, created if new.
    async fn tenant(&self, name: &str, now: Millis) -> Result<TenantPk>;
    /// Gives a tenant another name, and the keys of the one that had it before, which must have nothing else. `false`:
    /// there is none to rename, or that one has threads, documents or usage.
    async fn rename_tenant(&self, from: &str, to: &str, by: &str, now: Millis) -> Result<bool>;
    /// Stores a key with its audit line. `false`: its tenant has, or had, one of that name.
    async fn add_key(&self, key: KeyRow, audit: AuditRow) -> Result<bool>;
    async fn keys(&self) -> Result<Vec<KeyRow>>;
    /// With its audit line. `false`: no such active key, and nothing is stored.
    async fn revoke_key(&self, key_id: &str, now: Millis, audit: AuditRow) -> Result<bool>;
    /// The key with this hash, revoked or not.
    async fn key_by_hash(&self, hash: &str) -> Result<Option<KeyRow>>;

    /// Whether a registration ends by itself. Where one process holds the folder, nobody can take its place.
    fn leases_expire(&self) -> bool {
        true
    }
    /// Registers this process for `ttl` by the store's clock, and ends, as [`Self::end_expired`] does, every registration
    /// that it takes the place of: an older one of its name; on SQLite, where one process holds the folder,
    /// all. `Unusable` if it was registered before and another process has its name now.
    async fn register(&self, new: Registration, ttl: Millis) -> Result<()>;
    /// `false`: it had expired; register a new one.
    async fn renew(&self, replica: uuid::Uuid, ttl: Millis) -> Result<bool>;
    /// Ends the registration; whoever comes next may claim its threads, and no crash is counted.
    async fn unregister(&self, replica: uuid::Uuid) -> Result<()>;
    /// Ends registrations that have expired. In the same transaction, a crash is counted for each thread that such a
    /// process had in hand: it points at a thread that was the only one, or that alone of them had been in hand at two
    /// crashes before.
    async fn end_expired(&self) -> Result<()>;
    /// Threads to take care of: `wake_at` due (by the given time) or `running`, and of no registered replica, or reserved
    /// by this one and not claimed under this lease; the most overdue first.
    async fn claimable(
        &self,
        now: Millis,
        replica: uuid::Uuid,
        lease: uuid::Uuid,
        limit: u32,
    ) -> Result<Vec<Claimable>>;
    /// Says, before these are so much as read, that this replica has them in hand; returns those that nobody else has.
    async fn reserve(&self, replica: uuid::Uuid, pks: &[ThreadPk]) -> Result<Vec<ThreadPk>>;
    /// Counts a crash that points at the thread.
    async fn count_crash(&self, pk: ThreadPk) -> Result<()>;
    /// Forgets the crashes of these threads; with `keeps_alone`, only those that do not point at them.
    async fn forget_crashes(&self, pks: &[ThreadPk], keeps_alone: bool) -> Result<()>;
    /// Threads of this replica whose `wake_at` is due.
    async fn due(&self, replica: uuid::Uuid, now: Millis, limit: u32) -> Result<Vec<ThreadPk>>;
    /// When the next timer is due, if any.
    async fn next_wake(&self) -> Result<Option<Millis>>;
    /// What of all tenants is open: read by index, however much there is that is over.
    async fn figures(&self) -> Result<Figures>;
    /// A write that commits, as large as the last one that failed: what `/readyz` asks. Fails while a committer is being
    /// started again.
    async fn ping(&self) -> Result<()>;
    /// Finishes what was accepted and closes.
    async fn close(&self);
}
