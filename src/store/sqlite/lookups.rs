//! Keys under which runs are found again.

use async_trait::async_trait;
use rusqlite::{Transaction, params};
use serde_json::{Value, json};

use super::Sqlite;
use crate::domain::Millis;
use crate::domain::ids::{RunId, TenantPk, ThreadPk};
use crate::domain::lookup::{FoundRun, LookupKey};
use crate::store::forgetting::{Examined, MAX_EXAMINED};
use crate::store::lookups::{NewLookup, read};
use crate::store::{Forgotten, LookupPosition, LookupReads, LookupStore, Result};

pub(super) const NEWEST: &str = "
SELECT t.thread_id, l.run_id, l.created_at, l.listening_until FROM lookup_keys l CROSS JOIN threads t ON t.pk = l.pk
WHERE l.tenant = ? AND l.kind = ? AND l.digest = ? ORDER BY l.created_at DESC, l.run_id DESC LIMIT ?";

const LISTEN: &str = "
UPDATE lookup_keys SET listening_until = max(listening_until, ?5)
WHERE tenant = ?1 AND kind = ?2 AND digest = ?3 AND run_id = ?4";

/// Whether the key `l` may be deleted. That of a schedule's last run is kept, because it decides whether the next run may
/// begin.
macro_rules! may_go {
    () => {
        "(l.kind <> 'schedule' OR EXISTS (
             SELECT 1 FROM lookup_keys n WHERE n.tenant = l.tenant AND n.kind = l.kind AND n.digest = l.digest
                 AND n.created_at > l.created_at))"
    };
}

/// Read beside the writer, so that no commit waits for it.
pub(super) const EXAMINE: &str = concat!(
    "SELECT l.created_at, l.tenant, l.kind, l.digest, l.run_id, ",
    may_go!(),
    " AS may_go FROM lookup_keys l
     WHERE l.created_at < ?1 AND l.created_at >= ?2
         AND (l.created_at, l.tenant, l.kind, l.digest, l.run_id) > (?2, ?3, ?4, ?5, ?6)
     ORDER BY l.created_at, l.tenant, l.kind, l.digest, l.run_id LIMIT ?7"
);

/// Deletes these keys, unless one has become that of the last run since they were examined.
pub(super) const FORGET_EXAMINED: &str = concat!(
    "DELETE FROM lookup_keys WHERE rowid IN (
         SELECT l.rowid FROM json_each(?1) w CROSS JOIN lookup_keys l
         ON l.tenant = w.value ->> 0 AND l.kind = w.value ->> 1 AND l.digest = w.value ->> 2
             AND l.created_at = w.value ->> 3 AND l.run_id = w.value ->> 4
         WHERE ",
    may_go!(),
    ")"
);

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
impl LookupReads for Sqlite {
    async fn lookups(&self, tenant: TenantPk, key: &LookupKey, limit: u32) -> Result<Vec<FoundRun>> {
        let query = sqlx::query(NEWEST).bind(tenant.0).bind(key.kind).bind(&key.digest).bind(i64::from(limit));
        query.fetch_all(&self.readers).await.map_err(self.unreadable())?.iter().map(read).collect()
    }
}

#[async_trait]
impl LookupStore for Sqlite {
    async fn listen_until(&self, tenant: TenantPk, key: &LookupKey, run: &RunId, until: Millis) -> Result<bool> {
        let (key, run) = (key.clone(), run.clone());
        let listen = move |tx: &Transaction<'_>| {
            let arguments = params![tenant.0, key.kind, key.digest, run.as_str(), until];
            tx.prepare_cached(LISTEN)?.execute(arguments)
        };
        Ok(self.writer.write(listen).await? > 0)
    }

    async fn forget_lookups(
        &self,
        before: Millis,
        behind: &LookupPosition,
        limit: u32,
    ) -> Result<Forgotten<LookupPosition>> {
        let LookupPosition { at, tenant, kind, digest, run } = behind;
        let query = sqlx::query(EXAMINE).bind(before).bind(at).bind(tenant.0).bind(kind).bind(digest).bind(run);
        let rows = query.bind(MAX_EXAMINED).fetch_all(&self.readers).await.map_err(self.unreadable())?;
        let Examined { deletable, next } = Examined::read(&rows, u64::from(limit), LookupPosition::read)?;
        if deletable.is_empty() {
            return Ok(Forgotten { deleted: 0, next });
        }
        let named = |key: &LookupPosition| json!([key.tenant.0, key.kind, key.digest, key.at, key.run]);
        let keys = deletable.iter().map(named).collect::<Value>().to_string();
        let forget = move |tx: &Transaction<'_>| tx.prepare_cached(FORGET_EXAMINED)?.execute([keys]);
        Ok(Forgotten { deleted: self.writer.chore(forget).await? as u64, next })
    }
}
