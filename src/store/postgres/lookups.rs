//! Keys under which runs are found again.

use async_trait::async_trait;

use super::Postgres;
use crate::domain::Millis;
use crate::domain::ids::{RunId, TenantPk};
use crate::domain::lookup::{FoundRun, LookupKey};
use crate::store::lookups::read;
use crate::store::{LookupStore, Result};

const NEWEST: &str = "
SELECT t.thread_id, l.run_id, l.created_at, l.listening_until FROM lookup_keys l JOIN threads t ON t.pk = l.pk
WHERE l.tenant = $1 AND l.kind = $2 AND l.digest = $3 ORDER BY l.created_at DESC, l.run_id DESC LIMIT $4";

const LISTEN: &str = "
UPDATE lookup_keys SET listening_until = greatest(listening_until, $5)
WHERE tenant = $1 AND kind = $2 AND digest = $3 AND run_id = $4";

/// The key of a schedule's last run is kept, because it decides whether the next run may begin.
const FORGET: &str = "
DELETE FROM lookup_keys WHERE (tenant, kind, digest, created_at, run_id) IN (
    SELECT tenant, kind, digest, created_at, run_id FROM lookup_keys l
    WHERE created_at < $1 AND (kind <> 'schedule' OR EXISTS (
        SELECT FROM lookup_keys n WHERE n.tenant = l.tenant AND n.kind = l.kind AND n.digest = l.digest
            AND n.created_at > l.created_at))
    ORDER BY created_at LIMIT $2 FOR UPDATE OF l SKIP LOCKED)";

#[async_trait]
impl LookupStore for Postgres {
    async fn lookups(&self, tenant: TenantPk, key: &LookupKey, limit: u32) -> Result<Vec<FoundRun>> {
        let query = sqlx::query(NEWEST).bind(tenant.0).bind(key.kind).bind(key.digest.clone()).bind(i64::from(limit));
        let found = self.pool.with_query(async |connection| query.fetch_all(connection).await).await?;
        found.iter().map(read).collect()
    }

    async fn listen_until(&self, tenant: TenantPk, key: &LookupKey, run: &RunId, until: Millis) -> Result<bool> {
        let query = sqlx::query(LISTEN).bind(tenant.0).bind(key.kind).bind(key.digest.clone());
        let query = query.bind(run.to_string()).bind(until);
        let updated = self.pool.with_query(async |connection| query.execute(connection).await).await?;
        Ok(updated.rows_affected() > 0)
    }

    async fn forget_lookups(&self, before: Millis, limit: u32) -> Result<u64> {
        let query = sqlx::query(FORGET).bind(before).bind(i64::from(limit));
        Ok(self.pool.with_query(async |connection| query.execute(connection).await).await?.rows_affected())
    }
}
