//! The rows of threads.
//!
//! A kind is compared as `+?`. If it were a plain parameter, SQLite would choose partial indexes by its bound value, and
//! prepare the query again for every value.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use sqlx::SqliteExecutor;
use sqlx::sqlite::SqliteRow;

use super::Sqlite;
use crate::domain::ids::{MessageId, PayloadId, TenantPk, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::engine::step::{Row, RowKind};
use crate::store::columns::Columns as _;
use crate::store::rows::{
    self, SUSPENSIONS, TASKS, page_by_caller_status, page_by_id, page_of_rows, read_found_page, read_page, read_row,
    rows_from, suspensions_after, tasks_before,
};
use crate::store::{
    FoundRow, MAX_SCANNED, Order, Page, PageAsk, Result, RowKey, RowStore, RunsByStatusAsk, SuspensionAsk,
    SuspensionsWanted,
};

const ONE: &str = "SELECT kind, id, ord, keep, body FROM thread_rows WHERE pk = ? AND kind = +? AND id = ?";

macro_rules! select_page {
    ($kind:literal, $compare:literal, $order:literal) => {
        concat!(
            "SELECT pk, kind, id, ord, octet_length(body) AS bytes FROM thread_rows WHERE pk = ?1 AND kind = ",
            $kind,
            " AND (ord, id) ",
            $compare,
            " (?3, ?4) ORDER BY ord ",
            $order,
            ", id ",
            $order,
            " LIMIT ?5"
        )
    };
}

/// Runs and messages have an index by `ord`, which a query uses if it names the kind. Rows of other kinds are few, and are
/// sorted.
fn select_page(kind: RowKind, order: Order) -> &'static str {
    let [ascending, descending] = match kind {
        RowKind::Run => [select_page!("1", ">", "ASC"), select_page!("1", "<", "DESC")],
        RowKind::Message => [select_page!("2", ">", "ASC"), select_page!("2", "<", "DESC")],
        RowKind::Item
        | RowKind::Call
        | RowKind::Turn
        | RowKind::Suspension
        | RowKind::Task
        | RowKind::Payload
        | RowKind::AgentState
        | RowKind::Progress
        | RowKind::Usage
        | RowKind::CallerStatus
        | RowKind::Push
        | RowKind::Retention
        | RowKind::ImportedUsage
        | RowKind::Traced
        | RowKind::WaitsToBegin
        | RowKind::PromptWriter => [select_page!("+?2", ">", "ASC"), select_page!("+?2", "<", "DESC")],
    };
    match order {
        Order::Ascending => ascending,
        Order::Descending => descending,
    }
}

const FOUND: &str = "
SELECT t.pk, t.thread_id, r.kind, r.id, r.ord, r.keep, r.body FROM thread_rows r JOIN threads t ON t.pk = r.pk
WHERE r.tenant = ?1 AND r.id = ?2 AND r.kind IN (1, 6, 7) AND r.kind = +?3";

/// What lists read of each row before they read the bodies of those that fit into a page.
macro_rules! found_keys {
    () => {
        "SELECT t.pk, t.thread_id, r.kind, r.id, octet_length(r.body) AS bytes
         FROM thread_rows r JOIN threads t ON t.pk = r.pk "
    };
}

const OPEN: &str =
    concat!(found_keys!(), "WHERE r.tenant = ?1 AND r.id > ?2 AND r.kind = 6 AND r.keep = 1 ORDER BY r.id LIMIT ?4");
/// Of one thread, without scanning the tenant's other rows.
const OPEN_OF_THREAD: &str = concat!(
    found_keys!(),
    "WHERE +r.tenant = ?1 AND r.pk = ?3 AND r.id > ?2 AND r.kind = 6 AND r.keep = 1 ORDER BY r.id LIMIT ?4"
);

macro_rules! open_by_expiry {
    ($of:literal) => {
        concat!(
            "SELECT * FROM (
                SELECT t.pk, t.thread_id, r.kind, r.id, octet_length(r.body) AS bytes,
                    coalesce(iif(json_valid(r.body), r.body ->> 'expiresAt', NULL), 9223372036854775807) AS expiry
                FROM thread_rows r JOIN threads t ON t.pk = r.pk
                WHERE ",
            $of,
            " AND r.kind = 6 AND r.keep = 1
            ) WHERE (expiry, id) > (?3, ?4) ORDER BY expiry, id LIMIT ?5"
        )
    };
}

/// Scans the tenant's suspensions by the index `rows_found`, as the query of tasks does, or only those of one thread.
macro_rules! of_past {
    (tenant) => {
        "r.tenant = ?1 AND r.id > ?2 AND r.id < ?3 AND r.kind IN (1, 6, 7) AND r.kind = +6"
    };
    (thread) => {
        "r.pk = ?5 AND +r.tenant = ?1 AND r.id > ?2 AND r.id < ?3 AND r.kind = 6"
    };
}

