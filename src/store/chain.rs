//! The chain of a tenant's audit lines. Each line gets a number and a hash that is made of the hash before it, so none can be
//! changed, taken away, added or moved without every hash after it being another. Lines are chained a moment after they
//! were written, in a transaction of its own: two committers would otherwise wait for each other at its end.

use async_trait::async_trait;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::columns::Columns;
use super::outbox::NewDelivery;
use super::{AuditRow, Result};
use crate::domain::ids::{TenantPk, ThreadId, ThreadPk};
use crate::domain::{Millis, digest, hex};

/// A line that was chained.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainedLine {
    /// 1, 2, 3 … in the order in which they were chained.
    pub n: i64,
    /// As it is stored.
    pub hash: String,
    pub line: AuditRow,
}

/// A line that was not chained yet.
#[derive(Clone, Debug, PartialEq)]
pub struct UnchainedLine {
    /// In the order in which they were written, as far as that is known: one that is lower may appear later.
    pub id: i64,
    pub line: AuditRow,
}

/// Where a chain ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainEnd {
    /// 0: it has no line.
    pub n: i64,
    pub hash: String,
    /// What was signed there.
    pub jws: Option<String>,
}

/// What a chain was at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub n: i64,
    pub hash: String,
    pub at: Millis,
    /// The same, signed; `None`: there was no key.
    pub jws: Option<String>,
}

/// Lines to be chained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLinks {
    pub tenant: TenantPk,
    /// Where the chain ended when it was read.
    pub behind: i64,
    /// The lines by their ids, with their hashes, in order: the first is numbered `behind + 1`.
    pub links: Vec<(i64, String)>,
    /// Of the last of them; without any, of where the chain ends.
    pub checkpoint: Checkpoint,
    /// That tell of the checkpoint.
    pub deliveries: Vec<NewDelivery>,
    /// Nobody waits for it.
    pub is_chore: bool,
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait ChainStore: Send + Sync + 'static {
    /// Tenants with lines that are not chained.
    async fn tenants_to_chain(&self) -> Result<Vec<TenantPk>>;
    /// At most so many of them, the oldest first.
    async fn unchained_lines(&self, tenant: TenantPk, limit: u32) -> Result<Vec<UnchainedLine>>;
    async fn chain_end(&self, tenant: TenantPk) -> Result<ChainEnd>;
    /// Chains these, and keeps the checkpoint in place of one of the same number. `false`: the chain ends elsewhere, or
    /// one of them is chained; nothing is stored.
    async fn add_links(&self, new: NewLinks) -> Result<bool>;
    /// At most so many lines behind number `after`.
    async fn chained_lines(&self, tenant: TenantPk, after: i64, limit: u32) -> Result<Vec<ChainedLine>>;
    /// Those of the threads that have or had this id.
    async fn chained_lines_of_thread(&self, tenant: TenantPk, thread: &ThreadId) -> Result<Vec<ChainedLine>>;
    /// At most so many checkpoints behind number `after`.
    async fn checkpoints(&self, tenant: TenantPk, after: i64, limit: u32) -> Result<Vec<Checkpoint>>;
    /// The last checkpoint that was made before then.
    async fn checkpoint_before(&self, tenant: TenantPk, at: Millis) -> Result<Option<Checkpoint>>;
    /// Stores a line of a tenant that belongs to no other change.
    async fn add_line(&self, line: AuditRow) -> Result<()>;
    /// Deletes the lines up to a checkpoint, and the checkpoints before it. That one stays: the rest is verified from there.
    /// Returns how many lines.
    async fn forget_lines(&self, tenant: TenantPk, upto: i64) -> Result<u64>;
}

/// What a line says that tells up to which number lines were forgotten.
pub const FORGOTTEN: &str = "forget audit";

/// What is signed of such a line: of which tenant's chain, up to which number, and the hash there.
pub fn forgotten(tenant: &str, upto: i64, hash: &str) -> Value {
    json!({ "tenant": tenant, "upto": upto, "hash": hash })
}

/// The hash before the first line.
pub const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The hash of a line whose text has this digest, behind one with the hash `before`.
pub fn link(before: &str, digest: &str) -> String {
    let mut hash = Sha256::new();
    for part in [before, digest] {
        // What is no hash was written by somebody else: it is hashed as it stands, and fits nothing.
        let bytes = bytes_of(part).unwrap_or_else(|| part.as_bytes().to_vec());
        hash.update(bytes);
    }
    hex::of(&hash.finalize())
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    (0..hex.len()).step_by(2).map(byte).collect()
}

impl AuditRow {
    /// What is hashed of it: all that it tells. docs/AUDIT.md says the same.
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

    /// SHA-256, hex, of that.
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
    /// What of it is signed.
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
