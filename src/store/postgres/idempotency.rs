//! Idempotency keys and the responses stored under them.

use async_trait::async_trait;
use sqlx::PgConnection;

use super::Postgres;
use super::fault::error;
use super::nul::escaped;
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::store::{IdempotencyRow, IdempotencyStore, Result};

const ONE: &str = "
SELECT fingerprint, status, body, location, created_at FROM idempotency
WHERE tenant = $1 AND scope = $2 AND key = $3";

const INSERT: &str = "
INSERT INTO idempotency (pk, tenant, scope, key, fingerprint, status, location, created_at, body)
VALUES (0, $1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (tenant, scope, key) DO NOTHING";

const FORGET: &str = "
DELETE FROM idempotency WHERE (tenant, scope, key) IN (
    SELECT tenant, scope, key FROM idempotency WHERE created_at < $1 ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED)";

#[async_trait]
impl IdempotencyStore for Postgres {
    async fn idempotency(&self, tenant: TenantPk, scope: &str, key: &str) -> Result<Option<IdempotencyRow>> {
        let query = sqlx::query(ONE).bind(tenant.0).bind(escaped(scope)).bind(escaped(key));
        let found = self.pool.fetch_optional(query).await?;
        found.map(|row| IdempotencyRow::read(&row, tenant, scope, key)).transpose()
    }

    async fn forget_idempotency(&self, before: Millis, limit: u32) -> Result<u64> {
        let query = sqlx::query(FORGET).bind(before).bind(i64::from(limit));
        self.pool.execute(query).await
    }
}

/// Stores a response that belongs to no thread. `false`: its key is taken.
pub(super) async fn insert(transaction: &mut PgConnection, response: IdempotencyRow) -> Result<bool> {
    let query = sqlx::query(INSERT).bind(response.tenant.0).bind(escaped(&response.scope)).bind(escaped(&response.key));
    let query = query.bind(response.fingerprint).bind(i32::from(response.status)).bind(response.location);
    let inserted = query.bind(response.created_at).bind(response.body).execute(transaction).await.map_err(error)?;
    Ok(inserted.rows_affected() == 1)
}