macro_rules! past {
    ($of:ident) => {
        concat!(
            found_keys!(),
            "WHERE ",
            of_past!($of),
            " AND r.id >= ?4 AND (?6 IS NULL OR iif(json_valid(r.body), r.body ->> 'status', NULL) = ?6)
             AND (?7 IS NULL OR iif(json_valid(r.body), r.body ->> '$.resolution.decidedBy', NULL) = ?7)
             ORDER BY r.id DESC LIMIT ?8"
        )
    };
}

/// The last suspension that is scanned for the page that begins before this one.
macro_rules! last_past {
    ($of:ident) => {
        concat!("SELECT r.id FROM thread_rows r WHERE ", of_past!($of), " ORDER BY r.id DESC LIMIT 1 OFFSET ?4")
    };
}

macro_rules! by_id {
    ($columns:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM json_each(?) w CROSS JOIN thread_rows r
             ON r.pk = w.value ->> 0 AND r.kind = w.value ->> 1 AND r.id = w.value ->> 2"
        )
    };
}

const BY_ID: &str = by_id!("r.pk, r.kind, r.id, r.ord, r.keep, r.body");

const BYTES: &str = by_id!("r.pk, r.kind, r.id, octet_length(r.body) AS bytes");

/// Uses the index `rows_found`, in which ids are ordered by kind, then by time.
const TASKS_OF: &str = concat!(
    found_keys!(),
    "WHERE r.tenant = ?1 AND r.id > ?2 AND r.id < ?3 AND r.kind IN (1, 6, 7) AND r.kind = +7 ORDER BY r.id DESC LIMIT ?4"
);

/// Superseded messages are left out.
const MESSAGES: &str = select_page!("2 AND keep <> 3", ">", "ASC");

const HISTORY: &str = "
SELECT pk, kind, id, octet_length(body) AS bytes FROM thread_rows WHERE pk = ?1 AND kind = 2 AND keep <> 3
    AND ord < coalesce((SELECT ord FROM thread_rows WHERE pk = ?1 AND kind = 2 AND id = ?2), 9223372036854775807)
ORDER BY ord DESC, id DESC LIMIT ?3";

const PAYLOADS: &str =
    "SELECT id, body FROM thread_rows WHERE pk = ? AND kind = +? AND id IN (SELECT value FROM json_each(?))";

macro_rules! runs_page {
    ($rows:literal, $of:literal) => {
        concat!(
            "SELECT t.pk, t.thread_id, r.kind, r.id, octet_length(r.body) AS bytes, s.ord AS since FROM ",
            $rows,
            " CROSS JOIN thread_rows r ON r.pk = s.pk AND r.kind = 1 AND r.id = s.id JOIN threads t ON t.pk = s.pk ",
            $of,
            " ORDER BY s.ord DESC, s.id DESC LIMIT ?5"
        )
    };
}

pub(super) const RUNS: &str =
    runs_page!("thread_rows s", "WHERE s.tenant = ?1 AND s.kind = 12 AND s.ord >= ?2 AND (s.ord, s.id) < (?3, ?4)");

/// Reads a page of each of these statuses, with the named index: otherwise SQLite would scan all runs of the tenant, because
/// these are ordered, too. Rows of deleted threads are left out.
pub(super) const RUNS_OF_STATUS: &str = runs_page!(
    "json_each(?6) w CROSS JOIN thread_rows s ON s.rowid IN (
         SELECT o.rowid FROM thread_rows o INDEXED BY rows_by_standing
         WHERE o.tenant = ?1 AND o.kind = 12 AND o.body = w.value AND o.ord >= ?2 AND (o.ord, o.id) < (?3, ?4)
             AND EXISTS (SELECT 1 FROM threads WHERE pk = o.pk)
         ORDER BY o.ord DESC, o.id DESC LIMIT ?5)",
    ""
);

/// Reads all runs of the thread, and no others.
pub(super) const RUNS_OF_THREAD: &str = runs_page!(
    "(SELECT pk, id, ord FROM thread_rows
         WHERE pk = ?7 AND kind = 12 AND +tenant = ?1 AND ord >= ?2 AND (ord, id) < (?3, ?4)
             AND (?6 = '[]' OR body IN (SELECT value FROM json_each(?6)))
         ORDER BY ord DESC, id DESC LIMIT ?5) s",
    ""
);

