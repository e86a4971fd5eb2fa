//! A database that was restored with PostgreSQL's own tools.

use async_trait::async_trait;
use sqlx::{Connection, PgConnection};

use super::fault::error;
use super::nul::escaped;
use super::{Postgres, schedules};
use crate::domain::Millis;
use crate::domain::ids::ThreadPk;
use crate::store::{BackupStore, Error, HeldCounts, RestoreHold, Result};

const UNFINISHED: &str =
    "SELECT DISTINCT pk FROM thread_rows WHERE kind = 1 AND keep = 1 AND pk > $1 ORDER BY pk LIMIT $2";

const HOLD: &str = "
UPDATE deliveries SET status = 'dead', due_at = NULL, said = $1, finished_at = $2
WHERE due_at IS NOT NULL AND created_at <= $3";

/// Not before any pending delivery: deliveries that are created later are those of the start, which [`HOLD`] leaves.
const MARK: &str = "
INSERT INTO restored (as_of)
SELECT greatest($1::bigint, (SELECT max(created_at) FROM deliveries WHERE due_at IS NOT NULL))
WHERE NOT EXISTS (SELECT FROM replicas WHERE alive_until > now())";

const FORGET: &str = "DELETE FROM restored RETURNING as_of";

const SERVING: &str = "SELECT coalesce(name, id::text) FROM replicas WHERE alive_until > now() ORDER BY 1 LIMIT 1";

/// Adds a line to the audit of every tenant.
const ADD_LINES: &str = "
INSERT INTO audit (pk, tenant, at, thread_id, actor, action, detail)
SELECT 0, pk, $1, NULL, $2, $3, $4 FROM tenants ORDER BY pk";

#[async_trait]
impl BackupStore for Postgres {
    async fn restored(&self) -> Result<Option<Millis>> {
        let query = sqlx::query_scalar("SELECT max(as_of) FROM restored");
        self.pool.fetch_scalar(query).await
    }

    async fn mark_restored(&self, as_of: Millis) -> Result<()> {
        if self.pool.execute(sqlx::query(MARK).bind(as_of)).await? > 0 {
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

    async fn unfinished_threads(&self, behind: ThreadPk, limit: u32) -> Result<Vec<ThreadPk>> {
        let query = sqlx::query_scalar(UNFINISHED).bind(behind.0).bind(i64::from(limit));
        let found = self.pool.fetch_scalars(query).await?;
        Ok(found.into_iter().map(ThreadPk).collect())
    }

    async fn hold_restored(&self, held: RestoreHold) -> Result<Option<HeldCounts>> {
        self.pool.with_connection(async |connection| hold(connection, held).await).await
    }
}

/// The process that deletes the mark holds the database. A concurrent one waits for that transaction, and finds no mark.
async fn hold(connection: &mut PgConnection, held: RestoreHold) -> Result<Option<HeldCounts>> {
    // Dropped without a commit, it is rolled back.
    let mut transaction = connection.begin().await.map_err(error)?;
    let marks: Vec<Millis> = sqlx::query_scalar(FORGET).fetch_all(&mut *transaction).await.map_err(error)?;
    let Some(as_of) = marks.into_iter().max() else { return Ok(None) };
    let deliveries = sqlx::query(HOLD).bind(held.deliveries).bind(held.now).bind(as_of);
    let deliveries = deliveries.execute(&mut *transaction).await.map_err(error)?.rows_affected();
    let schedules = sqlx::query(schedules::HOLD).bind(held.schedules);
    let schedules = schedules.execute(&mut *transaction).await.map_err(error)?.rows_affected();
    let add = sqlx::query(ADD_LINES).bind(held.now).bind(escaped(&held.actor)).bind(escaped(&held.action));
    add.bind(held.detail.to_string()).execute(&mut *transaction).await.map_err(error)?;
    transaction.commit().await.map_err(error)?;
    Ok(Some(HeldCounts { deliveries, schedules }))
}
