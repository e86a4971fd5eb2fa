//! Documents: what a tenant configures over REST, and the view of them that every replica keeps.

mod cache;
mod key;
mod seal;
mod secrets;

use serde_json::Value;

use crate::domain::Millis;
use crate::domain::ids::TenantPk;

pub use cache::{Change, Documents};
pub use key::KeySource;
pub use seal::{Fingerprints, Owner, SEALED, Sealer, Unreadable};
pub use secrets::{ANSWER, Survey, answer_id, owner_of_answer, owner_of_document};

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
