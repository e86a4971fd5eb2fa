//! Counts of what is open (runs, questions, deliveries).

use async_trait::async_trait;

use super::Sqlite;
use super::fault::unreadable;
use crate::store::{FigureStore, Figures, Result};

const RUNS: &str = "
SELECT body ->> 'status' AS word, count(*) AS count FROM thread_rows
WHERE kind = 1 AND keep = 1 AND json_valid(body) GROUP BY 1";

const QUESTIONS: &str = "
SELECT body ->> 'kind' AS word, count(*) AS count, min(body ->> 'createdAt') AS since FROM thread_rows
WHERE kind = 6 AND keep = 1 AND json_valid(body) GROUP BY 1";

const DELIVERIES: &str = "SELECT count(*) AS count, min(due_at) AS since FROM deliveries WHERE due_at IS NOT NULL";

#[async_trait]
impl FigureStore for Sqlite {
    async fn figures(&self) -> Result<Figures> {
        let runs = sqlx::query(RUNS).fetch_all(&self.readers).await.map_err(unreadable)?;
        let questions = sqlx::query(QUESTIONS).fetch_all(&self.readers).await.map_err(unreadable)?;
        let deliveries = sqlx::query(DELIVERIES).fetch_one(&self.readers).await.map_err(unreadable)?;
        Figures::read(&runs, &questions, &deliveries)
    }
}
