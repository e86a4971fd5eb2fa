//! The audit. Its rows are written in the transaction of the change that they record. Shortly after they are chained by
//! hashes, so that changing a row is detected.

mod chain;
mod export;
mod receipt;
pub mod verify;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Result, Service, threads};
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::ids::ThreadId;
use crate::store::{AuditRow, Page, PageAsk};

pub use crate::auth::{AuditKey, PublicKey, Signed, VerifyingKey};
pub use chain::{chain, chain_and_sign, sign_ends};
pub(super) use chain::{chain_tenant_now, run};
pub use export::{AuditExport, export};
pub use receipt::{CallReceipt, receipt};

/// Who did what, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AuditLine {
    pub at: Millis,
    /// The name of a key or of an issuer's person, `local` without keys, or one of the server's own names: `policy`,
    /// `timer`, `engine`, `interrupt`, `peer`, `server` and `retention`.
    pub actor: String,
    pub action: String,
    pub detail: Value,
}

impl From<AuditRow> for AuditLine {
    fn from(row: AuditRow) -> Self {
        Self { at: row.at, actor: row.actor, action: row.action, detail: row.detail }
    }
}

/// The audit of this thread, oldest first: also after it was deleted, and of all threads that had its id.
pub async fn of_thread(service: &Service, caller: &Caller, id: &ThreadId, page: PageAsk) -> Result<Page<AuditLine>> {
    let lines = service.reads.audit(caller.tenant, id, &page).await?;
    if lines.items.is_empty() && page.cursor.is_none() {
        threads::row(service, caller, id).await?;
    }
    Ok(lines.map(AuditLine::from))
}

/// What signatures are verified with: the public half of the key that signs, if there is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct PublicKeys {
    pub keys: Vec<PublicKey>,
}

/// The public keys with which checkpoints and receipts are verified.
pub fn public_keys(service: &Service) -> PublicKeys {
    PublicKeys { keys: service.audit_key.iter().map(|key| key.public()).collect() }
}

/// The audit of the caller's tenant, newest first: its configuration, its keys, its deleted threads.
pub async fn of_tenant(service: &Service, caller: &Caller, page: PageAsk) -> Result<Page<AuditLine>> {
    Ok(service.reads.audit_of_tenant(caller.tenant, &page).await?.map(AuditLine::from))
}
