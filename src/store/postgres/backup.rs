//! A database that was restored by PostgreSQL's own means.

use async_trait::async_trait;

use super::Postgres;
use crate::domain::Millis;
use crate::domain::ids::ThreadPk;
use crate::store::{BackupStore, Result};

const UNFINISHED: &str =
    "SELECT DISTINCT pk FROM thread_rows WHERE kind = 1 AND keep = 1 AND pk > $1 ORDER BY pk LIMIT $2";

const HOLD: &str =
    "UPDATE deliveries SET status = 'dead', due_at = NULL, said = $1, finished_at = $2 WHERE due_at IS NOT NULL";

#[async_trait]
impl BackupStore for Postgres {
    async fn restored(&self) -> Result<Option<Millis>> {
        let query = sqlx::query_scalar("SELECT max(as_of) FROM restored");
        self.pool.with_query(async |connection| query.fetch_one(connection).await).await
    }

    async fn mark_restored(&self, as_of: Millis) -> Result<()> {
        let query = sqlx::query("INSERT INTO restored (as_of) VALUES ($1)").bind(as_of);
        self.pool.with_query(async |connection| query.execute(connection).await).await.map(drop)
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
