//! Keys under which runs are found again.

use async_trait::async_trait;

use super::Postgres;
use crate::domain::Millis;
use crate::domain::ids::{RunId, TenantPk};
use crate::domain::lookup::{FoundRun, LookupKey};
use crate::store::forgetting::{Examined, MAX_EXAMINED};
use crate::store::lookups::read;
use crate::store::{Forgotten, LookupPosition, LookupReads, LookupStore, Result};

const NEWEST: &str = "
SELECT t.thread_id, l.run_id, l.created_at, l.listening_until FROM lookup_keys l JOIN threads t ON t.pk = l.pk
WHERE l.tenant = $1 AND l.kind = $2 AND l.digest = $3 ORDER BY l.created_at DESC, l.run_id DESC LIMIT $4";

const LISTEN: &str = "
UPDATE lookup_keys SET listening_until = greatest(listening_until, $5)
WHERE tenant = $1 AND kind = $2 AND digest = $3 AND run_id = $4";

/// A newer key with the digest of the key `l`.
macro_rules! newer {
    () => {
        "LEFT JOIN LATERAL (
             SELECT true AS is_there FROM lookup_keys n WHERE n.tenant = l.tenant AND n.kind = l.kind
                 AND n.digest = l.digest AND n.created_at > l.created_at LIMIT 1) n ON true"
    };
}

/// Whether a key may be deleted. That of a schedule's last run is kept, because it decides whether the next run may begin.
macro_rules! may_go {
    () => {
        "(l.kind <> 'schedule' OR n.is_there IS NOT NULL)"
    };
}

const EXAMINE: &str = concat!(
    "SELECT l.*, ",
    may_go!(),
    " AS may_go FROM (
         SELECT created_at, tenant, kind, digest, run_id FROM lookup_keys
         WHERE created_at < $1 AND created_at >= $2
             AND (created_at, tenant, kind, digest, run_id) > ($2, $3, $4, $5, $6)
         ORDER BY created_at, tenant, kind, digest, run_id LIMIT $7) l ",
    newer!(),
    " ORDER BY l.created_at, l.tenant, l.kind, l.digest, l.run_id"
);

/// Deletes these keys, unless one has become that of the last run since they were examined.
const FORGET_EXAMINED: &str = concat!(
    "DELETE FROM lookup_keys WHERE ctid = ANY (ARRAY(
         SELECT r.ctid
         FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::text[]) l (tenant, kind, digest, created_at, run_id) ",
    newer!(),
    " CROSS JOIN LATERAL (
             SELECT d.ctid FROM lookup_keys d WHERE d.tenant = l.tenant AND d.kind = l.kind AND d.digest = l.digest
                 AND d.created_at = l.created_at AND d.run_id = l.run_id
             LIMIT 1 FOR UPDATE SKIP LOCKED) r
         WHERE ",
    may_go!(),
    "))"
);

#[async_trait]
impl LookupReads for Postgres {
    async fn lookups(&self, tenant: TenantPk, key: &LookupKey, limit: u32) -> Result<Vec<FoundRun>> {
        let query = sqlx::query(NEWEST).bind(tenant.0).bind(key.kind).bind(key.digest.clone()).bind(i64::from(limit));
        let found = self.pool.fetch_all(query).await?;
        found.iter().map(read).collect()
    }
}

#[async_trait]
impl LookupStore for Postgres {
    async fn listen_until(&self, tenant: TenantPk, key: &LookupKey, run: &RunId, until: Millis) -> Result<bool> {
        let query = sqlx::query(LISTEN).bind(tenant.0).bind(key.kind).bind(key.digest.clone());
        let query = query.bind(run.to_string()).bind(until);
        Ok(self.pool.execute(query).await? > 0)
    }

    async fn forget_lookups(
        &self,
        before: Millis,
        behind: &LookupPosition,
        limit: u32,
    ) -> Result<Forgotten<LookupPosition>> {
        let LookupPosition { at, tenant, kind, digest, run } = behind;
        let query = sqlx::query(EXAMINE).bind(before).bind(at).bind(tenant.0).bind(kind).bind(digest).bind(run);
        let query = query.bind(i64::from(MAX_EXAMINED));
        let rows = self.pool.fetch_all(query).await?;
        let Examined { deletable, next } = Examined::read(&rows, u64::from(limit), LookupPosition::read)?;
        if deletable.is_empty() {
            return Ok(Forgotten { deleted: 0, next });
        }
        let numbers = |of: fn(&LookupPosition) -> i64| deletable.iter().map(of).collect::<Vec<_>>();
        let texts = |of: fn(&LookupPosition) -> &String| deletable.iter().map(of).cloned().collect::<Vec<_>>();
        let query = sqlx::query(FORGET_EXAMINED).bind(numbers(|key| key.tenant.0)).bind(texts(|key| &key.kind));
        let query = query.bind(texts(|key| &key.digest)).bind(numbers(|key| key.at)).bind(texts(|key| &key.run));
        Ok(Forgotten { deleted: self.pool.execute(query).await?, next })
    }
}
