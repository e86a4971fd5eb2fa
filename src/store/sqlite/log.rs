//! Observations.

use async_trait::async_trait;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;

use super::Sqlite;
use crate::domain::ids::{RunId, ThreadPk};
use crate::domain::observation::{Observation, Recorded};
use crate::store::log::{self, Entry};
use crate::store::migrations::COMPRESSED_LOG;
use crate::store::{LogCompression, LogStore, ObservationAsk, Result};

/// Entries after a seq; with types, those that may contain one of them.
const ENTRIES: &str = "
SELECT t.thread_id, t.min_seq, o.seq, o.body, o.compressed FROM observations o JOIN threads t ON t.pk = o.pk
WHERE o.pk = ?1 AND o.seq > ?2 AND o.seq >= t.min_seq
    AND (?3 IS NULL OR EXISTS (SELECT 1 FROM json_each(?3) w WHERE instr(o.types, w.value)))
ORDER BY o.seq LIMIT ?4";

/// Where the log begins.
const MIN_SEQ: &str = "SELECT min_seq FROM threads WHERE pk = ?1";

/// Entries before a seq that contain a `RUN_STARTED`, whose letter is `a`.
const BEGINNINGS: &str = "
SELECT t.thread_id, t.min_seq, o.seq, o.body, o.compressed FROM observations o JOIN threads t ON t.pk = o.pk
WHERE o.pk = ?1 AND o.seq < ?2 AND o.seq >= t.min_seq AND (instr(o.types, 'RUN_STARTED') OR instr(o.types, 'a'))
ORDER BY o.seq DESC LIMIT ?3";

/// Entries up to a seq.
const LATEST: &str = "
SELECT t.thread_id, t.min_seq, o.seq, o.body, o.compressed FROM observations o JOIN threads t ON t.pk = o.pk
WHERE o.pk = ?1 AND o.seq <= ?2 AND o.seq >= t.min_seq
ORDER BY o.seq DESC LIMIT ?3";

/// The lowest schema that a program must know.
const RAISE_FLOOR: &str = "UPDATE schema_floor SET least = ?1 WHERE least < ?1";

/// Whether no program that does not know this schema has anything to lose.
const IS_NEW: &str = "SELECT least >= ?1 OR NOT EXISTS (SELECT 1 FROM threads) AS is_new FROM schema_floor";

#[async_trait]
impl LogStore for Sqlite {
    async fn observations(&self, pk: ThreadPk, ask: &ObservationAsk) -> Result<Vec<Observation>> {
        let types = serde_json::to_string(&log::words_and_letters(&ask.types)).expect("they are texts");
        let types = (!ask.types.is_empty()).then_some(types);
        let entries =
            |after, limit| self.entries(sqlx::query(ENTRIES).bind(pk.0).bind(after).bind(types.clone()).bind(limit));
        log::observations(ask, entries, || self.min_seq(pk)).await
    }

    async fn facts(&self, pk: ThreadPk, run: &RunId, until: i64) -> Result<Vec<Recorded>> {
        log::facts(run, until, |until, limit| self.entries(sqlx::query(LATEST).bind(pk.0).bind(until).bind(limit)))
            .await
    }

    async fn run_began(&self, pk: ThreadPk, run: &RunId) -> Result<Option<i64>> {
        log::run_began(run, |before, limit| self.entries(sqlx::query(BEGINNINGS).bind(pk.0).bind(before).bind(limit)))
            .await
    }
}

#[async_trait]
impl LogCompression for Sqlite {
    async fn compress_log(&self) -> Result<()> {
        log::tell_raised(self.raise_floor().await? > 0);
        self.committer.compress_log();
        Ok(())
    }

    async fn compress_new_log(&self) -> Result<()> {
        let is_new = sqlx::query_scalar(IS_NEW).bind(COMPRESSED_LOG).fetch_one(&self.readers).await;
        if is_new.map_err(self.unreadable())? {
            self.raise_floor().await?;
            self.committer.compress_log();
        }
        Ok(())
    }
}

impl Sqlite {
    async fn raise_floor(&self) -> Result<usize> {
        self.writer.write(|tx| tx.execute(RAISE_FLOOR, [COMPRESSED_LOG])).await
    }

    async fn entries(&self, query: Query<'_, sqlx::Sqlite, SqliteArguments>) -> Result<Vec<Entry>> {
        query.fetch_all(&self.readers).await.map_err(self.unreadable())?.iter().map(Entry::read).collect()
    }

    async fn min_seq(&self, pk: ThreadPk) -> Result<Option<i64>> {
        let query = sqlx::query_scalar(MIN_SEQ).bind(pk.0);
        query.fetch_optional(&self.readers).await.map_err(self.unreadable())
    }
}
