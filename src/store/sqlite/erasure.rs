//! Deletion of threads: some rows at once, the rest later; and how their copies in the files are overwritten.

use async_trait::async_trait;
use rusqlite::{OptionalExtension as _, Rows, Transaction, params};
use serde_json::Value;
use tokio::task::spawn_blocking;

use super::fault::unavailable;
use super::remains::Layout;
use super::{Sqlite, audit, outbox, spend, usage};
use crate::domain::ids::ThreadPk;
use crate::domain::webhook::WebhookEvent;
use crate::store::erasure::BYTES_AT_ONCE;
use crate::store::{Erasure, ErasureStore, Pace, Result};

/// The limits of one transaction: for most threads everything fits.
pub(super) const MAX_PER_TRANSACTION: DeletionLimit = DeletionLimit { rows: 1_000, bytes: BYTES_AT_ONCE };

/// Pending messages to webhooks and to the collector are still sent: they have no contents, except for questions, which
/// nobody can answer any more.
const DELIVERIES: &str = "
DELETE FROM deliveries
WHERE pk = ?1 AND (due_at IS NULL OR target_kind NOT IN ('webhook', 'collector') OR event = ?2)";

/// How many pages are cleared before other writes are let in.
const PAGES_AT_ONCE: usize = 1_024;

/// How much a transaction may still remove.
#[derive(Clone, Copy)]
pub(super) struct DeletionLimit {
    rows: u32,
    bytes: i64,
}

impl DeletionLimit {
    pub(super) fn has_room(self) -> bool {
        self.rows > 0 && self.bytes > 0
    }

    /// Takes rows, of which `found` selects id and size, until the limit is reached. It may exceed the limit by one row.
    pub(super) fn take(&mut self, found: &mut Rows<'_>) -> rusqlite::Result<Vec<i64>> {
        let mut rowids = Vec::new();
        while self.has_room()
            && let Some(row) = found.next()?
        {
            rowids.push(row.get(0)?);
            self.rows -= 1;
            self.bytes -= row.get::<_, i64>(1)?;
        }
        Ok(rowids)
    }
}

/// A table with rows of threads: a query for some rows of a thread with their sizes, and the statements that remove them.
struct Table {
    select: &'static str,
    remove: &'static [&'static str],
}

/// The usage of a deleted thread is kept, as far as it can be read.
const KEEP_USAGE: &str = "
INSERT INTO usage_kept (tenant, ord, body)
SELECT tenant, ord, json_set(json_remove(body, '$.item'), '$.run', 'deleted') FROM thread_rows
WHERE rowid IN (SELECT value FROM json_each(?1)) AND kind = 11 AND json_valid(body)";

const TABLES: [Table; 5] = [
    Table {
        select: "SELECT rowid, octet_length(body) FROM idempotency WHERE pk = ?1 LIMIT ?2",
        remove: &["DELETE FROM idempotency WHERE rowid IN (SELECT value FROM json_each(?1))"],
    },
    Table {
        select: "SELECT rowid, 0 FROM lookup_keys WHERE pk = ?1 LIMIT ?2",
        remove: &["DELETE FROM lookup_keys WHERE rowid IN (SELECT value FROM json_each(?1))"],
    },
    Table {
        select: "SELECT rowid, octet_length(body) FROM thread_rows WHERE pk = ?1 LIMIT ?2",
        remove: &[KEEP_USAGE, "DELETE FROM thread_rows WHERE rowid IN (SELECT value FROM json_each(?1))"],
    },
    Table {
        select: "SELECT rowid, octet_length(body) FROM bases WHERE pk = ?1 LIMIT ?2",
        remove: &["DELETE FROM bases WHERE rowid IN (SELECT value FROM json_each(?1))"],
    },
    Table {
        select: "SELECT rowid, octet_length(body) + coalesce(octet_length(compressed), 0) FROM observations
            WHERE pk = ?1 LIMIT ?2",
        remove: &["DELETE FROM observations WHERE rowid IN (SELECT value FROM json_each(?1))"],
    },
];

#[async_trait]
impl ErasureStore for Sqlite {
    async fn erase_rows(&self, limit: u32) -> Result<u64> {
        self.writer.chore(move |tx| erase_rows(tx, DeletionLimit { rows: limit, ..MAX_PER_TRANSACTION })).await
    }

