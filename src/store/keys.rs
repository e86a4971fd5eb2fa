//! Tenants and their API keys.

use async_trait::async_trait;

use super::columns::Columns;
use super::{AuditRow, Result};
use crate::domain::Millis;
use crate::domain::ids::TenantPk;

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
    pub expires_at: Option<Millis>,
    /// Within the hour.
    pub used_at: Option<Millis>,
    /// What `hash` was before the key was rotated, and until when that counts, too.
    pub former_hash: Option<String>,
    pub former_until: Option<Millis>,
}

/// Another key in the place of one that stays who it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotation {
    pub key_id: String,
    /// Of the new key.
    pub hash: String,
    /// Until when the old one counts.
    pub former_until: Millis,
    /// `None`: as before.
    pub expires_at: Option<Millis>,
    pub now: Millis,
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait KeyStore: Send + Sync + 'static {
    /// The tenant of that name, created if new.
    async fn tenant(&self, name: &str, now: Millis) -> Result<TenantPk>;
    /// The name of a tenant.
    async fn tenant_name(&self, tenant: TenantPk) -> Result<Option<String>>;
    /// Gives a tenant another name, and the keys of the one that had it before, which must have nothing else. `false`:
    /// there is none to rename, or that one has threads, documents or usage. `Unusable` while processes are registered
    /// that share the database: they keep names in memory.
    async fn rename_tenant(&self, from: &str, to: &str, by: &str, now: Millis) -> Result<bool>;
    /// Stores a key with its audit line. `false`: its tenant has, or had, one of that name.
    async fn add_key(&self, key: KeyRow, audit: AuditRow) -> Result<bool>;
    async fn keys(&self) -> Result<Vec<KeyRow>>;
    /// Those of the tenant, in no order.
    async fn keys_of(&self, tenant: TenantPk) -> Result<Vec<KeyRow>>;
    async fn key(&self, key_id: &str) -> Result<Option<KeyRow>>;
    /// Whether any was ever made.
    async fn has_keys(&self) -> Result<bool>;
    /// With its audit line. `false`: no such active key, and nothing is stored.
    async fn revoke_key(&self, key_id: &str, now: Millis, audit: AuditRow) -> Result<bool>;
    /// With its audit line. `false`: there is no such key that counts, or the one that it was before does still and would
    /// end, though the rotation has an overlap of its own; nothing is stored.
    async fn rotate_key(&self, rotation: Rotation, audit: AuditRow) -> Result<bool>;
    /// It was used now; written if that was not said since then, with this line if there is one.
    async fn touch_key(&self, key_id: &str, now: Millis, since: Millis, audit: Option<AuditRow>) -> Result<()>;
    /// The key that has or had this hash, revoked or not.
    async fn key_by_hash(&self, hash: &str) -> Result<Option<KeyRow>>;
    /// The key of the tenant that has this name, revoked or not.
    async fn key_by_name(&self, tenant: TenantPk, name: &str) -> Result<Option<KeyRow>>;
}

impl KeyRow {
    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self {
            key_id: row.text("key_id")?.to_owned(),
            tenant: TenantPk(row.number("tenant")?),
            tenant_name: row.name("tenant_name")?,
            name: row.name("name")?,
            hash: row.text("hash")?.to_owned(),
            scopes: row.text("scopes")?.to_owned(),
            created_at: row.number("created_at")?,
            revoked_at: row.number_or_none("revoked_at")?,
            expires_at: row.number_or_none("expires_at")?,
            used_at: row.number_or_none("used_at")?,
            former_hash: row.text_or_none("former_hash")?.map(str::to_owned),
            former_until: row.number_or_none("former_until")?,
        })
    }
}
