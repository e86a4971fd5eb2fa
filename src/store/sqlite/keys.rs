//! Tenants and their keys.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqlitePool};

use super::fault::unreadable;
use super::writer::{Script, Writer};
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::store::{AuditRow, KeyRow, Result};

pub(super) async fn tenant(writer: &Writer, name: &str, now: Millis) -> Result<TenantPk> {
    let script = sqlx::query(
        "BEGIN IMMEDIATE;
         INSERT INTO tenants (name, created_at) VALUES (?1, ?2) ON CONFLICT DO NOTHING;
         SELECT pk FROM tenants WHERE name = ?1;
         COMMIT",
    );
    let rows = writer.write(script.bind(name.to_owned()).bind(now)).await?;
    rows[0].try_get(0).map(TenantPk).map_err(unreadable)
}

/// The line follows what it tells of, and stands if that does.
const ADD: &str = "
BEGIN IMMEDIATE;
INSERT INTO api_keys (key_id, tenant, name, hash, scopes, created_at, revoked_at)
VALUES ($6, $7, $8, $9, $10, $11, $12) ON CONFLICT (tenant, name) DO NOTHING;
INSERT INTO audit (pk, tenant, thread_id, at, actor, action, detail)
SELECT 0, $1, NULL, $2, $3, $4, $5 WHERE changes() = 1 RETURNING 1;
COMMIT";

pub(super) async fn add(writer: &Writer, key: KeyRow, audit: AuditRow) -> Result<bool> {
    let script = with_line(sqlx::query(ADD), audit);
    let script = script.bind(key.key_id).bind(key.tenant.0).bind(key.name).bind(key.hash).bind(key.scopes);
    Ok(!writer.write(script.bind(key.created_at).bind(key.revoked_at)).await?.is_empty())
}

/// Whether the tenant $2 has nothing but keys.
macro_rules! while_free {
    ($rest:literal) => {
        concat!(
            $rest,
            " AND NOT EXISTS (SELECT 1 FROM tenants t WHERE t.name = $2 AND (
                EXISTS (SELECT 1 FROM threads o WHERE o.tenant = t.pk)
                OR EXISTS (SELECT 1 FROM documents o WHERE o.tenant = t.pk AND o.body IS NOT NULL)
                OR EXISTS (SELECT 1 FROM usage_kept o WHERE o.tenant = t.pk)));
             "
        )
    };
}

/// $1 from, $2 to. Rows go by the tenant's key, so all that it has goes with its name.
const RENAME: &str = concat!(
    "BEGIN IMMEDIATE;
     ",
    while_free!(
        "UPDATE api_keys SET tenant = (SELECT pk FROM tenants WHERE name = $1)
         WHERE tenant = (SELECT pk FROM tenants WHERE name = $2) AND EXISTS (SELECT 1 FROM tenants WHERE name = $1)"
    ),
    while_free!(
        "UPDATE audit SET tenant = (SELECT pk FROM tenants WHERE name = $1)
         WHERE tenant = (SELECT pk FROM tenants WHERE name = $2) AND EXISTS (SELECT 1 FROM tenants WHERE name = $1)"
    ),
    while_free!("DELETE FROM tenants WHERE name = $2 AND $1 <> $2 AND EXISTS (SELECT 1 FROM tenants WHERE name = $1)"),
    "UPDATE tenants SET name = $2 WHERE name = $1 AND NOT EXISTS (SELECT 1 FROM tenants WHERE name = $2);
     INSERT INTO audit (pk, tenant, thread_id, at, actor, action, detail)
     SELECT 0, pk, NULL, $3, $4, 'rename tenant', json_object('from', $1, 'to', $2) FROM tenants
     WHERE name = $2 AND changes() = 1 RETURNING 1;
     COMMIT"
);

pub(super) async fn rename(writer: &Writer, from: &str, to: &str, by: &str, now: Millis) -> Result<bool> {
    let script = sqlx::query(RENAME).bind(from.to_owned()).bind(to.to_owned()).bind(now).bind(by.to_owned());
    Ok(!writer.write(script).await?.is_empty())
}

fn with_line(script: Script, line: AuditRow) -> Script {
    script.bind(line.tenant.0).bind(line.at).bind(line.actor).bind(line.action).bind(line.detail.to_string())
}

macro_rules! select_key {
    ($rest:literal) => {
        concat!(
            "SELECT k.key_id, k.tenant, t.name, k.name, k.hash, k.scopes, k.created_at, k.revoked_at
             FROM api_keys k JOIN tenants t ON t.pk = k.tenant ",
            $rest
        )
    };
}

pub(super) async fn all(db: &SqlitePool) -> Result<Vec<KeyRow>> {
    let found = sqlx::query(select_key!("ORDER BY k.rowid")).fetch_all(db).await.map_err(unreadable)?;
    found.iter().map(|row| key(row).map_err(unreadable)).collect()
}

pub(super) async fn by_hash(db: &SqlitePool, hash: &str) -> Result<Option<KeyRow>> {
    let query = sqlx::query(select_key!("WHERE k.hash = ?")).bind(hash);
    let found = query.fetch_optional(db).await.map_err(unreadable)?;
    found.as_ref().map(key).transpose().map_err(unreadable)
}

const REVOKE: &str = "
BEGIN IMMEDIATE;
UPDATE api_keys SET revoked_at = $6 WHERE key_id = $7 AND revoked_at IS NULL;
INSERT INTO audit (pk, tenant, thread_id, at, actor, action, detail)
SELECT 0, $1, NULL, $2, $3, $4, $5 WHERE changes() = 1 RETURNING 1;
COMMIT";

pub(super) async fn revoke(writer: &Writer, key_id: &str, now: Millis, audit: AuditRow) -> Result<bool> {
    let script = with_line(sqlx::query(REVOKE), audit).bind(now).bind(key_id.to_owned());
    Ok(!writer.write(script).await?.is_empty())
}

fn key(row: &SqliteRow) -> std::result::Result<KeyRow, sqlx::Error> {
    Ok(KeyRow {
        key_id: row.try_get(0)?,
        tenant: TenantPk(row.try_get(1)?),
        tenant_name: row.try_get(2)?,
        name: row.try_get(3)?,
        hash: row.try_get(4)?,
        scopes: row.try_get(5)?,
        created_at: row.try_get(6)?,
        revoked_at: row.try_get(7)?,
    })
}
