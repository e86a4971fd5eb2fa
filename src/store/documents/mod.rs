//! Documents: what a tenant configures over REST, and each process's cache of them.

mod audited;
mod document_cache;
mod document_secrets;
mod key;
mod legible;
mod sealer;

use async_trait::async_trait;
use serde_json::Value;

use super::columns::Columns;
use super::{AuditRow, ResponseToStore, Result, text};
use crate::domain::Millis;
use crate::domain::ids::TenantPk;

pub use document_cache::{Change, DocumentCache};
pub use document_secrets::{RESPONSE, Survey, owner_of_document, owner_of_response, response_id};
pub use key::KeySource;
pub use legible::Illegible;
pub use sealer::{Fingerprints, Owner, SEALED, Sealer, Unreadable};

text::words! {
    DocumentKind {
        McpServer = "mcp_server",
        /// Which definitions of a server's tools are trusted.
        McpTools = "mcp_tools",
        HttpTool = "http_tool",
        Policy = "policy",
        Webhook = "webhook",
        Agent = "agent",
        Schedule = "schedule",
        /// What a tenant may spend, if it differs from the server's settings.
        SpendCaps = "spend_caps",
        /// How many runs a tenant may have, if it differs from the server's settings.
        RunLimits = "run_limits",
        /// That the operator removed the tenant.
        Removal = "removal",
    }
}

impl DocumentKind {
    /// The kinds that are read. Documents of other kinds belong to a newer release.
    pub(crate) fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|kind| kind.as_str()).collect()
    }
}

/// Something that a tenant configured. Secrets in it are sealed.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    pub tenant: TenantPk,
    pub kind: DocumentKind,
    /// Unique within tenant and kind.
    pub id: String,
    /// Assigned by the store; shown as the ETag.
    pub version: i64,
    pub updated_at: Millis,
    /// `None`: deleted.
    pub body: Option<Value>,
}

/// The documents that were written after a version.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DocumentChanges {
    pub documents: Vec<Document>,
    /// These are all documents, because tombstones of some later deletions no longer exist.
    pub is_whole: bool,
    /// Everything up to this version was read.
    pub newest: i64,
}

/// What must be stored for a write to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// No document with this id.
    Absent,
    /// The same, and fewer documents of the tenant and kind than this.
    AbsentBelow(usize),
    /// This version.
    Version(i64),
    /// Anything; a deletion needs something to delete.
    Any,
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait DocumentStore: Send + Sync + 'static {
    /// Stores a document, or deletes it (no `body`), with its audit line, if the stored document is the expected one.
    /// Returns the new version, greater than every version of any document before. `None`: it was not the expected one, or
    /// the key of `response` is taken, and nothing is stored.
    async fn write_document(
        &self,
        new: Document,
        old: Expected,
        audit: AuditRow,
        response: ResponseToStore,
    ) -> Result<Option<i64>>;
    async fn document(&self, tenant: TenantPk, kind: DocumentKind, id: &str) -> Result<Option<Document>>;
    /// All documents of all tenants with a version above `after`, by version: of each its newest version, and deleted ones
    /// without a body. No version becomes visible before a smaller one. If tombstones above that version were deleted,
    /// returns all documents.
    async fn documents_since(&self, after: i64) -> Result<DocumentChanges>;
    /// Deletes the tombstones of at most `at_most` documents that were deleted before `before`.
    async fn forget_documents(&self, before: Millis, at_most: u32) -> Result<u64>;
}

impl DocumentChanges {
    /// `documents` are those above `after`, or all. `forgotten` is the version up to which tombstones were deleted.
    pub(crate) fn of(documents: Vec<Document>, after: i64, forgotten: i64) -> Self {
        let newest = documents.last().map_or(after, |document| document.version).max(forgotten);
        Self { documents, is_whole: after < forgotten, newest }
    }
}

impl Expected {
    /// Whether `new` may be written over a document of this version, or over none.
    pub(crate) fn is_met(self, version: Option<i64>, new: &Document) -> bool {
        match self {
            Self::Absent | Self::AbsentBelow(_) => version.is_none(),
            Self::Version(expected) => version == Some(expected),
            Self::Any => version.is_some() || new.body.is_some(),
        }
    }

    /// How many documents of the tenant and kind keep it from being met; `None`: any number may be there.
    pub(crate) fn bound(self) -> Option<i64> {
        match self {
            Self::AbsentBelow(bound) => Some(i64::try_from(bound).unwrap_or(i64::MAX)),
            Self::Absent | Self::Version(_) | Self::Any => None,
        }
    }
}

impl Document {
    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self {
            tenant: TenantPk(row.number("tenant")?),
            kind: text::word(row.text("kind")?)?,
            id: row.name("id")?,
            version: row.number("version")?,
            updated_at: row.number("updated_at")?,
            body: row.text_or_none("body")?.map(text::document),
        })
    }
}
