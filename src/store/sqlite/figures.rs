//! Counts of open work (runs, questions, deliveries).

use std::path::Path;

use async_trait::async_trait;

use super::Sqlite;
use crate::domain::Millis;
use crate::store::figures::FigureRows;
use crate::store::spend::stored_periods;
use crate::store::{FigureStore, Figures, PastPeriods, Pooled, Result, Size};

/// The index is named, because SQLite would use one of all runs and messages. Rows of deleted threads are left out.
pub(super) const RUNS: &str = "
SELECT r.body ->> 'status' AS word, count(*) AS count
FROM thread_rows r INDEXED BY rows_running CROSS JOIN threads t ON t.pk = r.pk
WHERE r.kind = 1 AND r.keep = 1 AND json_valid(r.body) GROUP BY 1";

/// The index is named, because SQLite would use one of all rows that are loaded with their threads. Rows of deleted threads
/// are left out.
pub(super) const QUESTIONS: &str = "
SELECT r.body ->> 'kind' AS word, count(*) AS count, min(r.body ->> 'createdAt') AS since
FROM thread_rows r INDEXED BY rows_open CROSS JOIN threads t ON t.pk = r.pk
WHERE r.kind = 6 AND r.keep = 1 AND json_valid(r.body) GROUP BY 1";

pub(super) const DELIVERIES: &str =
    "SELECT count(*) AS count, min(due_at) AS since FROM deliveries WHERE due_at IS NOT NULL";

/// The last commit of a running thread is as old as its last entry in the log; `updated_at` changes less often.
const THREADS: &str = "
SELECT count(*) AS count, min(wake_at) AS since,
    (SELECT min(max(t.updated_at, coalesce((
        SELECT CASE WHEN json_valid(o.body) THEN CAST(o.body ->> '$.timestamp' AS INTEGER) END
        FROM observations o WHERE o.pk = t.pk AND o.seq = t.last_seq), 0)))
    FROM threads t WHERE t.status = 'running') AS running,
    (SELECT min(expires_at) FROM api_keys WHERE revoked_at IS NULL AND expires_at > ?2) AS key_end
FROM threads WHERE wake_at <= ?1";

/// The index has only schedules that have a next time.
const SCHEDULES: &str = "SELECT tenant, id, next_due FROM schedule_state WHERE look_at > 0 AND next_due <= ?1";

const SPENT: &str = "
SELECT tenant, period, CASE key WHEN '' THEN 0 ELSE 1 END AS of_key, max(used) AS used FROM spend
WHERE period IN (?1, ?2, ?3, ?4) GROUP BY 1, 2, 3";

#[async_trait]
impl FigureStore for Sqlite {
    async fn figures(&self, now: Millis, wall: Millis) -> Result<Figures> {
        let runs = sqlx::query(RUNS).fetch_all(&self.readers).await.map_err(self.unreadable())?;
        let questions = sqlx::query(QUESTIONS).fetch_all(&self.readers).await.map_err(self.unreadable())?;
        let deliveries = sqlx::query(DELIVERIES).fetch_one(&self.readers).await.map_err(self.unreadable())?;
        let threads = sqlx::query(THREADS).bind(now).bind(wall);
        let threads = threads.fetch_one(&self.readers).await.map_err(self.unreadable())?;
        let PastPeriods { day, month } = PastPeriods::at(now);
        let periods = [&day, &month].into_iter().flat_map(|period| stored_periods(period));
        let spent = periods.fold(sqlx::query(SPENT), |query, period| query.bind(period));
        let spent = spent.fetch_all(&self.readers).await.map_err(self.unreadable())?;
        let schedules = sqlx::query(SCHEDULES).bind(now).fetch_all(&self.readers).await.map_err(self.unreadable())?;
        let figures = FigureRows { runs, questions, deliveries, threads, spent, schedules }.read()?;
        Ok(Figures { size: size(&self.path), ..figures })
    }

    fn pools(&self) -> Vec<Pooled> {
        let people = self.for_people.as_ref().map(|pool| Pooled::of("people", pool));
        std::iter::once(Pooled::of("engine", &self.readers)).chain(people).collect()
    }
}

fn size(path: &Path) -> Size {
    let bytes = |path: &Path| std::fs::metadata(path).map(|file| file.len()).ok();
    let free = path.parent().and_then(|folder| rustix::fs::statvfs(folder).ok());
    Size {
        tables: bytes(path).map(|all| ("all".to_owned(), all)).into_iter().collect(),
        free: free.map(|disk| disk.f_bavail * disk.f_frsize),
        wal: bytes(&path.with_extension("db-wal")).or(Some(0)),
    }
}
