//! Rows that hold sealed texts.

use async_trait::async_trait;
use rusqlite::{Transaction, params};

use super::Sqlite;
use crate::store::Result;
use crate::store::sealed::{SealedKind, SealedRow, SealedStore};

const RECEIVERS: &str = "
SELECT tenant, pk, '' AS scope, id, body FROM thread_rows INDEXED BY rows_push
WHERE kind = 13 AND (pk, id) > (?, ?) ORDER BY pk, id LIMIT ?";

const RESPONSES: &str = "
SELECT tenant, 0 AS pk, scope, key AS id, body FROM idempotency
WHERE (tenant, scope, key) > (?, ?, ?) AND substr(body, 1, 3) = 'v1.' ORDER BY tenant, scope, key LIMIT ?";

const REPLACE_RECEIVER: &str = "UPDATE thread_rows SET body = ?4 WHERE pk = ?1 AND kind = 13 AND id = ?2 AND body = ?3";

const REPLACE_RESPONSE: &str =
    "UPDATE idempotency SET body = ?5 WHERE tenant = ?1 AND scope = ?2 AND key = ?3 AND body = ?4";

#[async_trait]
impl SealedStore for Sqlite {
    async fn sealed_rows(&self, kind: SealedKind, after: Option<&SealedRow>, limit: u32) -> Result<Vec<SealedRow>> {
        let (scope, id) = after.map_or(("", ""), |row| (&row.scope, &row.id));
        let query = match kind {
            SealedKind::Receiver => sqlx::query(RECEIVERS).bind(after.map_or(i64::MIN, |row| row.thread.0)).bind(id),
            SealedKind::Response => {
                let tenant = after.map_or(i64::MIN, |row| row.tenant.0);
                sqlx::query(RESPONSES).bind(tenant).bind(scope).bind(id)
            }
        };
        let found = query.bind(limit).fetch_all(&self.readers).await.map_err(self.unreadable())?;
        found.iter().map(|row| SealedRow::read(kind, row)).collect()
    }

    async fn replace_sealed(&self, row: &SealedRow, body: &str) -> Result<bool> {
        let (row, body) = (row.clone(), body.to_owned());
        let replace = move |tx: &Transaction<'_>| match row.kind {
            SealedKind::Receiver => {
                tx.prepare_cached(REPLACE_RECEIVER)?.execute(params![row.thread.0, row.id, row.body, body])
            }
            SealedKind::Response => {
                tx.prepare_cached(REPLACE_RESPONSE)?.execute(params![row.tenant.0, row.scope, row.id, row.body, body])
            }
        };
        Ok(self.writer.write(replace).await? > 0)
    }
}
