//! The store: its types, and what each call guarantees. Two implementations (SQLite, PostgreSQL), one conformance suite
//! (`tests/it/store`).
//!
//! Each table has one file here, with its types, its traits and the guarantee of each method, and one file of the same name
//! in `sqlite` and in `postgres`, with the statements. [`Store`] is all of these traits.
//!
//! A transition is one [`Commit`]: small head, changed rows, records; accepted iff its fence still holds, as a whole, and
//! durable when the call returns. Commits of many threads share a database transaction (`committer`).
//!
//! Both databases store the same texts: a commit becomes a `PreparedCommit` before it is sent, and what is read back is
//! decoded by the table's file (`columns`, `text`).

mod audit;
mod backup;
pub mod chain;
mod columns;
mod commit;
pub(crate) mod committer;
pub mod documents;
mod erasure;
mod fault;
mod figures;
mod file_owner;
mod forgetting;
mod idempotency;
mod keys;
mod leases;
mod log;
mod lookups;
mod migrations;
mod open;
pub mod outbox;
mod pace;
mod page;
pub mod postgres;
mod retention;
mod rows;
mod schedules;
pub mod sealed;
mod sessions;
pub mod spend;
pub mod sqlite;
mod text;
mod threads;
mod transfer;
mod usage;

pub use audit::{AuditRow, AuditStore};
pub use backup::{BackupStore, HeldCounts, RestoreHold};
pub use chain::{ChainEnd, ChainReads, ChainStore, ChainedLine, Checkpoint, NewLinks, UnchainedLine};
pub use commit::{Commit, Committed, NewThread};
pub use erasure::{Erasure, ErasureStore};
pub use figures::{DueSchedule, FigureStore, Figures, LateThreads, MostSpent, OpenQuestions, Pooled, Size};
pub use forgetting::Forgotten;
pub use idempotency::{IdempotencyRow, IdempotencyStore, ResponseToStore};
pub use keys::{KeyAdded, KeyRow, KeyStore, Rotation, TenantRenamed};
pub use leases::*;
pub use log::{LogCompression, LogStore, NewEntry, ObservationAsk};
pub use lookups::{LookupPosition, LookupReads, LookupStore, NewLookup};
pub use open::{OldSchema, await_connection, old_schema, open, open_beside, open_existing, too_few_connections};
pub use pace::{Chores, Pace};
pub(crate) use page::fitting;
pub use page::{MAX_PAGE_BYTES, Order, Page, PageAsk};
pub use retention::{Compaction, Dropped, RetentionReads, RetentionStore, RunEnd};
pub(crate) use rows::by_key;
pub use rows::{FoundRow, RowKey, RowStore, RunsByStatusAsk, SuspensionAsk, SuspensionsWanted};
pub use schedules::{Due, Fire, PlannedSchedule, ScheduleMove, ScheduleReads, ScheduleState, ScheduleStore};
pub use sessions::{SessionRow, SessionStore};
pub use spend::{NewSpendNotice, PastPeriods, SpendChange, SpendKey, SpendNotice, SpendStore, Spent};
pub use threads::{
    EndedCost, MAX_SCANNED, Outline, RecentThread, RunCosts, ThreadFilter, ThreadReads, ThreadRow, ThreadStore,
    ThreadVersion,
};
pub use transfer::{NewImport, TransferStore};
pub use usage::{CallPosition, UsageAsk, UsageReads, UsageStore};

use std::ops::Deref;
use std::sync::Arc;

use async_trait::async_trait;

use documents::DocumentStore;
use outbox::{OutboxReads, OutboxStore};
use sealed::SealedStore;

/// What a caller can do about a failed store call.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The store does not answer; nothing is known to have changed. Try later.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// This data cannot be stored (an oversized value, an invalid character); trying again is useless.
    #[error("the data was refused: {0}")]
    Refused(String),
    /// The stored data cannot be read: a defect, or a write by another program.
    #[error("the stored data is damaged: {0}")]
    Damaged(String),
    /// The database cannot be used at all; the text says what to do.
    #[error("{0}")]
    Unusable(String),
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Whether only the data that was read or written is at fault. Other data can be read and written.
    pub(crate) fn is_of_data(&self) -> bool {
        match self {
            Error::Damaged(_) | Error::Refused(_) => true,
            Error::Unavailable(_) | Error::Unusable(_) => false,
        }
    }
}

/// How much a process has committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requested commits.
    pub commits: u64,
    /// Begun transactions, each with one or more commits.
    pub transactions: u64,
}

/// What lists, logs, figures and background chores read. Nothing is written through it.
pub trait Reads:
    ThreadReads
    + RowStore
    + LogStore
    + AuditStore
    + ChainReads
    + LookupReads
    + OutboxReads
    + UsageReads
    + FigureStore
    + RetentionReads
    + ScheduleReads
{
}

impl<S> Reads for S where
    S: ThreadReads
        + RowStore
        + LogStore
        + AuditStore
        + ChainReads
        + LookupReads
        + OutboxReads
        + UsageReads
        + FigureStore
        + RetentionReads
        + ScheduleReads
{
}

/// A database with all tables.
#[async_trait]
pub trait Store:
    Reads
    + ThreadStore
    + LogCompression
    + ChainStore
    + IdempotencyStore
    + LookupStore
    + DocumentStore
    + OutboxStore
    + KeyStore
    + SessionStore
    + LeaseStore
    + UsageStore
    + SealedStore
    + ErasureStore
    + RetentionStore
    + BackupStore
    + TransferStore
    + ScheduleStore
    + SpendStore
{
    /// `sqlite` or `postgres`, and where; for the start line.
    fn describe(&self) -> String;
    /// Whether other processes write here too. Their changes must be found by polling.
    fn is_shared(&self) -> bool {
        false
    }
    /// Why acknowledged commits may be lost when the machine fails. `None`: they cannot.
    fn weakness(&self) -> Option<String> {
        None
    }
    /// The same store over other connections, so that reads for people do not delay the engine. `None`: this is that store
    /// already.
    fn for_people(&self) -> Option<Arc<dyn Store>> {
        None
    }
    /// What this process has written so far.
    fn traffic(&self) -> Traffic;
    /// The state that background chores share.
    fn chores(&self) -> &Chores;
    /// Commits a write at least as large as the largest that failed since one of its size succeeded; used by `/readyz`. Fails
    /// while a commit worker is being restarted, while commits that were sent have had no outcome for some seconds, and once
    /// the database was found damaged.
    async fn ping(&self) -> Result<()>;
    /// Finishes what was accepted and closes.
    async fn close(&self);
}

/// A store over its connections for people: for lists, logs and whole threads, so that such reads do not delay the engine. What
/// a decision is based on is read over the store itself; a row by its key may be read over either.
#[derive(Clone)]
pub(crate) struct PeopleReads(Arc<dyn Reads>);

impl PeopleReads {
    pub(crate) fn of(store: &Arc<dyn Store>) -> Self {
        Self(store.for_people().unwrap_or_else(|| store.clone()))
    }
}

impl Deref for PeopleReads {
    type Target = dyn Reads;

    fn deref(&self) -> &(dyn Reads + 'static) {
        &*self.0
    }
}
