//! Tenants and their keys.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqlitePool};

use super::fault::unreadable;
use super::writer::Writer;
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::store::{KeyRow, Result};

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

pub(super) async fn add(writer: &Writer, key: KeyRow) -> Result<()> {
    let insert = sqlx::query(
        "INSERT INTO api_keys (key_id, tenant, name, hash, scopes, created_at, revoked_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
    );
    let insert = insert.bind(key.key_id).bind(key.tenant.0).bind(key.name).bind(key.hash).bind(key.scopes);
    writer.write(insert.bind(key.created_at).bind(key.revoked_at)).await?;
    Ok(())
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

pub(super) async fn revoke(writer: &Writer, key_id: &str, now: Millis) -> Result<bool> {
    let update = sqlx::query("UPDATE api_keys SET revoked_at = ? WHERE key_id = ? AND revoked_at IS NULL RETURNING 1");
    Ok(!writer.write(update.bind(now).bind(key_id.to_owned())).await?.is_empty())
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
