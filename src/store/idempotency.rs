//! Idempotency keys, and the stored responses that repeated requests get.

use async_trait::async_trait;

use super::columns::Columns;
use super::{Result, text};
use crate::domain::Millis;
use crate::domain::ids::TenantPk;

/// The response to store under the request's key, in the transaction of the change; `None`: the request has no key.
pub type ResponseToStore = Option<IdempotencyRow>;

/// A stored response to a request, under its `Idempotency-Key`.
#[derive(Clone, Debug, PartialEq)]
pub struct IdempotencyRow {
    pub tenant: TenantPk,
    /// Method and path.
    pub scope: String,
    pub key: String,
    /// SHA-256 of the body, hex.
    pub fingerprint: String,
    pub status: u16,
    /// The response's body as JSON text, and its Location.
    pub body: String,
    pub location: Option<String>,
    pub created_at: Millis,
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait IdempotencyStore: Send + Sync + 'static {
    async fn idempotency(&self, tenant: TenantPk, scope: &str, key: &str) -> Result<Option<IdempotencyRow>>;
    /// Deletes at most `limit` responses older than this; returns how many.
    async fn forget_idempotency(&self, before: Millis, limit: u32) -> Result<u64>;
}

impl IdempotencyRow {
    /// The response under this key.
    pub(crate) fn read(row: &impl Columns, tenant: TenantPk, scope: &str, key: &str) -> Result<Self> {
        Ok(Self {
            tenant,
            scope: scope.to_owned(),
            key: key.to_owned(),
            fingerprint: row.text("fingerprint")?.to_owned(),
            status: u16::try_from(row.number("status")?).map_err(|why| text::damaged("stored response", why))?,
            body: row.text("body")?.to_owned(),
            location: row.text_or_none("location")?.map(str::to_owned),
            created_at: row.number("created_at")?,
        })
    }
}
