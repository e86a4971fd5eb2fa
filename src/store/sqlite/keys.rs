//! Tenants and their keys.

use async_trait::async_trait;

use super::Sqlite;
use super::fault::unreadable;
use super::writer::Script;
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::store::columns::Columns as _;
use crate::store::{AuditRow, KeyRow, KeyStore, Result};

const TENANT: &str = "
BEGIN IMMEDIATE;
INSERT INTO tenants (name, created_at) VALUES (?1, ?2) ON CONFLICT DO NOTHING;
SELECT pk FROM tenants WHERE name = ?1;
COMMIT";

/// The audit row is inserted after the change, and only if a row was changed.
const ADD: &str = "
BEGIN IMMEDIATE;
INSERT INTO api_keys (key_id, tenant, name, hash, scopes, created_at, revoked_at)
VALUES ($6, $7, $8, $9, $10, $11, $12) ON CONFLICT (tenant, name) DO NOTHING;
INSERT INTO audit (pk, tenant, thread_id, at, actor, action, detail)
SELECT 0, $1, NULL, $2, $3, $4, $5 WHERE changes() = 1 RETURNING 1;
COMMIT";

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

macro_rules! select_key {
    ($rest:literal) => {
        concat!(
            "SELECT k.key_id, k.tenant, t.name AS tenant_name, k.name, k.hash, k.scopes, k.created_at, k.revoked_at
             FROM api_keys k JOIN tenants t ON t.pk = k.tenant ",
            $rest
        )
    };
}

const ALL: &str = select_key!("ORDER BY k.rowid");

const BY_HASH: &str = select_key!("WHERE k.hash = ?");

const REVOKE: &str = "
BEGIN IMMEDIATE;
UPDATE api_keys SET revoked_at = $6 WHERE key_id = $7 AND revoked_at IS NULL;
INSERT INTO audit (pk, tenant, thread_id, at, actor, action, detail)
SELECT 0, $1, NULL, $2, $3, $4, $5 WHERE changes() = 1 RETURNING 1;
COMMIT";

#[async_trait]
impl KeyStore for Sqlite {
    async fn tenant(&self, name: &str, now: Millis) -> Result<TenantPk> {
        let rows = self.writer.write(sqlx::query(TENANT).bind(name.to_owned()).bind(now)).await?;
        rows[0].number("pk").map(TenantPk)
    }

    async fn tenant_name(&self, tenant: TenantPk) -> Result<Option<String>> {
        let query = sqlx::query_scalar("SELECT name FROM tenants WHERE pk = ?").bind(tenant.0);
        query.fetch_optional(&self.readers).await.map_err(unreadable)
    }

    async fn rename_tenant(&self, from: &str, to: &str, by: &str, now: Millis) -> Result<bool> {
        let script = sqlx::query(RENAME).bind(from.to_owned()).bind(to.to_owned()).bind(now).bind(by.to_owned());
        Ok(!self.writer.write(script).await?.is_empty())
    }

    async fn add_key(&self, key: KeyRow, audit: AuditRow) -> Result<bool> {
        let script = with_audit(sqlx::query(ADD), audit);
        let script = script.bind(key.key_id).bind(key.tenant.0).bind(key.name).bind(key.hash).bind(key.scopes);
        Ok(!self.writer.write(script.bind(key.created_at).bind(key.revoked_at)).await?.is_empty())
    }

    async fn keys(&self) -> Result<Vec<KeyRow>> {
        let found = sqlx::query(ALL).fetch_all(&self.readers).await.map_err(unreadable)?;
        found.iter().map(KeyRow::read).collect()
    }

    async fn revoke_key(&self, key_id: &str, now: Millis, audit: AuditRow) -> Result<bool> {
        let script = with_audit(sqlx::query(REVOKE), audit).bind(now).bind(key_id.to_owned());
        Ok(!self.writer.write(script).await?.is_empty())
    }

    async fn key_by_hash(&self, hash: &str) -> Result<Option<KeyRow>> {
        let found = sqlx::query(BY_HASH).bind(hash).fetch_optional(&self.readers).await.map_err(unreadable)?;
        found.as_ref().map(KeyRow::read).transpose()
    }
}

fn with_audit(script: Script, audit_row: AuditRow) -> Script {
    script
        .bind(audit_row.tenant.0)
        .bind(audit_row.at)
        .bind(audit_row.actor)
        .bind(audit_row.action)
        .bind(audit_row.detail.to_string())
}
