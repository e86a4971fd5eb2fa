//! The end of threads: what is deleted at once and what later, and how no copy of it stays in the files.

use async_trait::async_trait;
use rusqlite::{OptionalExtension as _, Rows, Transaction, params};
use serde_json::Value;
use tokio::task::spawn_blocking;

use super::fault::{unavailable, unreadable};
use super::remains::Layout;
use super::{Sqlite, audit, outbox, spend};
use crate::domain::ids::ThreadPk;
use crate::store::erasure::BYTES_AT_ONCE;
use crate::store::{Erasure, ErasureStore, Pace, Result};

/// What one transaction removes at most: everything of most threads.
pub(super) const AT_ONCE: Room = Room { rows: 1_000, bytes: BYTES_AT_ONCE };

/// Pages that are cleared before others may write again.
const PAGES_AT_ONCE: usize = 1_024;

/// What a transaction may still remove.
#[derive(Clone, Copy)]
pub(super) struct Room {
    rows: u32,
    bytes: i64,
}

impl Room {
    pub(super) fn is_left(self) -> bool {
        self.rows > 0 && self.bytes > 0
    }

    /// Takes rows, of which this selects the id and the size, while there is room: one more than fits at most.
    pub(super) fn take(&mut self, found: &mut Rows<'_>) -> rusqlite::Result<Vec<i64>> {
        let mut rowids = Vec::new();
        while self.is_left()
            && let Some(row) = found.next()?
        {
            rowids.push(row.get(0)?);
            self.rows -= 1;
            self.bytes -= row.get::<_, i64>(1)?;
        }
        Ok(rowids)
    }
}

/// A table with rows of threads: some of a thread's with their sizes, and the statements that remove them.
struct Table {
    some: &'static str,
    remove: &'static [&'static str],
}

/// What a deleted thread has cost stays, as far as it can be read.
const KEEP_USAGE: &str = "
INSERT INTO usage_kept (tenant, ord, body)
SELECT tenant, ord, json_set(json_remove(body, '$.item'), '$.run', 'deleted') FROM thread_rows
WHERE rowid IN (SELECT value FROM json_each(?1)) AND kind = 11 AND json_valid(body)";

const TABLES: [Table; 5] = [
    Table {
        some: "SELECT rowid, octet_length(body) FROM idempotency WHERE pk = ?1 LIMIT ?2",
        remove: &["DELETE FROM idempotency WHERE rowid IN (SELECT value FROM json_each(?1))"],
    },
    Table {
        some: "SELECT rowid, 0 FROM lookup_keys WHERE pk = ?1 LIMIT ?2",
        remove: &["DELETE FROM lookup_keys WHERE rowid IN (SELECT value FROM json_each(?1))"],
    },
    Table {
        some: "SELECT rowid, octet_length(body) FROM thread_rows WHERE pk = ?1 LIMIT ?2",
        remove: &[KEEP_USAGE, "DELETE FROM thread_rows WHERE rowid IN (SELECT value FROM json_each(?1))"],
    },
    Table {
        some: "SELECT rowid, octet_length(body) FROM bases WHERE pk = ?1 LIMIT ?2",
        remove: &["DELETE FROM bases WHERE rowid IN (SELECT value FROM json_each(?1))"],
    },
    Table {
        some: "SELECT rowid, octet_length(body) FROM observations WHERE pk = ?1 LIMIT ?2",
        remove: &["DELETE FROM observations WHERE rowid IN (SELECT value FROM json_each(?1))"],
    },
];

#[async_trait]
impl ErasureStore for Sqlite {
    async fn erase_rows(&self, limit: u32) -> Result<u64> {
        self.writer.chore(move |tx| erase_rows(tx, Room { rows: limit, ..AT_ONCE })).await
    }

    /// A page that a row was moved away from keeps the row's bytes in its free room, also with `secure_delete`. So once
    /// the write-ahead log is written back and empty, the free room of all pages is overwritten in the file itself. The
    /// connection that writes is opened again for it: what it had in memory was read before.
    async fn overwrite_erased(&self) -> Result<bool> {
        let sql = "SELECT pk FROM erased_threads WHERE is_empty = 1";
        let erased: Vec<i64> = sqlx::query_scalar(sql).fetch_all(&self.readers).await.map_err(unreadable)?;
        if erased.is_empty() {
            return Ok(true);
        }
        if !self.writer.empty_log().await? {
            return Ok(false);
        }
        for pages in self.pages_with_remains().await?.chunks(PAGES_AT_ONCE) {
            let pace = Pace::begin();
            if !self.writer.clear_remains(pages.into()).await? {
                return Ok(false);
            }
            pace.rest(self).await;
        }
        let erased = Value::from(erased).to_string();
        let forget = "DELETE FROM erased_threads WHERE pk IN (SELECT value FROM json_each(?1))";
        self.writer.chore(move |tx| tx.prepare_cached(forget)?.execute([erased])).await?;
        Ok(true)
    }
}

