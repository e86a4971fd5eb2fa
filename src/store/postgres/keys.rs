//! Tenants and their keys.

use async_trait::async_trait;
use serde_json::json;
use sqlx::{Connection, PgConnection};

use super::Postgres;
use super::audit::insert;
use super::fault::error;
use super::nul::{escaped, unescaped};
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::store::keys::{beginning_of, page_of_keys};
use crate::store::{AuditRow, Error, KeyAdded, KeyRow, KeyStore, Page, PageAsk, Result, Rotation, TenantRenamed};

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

const ALL: &str = select_key!("ORDER BY k.created_at, k.key_id");

const OF_TENANT: &str = select_key!("WHERE k.tenant = $1");

const PAGE: &str =
    select_key!("WHERE k.tenant = $1 AND (k.created_at, k.key_id) > ($2, $3) ORDER BY k.created_at, k.key_id LIMIT $4");

const BY_ID: &str = select_key!("WHERE k.key_id = $1");

const BY_HASH: &str = select_key!("WHERE k.hash = $1 OR k.former_hash = $1 ORDER BY k.created_at, k.key_id");

const BY_NAME: &str = select_key!("WHERE k.tenant = $1 AND k.name = $2");

/// Keys of one tenant are added, and expired ones made valid again, one after another, so that each is counted by the next.
/// References to the tenant go on.
const LOCK_TENANT: &str = "SELECT pk FROM tenants WHERE pk = $1 FOR NO KEY UPDATE";

const COUNT_VALID: &str = "
SELECT count(*) FROM api_keys WHERE tenant = $1 AND revoked_at IS NULL AND coalesce(expires_at, $2 + 1) > $2";

