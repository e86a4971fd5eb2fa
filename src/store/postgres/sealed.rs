//! Rows that hold sealed texts.

use async_trait::async_trait;

use super::Postgres;
use super::nul::escaped;
use crate::store::Result;
use crate::store::sealed::{SealedKind, SealedRow, SealedStore};

/// Uses the index `rows_push`.
const RECEIVERS: &str = "
SELECT tenant, pk, '' AS scope, id, body FROM thread_rows
WHERE kind = 13 AND (pk, id) > ($1, $2) ORDER BY pk, id LIMIT $3";

const RESPONSES: &str = "
SELECT tenant, 0::bigint AS pk, scope, key AS id, body FROM idempotency
WHERE (tenant, scope, key) > ($1, $2, $3) AND body LIKE 'v1.%' ORDER BY tenant, scope, key LIMIT $4";

const REPLACE_RECEIVER: &str = "UPDATE thread_rows SET body = $4 WHERE pk = $1 AND kind = 13 AND id = $2 AND body = $3";

const REPLACE_RESPONSE: &str =
    "UPDATE idempotency SET body = $5 WHERE tenant = $1 AND scope = $2 AND key = $3 AND body = $4";

#[async_trait]
impl SealedStore for Postgres {
    async fn sealed_rows(&self, kind: SealedKind, after: Option<&SealedRow>, limit: u32) -> Result<Vec<SealedRow>> {
        let (scope, id) = after.map_or(("", ""), |row| (&row.scope, &row.id));
        let (scope, id) = (escaped(scope), escaped(id));
        let query = match kind {
            SealedKind::Receiver => sqlx::query(RECEIVERS).bind(after.map_or(i64::MIN, |row| row.thread.0)).bind(id),
            SealedKind::Response => {
                let tenant = after.map_or(i64::MIN, |row| row.tenant.0);
                sqlx::query(RESPONSES).bind(tenant).bind(scope).bind(id)
            }
        };
        let query = query.bind(i64::from(limit));
        let found = self.pool.fetch_all(query).await?;
        found.iter().map(|row| SealedRow::read(kind, row)).collect()
    }

    async fn replace_sealed(&self, row: &SealedRow, body: &str) -> Result<bool> {
        let query = match row.kind {
            SealedKind::Receiver => sqlx::query(REPLACE_RECEIVER).bind(row.thread.0).bind(escaped(&row.id)),
            SealedKind::Response => {
                sqlx::query(REPLACE_RESPONSE).bind(row.tenant.0).bind(escaped(&row.scope)).bind(escaped(&row.id))
            }
        };
        let query = query.bind(&row.body).bind(body);
        Ok(self.pool.execute(query).await? == 1)
    }
}
