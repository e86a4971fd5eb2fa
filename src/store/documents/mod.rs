//! Documents: what a tenant configures over REST, and the cache of them in each process.

mod document_cache;
mod document_secrets;
mod key;
mod legible;
mod sealer;

use async_trait::async_trait;
use serde_json::Value;

use super::columns::Columns;
use super::{AnswerToStore, AuditRow, Result, text};
use crate::domain::Millis;
use crate::domain::ids::TenantPk;

pub use document_cache::{Change, DocumentCache};
pub use document_secrets::{ANSWER, Survey, answer_id, owner_of_answer, owner_of_document};
pub use key::KeySource;
pub use legible::Illegible;
pub use sealer::{Fingerprints, Owner, SEALED, Sealer, Unreadable};

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal),+ $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum DocumentKind { $($(#[$doc])* $name,)+ }

        impl DocumentKind {
            pub const ALL: &'static [DocumentKind] = &[$(DocumentKind::$name,)+];

            /// As it is stored.
            pub fn as_str(self) -> &'static str {
                match self { $(DocumentKind::$name => $text,)+ }
            }
        }
    };
}

kinds! {
    McpServer = "mcp_server",
    /// Which definitions of a server's tools are trusted.
    McpTools = "mcp_tools",
    HttpTool = "http_tool",
    Policy = "policy",
    Webhook = "webhook",
    Agent = "agent",
    Schedule = "schedule",
    /// What a tenant may spend, where that is not what the settings say.
    SpendCaps = "spend_caps",
    /// The same of how many runs it may have.
    RunLimits = "run_limits",
}

impl DocumentKind {
    /// Those that are read: what a newer release stores of others is left to it.
    pub(crate) fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|kind| kind.as_str()).collect()
    }
}

/// One thing that a tenant configured. Secrets stand in it only as references.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    pub tenant: TenantPk,
    pub kind: DocumentKind,
    /// Unique within tenant and kind.
    pub id: String,
    /// Given by the store; what an ETag shows.
    pub version: i64,
    pub updated_at: Millis,
    /// `None`: deleted.
    pub body: Option<Value>,
}

/// What was written since.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changed {
    pub documents: Vec<Document>,
    /// These are all that there are: some that were deleted since are not told any more.
    pub is_whole: bool,
    /// Up to this version nothing is left to be read.
    pub newest: i64,
}

/// What must be stored for a write to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Nothing of this id.
    Absent,
    /// This version.
    Version(i64),
    /// Anything; a deletion needs something to delete.
    Any,
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait DocumentStore: Send + Sync + 'static {
    /// Stores a document, or deletes it (no `body`), with its audit line, if what is stored is what was expected; returns
    /// its new version, greater than every version of any document before. `None`: it was not, or `kept` has a key that is
    /// taken, and nothing is stored.
    async fn write_document(
        &self,
        new: Document,
        old: Expected,
        audit: AuditRow,
        kept: AnswerToStore,
    ) -> Result<Option<i64>>;
    async fn document(&self, tenant: TenantPk, kind: DocumentKind, id: &str) -> Result<Option<Document>>;
    /// Every document written after the one of version `after`, whose tenant it may be, by version; of each its newest
    /// version, and deleted ones without a body. None is ever seen before one of a smaller version. Where deletions after that
    /// version are forgotten, all documents.
    async fn documents_since(&self, after: i64) -> Result<Changed>;
    /// Forgets documents that were deleted before `before`, at most so many.
    async fn forget_documents(&self, before: Millis, at_most: u32) -> Result<u64>;
}

impl Changed {
    /// The rows behind `after`, or all of them, and up to which version deletions are forgotten.
    pub(crate) fn of(documents: Vec<Document>, after: i64, forgotten: i64) -> Self {
        let newest = documents.last().map_or(after, |document| document.version).max(forgotten);
        Self { documents, is_whole: after < forgotten, newest }
    }
}

impl Expected {
    /// Whether a document of this version, or none, lets `new` be written.
    pub(crate) fn is_met(self, version: Option<i64>, new: &Document) -> bool {
        match self {
            Self::Absent => version.is_none(),
            Self::Version(expected) => version == Some(expected),
            Self::Any => version.is_some() || new.body.is_some(),
        }
    }

    /// As a number. A version is never below 1: 0 is none, -1 is any.
    pub(crate) fn code(self) -> i64 {
        match self {
            Self::Absent => 0,
            Self::Version(version) => version,
            Self::Any => -1,
        }
    }
}

impl Document {
    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self {
            tenant: TenantPk(row.number("tenant")?),
            kind: text::document_kind(row.text("kind")?)?,
            id: row.name("id")?,
            version: row.number("version")?,
            updated_at: row.number("updated_at")?,
            body: row.text_or_none("body")?.map(text::document),
        })
    }
}
