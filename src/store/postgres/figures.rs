//! Counts of what is open (runs, questions, deliveries).

use async_trait::async_trait;

use super::Postgres;
use crate::store::{FigureStore, Figures, Result};

const RUNS: &str = "
SELECT pes_json(body) ->> 'status' AS word, count(*) AS count FROM thread_rows
WHERE kind = 1 AND keep = 1 AND pes_json(body) IS NOT NULL GROUP BY 1";

const QUESTIONS: &str = "
SELECT pes_json(body) ->> 'kind' AS word, count(*) AS count, min((pes_json(body) ->> 'createdAt')::bigint) AS since
FROM thread_rows WHERE kind = 6 AND keep = 1 AND pes_json(body) IS NOT NULL GROUP BY 1";

const DELIVERIES: &str = "SELECT count(*) AS count, min(due_at) AS since FROM deliveries WHERE due_at IS NOT NULL";

#[async_trait]
impl FigureStore for Postgres {
    async fn figures(&self) -> Result<Figures> {
        let runs = self.pool.with_query(async |connection| sqlx::query(RUNS).fetch_all(connection).await).await?;
        let questions =
            self.pool.with_query(async |connection| sqlx::query(QUESTIONS).fetch_all(connection).await).await?;
        let deliveries =
            self.pool.with_query(async |connection| sqlx::query(DELIVERIES).fetch_one(connection).await).await?;
        Figures::read(&runs, &questions, &deliveries)
    }
}