    /// A page from which a row was moved away keeps the row's bytes in its free space, even with `secure_delete`. So once
    /// the write-ahead log is checkpointed and empty, the free space of all pages is overwritten in the file itself. The
    /// writing connection is reopened for that, because its cache was read before.
    async fn overwrite_erased(&self) -> Result<bool> {
        let sql = "SELECT pk FROM erased_threads WHERE is_empty = 1";
        let erased: Vec<i64> = sqlx::query_scalar(sql).fetch_all(&self.readers).await.map_err(self.unreadable())?;
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
    /// Reads beside the writer. Pages that get remains in the meantime have none of threads that were deleted before.
    async fn pages_with_remains(&self) -> Result<Vec<u32>> {
        let file = self.file.clone();
        let found = spawn_blocking(move || Layout::read(&file)?.pages_with_remains(&file)).await;
        found.map_err(unavailable)?.map_err(unavailable)
    }
}

/// Deletes the thread if its version is the one that was read; the rest of a large one is left to [`erase_rows`].
pub(super) fn erase(tx: &Transaction<'_>, erasure: &Erasure) -> rusqlite::Result<bool> {
    let Erasure { thread, version, now, deliveries, audit: audit_row, spend: changes, .. } = erasure;
    let sql = "DELETE FROM threads WHERE pk = ?1 AND version = ?2 RETURNING tenant";
    let tenant: Option<i64> = tx.prepare_cached(sql)?.query_row([thread.0, *version], |row| row.get(0)).optional()?;
    let Some(tenant) = tenant else { return Ok(false) };
    tx.prepare_cached("DELETE FROM crashes WHERE pk = ?1")?.execute([thread.0])?;
    tx.prepare_cached(DELIVERIES)?.execute(params![thread.0, WebhookEvent::SuspensionRequested.as_str()])?;
    // The thread no longer waits for a run slot.
    tx.prepare_cached("DELETE FROM thread_rows WHERE pk = ?1 AND kind = 17")?.execute([thread.0])?;
    let is_empty =
        remove(tx, *thread, MAX_PER_TRANSACTION)? < u64::from(MAX_PER_TRANSACTION.rows) && !has_rows(tx, *thread)?;
    tx.prepare_cached("INSERT INTO erased_threads (pk, erased_at, is_empty) VALUES (?1, ?2, ?3)")?
        .execute(params![thread.0, now, is_empty])?;
    for new in deliveries {
        outbox::insert(tx, *thread, tenant, new, *now)?;
    }
    for (at, body) in erasure.usage_to_keep() {
        tx.prepare_cached(usage::ADD)?.execute(params![tenant, at, body])?;
    }
    audit::insert(tx, audit_row)?;
    spend::change(tx, changes, *now)?;
    Ok(true)
}

/// Removes some rows of the thread that was deleted first.
fn erase_rows(tx: &Transaction<'_>, limit: DeletionLimit) -> rusqlite::Result<u64> {
    let next = "SELECT pk FROM erased_threads WHERE is_empty = 0 ORDER BY erased_at LIMIT 1";
    let Some(thread) = tx.prepare_cached(next)?.query_row([], |row| row.get(0)).optional()? else { return Ok(0) };
    let thread = ThreadPk(thread);
    let removed = remove(tx, thread, limit)?;
    if !has_rows(tx, thread)? {
        tx.prepare_cached("UPDATE erased_threads SET is_empty = 1 WHERE pk = ?1")?.execute([thread.0])?;
    }
    // Never 0, because rows of other threads may be left.
    Ok(removed.max(1))
}

fn has_rows(tx: &Transaction<'_>, thread: ThreadPk) -> rusqlite::Result<bool> {
    TABLES
        .iter()
        .try_fold(false, |found, table| Ok(found || tx.prepare_cached(table.select)?.exists(params![thread.0, 1])?))
}

/// Removes rows of the thread until the limit is reached, which it may exceed by one row. Returns how many.
fn remove(tx: &Transaction<'_>, thread: ThreadPk, mut limit: DeletionLimit) -> rusqlite::Result<u64> {
    let mut removed = 0;
    for table in &TABLES {
        let mut some = tx.prepare_cached(table.select)?;
        let rowids = limit.take(&mut some.query(params![thread.0, limit.rows])?)?;
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