impl Sqlite {
    /// Read beside those who write: those that come to have some meanwhile had nothing of what was deleted before.
    async fn pages_with_remains(&self) -> Result<Vec<u32>> {
        let file = self.file.clone();
        let found = spawn_blocking(move || Layout::read(&file)?.pages_with_remains(&file)).await;
        found.map_err(unavailable)?.map_err(unavailable)
    }
}

/// Erases the thread if it is as it was read; the rest of a large one is left to [`erase_rows`].
pub(super) fn erase(tx: &Transaction<'_>, erasure: &Erasure) -> rusqlite::Result<bool> {
    let Erasure { thread, version, now, deliveries, audit: audit_row, spend: changes, .. } = erasure;
    let sql = "DELETE FROM threads WHERE pk = ?1 AND version = ?2 RETURNING tenant";
    let tenant: Option<i64> = tx.prepare_cached(sql)?.query_row([thread.0, *version], |row| row.get(0)).optional()?;
    let Some(tenant) = tenant else { return Ok(false) };
    tx.prepare_cached("DELETE FROM crashes WHERE pk = ?1")?.execute([thread.0])?;
    tx.prepare_cached("DELETE FROM deliveries WHERE pk = ?1")?.execute([thread.0])?;
    // It waits to begin no longer.
    tx.prepare_cached("DELETE FROM thread_rows WHERE pk = ?1 AND kind = 17")?.execute([thread.0])?;
    let is_empty = remove(tx, *thread, AT_ONCE)? < u64::from(AT_ONCE.rows) && !has_rows(tx, *thread)?;
    tx.prepare_cached("INSERT INTO erased_threads (pk, erased_at, is_empty) VALUES (?1, ?2, ?3)")?
        .execute(params![thread.0, now, is_empty])?;
    for new in deliveries {
        outbox::insert(tx, *thread, tenant, new, *now)?;
    }
    for (at, body) in erasure.usage_to_keep() {
        let keep = "INSERT INTO usage_kept (tenant, ord, body) VALUES (?1, ?2, ?3)";
        tx.prepare_cached(keep)?.execute(params![tenant, at, body])?;
    }
    audit::insert(tx, audit_row, &audit_row.detail.to_string())?;
    spend::change(tx, changes, *now)?;
    Ok(true)
}

/// Some of the rows of the thread that was deleted first.
fn erase_rows(tx: &Transaction<'_>, room: Room) -> rusqlite::Result<u64> {
    let next = "SELECT pk FROM erased_threads WHERE is_empty = 0 ORDER BY erased_at LIMIT 1";
    let Some(thread) = tx.prepare_cached(next)?.query_row([], |row| row.get(0)).optional()? else { return Ok(0) };
    let thread = ThreadPk(thread);
    let removed = remove(tx, thread, room)?;
    if !has_rows(tx, thread)? {
        tx.prepare_cached("UPDATE erased_threads SET is_empty = 1 WHERE pk = ?1")?.execute([thread.0])?;
    }
    // Others may be left.
    Ok(removed.max(1))
}

fn has_rows(tx: &Transaction<'_>, thread: ThreadPk) -> rusqlite::Result<bool> {
    TABLES
        .iter()
        .try_fold(false, |found, table| Ok(found || tx.prepare_cached(table.some)?.exists(params![thread.0, 1])?))
}

/// Removes rows of the thread while there is room, one more row than fits at most; returns how many.
fn remove(tx: &Transaction<'_>, thread: ThreadPk, mut room: Room) -> rusqlite::Result<u64> {
    let mut removed = 0;
    for table in &TABLES {
        let mut some = tx.prepare_cached(table.some)?;
        let rowids = room.take(&mut some.query(params![thread.0, room.rows])?)?;
        if rowids.is_empty() {
            continue;
        }
        removed += rowids.len() as u64;
        let rowids = Value::from(rowids).to_string();
        for sql in table.remove {
            tx.prepare_cached(sql)?.execute([&rowids])?;
        }
    }
    Ok(removed)
}