const ADD_KEY: &str = "
INSERT INTO api_keys (key_id, tenant, name, hash, scopes, created_at, revoked_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (tenant, name) DO NOTHING";

const ROTATE: &str = "
UPDATE api_keys SET former_hash = hash, former_until = $3, hash = $2, expires_at = coalesce($4, expires_at)
WHERE key_id = $1 AND revoked_at IS NULL AND coalesce($4, expires_at, $5 + 1) > $5
AND ($3 <= $5 OR coalesce(former_until, $5) <= $5)
AND (coalesce(expires_at, $5 + 1) > $5 OR $6 > (
    SELECT count(*) FROM api_keys o
    WHERE o.tenant = api_keys.tenant AND o.revoked_at IS NULL AND coalesce(o.expires_at, $5 + 1) > $5))";

const TOUCH: &str = "UPDATE api_keys SET used_at = $2 WHERE key_id = $1 AND (used_at IS NULL OR used_at <= $3)";

const REVOKE: &str = "UPDATE api_keys SET revoked_at = $2 WHERE key_id = $1 AND revoked_at IS NULL";

/// The time is compared twice, because a key that expired may be made valid again between the two.
const FORGET: &str = "
DELETE FROM api_keys WHERE coalesce(revoked_at, expires_at) < $2 AND key_id IN (
    SELECT key_id FROM api_keys WHERE tenant = $1 AND coalesce(revoked_at, expires_at) < $2
    AND name <> ALL ($3) AND (created_at, key_id) < (
        SELECT created_at, key_id FROM api_keys WHERE tenant = $1 ORDER BY created_at DESC, key_id DESC LIMIT 1)
    LIMIT $4)";

const IS_SERVED: &str = "SELECT EXISTS (SELECT FROM replicas WHERE alive_until > now())";

/// The two tenants, and whether the second has nothing but keys.
const TENANTS: &str = "
SELECT (SELECT pk FROM tenants WHERE name = $1), t.pk, NOT (
    EXISTS (SELECT FROM threads o WHERE o.tenant = t.pk)
    OR EXISTS (SELECT FROM documents o WHERE o.tenant = t.pk AND o.body IS NOT NULL)
    OR EXISTS (SELECT FROM usage_kept o WHERE o.tenant = t.pk)
    OR EXISTS (SELECT FROM thread_rows o WHERE o.tenant = t.pk AND o.kind = 11))
FROM (SELECT 1) one LEFT JOIN tenants t ON t.name = $2";

const SAME_KEY_NAME: &str = "
SELECT k.name FROM api_keys k JOIN api_keys o ON o.name = k.name WHERE k.tenant = $1 AND o.tenant = $2 ORDER BY 1 LIMIT 1";

/// What moves from the tenant `$2` to the tenant `$1`. The moved lines are chained again, after those of the other tenant.
const MOVE: [&str; 3] = [
    "UPDATE api_keys SET tenant = $1 WHERE tenant = $2",
    "UPDATE deliveries SET tenant = $1 WHERE tenant = $2",
    "UPDATE audit SET tenant = $1, n = NULL, hash = NULL WHERE tenant = $2",
];

/// Removes a tenant whose keys, audit and deliveries were moved, with all that is left of it.
const REMOVE_TENANT: [&str; 7] = [
    "DELETE FROM audit_checkpoints WHERE tenant = $1",
    "DELETE FROM idempotency WHERE tenant = $1",
    "DELETE FROM documents WHERE tenant = $1",
    "DELETE FROM compacted WHERE tenant = $1",
    "DELETE FROM schedule_state WHERE tenant = $1",
    "DELETE FROM spend WHERE tenant = $1",
    "DELETE FROM tenants WHERE pk = $1",
];

#[async_trait]
impl KeyStore for Postgres {
    async fn tenant(&self, name: &str, now: Millis) -> Result<TenantPk> {
        let known = || sqlx::query_scalar("SELECT pk FROM tenants WHERE name = $1").bind(escaped(name));
        if let Some(pk) = self.pool.with_query(async |connection| known().fetch_optional(connection).await).await? {
            return Ok(TenantPk(pk));
        }
        let add = "INSERT INTO tenants (name, created_at) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
        self.pool.execute(sqlx::query(add).bind(escaped(name)).bind(now)).await?;
        Ok(TenantPk(self.pool.fetch_scalar(known()).await?))
    }

    async fn tenant_name(&self, tenant: TenantPk) -> Result<Option<String>> {
        let query = sqlx::query_scalar("SELECT name FROM tenants WHERE pk = $1").bind(tenant.0);
        let name: Option<String> =
            self.pool.with_query(async |connection| query.fetch_optional(connection).await).await?;
        Ok(name.map(unescaped))
    }

    /// All rows refer to the tenant by its internal key, so only its name changes.
    async fn rename_tenant(&self, from: &str, to: &str, by: &str, now: Millis) -> Result<TenantRenamed> {
        self.pool.with_connection(async |connection| rename(connection, from, to, by, now).await).await
    }

    async fn add_key(&self, key: KeyRow, max_keys: usize, audit: AuditRow) -> Result<KeyAdded> {
        self.pool.with_connection(async |connection| add(connection, key, max_keys, &audit).await).await
    }

    async fn keys(&self) -> Result<Vec<KeyRow>> {
        let found = self.pool.fetch_all(sqlx::query(ALL)).await?;
        found.iter().map(KeyRow::read).collect()
    }

    async fn keys_of(&self, tenant: TenantPk) -> Result<Vec<KeyRow>> {
        let query = sqlx::query(OF_TENANT).bind(tenant.0);
        let found = self.pool.fetch_all(query).await?;
        found.iter().map(KeyRow::read).collect()
    }

    async fn key_page(&self, tenant: TenantPk, page: &PageAsk) -> Result<Page<KeyRow>> {
        let (created_at, key_id) = beginning_of(page)?;
        let query = sqlx::query(PAGE).bind(tenant.0).bind(created_at).bind(key_id).bind(page.rows());
        page_of_keys(&self.pool.fetch_all(query).await?, page)
    }

    async fn key(&self, key_id: &str) -> Result<Option<KeyRow>> {
        let query = sqlx::query(BY_ID).bind(escaped(key_id));
        let found = self.pool.fetch_optional(query).await?;
        found.as_ref().map(KeyRow::read).transpose()
    }

    async fn has_keys(&self) -> Result<bool> {
        let query = sqlx::query_scalar("SELECT EXISTS (SELECT FROM api_keys)");
        self.pool.fetch_scalar(query).await
    }

    async fn revoke_key(&self, key_id: &str, now: Millis, audit: AuditRow) -> Result<bool> {
        let revoke = sqlx::query(REVOKE).bind(escaped(key_id)).bind(now);
        Ok(self.change_with_audit(revoke, &audit).await? > 0)
    }

    async fn rotate_key(&self, rotation: Rotation, audit: AuditRow) -> Result<bool> {
        self.pool.with_connection(async |connection| rotate(connection, rotation, &audit).await).await
    }

    async fn touch_key(&self, key_id: &str, now: Millis, since: Millis, audit: Option<AuditRow>) -> Result<()> {
        let touch = sqlx::query(TOUCH).bind(key_id).bind(now).bind(since);
        match audit {
            Some(audit) => self.change_with_audit(touch, &audit).await.map(drop),
            None => self.pool.execute(touch).await.map(drop),
        }
    }

    async fn key_by_hash(&self, hash: &str) -> Result<Option<KeyRow>> {
        let query = sqlx::query(BY_HASH).bind(escaped(hash));
        let found = self.pool.fetch_optional(query).await?;
        found.as_ref().map(KeyRow::read).transpose()
    }

    async fn key_by_name(&self, tenant: TenantPk, name: &str) -> Result<Option<KeyRow>> {
        let query = sqlx::query(BY_NAME).bind(tenant.0).bind(escaped(name));
        let found = self.pool.fetch_optional(query).await?;
        found.as_ref().map(KeyRow::read).transpose()
    }

    async fn forget_keys(&self, tenant: TenantPk, before: Millis, kept: &[String], limit: u32) -> Result<u64> {
        let kept: Vec<String> = kept.iter().map(|name| escaped(name).into_owned()).collect();
        let forget = sqlx::query(FORGET).bind(tenant.0).bind(before).bind(kept).bind(i64::from(limit));
        self.pool.execute(forget).await
    }
}

async fn rotate(connection: &mut PgConnection, rotation: Rotation, audit: &AuditRow) -> Result<bool> {
    let max_keys = rotation.max_keys();
    // Dropped without a commit, it is rolled back.
    let mut transaction = connection.begin().await.map_err(error)?;
    sqlx::query(LOCK_TENANT).bind(audit.tenant.0).execute(&mut *transaction).await.map_err(error)?;
    let rotate = sqlx::query(ROTATE)
        .bind(rotation.key_id)
        .bind(rotation.hash)
        .bind(rotation.former_until)
        .bind(rotation.expires_at)
        .bind(rotation.now)
        .bind(max_keys);
    if rotate.execute(&mut *transaction).await.map_err(error)?.rows_affected() == 0 {
        return Ok(false);
    }
    insert(&mut transaction, audit).await?;
    transaction.commit().await.map_err(error)?;
    Ok(true)
}

async fn add(connection: &mut PgConnection, key: KeyRow, max_keys: usize, audit: &AuditRow) -> Result<KeyAdded> {
    // Dropped without a commit, it is rolled back.
    let mut transaction = connection.begin().await.map_err(error)?;
    sqlx::query(LOCK_TENANT).bind(key.tenant.0).execute(&mut *transaction).await.map_err(error)?;
    let count = sqlx::query_scalar::<_, i64>(COUNT_VALID).bind(key.tenant.0).bind(key.created_at);
    if count.fetch_one(&mut *transaction).await.map_err(error)?.unsigned_abs() >= max_keys as u64 {
        return Ok(KeyAdded::TooMany);
    }
    let add = sqlx::query(ADD_KEY)
        .bind(key.key_id)
        .bind(key.tenant.0)
        .bind(escaped(&key.name))
        .bind(key.hash)
        .bind(key.scopes)
        .bind(key.created_at)
        .bind(key.revoked_at)
        .bind(key.expires_at);
    if add.execute(&mut *transaction).await.map_err(error)?.rows_affected() == 0 {
        return Ok(KeyAdded::NameTaken);
    }
    insert(&mut transaction, audit).await?;
    transaction.commit().await.map_err(error)?;
    Ok(KeyAdded::Stored)
}

async fn rename(connection: &mut PgConnection, from: &str, to: &str, by: &str, now: Millis) -> Result<TenantRenamed> {
    // Dropped without a commit, it is rolled back.
    let mut transaction = connection.begin().await.map_err(error)?;
    // The lock also keeps servers from starting in the meantime.
    sqlx::query("LOCK TABLE tenants, replicas IN EXCLUSIVE MODE").execute(&mut *transaction).await.map_err(error)?;
    let is_served: bool = sqlx::query_scalar(IS_SERVED).fetch_one(&mut *transaction).await.map_err(error)?;
    if is_served {
        return Err(Error::Unusable(
            "Servers run on this database and keep the names of its tenants in memory: stop all of them first. One that was \
             killed counts until its lease ends."
                .to_owned(),
        ));
    }
    let tenants = sqlx::query_as(TENANTS).bind(escaped(from)).bind(escaped(to));
    let (pk, other, is_free): (Option<i64>, Option<i64>, Option<bool>) =
        tenants.fetch_one(&mut *transaction).await.map_err(error)?;
    let Some(pk) = pk else { return Ok(TenantRenamed::Unknown) };
    if let Some(other) = other {
        if other == pk || is_free != Some(true) {
            return Ok(TenantRenamed::InUse);
        }
        let same = sqlx::query_scalar(SAME_KEY_NAME).bind(pk).bind(other);
        if let Some(name) = same.fetch_optional(&mut *transaction).await.map_err(error)? {
            return Ok(TenantRenamed::SameKeyName(unescaped(name)));
        }
        for sql in MOVE {
            sqlx::query(sql).bind(pk).bind(other).execute(&mut *transaction).await.map_err(error)?;
        }
        for sql in REMOVE_TENANT {
            sqlx::query(sql).bind(other).execute(&mut *transaction).await.map_err(error)?;
        }
    }
    let rename = sqlx::query("UPDATE tenants SET name = $2 WHERE pk = $1").bind(pk).bind(escaped(to));
    rename.execute(&mut *transaction).await.map_err(error)?;
    let audit_row = AuditRow {
        tenant: TenantPk(pk),
        thread: ThreadPk::NONE,
        thread_id: None,
        at: now,
        actor: by.to_owned(),
        action: "rename tenant".to_owned(),
        detail: json!({ "from": from, "to": to }),
    };
    insert(&mut transaction, &audit_row).await?;
    transaction.commit().await.map_err(error)?;
    Ok(TenantRenamed::Done)
}
