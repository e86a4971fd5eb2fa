//! Answers to be given again, decisions to be accounted for, tenants and their keys.

use serde_json::json;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Connection, PgConnection, Postgres, Row};

use super::fault::error;
use super::nul::{escaped, unescaped};
use super::pool::Pool;
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadId, ThreadPk};
use crate::store::{AuditRow, IdempotencyRow, KeyRow, Result, text};

const KEYS: &str = "
SELECT k.key_id, k.tenant, t.name AS tenant_name, k.name, k.hash, k.scopes, k.created_at, k.revoked_at
FROM api_keys k JOIN tenants t ON t.pk = k.tenant
WHERE $1::text IS NULL OR k.hash = $1 ORDER BY k.created_at, k.key_id";

const ADD_KEY: &str = "
INSERT INTO api_keys (key_id, tenant, name, hash, scopes, created_at, revoked_at)
VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (tenant, name) DO NOTHING";

const REVOKE: &str = "UPDATE api_keys SET revoked_at = $2 WHERE key_id = $1 AND revoked_at IS NULL";

const ANSWER: &str = "
SELECT fingerprint, status, body, location, created_at FROM idempotency
WHERE tenant = $1 AND scope = $2 AND key = $3";

const KEEP: &str = "
INSERT INTO idempotency (pk, tenant, scope, key, fingerprint, status, location, created_at, body)
VALUES (0, $1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (tenant, scope, key) DO NOTHING";

const AUDIT: &str = "
SELECT id, pk, tenant, thread_id, at, actor, action, detail FROM audit WHERE tenant = $1 AND thread_id = $2 ORDER BY id";

const NOTE: &str = "
INSERT INTO audit (pk, tenant, thread_id, at, actor, action, detail) VALUES ($1, $2, $3, $4, $5, $6, $7)";

pub(super) async fn idempotency(
    pool: &Pool,
    tenant: TenantPk,
    scope: &str,
    key: &str,
) -> Result<Option<IdempotencyRow>> {
    let query = sqlx::query(ANSWER).bind(tenant.0).bind(escaped(scope)).bind(escaped(key));
    let Some(row) = pool.ask(async |line| query.fetch_optional(line).await).await? else { return Ok(None) };
    let status: i32 = row.try_get("status").map_err(error)?;
    Ok(Some(IdempotencyRow {
        tenant,
        scope: scope.to_owned(),
        key: key.to_owned(),
        fingerprint: row.try_get("fingerprint").map_err(error)?,
        status: u16::try_from(status).map_err(|why| text::damaged("stored answer", why))?,
        body: row.try_get("body").map_err(error)?,
        location: row.try_get("location").map_err(error)?,
        created_at: row.try_get("created_at").map_err(error)?,
    }))
}

/// Keeps an answer that belongs to no thread. `false`: its key is taken.
pub(super) async fn keep(transaction: &mut PgConnection, kept: IdempotencyRow) -> Result<bool> {
    let query = sqlx::query(KEEP).bind(kept.tenant.0).bind(escaped(&kept.scope)).bind(escaped(&kept.key));
    let query = query.bind(kept.fingerprint).bind(i32::from(kept.status)).bind(kept.location);
    let kept = query.bind(kept.created_at).bind(kept.body).execute(transaction).await.map_err(error)?;
    Ok(kept.rows_affected() == 1)
}

const FORGET: &str = "
DELETE FROM idempotency WHERE (tenant, scope, key) IN (
    SELECT tenant, scope, key FROM idempotency WHERE created_at < $1 ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED)";

pub(super) async fn forget_idempotency(pool: &Pool, before: Millis, limit: u32) -> Result<u64> {
    let query = sqlx::query(FORGET).bind(before).bind(i64::from(limit));
    Ok(pool.ask(async |line| query.execute(line).await).await?.rows_affected())
}

pub(super) async fn audit(pool: &Pool, tenant: TenantPk, thread: &ThreadId) -> Result<Vec<AuditRow>> {
    let query = sqlx::query(AUDIT).bind(tenant.0).bind(escaped(thread.as_str()));
    pool.ask(async |line| query.fetch_all(line).await).await?.iter().map(audit_row).collect()
}

pub(super) fn audit_row(row: &PgRow) -> Result<AuditRow> {
    let detail: &str = row.try_get("detail").map_err(error)?;
    let thread_id: Option<&str> = row.try_get("thread_id").map_err(error)?;
    Ok(AuditRow {
        tenant: TenantPk(row.try_get("tenant").map_err(error)?),
        thread: ThreadPk(row.try_get("pk").map_err(error)?),
        thread_id: thread_id.map(|id| unescaped(id.to_owned()).into()),
        at: row.try_get("at").map_err(error)?,
        actor: unescaped(row.try_get("actor").map_err(error)?),
        action: unescaped(row.try_get("action").map_err(error)?),
        detail: text::json(detail),
    })
}

/// Adds a line.
pub(super) async fn note(transaction: &mut PgConnection, line: &AuditRow) -> Result<()> {
    let query = sqlx::query(NOTE).bind(line.thread.0).bind(line.tenant.0);
    let query = query.bind(line.thread_id.as_ref().map(|id| escaped(id.as_str()))).bind(line.at);
    let query = query.bind(escaped(&line.actor)).bind(escaped(&line.action)).bind(line.detail.to_string());
    query.execute(transaction).await.map_err(error)?;
    Ok(())
}

pub(super) async fn tenant(pool: &Pool, name: &str, now: Millis) -> Result<TenantPk> {
    let known = || sqlx::query_scalar("SELECT pk FROM tenants WHERE name = $1").bind(escaped(name));
    if let Some(pk) = pool.ask(async |line| known().fetch_optional(line).await).await? {
        return Ok(TenantPk(pk));
    }
    let add = "INSERT INTO tenants (name, created_at) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
    pool.ask(async |line| sqlx::query(add).bind(escaped(name)).bind(now).execute(line).await).await?;
    Ok(TenantPk(pool.ask(async |line| known().fetch_one(line).await).await?))
}

pub(super) async fn add_key(pool: &Pool, key: KeyRow, audit: AuditRow) -> Result<bool> {
    let add = sqlx::query(ADD_KEY)
        .bind(key.key_id)
        .bind(key.tenant.0)
        .bind(escaped(&key.name).into_owned())
        .bind(key.hash)
        .bind(key.scopes)
        .bind(key.created_at)
        .bind(key.revoked_at);
    pool.talk(async |line| told(line, add, &audit).await).await
}

/// Changes one row, and says so in the audit; `false`: there was none to change.
async fn told(line: &mut PgConnection, change: Query<'_, Postgres, PgArguments>, audit: &AuditRow) -> Result<bool> {
    // Dropped without a commit, it is rolled back.
    let mut transaction = line.begin().await.map_err(error)?;
    if change.execute(&mut *transaction).await.map_err(error)?.rows_affected() == 0 {
        return Ok(false);
    }
    note(&mut transaction, audit).await?;
    transaction.commit().await.map_err(error)?;
    Ok(true)
}

pub(super) async fn keys(pool: &Pool) -> Result<Vec<KeyRow>> {
    let rows = pool.ask(async |line| sqlx::query(KEYS).bind(None::<String>).fetch_all(line).await).await?;
    rows.iter().map(key).collect()
}

pub(super) async fn key_by_hash(pool: &Pool, hash: &str) -> Result<Option<KeyRow>> {
    let row = pool.ask(async |line| sqlx::query(KEYS).bind(escaped(hash)).fetch_optional(line).await).await?;
    row.as_ref().map(key).transpose()
}

pub(super) async fn revoke_key(pool: &Pool, key_id: &str, now: Millis, audit: AuditRow) -> Result<bool> {
    let revoke = sqlx::query(REVOKE).bind(escaped(key_id)).bind(now);
    pool.talk(async |line| told(line, revoke, &audit).await).await
}

/// The two tenants, and whether the second has nothing but keys.
const TENANTS: &str = "
SELECT (SELECT pk FROM tenants WHERE name = $1), t.pk, NOT (
    EXISTS (SELECT FROM threads o WHERE o.tenant = t.pk)
    OR EXISTS (SELECT FROM documents o WHERE o.tenant = t.pk AND o.body IS NOT NULL)
    OR EXISTS (SELECT FROM usage_kept o WHERE o.tenant = t.pk))
FROM (SELECT 1) one LEFT JOIN tenants t ON t.name = $2";

/// Rows go by the tenant's key, so all that it has goes with its name.
pub(super) async fn rename_tenant(pool: &Pool, from: &str, to: &str, by: &str, now: Millis) -> Result<bool> {
    pool.talk(async |line| renamed(line, from, to, by, now).await).await
}

async fn renamed(line: &mut PgConnection, from: &str, to: &str, by: &str, now: Millis) -> Result<bool> {
    // Dropped without a commit, it is rolled back.
    let mut transaction = line.begin().await.map_err(error)?;
    sqlx::query("LOCK TABLE tenants IN EXCLUSIVE MODE").execute(&mut *transaction).await.map_err(error)?;
    let tenants = sqlx::query_as(TENANTS).bind(escaped(from)).bind(escaped(to));
    let (pk, other, is_free): (Option<i64>, Option<i64>, Option<bool>) =
        tenants.fetch_one(&mut *transaction).await.map_err(error)?;
    let Some(pk) = pk.filter(|_| other.is_none() || is_free == Some(true)) else { return Ok(false) };
    for change in [
        "UPDATE api_keys SET tenant = $1 WHERE tenant = $2",
        "UPDATE audit SET tenant = $1 WHERE tenant = $2",
        "DELETE FROM tenants WHERE pk = $2 AND pk <> $1",
    ] {
        sqlx::query(change).bind(pk).bind(other).execute(&mut *transaction).await.map_err(error)?;
    }
    let rename = sqlx::query("UPDATE tenants SET name = $2 WHERE pk = $1").bind(pk).bind(escaped(to));
    rename.execute(&mut *transaction).await.map_err(error)?;
    let line = AuditRow {
        tenant: TenantPk(pk),
        thread: ThreadPk::NONE,
        thread_id: None,
        at: now,
        actor: by.to_owned(),
        action: "rename tenant".to_owned(),
        detail: json!({ "from": from, "to": to }),
    };
    note(&mut transaction, &line).await?;
    transaction.commit().await.map_err(error)?;
    Ok(true)
}

fn key(row: &PgRow) -> Result<KeyRow> {
    Ok(KeyRow {
        key_id: row.try_get("key_id").map_err(error)?,
        tenant: TenantPk(row.try_get("tenant").map_err(error)?),
        tenant_name: unescaped(row.try_get("tenant_name").map_err(error)?),
        name: unescaped(row.try_get("name").map_err(error)?),
        hash: row.try_get("hash").map_err(error)?,
        scopes: row.try_get("scopes").map_err(error)?,
        created_at: row.try_get("created_at").map_err(error)?,
        revoked_at: row.try_get("revoked_at").map_err(error)?,
    })
}
