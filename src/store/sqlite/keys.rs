//! Tenants and their keys.

use async_trait::async_trait;
use rusqlite::{OptionalExtension as _, Transaction, params};
use serde_json::json;

use super::Sqlite;
use super::audit::{self, audit_if_changed};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::store::keys::{beginning_of, page_of_keys};
use crate::store::{AuditRow, KeyAdded, KeyRow, KeyStore, Page, PageAsk, Result, Rotation, TenantRenamed};

const NEW_TENANT: &str = "INSERT INTO tenants (name, created_at) VALUES (?1, ?2) ON CONFLICT DO NOTHING";

const TENANT: &str = "SELECT pk FROM tenants WHERE name = ?1";

const ADD: &str = "
INSERT INTO api_keys (key_id, tenant, name, hash, scopes, created_at, revoked_at, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (tenant, name) DO NOTHING";

const COUNT_VALID: &str = "
SELECT count(*) FROM api_keys WHERE tenant = ?1 AND revoked_at IS NULL AND coalesce(expires_at, ?2 + 1) > ?2";

/// Whether a tenant has more than keys.
const IS_USED: &str = "
SELECT EXISTS (SELECT 1 FROM threads WHERE tenant = ?1)
    OR EXISTS (SELECT 1 FROM documents WHERE tenant = ?1 AND body IS NOT NULL)
    OR EXISTS (SELECT 1 FROM usage_kept WHERE tenant = ?1)
    OR EXISTS (SELECT 1 FROM thread_rows WHERE tenant = ?1 AND kind = 11)";

const SAME_KEY_NAME: &str = "
SELECT k.name FROM api_keys k JOIN api_keys o ON o.name = k.name WHERE k.tenant = ?1 AND o.tenant = ?2 ORDER BY 1 LIMIT 1";

/// Removes a tenant whose keys, audit and deliveries were moved, with all that is left of it: the next tenant may get its
/// number.
const REMOVE_TENANT: [&str; 7] = [
    "DELETE FROM audit_checkpoints WHERE tenant = ?1",
    "DELETE FROM idempotency WHERE tenant = ?1",
    "DELETE FROM documents WHERE tenant = ?1",
    "DELETE FROM compacted WHERE tenant = ?1",
    "DELETE FROM schedule_state WHERE tenant = ?1",
    "DELETE FROM spend WHERE tenant = ?1",
    "DELETE FROM tenants WHERE pk = ?1",
];

macro_rules! select_key {
    ($rest:literal) => {
        concat!(
            "SELECT k.key_id, k.tenant, t.name AS tenant_name, k.name, k.hash, k.scopes, k.created_at, k.revoked_at,
             k.expires_at, k.used_at, k.former_hash, k.former_until
             FROM api_keys k JOIN tenants t ON t.pk = k.tenant ",
            $rest
        )
    };
}

const ALL: &str = select_key!("ORDER BY k.rowid");

const OF_TENANT: &str = select_key!("WHERE k.tenant = ?1");

const PAGE: &str =
    select_key!("WHERE k.tenant = ? AND (k.created_at, k.key_id) > (?, ?) ORDER BY k.created_at, k.key_id LIMIT ?");

const BY_ID: &str = select_key!("WHERE k.key_id = ?1");

const BY_HASH: &str = select_key!("WHERE k.hash = ?1 OR k.former_hash = ?1");

const BY_NAME: &str = select_key!("WHERE k.tenant = ?1 AND k.name = ?2");

const ROTATE: &str = "
UPDATE api_keys SET former_hash = hash, former_until = ?3, hash = ?2, expires_at = coalesce(?4, expires_at)
WHERE key_id = ?1 AND revoked_at IS NULL AND coalesce(?4, expires_at, ?5 + 1) > ?5
AND (?3 <= ?5 OR coalesce(former_until, ?5) <= ?5)
AND (coalesce(expires_at, ?5 + 1) > ?5 OR ?6 > (
    SELECT count(*) FROM api_keys o
    WHERE o.tenant = api_keys.tenant AND o.revoked_at IS NULL AND coalesce(o.expires_at, ?5 + 1) > ?5))";

const TOUCH: &str = "UPDATE api_keys SET used_at = ?2 WHERE key_id = ?1 AND (used_at IS NULL OR used_at <= ?3)";

const REVOKE: &str = "UPDATE api_keys SET revoked_at = ?2 WHERE key_id = ?1 AND revoked_at IS NULL";

const ENDED: &str = "
SELECT key_id, name FROM api_keys WHERE tenant = ?1 AND coalesce(revoked_at, expires_at) < ?2
AND (created_at, key_id) < (
    SELECT created_at, key_id FROM api_keys WHERE tenant = ?1 ORDER BY created_at DESC, key_id DESC LIMIT 1)
LIMIT ?3";

/// One that expired may be valid again by now.
const FORGET: &str = "
DELETE FROM api_keys WHERE key_id IN (SELECT value FROM json_each(?1)) AND coalesce(revoked_at, expires_at) < ?2";

#[async_trait]
impl KeyStore for Sqlite {
    async fn tenant(&self, name: &str, now: Millis) -> Result<TenantPk> {
        let name = name.to_owned();
        let named = move |tx: &Transaction<'_>| {
            tx.execute(NEW_TENANT, params![name, now])?;
            tx.query_row(TENANT, [name], |row| row.get(0).map(TenantPk))
        };
        self.writer.write(named).await
    }

    async fn tenant_name(&self, tenant: TenantPk) -> Result<Option<String>> {
        let query = sqlx::query_scalar("SELECT name FROM tenants WHERE pk = ?").bind(tenant.0);
        query.fetch_optional(&self.readers).await.map_err(self.unreadable())
    }

    async fn rename_tenant(&self, from: &str, to: &str, by: &str, now: Millis) -> Result<TenantRenamed> {
        let (from, to, by) = (from.to_owned(), to.to_owned(), by.to_owned());
        self.writer.write(move |tx| rename(tx, &from, &to, by, now)).await
    }

    async fn add_key(&self, key: KeyRow, max_keys: usize, audit: AuditRow) -> Result<KeyAdded> {
        let add = move |tx: &Transaction<'_>| {
            let valid: i64 = tx.query_row(COUNT_VALID, params![key.tenant.0, key.created_at], |row| row.get(0))?;
            if valid.unsigned_abs() >= max_keys as u64 {
                return Ok(KeyAdded::TooMany);
            }
            let KeyRow { key_id, tenant, name, hash, scopes, created_at, revoked_at, expires_at, .. } = key;
            let values = params![key_id, tenant.0, name, hash, scopes, created_at, revoked_at, expires_at];
            let added = tx.execute(ADD, values)?;
            Ok(if audit_if_changed(tx, added, &audit)? { KeyAdded::Stored } else { KeyAdded::NameTaken })
        };
        self.writer.write(add).await
    }

    async fn keys(&self) -> Result<Vec<KeyRow>> {
        let found = sqlx::query(ALL).fetch_all(&self.readers).await.map_err(self.unreadable())?;
        found.iter().map(KeyRow::read).collect()
    }

    async fn keys_of(&self, tenant: TenantPk) -> Result<Vec<KeyRow>> {
        let found = sqlx::query(OF_TENANT).bind(tenant.0).fetch_all(&self.readers).await.map_err(self.unreadable())?;
        found.iter().map(KeyRow::read).collect()
    }

    async fn key_page(&self, tenant: TenantPk, page: &PageAsk) -> Result<Page<KeyRow>> {
        let (created_at, key_id) = beginning_of(page)?;
        let query = sqlx::query(PAGE).bind(tenant.0).bind(created_at).bind(key_id).bind(page.rows());
        page_of_keys(&query.fetch_all(&self.readers).await.map_err(self.unreadable())?, page)
    }

    async fn key(&self, key_id: &str) -> Result<Option<KeyRow>> {
        let found = sqlx::query(BY_ID).bind(key_id).fetch_optional(&self.readers).await.map_err(self.unreadable())?;
        found.as_ref().map(KeyRow::read).transpose()
    }

    async fn has_keys(&self) -> Result<bool> {
        let query = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM api_keys)");
        query.fetch_one(&self.readers).await.map_err(self.unreadable())
    }

    async fn revoke_key(&self, key_id: &str, now: Millis, audit: AuditRow) -> Result<bool> {
        let key_id = key_id.to_owned();
        let revoke = move |tx: &Transaction<'_>| {
            let revoked = tx.execute(REVOKE, params![key_id, now])?;
            audit_if_changed(tx, revoked, &audit)
        };
        self.writer.write(revoke).await
    }

    async fn rotate_key(&self, rotation: Rotation, audit: AuditRow) -> Result<bool> {
        let rotate = move |tx: &Transaction<'_>| {
            let max_keys = rotation.max_keys();
            let Rotation { key_id, hash, former_until, expires_at, now, .. } = rotation;
            let rotated = tx.execute(ROTATE, params![key_id, hash, former_until, expires_at, now, max_keys])?;
            audit_if_changed(tx, rotated, &audit)
        };
        self.writer.write(rotate).await
    }

    async fn touch_key(&self, key_id: &str, now: Millis, since: Millis, audit: Option<AuditRow>) -> Result<()> {
        let key_id = key_id.to_owned();
        let touch = move |tx: &Transaction<'_>| {
            let touched = tx.execute(TOUCH, params![key_id, now, since])?;
            audit.as_ref().map_or(Ok(false), |audit| audit_if_changed(tx, touched, audit)).map(drop)
        };
        self.writer.write(touch).await
    }

    async fn key_by_hash(&self, hash: &str) -> Result<Option<KeyRow>> {
        let found = sqlx::query(BY_HASH).bind(hash).fetch_optional(&self.readers).await.map_err(self.unreadable())?;
        found.as_ref().map(KeyRow::read).transpose()
    }

    async fn key_by_name(&self, tenant: TenantPk, name: &str) -> Result<Option<KeyRow>> {
        let query = sqlx::query(BY_NAME).bind(tenant.0).bind(name);
        let found = query.fetch_optional(&self.readers).await.map_err(self.unreadable())?;
        found.as_ref().map(KeyRow::read).transpose()
    }

    async fn forget_keys(&self, tenant: TenantPk, before: Millis, kept: &[String], limit: u32) -> Result<u64> {
        // Each name is that of one key, so enough are left without them.
        let most = i64::from(limit) + kept.len() as i64;
        let query = sqlx::query_as::<_, (String, String)>(ENDED).bind(tenant.0).bind(before).bind(most);
        let mut ended = query.fetch_all(&self.readers).await.map_err(self.unreadable())?;
        ended.retain(|(_, name)| !kept.contains(name));
        ended.truncate(limit as usize);
        if ended.is_empty() {
            return Ok(0);
        }
        let ended = ended.into_iter().map(|(key_id, _)| key_id).collect::<serde_json::Value>().to_string();
        self.writer.chore(move |tx| tx.execute(FORGET, params![ended, before])).await.map(|forgotten| forgotten as u64)
    }
}

