//! Tenants and their API keys.

use async_trait::async_trait;

use super::columns::Columns;
use super::page::{Cursor, Page, PageAsk, page_of};
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
    /// Accurate to the hour.
    pub used_at: Option<Millis>,
    /// The `hash` before the last rotation, and until when it is still valid.
    pub former_hash: Option<String>,
    pub former_until: Option<Millis>,
}

/// What became of a new key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyAdded {
    Stored,
    /// The tenant has, or had, a key with this name.
    NameTaken,
    /// The tenant already has as many valid keys as it may.
    TooMany,
}

/// What became of renaming a tenant.
#[derive(Clone, Debug, PartialEq)]
pub enum TenantRenamed {
    Done,
    /// No tenant has the old name.
    Unknown,
    /// The tenant with the new name has threads, documents or usage.
    InUse,
    /// Both tenants have, or had, a key with this name.
    SameKeyName(String),
}

/// A new secret for a key that keeps its id and name.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotation {
    pub key_id: String,
    /// The hash of the new secret.
    pub hash: String,
    /// Until when the old secret is valid.
    pub former_until: Millis,
    /// `None`: as before.
    pub expires_at: Option<Millis>,
    /// How many valid keys the tenant may have: a key that has expired becomes one more.
    pub max_keys: usize,
    pub now: Millis,
}

impl Rotation {
    /// The number as the database compares it.
    pub(super) fn max_keys(&self) -> i64 {
        i64::try_from(self.max_keys).unwrap_or(i64::MAX)
    }
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait KeyStore: Send + Sync + 'static {
    /// The tenant of that name, created if new.
    async fn tenant(&self, name: &str, now: Millis) -> Result<TenantPk>;
    /// The name of a tenant.
    async fn tenant_name(&self, tenant: TenantPk) -> Result<Option<String>>;
    /// Renames a tenant. If another tenant has the new name, its keys, its audit and its deliveries are moved to this one; it
    /// must have nothing else that lasts. `Unusable` while processes are registered that share the database, because they
    /// cache names.
    async fn rename_tenant(&self, from: &str, to: &str, by: &str, now: Millis) -> Result<TenantRenamed>;
    /// Stores a key with its audit line, if the tenant has fewer than `max_keys` keys that are valid when it is created.
    async fn add_key(&self, key: KeyRow, max_keys: usize, audit: AuditRow) -> Result<KeyAdded>;
    async fn keys(&self) -> Result<Vec<KeyRow>>;
    /// The keys of the tenant, in no order.
    async fn keys_of(&self, tenant: TenantPk) -> Result<Vec<KeyRow>>;
    /// The same, page by page, in the order in which they were made.
    async fn key_page(&self, tenant: TenantPk, page: &PageAsk) -> Result<Page<KeyRow>>;
    async fn key(&self, key_id: &str) -> Result<Option<KeyRow>>;
    /// Whether a key was ever created.
    async fn has_keys(&self) -> Result<bool>;
    /// Revokes a key, with its audit line. `false`: there is no such active key, and nothing is stored.
    async fn revoke_key(&self, key_id: &str, now: Millis, audit: AuditRow) -> Result<bool>;
    /// Rotates a key, with its audit line; one that has expired is valid again if it gets a new end. `false`, and nothing is
    /// stored: there is no such key, it was revoked, it has expired and gets no new end or would be one valid key too many, or
    /// its previous secret is still valid and would end although this rotation has an overlap of its own.
    async fn rotate_key(&self, rotation: Rotation, audit: AuditRow) -> Result<bool>;
    /// Records that the key was used now, unless a use after `since` is recorded; with this audit line, if given.
    async fn touch_key(&self, key_id: &str, now: Millis, since: Millis, audit: Option<AuditRow>) -> Result<()>;
    /// The key that has or had this hash, revoked or not.
    async fn key_by_hash(&self, hash: &str) -> Result<Option<KeyRow>>;
    /// The key of the tenant that has this name, revoked or not.
    async fn key_by_name(&self, tenant: TenantPk, name: &str) -> Result<Option<KeyRow>>;
    /// Deletes at most `limit` keys of the tenant that were revoked, or else expired, before this, except those with a name
    /// in `kept`, and its newest key: whether a server needs keys is known by those that there are. Returns how many.
    async fn forget_keys(&self, tenant: TenantPk, before: Millis, kept: &[String], limit: u32) -> Result<u64>;
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

/// The time and the id after which the page begins.
pub(crate) fn beginning_of(page: &PageAsk) -> Result<(Millis, String)> {
    Ok(Cursor::of(page)?.map_or((Millis::MIN, String::new()), |last| (last.at, last.id)))
}

/// A page of keys, in the order of `created_at` and `key_id`.
pub(crate) fn page_of_keys(rows: &[impl Columns], page: &PageAsk) -> Result<Page<KeyRow>> {
    page_of(rows, page, KeyRow::read, |_, key| Ok(Cursor::new(key.created_at, key.key_id.as_str())))
}