/// Counts in an index, without the rows that deleted threads still have.
macro_rules! count {
    ($index:literal, $of:literal) => {
        concat!(
            "SELECT (SELECT count(*) FROM thread_rows INDEXED BY ",
            $index,
            " WHERE tenant = ?1 AND kind = 12 AND ord >= ?2 ",
            $of,
            ") - (
                 SELECT count(*) FROM erased_threads e
                 CROSS JOIN thread_rows s ON s.pk = e.pk AND s.kind = 12 AND +s.tenant = ?1 AND s.ord >= ?2
                 WHERE e.is_empty = 0 ",
            $of,
            ") AS total"
        )
    };
}

pub(super) const COUNT: &str = count!("rows_standing", "");

pub(super) const COUNT_OF_STATUS: &str = count!("rows_by_standing", "AND body IN (SELECT value FROM json_each(?3))");

pub(super) const COUNT_OF_THREAD: &str = "
SELECT count(*) AS total FROM thread_rows
WHERE pk = ?4 AND kind = 12 AND +tenant = ?1 AND ord >= ?2
    AND (?3 = '[]' OR body IN (SELECT value FROM json_each(?3)))";

/// The rows that `load` returns, in its order.
pub(super) async fn loaded_rows(db: impl SqliteExecutor<'_>, pk: ThreadPk, floor: i64) -> sqlx::Result<Vec<SqliteRow>> {
    let query = sqlx::query(
        "SELECT kind, id, ord, keep, body FROM thread_rows INDEXED BY rows_kept WHERE pk = ?1 AND keep = 1
         UNION ALL
         SELECT kind, id, ord, keep, body FROM thread_rows INDEXED BY rows_kept
         WHERE pk = ?1 AND keep = 2 AND ord >= ?2
         ORDER BY kind, ord, id",
    );
    query.bind(pk.0).bind(floor).fetch_all(db).await
}

#[async_trait]
impl RowStore for Sqlite {
    async fn row(&self, pk: ThreadPk, kind: RowKind, id: &str) -> Result<Option<Row>> {
        let query = sqlx::query(ONE).bind(pk.0).bind(kind.code()).bind(id);
        query.fetch_optional(&self.readers).await.map_err(self.unreadable())?.as_ref().map(read_row).transpose()
    }

    async fn find_row(&self, tenant: TenantPk, kind: RowKind, id: &str) -> Result<Option<FoundRow>> {
        let query = sqlx::query(FOUND).bind(tenant.0).bind(id).bind(kind.code());
        query.fetch_optional(&self.readers).await.map_err(self.unreadable())?.as_ref().map(FoundRow::read).transpose()
    }

    async fn rows(&self, pk: ThreadPk, kind: RowKind, order: Order, ask: &PageAsk) -> Result<Page<Row>> {
        let from = rows_from(ask, order)?;
        let query = sqlx::query(select_page(kind, order)).bind(pk.0).bind(kind.code());
        let query = query.bind(from.at).bind(from.id).bind(ask.rows());
        let keys = query.fetch_all(&self.readers).await.map_err(self.unreadable())?;
        read_page(self, page_of_rows(&keys, ask)?).await
    }

    async fn messages(&self, pk: ThreadPk, ask: &PageAsk) -> Result<Page<Row>> {
        let from = rows_from(ask, Order::Ascending)?;
        let query = sqlx::query(MESSAGES).bind(pk.0).bind(RowKind::Message.code()).bind(from.at).bind(from.id);
        let keys = query.bind(ask.rows()).fetch_all(&self.readers).await.map_err(self.unreadable())?;
        read_page(self, page_of_rows(&keys, ask)?).await
    }

    async fn history(
        &self,
        pk: ThreadPk,
        before: &MessageId,
        limit: u32,
        bytes: u64,
    ) -> Result<Vec<ConversationMessage>> {
        let keys = |before: MessageId| async move {
            let query = sqlx::query(HISTORY).bind(pk.0).bind(before.to_string()).bind(i64::from(limit));
            rows::fitting_keys(&query.fetch_all(&self.readers).await.map_err(self.unreadable())?, bytes)
        };
        rows::read_history(self, before.clone(), keys).await
    }

    async fn payloads(&self, pk: ThreadPk, ids: &[PayloadId]) -> Result<Vec<(PayloadId, Arc<Value>)>> {
        let ids = serde_json::to_string(ids).expect("ids are strings");
        let query = sqlx::query(PAYLOADS).bind(pk.0).bind(RowKind::Payload.code()).bind(ids);
        rows::payloads(&query.fetch_all(&self.readers).await.map_err(self.unreadable())?)
    }

    async fn rows_by_id(&self, wanted: &[RowKey]) -> Result<Vec<(ThreadPk, Row)>> {
        let found = sqlx::query(BY_ID).bind(texts(wanted)).fetch_all(&self.readers).await.map_err(self.unreadable())?;
        found.iter().map(rows::read_row_with_pk).collect()
    }

