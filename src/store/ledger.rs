//! Who may call, and who did what.

use serde_json::Value;

use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadId, ThreadPk};

/// An API key as stored: never the key itself.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyRow {
    /// Public: shown in lists, used to revoke.
    pub key_id: String,
    pub tenant: TenantPk,
    pub tenant_name: String,
    pub name: String,
    /// SHA-256 of the key, hex.
    pub hash: String,
    /// Space-separated scopes.
    pub scopes: String,
    pub created_at: Millis,
    pub revoked_at: Option<Millis>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AuditRow {
    pub tenant: TenantPk,
    /// [`ThreadPk::NONE`] for what concerns the tenant as a whole.
    pub thread: ThreadPk,
    /// The thread that it tells of, there or erased.
    pub thread_id: Option<ThreadId>,
    pub at: Millis,
    pub actor: String,
    pub action: String,
    pub detail: Value,
}
