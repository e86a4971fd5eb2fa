//! Counts of open work (runs, questions, deliveries).

use async_trait::async_trait;
use sqlx::postgres::PgRow;

use super::Postgres;
use crate::domain::Millis;
use crate::store::columns::Columns as _;
use crate::store::figures::FigureRows;
use crate::store::spend::stored_periods;
use crate::store::{FigureStore, Figures, PastPeriods, Pooled, Result, Size};

/// Whether the thread of the row `r` is there. A plain join might read all threads.
macro_rules! of_threads {
    () => {
        " CROSS JOIN LATERAL (SELECT 1 FROM threads WHERE pk = r.pk LIMIT 1) t "
    };
}

const RUNS: &str = concat!(
    "SELECT pes_json(r.body) ->> 'status' AS word, count(*) AS count FROM thread_rows r",
    of_threads!(),
    "WHERE r.kind = 1 AND r.keep = 1 AND pes_json(r.body) IS NOT NULL GROUP BY 1"
);

const QUESTIONS: &str = concat!(
    "SELECT pes_json(r.body) ->> 'kind' AS word, count(*) AS count,
         min((pes_json(r.body) ->> 'createdAt')::bigint) AS since FROM thread_rows r",
    of_threads!(),
    "WHERE r.kind = 6 AND r.keep = 1 AND pes_json(r.body) IS NOT NULL GROUP BY 1"
);

const DELIVERIES: &str = "SELECT count(*) AS count, min(due_at) AS since FROM deliveries WHERE due_at IS NOT NULL";

/// The last commit of a running thread is as old as its last entry in the log; `updated_at` changes less often. An entry's
/// time is its first member of this name; texts before it have their quotes escaped. So the rest is not parsed.
const THREADS: &str = r#"
SELECT count(*) AS count, min(wake_at) AS since,
    (SELECT min(greatest(t.updated_at, (
        SELECT substring(o.body FROM '"timestamp":([0-9]{1,15})')::bigint
        FROM observations o WHERE o.pk = t.pk AND o.seq = t.last_seq)))
    FROM threads t WHERE t.status = 'running') AS running,
    (SELECT min(expires_at) FROM api_keys WHERE revoked_at IS NULL AND expires_at > $2) AS key_end
FROM threads WHERE wake_at <= $1"#;

/// The index has only schedules that have a next time.
const SCHEDULES: &str = "SELECT tenant, id, next_due FROM schedule_state WHERE look_at > 0 AND next_due <= $1";

const TABLES: &str = "
SELECT relname AS word, pg_total_relation_size(oid) AS count FROM pg_class
WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace";

const SPENT: &str = "
SELECT tenant, period, (CASE key WHEN '' THEN 0 ELSE 1 END)::bigint AS of_key, max(used) AS used FROM spend
WHERE period IN ($1, $2, $3, $4) GROUP BY 1, 2, 3";

#[async_trait]
impl FigureStore for Postgres {
    async fn figures(&self, now: Millis, wall: Millis) -> Result<Figures> {
        let runs = self.pool.fetch_all(sqlx::query(RUNS)).await?;
        let questions = self.pool.fetch_all(sqlx::query(QUESTIONS)).await?;
        let deliveries = self.pool.fetch_one(sqlx::query(DELIVERIES)).await?;
        let threads = sqlx::query(THREADS).bind(now).bind(wall);
        let threads = self.pool.fetch_one(threads).await?;
        let PastPeriods { day, month } = PastPeriods::at(now);
        let periods = [&day, &month].into_iter().flat_map(|period| stored_periods(period));
        let spent = periods.fold(sqlx::query(SPENT), |query, period| query.bind(period));
        let spent = self.pool.fetch_all(spent).await?;
        let tables = self.pool.fetch_all(sqlx::query(TABLES)).await?;
        let table = |row: &PgRow| Ok((row.text("word")?.to_owned(), row.count("count")?));
        let tables = tables.iter().map(table).collect::<Result<_>>()?;
        let schedules = sqlx::query(SCHEDULES).bind(now);
        let schedules = self.pool.fetch_all(schedules).await?;
        let figures = FigureRows { runs, questions, deliveries, threads, spent, schedules }.read()?;
        Ok(Figures { size: Size { tables, ..Size::default() }, ..figures })
    }

    fn pools(&self) -> Vec<Pooled> {
        let people = self.for_people.as_ref().map(|pool| pool.figures("people"));
        let own = [self.pool.figures("engine"), self.lease.figures("lease"), self.health.figures("health")];
        own.into_iter().chain(people).collect()
    }
}
