//! Keys under which runs are found again.

use async_trait::async_trait;
use rusqlite::{Transaction, params};

use super::Sqlite;
use super::fault::unreadable;
use crate::domain::Millis;
use crate::domain::ids::{RunId, TenantPk, ThreadPk};
use crate::domain::lookup::{FoundRun, LookupKey};
use crate::store::lookups::{NewLookup, read};
use crate::store::{LookupStore, Result};

pub(super) const NEWEST: &str = "
SELECT t.thread_id, l.run_id, l.created_at, l.listening_until FROM lookup_keys l CROSS JOIN threads t ON t.pk = l.pk
WHERE l.tenant = ? AND l.kind = ? AND l.digest = ? ORDER BY l.created_at DESC, l.run_id DESC LIMIT ?";

const LISTEN: &str = "
UPDATE lookup_keys SET listening_until = max(listening_until, ?5)
WHERE tenant = ?1 AND kind = ?2 AND digest = ?3 AND run_id = ?4";

/// The key of a schedule's last run is kept, because it decides whether the next run may begin.
pub(super) const FORGET: &str = "
DELETE FROM lookup_keys WHERE rowid IN (
    SELECT l.rowid FROM lookup_keys l
    WHERE l.created_at < ?1 AND (l.kind <> 'schedule' OR EXISTS (
        SELECT 1 FROM lookup_keys n WHERE n.tenant = l.tenant AND n.kind = l.kind AND n.digest = l.digest
            AND n.created_at > l.created_at))
    ORDER BY l.created_at LIMIT ?2)";

/// A duplicate of key and run in one commit is ignored.
pub(super) fn insert(
    tx: &Transaction<'_>,
    thread: ThreadPk,
    tenant: i64,
    new: &NewLookup,
    now: Millis,
) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO lookup_keys (pk, tenant, kind, digest, run_id, created_at, listening_until)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0) ON CONFLICT DO NOTHING",
    )?
    .execute(params![thread.0, tenant, new.key.kind, new.key.digest, new.run.as_str(), now])?;
    Ok(())
}

#[async_trait]
impl LookupStore for Sqlite {
    async fn lookups(&self, tenant: TenantPk, key: &LookupKey, limit: u32) -> Result<Vec<FoundRun>> {
        let query = sqlx::query(NEWEST).bind(tenant.0).bind(key.kind).bind(&key.digest).bind(i64::from(limit));
        query.fetch_all(&self.readers).await.map_err(unreadable)?.iter().map(read).collect()
    }

    async fn listen_until(&self, tenant: TenantPk, key: &LookupKey, run: &RunId, until: Millis) -> Result<bool> {
        let (key, run) = (key.clone(), run.clone());
        let listen = move |tx: &Transaction<'_>| {
            let arguments = params![tenant.0, key.kind, key.digest, run.as_str(), until];
            tx.prepare_cached(LISTEN)?.execute(arguments)
        };
        Ok(self.writer.write(listen).await? > 0)
    }

    async fn forget_lookups(&self, before: Millis, limit: u32) -> Result<u64> {
        let forget = move |tx: &Transaction<'_>| tx.prepare_cached(FORGET)?.execute(params![before, limit]);
        Ok(self.writer.chore(forget).await? as u64)
    }
}
