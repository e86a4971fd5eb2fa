//! The chain of a tenant's audit lines. Each line gets a number and a hash that includes the hash before it. So no line can
//! be changed, removed, added or moved unless every later hash changes. Lines are chained after they were written, in a
//! transaction of its own: otherwise concurrent committers would wait for each other at the end of the chain.

use async_trait::async_trait;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::columns::Columns;
use super::outbox::NewDelivery;
use super::page::{Cursor, Page, PageAsk, page_of};
use super::{AuditRow, Result};
use crate::domain::ids::{TenantPk, ThreadId, ThreadPk};
use crate::domain::{Millis, digest, hex};

/// A chained line.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainedLine {
    /// 1, 2, 3 … in the order in which they were chained.
    pub n: i64,
    /// As it is stored.
    pub hash: String,
    pub line: AuditRow,
}

/// A line that is not chained yet.
#[derive(Clone, Debug, PartialEq)]
pub struct UnchainedLine {
    /// Increases roughly in the order of writing: a lower id may still appear later.
    pub id: i64,
    pub line: AuditRow,
}

/// The end of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainEnd {
    /// 0: the chain has no line.
    pub n: i64,
    pub hash: String,
    /// The signature of the checkpoint at the end.
    pub jws: Option<String>,
}

/// The number and hash of a chain's last line at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub n: i64,
    pub hash: String,
    pub at: Millis,
    /// The signed checkpoint. `None`: there was no key.
    pub jws: Option<String>,
}

/// Lines to be chained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLinks {
    pub tenant: TenantPk,
    /// The number of the last chained line when the chain was read.
    pub behind: i64,
    /// The lines by their ids, with their hashes, in order: the first is numbered `behind + 1`.
    pub links: Vec<(i64, String)>,
    /// The checkpoint of the last of these lines. If there are none, of the end of the chain.
    pub checkpoint: Checkpoint,
    /// The deliveries that announce the checkpoint.
    pub deliveries: Vec<NewDelivery>,
    /// No request waits for it.
    pub is_chore: bool,
}

/// What is read of the chained audit. A part of [`Reads`](super::Reads).
#[async_trait]
pub trait ChainReads: Send + Sync + 'static {
    /// Tenants with unchained lines.
    async fn tenants_to_chain(&self) -> Result<Vec<TenantPk>>;
    /// The keys of tenants that do not exist and have lines or checkpoints nevertheless.
    async fn tenants_missing(&self) -> Result<Vec<TenantPk>>;
    /// At most `limit` unchained lines, the oldest first.
    async fn unchained_lines(&self, tenant: TenantPk, limit: u32) -> Result<Vec<UnchainedLine>>;
    async fn chain_end(&self, tenant: TenantPk) -> Result<ChainEnd>;
    /// At most `limit` chained lines with a number above `after`.
    async fn chained_lines(&self, tenant: TenantPk, after: i64, limit: u32) -> Result<Vec<ChainedLine>>;
    /// The chained lines of the threads that have or had this id, oldest first.
    async fn chained_lines_of_thread(
        &self,
        tenant: TenantPk,
        thread: &ThreadId,
        page: &PageAsk,
    ) -> Result<Page<ChainedLine>>;
    /// At most `limit` checkpoints with a number above `after`.
    async fn checkpoints(&self, tenant: TenantPk, after: i64, limit: u32) -> Result<Vec<Checkpoint>>;
    /// The last checkpoint before the first that was made at this time or later, in the order of the chain. Its lines are
    /// older than that, even if a later checkpoint was made while a clock was slow.
    async fn checkpoint_before(&self, tenant: TenantPk, at: Millis) -> Result<Option<Checkpoint>>;
    /// The first chained line of the tenant's threads on hold, and of those that had their ids; `None`: there is none.
    async fn first_held_line(&self, tenant: TenantPk) -> Result<Option<i64>>;
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait ChainStore: Send + Sync + 'static {
    /// Chains these lines, and stores the checkpoint, which replaces one of the same number. `false`: the chain ends
    /// elsewhere, or one of the lines is chained already; nothing is stored.
    async fn add_links(&self, new: NewLinks) -> Result<bool>;
    /// Stores a line that does not belong to another change.
    async fn add_line(&self, line: AuditRow) -> Result<()>;
    /// Deletes the lines up to a checkpoint, and the checkpoints before it. The checkpoint is kept: the rest is verified
    /// from there. Returns the number of deleted lines.
    async fn forget_lines(&self, tenant: TenantPk, upto: i64) -> Result<u64>;
}

/// The action of a line that records the deletion of older lines.
pub const FORGOTTEN: &str = "forget audit";

/// The signed part of such a line: the tenant, the number of the last deleted line, and its hash.
pub fn forgotten(tenant: &str, upto: i64, hash: &str) -> Value {
    json!({ "tenant": tenant, "upto": upto, "hash": hash })
}

/// The hash before the first line.
pub const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The hash of a line whose text has this digest, after a line with the hash `before`.
pub fn link(before: &str, digest: &str) -> String {
    let mut hash = Sha256::new();
    for part in [before, digest] {
        // A text that is not a hash was not written by this server. It is hashed as text, and matches nothing.
        let bytes = hex::read(part).unwrap_or_else(|| part.as_bytes().to_vec());
        hash.update(bytes);
    }
    hex::of(&hash.finalize())
}

impl AuditRow {
    /// The text that is hashed: all members of the line. docs/AUDIT.md documents it.
    pub fn canonical(&self) -> String {
        digest::canonical(&json!({
            "action": self.action,
            "actor": self.actor,
            "at": self.at,
            "detail": self.detail,
            "of": if self.thread == ThreadPk::NONE { "tenant" } else { "thread" },
            "threadId": self.thread_id,
        }))
    }

    /// SHA-256 of [`Self::canonical`], hex.
    pub fn digest(&self) -> String {
        hex::of(&Sha256::digest(self.canonical()))
    }
}

impl ChainedLine {
    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        let hash = row.text_or_none("hash")?.unwrap_or_default().to_owned();
        Ok(Self { n: row.number("n")?, hash, line: AuditRow::read(row)? })
    }
}

/// A page of chained lines; `id` is in the order in which they were written.
pub(crate) fn page_of_chained_lines(rows: &[impl Columns], ask: &PageAsk) -> Result<Page<ChainedLine>> {
    page_of(rows, ask, ChainedLine::read, |row, _| Ok(Cursor::new(row.number("id")?, "")))
}

impl UnchainedLine {
    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self { id: row.number("id")?, line: AuditRow::read(row)? })
    }
}

impl ChainEnd {
    pub(crate) fn none() -> Self {
        Self { n: 0, hash: NO_HASH.to_owned(), jws: None }
    }

    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        let hash = row.text_or_none("hash")?.unwrap_or_default().to_owned();
        Ok(Self { n: row.number("n")?, hash, jws: row.text_or_none("jws")?.map(str::to_owned) })
    }
}

impl Checkpoint {
    /// The signed members.
    pub fn payload(&self, tenant: &str) -> Value {
        json!({ "tenant": tenant, "n": self.n, "hash": self.hash, "at": self.at })
    }

    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self {
            n: row.number("n")?,
            hash: row.text("hash")?.to_owned(),
            at: row.number("at")?,
            jws: row.text_or_none("jws")?.map(str::to_owned),
        })
    }
}
