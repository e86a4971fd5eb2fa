//! A database that was restored by PostgreSQL's own means.

use async_trait::async_trait;

use super::Postgres;
use crate::domain::Millis;
use crate::domain::ids::ThreadPk;
use crate::store::{BackupStore, Error, Result};

const UNFINISHED: &str =
    "SELECT DISTINCT pk FROM thread_rows WHERE kind = 1 AND keep = 1 AND pk > $1 ORDER BY pk LIMIT $2";

const HOLD: &str =
    "UPDATE deliveries SET status = 'dead', due_at = NULL, said = $1, finished_at = $2 WHERE due_at IS NOT NULL";

const MARK: &str = "
INSERT INTO restored (as_of) SELECT $1::bigint WHERE NOT EXISTS (SELECT FROM replicas WHERE alive_until > now())";

const SERVING: &str = "SELECT coalesce(name, id::text) FROM replicas WHERE alive_until > now() ORDER BY 1 LIMIT 1";

#[async_trait]
impl BackupStore for Postgres {
    async fn restored(&self) -> Result<Option<Millis>> {
        let query = sqlx::query_scalar("SELECT max(as_of) FROM restored");
        self.pool.with_query(async |connection| query.fetch_one(connection).await).await
    }

    async fn mark_restored(&self, as_of: Millis) -> Result<()> {
        let mark = sqlx::query(MARK).bind(as_of);
        let marked = self.pool.with_query(async |connection| mark.execute(connection).await).await?;
        if marked.rows_affected() > 0 {
            return Ok(());
        }
        let serving = sqlx::query_scalar(SERVING);
        let name: Option<String> =
            self.pool.with_query(async |connection| serving.fetch_optional(connection).await).await?;
        Err(Error::Unusable(format!(
            "The server {} is using this database; stop it first, or wait until its lease is over if it died, and say \
             --adopt again.",
            name.unwrap_or_default()
        )))
    }

    async fn forget_restored(&self) -> Result<()> {
        let query = sqlx::query("DELETE FROM restored");
        self.pool.with_query(async |connection| query.execute(connection).await).await.map(drop)
    }

    async fn unfinished_threads(&self, behind: ThreadPk, limit: u32) -> Result<Vec<ThreadPk>> {
        let query = sqlx::query_scalar(UNFINISHED).bind(behind.0).bind(i64::from(limit));
        let found: Vec<i64> = self.pool.with_query(async |connection| query.fetch_all(connection).await).await?;
        Ok(found.into_iter().map(ThreadPk).collect())
    }

    async fn hold_deliveries(&self, why: &str, now: Millis) -> Result<u64> {
        let query = sqlx::query(HOLD).bind(why.to_owned()).bind(now);
        Ok(self.pool.with_query(async |connection| query.execute(connection).await).await?.rows_affected())
    }
}