    async fn row_bytes(&self, wanted: &[RowKey]) -> Result<Vec<(RowKey, u64)>> {
        let found = sqlx::query(BYTES).bind(texts(wanted)).fetch_all(&self.readers).await.map_err(self.unreadable())?;
        found.iter().map(rows::read_bytes).collect()
    }

    async fn suspensions(&self, ask: &SuspensionAsk) -> Result<Page<FoundRow>> {
        let (page, thread) = (&ask.page, ask.thread.map(|pk| pk.0));
        match &ask.wanted {
            SuspensionsWanted::Open => {
                let open = if thread.is_some() { OPEN_OF_THREAD } else { OPEN };
                let query = sqlx::query(open).bind(ask.tenant.0).bind(suspensions_after(page)?).bind(thread);
                let keys = query.bind(page.rows()).fetch_all(&self.readers).await.map_err(self.unreadable())?;
                read_found_page(self, page_by_id(&keys, page)?).await
            }
            SuspensionsWanted::OpenByExpiry => {
                let after = rows::expiring_after(page)?;
                let open = match thread {
                    Some(_) => open_by_expiry!("r.pk = ?2 AND +r.tenant = ?1"),
                    None => open_by_expiry!("r.tenant = ?1"),
                };
                let query = sqlx::query(open).bind(ask.tenant.0).bind(thread).bind(after.at).bind(after.id);
                let keys = query.bind(page.rows()).fetch_all(&self.readers).await.map_err(self.unreadable())?;
                read_found_page(self, rows::page_by_expiry(&keys, page)?).await
            }
            SuspensionsWanted::Past { status, decided_by } => {
                let before = rows::suspensions_before(page)?;
                let (list, last) = match thread {
                    Some(_) => (past!(thread), last_past!(thread)),
                    None => (past!(tenant), last_past!(tenant)),
                };
                let last = sqlx::query_scalar(last).bind(ask.tenant.0).bind(SUSPENSIONS).bind(&before);
                let last = last.bind(MAX_SCANNED - 1).bind(thread).fetch_optional(&self.readers);
                let last: Option<String> = last.await.map_err(self.unreadable())?;
                let query = sqlx::query(list).bind(ask.tenant.0).bind(SUSPENSIONS).bind(before);
                let query = query.bind(last.clone().unwrap_or_default()).bind(thread);
                let query = query.bind(status.map(|status| status.as_str())).bind(decided_by.clone());
                let keys = query.bind(page.rows()).fetch_all(&self.readers).await.map_err(self.unreadable())?;
                read_found_page(self, rows::page_of_past(&keys, page, last)?).await
            }
        }
    }

    async fn tasks(&self, tenant: TenantPk, ask: &PageAsk) -> Result<Page<FoundRow>> {
        let query = sqlx::query(TASKS_OF).bind(tenant.0).bind(TASKS).bind(tasks_before(ask)?).bind(ask.rows());
        let keys = query.fetch_all(&self.readers).await.map_err(self.unreadable())?;
        read_found_page(self, page_by_id(&keys, ask)?).await
    }

    async fn runs_by_caller_status(&self, ask: &RunsByStatusAsk) -> Result<Page<FoundRow>> {
        let list = match (ask.thread, ask.statuses.is_empty()) {
            (Some(_), _) => RUNS_OF_THREAD,
            (None, true) => RUNS,
            (None, false) => RUNS_OF_STATUS,
        };
        let before = ask.before()?;
        let query = sqlx::query(list).bind(ask.tenant.0).bind(ask.since()).bind(before.at).bind(before.id);
        let query = query.bind(ask.page.rows()).bind(bodies(ask)).bind(ask.thread.map(|pk| pk.0));
        let keys = query.fetch_all(&self.readers).await.map_err(self.unreadable())?;
        read_found_page(self, page_by_caller_status(&keys, &ask.page)?).await
    }

    async fn count_by_caller_status(&self, ask: &RunsByStatusAsk) -> Result<u64> {
        let count = match (ask.thread, ask.statuses.is_empty()) {
            (Some(_), _) => COUNT_OF_THREAD,
            (None, true) => COUNT,
            (None, false) => COUNT_OF_STATUS,
        };
        let query = sqlx::query(count).bind(ask.tenant.0).bind(ask.since()).bind(bodies(ask));
        let query = query.bind(ask.thread.map(|pk| pk.0));
        query.fetch_one(&self.readers).await.map_err(self.unreadable())?.count("total")
    }
}

fn texts(wanted: &[RowKey]) -> String {
    let wanted: Vec<_> = wanted.iter().map(|(pk, kind, id)| (pk.0, kind.code(), id)).collect();
    serde_json::to_string(&wanted).expect("numbers and texts are JSON")
}

fn bodies(ask: &RunsByStatusAsk) -> String {
    serde_json::to_string(&ask.bodies()).expect("texts are JSON")
}
