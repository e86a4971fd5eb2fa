//! Idempotency keys and the responses stored under them.

use async_trait::async_trait;
use rusqlite::{Transaction, params};

use super::Sqlite;
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::store::{IdempotencyRow, IdempotencyStore, Result};

const ONE: &str = "
SELECT fingerprint, status, body, location, created_at FROM idempotency WHERE tenant = ? AND scope = ? AND key = ?";

pub(super) const FORGET: &str = "DELETE FROM idempotency WHERE rowid IN
    (SELECT rowid FROM idempotency WHERE created_at < ? ORDER BY created_at LIMIT ?)";

/// Whether a response is stored under this key.
pub(super) fn is_taken(tx: &Transaction<'_>, key: &IdempotencyRow) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM idempotency WHERE tenant = ?1 AND scope = ?2 AND key = ?3";
    tx.prepare_cached(sql)?.exists(params![key.tenant.0, key.scope, key.key])
}

/// Stores a response under its key, which must not be taken.
pub(super) fn insert(tx: &Transaction<'_>, thread: ThreadPk, key: &IdempotencyRow) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO idempotency (pk, tenant, scope, key, fingerprint, status, location, created_at, body)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        thread.0,
        key.tenant.0,
        key.scope,
        key.key,
        key.fingerprint,
        key.status,
        key.location,
        key.created_at,
        key.body,
    ])?;
    Ok(())
}

#[async_trait]
impl IdempotencyStore for Sqlite {
    async fn idempotency(&self, tenant: TenantPk, scope: &str, key: &str) -> Result<Option<IdempotencyRow>> {
        let query = sqlx::query(ONE).bind(tenant.0).bind(scope).bind(key);
        let found = query.fetch_optional(&self.readers).await.map_err(self.unreadable())?;
        found.map(|row| IdempotencyRow::read(&row, tenant, scope, key)).transpose()
    }

    async fn forget_idempotency(&self, before: Millis, limit: u32) -> Result<u64> {
        let forget = move |tx: &Transaction<'_>| tx.prepare_cached(FORGET)?.execute(params![before, limit]);
        Ok(self.writer.chore(forget).await? as u64)
    }
}