/// All rows refer to a tenant by its internal key, so only its name changes. If another tenant has the new name and nothing
/// but keys, it is removed, and its keys, its audit and its deliveries move to this one.
fn rename(tx: &Transaction<'_>, from: &str, to: &str, by: String, now: Millis) -> rusqlite::Result<TenantRenamed> {
    let named = |name: &str| tx.query_row(TENANT, [name], |row| row.get::<_, i64>(0)).optional();
    let Some(tenant) = named(from)? else { return Ok(TenantRenamed::Unknown) };
    if let Some(other) = named(to)? {
        if other == tenant || tx.query_row(IS_USED, [other], |row| row.get(0))? {
            return Ok(TenantRenamed::InUse);
        }
        if let Some(name) = tx.query_row(SAME_KEY_NAME, [tenant, other], |row| row.get(0)).optional()? {
            return Ok(TenantRenamed::SameKeyName(name));
        }
        tx.execute("UPDATE api_keys SET tenant = ?1 WHERE tenant = ?2", [tenant, other])?;
        tx.execute("UPDATE deliveries SET tenant = ?1 WHERE tenant = ?2", [tenant, other])?;
        // The moved lines are chained again, after those of the other tenant.
        tx.execute("UPDATE audit SET tenant = ?1, n = NULL, hash = NULL WHERE tenant = ?2", [tenant, other])?;
        for sql in REMOVE_TENANT {
            tx.execute(sql, [other])?;
        }
    }
    tx.execute("UPDATE tenants SET name = ?2 WHERE pk = ?1", params![tenant, to])?;
    let detail = json!({ "from": from, "to": to });
    let action = "rename tenant".to_owned();
    let (tenant, thread) = (TenantPk(tenant), ThreadPk::NONE);
    let audit_row = AuditRow { tenant, thread, thread_id: None, at: now, actor: by, action, detail };
    audit::insert(tx, &audit_row)?;
    Ok(TenantRenamed::Done)
}
