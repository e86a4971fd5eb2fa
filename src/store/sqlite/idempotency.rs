//! Idempotency keys and the answers stored under them.

use async_trait::async_trait;

use super::Sqlite;
use super::fault::unreadable;
use super::writer::Script;
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::store::{AnswerToStore, IdempotencyRow, IdempotencyStore, Result};

const ONE: &str = "
SELECT fingerprint, status, body, location, created_at FROM idempotency WHERE tenant = ? AND scope = ? AND key = ?";

pub(super) const FORGET: &str = "DELETE FROM idempotency WHERE rowid IN
    (SELECT rowid FROM idempotency WHERE created_at < ? ORDER BY created_at LIMIT ?) RETURNING 1";

#[async_trait]
impl IdempotencyStore for Sqlite {
    async fn idempotency(&self, tenant: TenantPk, scope: &str, key: &str) -> Result<Option<IdempotencyRow>> {
        let query = sqlx::query(ONE).bind(tenant.0).bind(scope).bind(key);
        let found = query.fetch_optional(&self.readers).await.map_err(unreadable)?;
        found.map(|row| IdempotencyRow::read(&row, tenant, scope, key)).transpose()
    }

    async fn forget_idempotency(&self, before: Millis, limit: u32) -> Result<u64> {
        Ok(self.writer.write(sqlx::query(FORGET).bind(before).bind(limit)).await?.len() as u64)
    }
}

/// Binds scope, key, fingerprint, status, location, time and body of an answer to be kept; without one they are NULL.
pub(super) fn with_kept(script: Script, kept: AnswerToStore) -> Script {
    let text = |part: fn(&IdempotencyRow) -> &String| kept.as_ref().map(part).cloned();
    let script = script.bind(text(|row| &row.scope)).bind(text(|row| &row.key)).bind(text(|row| &row.fingerprint));
    let script = script.bind(kept.as_ref().map(|row| row.status));
    let script = script.bind(kept.as_ref().and_then(|row| row.location.clone()));
    script.bind(kept.as_ref().map(|row| row.created_at)).bind(text(|row| &row.body))
}
