//! The rows of threads.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::Postgres;
use super::nul::escaped;
use super::pool::PgQuery;
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

const ROW: &str = "SELECT kind, id, ord, keep, body FROM thread_rows WHERE pk = $1 AND kind = $2 AND id = $3";

/// The planner uses a partial index only if the text of the query implies its condition: hence `$more`.
macro_rules! select_page {
    ($more:literal, $beyond:literal, $order:literal) => {
        concat!(
            "SELECT pk, kind, id, ord, octet_length(body)::bigint AS bytes FROM thread_rows WHERE pk = $1 AND kind = $2",
            $more,
            " AND (ord, id) ",
            $beyond,
            " ($3, $4) ORDER BY ord ",
            $order,
            ", id ",
            $order,
            " LIMIT $5"
        )
    };
}

const FOUND: &str = "
SELECT r.pk, t.thread_id, r.kind, r.id, r.ord, r.keep, r.body FROM thread_rows r JOIN threads t ON t.pk = r.pk
WHERE r.tenant = $1 AND r.kind = $2 AND r.kind IN (1, 6, 7) AND r.id = $3";

/// What lists read of each row before they read the bodies of those that fit into a page.
macro_rules! found_keys {
    () => {
        "SELECT r.pk, t.thread_id, r.kind, r.id, octet_length(r.body)::bigint AS bytes
         FROM thread_rows r JOIN threads t ON t.pk = r.pk "
    };
}

/// Of all threads, or of one, without scanning the tenant's other rows.
macro_rules! open {
    ($of:literal) => {
        concat!(
            found_keys!(),
            "WHERE r.tenant = $1 AND r.kind = 6 AND r.keep = 1 AND r.id > $2 AND ",
            $of,
            " ORDER BY r.id LIMIT $4"
        )
    };
}

macro_rules! open_by_expiry {
    ($of:literal) => {
        concat!(
            "SELECT * FROM (
                SELECT r.pk, t.thread_id, r.kind, r.id, octet_length(r.body)::bigint AS bytes,
                    coalesce((pes_json(r.body) ->> 'expiresAt')::bigint, 9223372036854775807) AS expiry
                FROM thread_rows r JOIN threads t ON t.pk = r.pk
                WHERE r.tenant = $1 AND r.kind = 6 AND r.keep = 1 AND ",
            $of,
            ") open WHERE (expiry, id) > ($3, $4) ORDER BY expiry, id LIMIT $5"
        )
    };
}

/// Scans the tenant's suspensions by the index `rows_found`, as the query of tasks does, or only those of one thread.
macro_rules! of_past {
    (tenant) => {
        "r.tenant = $1 AND r.id > $2 AND r.id < $3 AND r.kind = 6 AND r.kind IN (1, 6, 7) AND $5::bigint IS NULL"
    };
    (thread) => {
        "r.pk = $5::bigint AND r.tenant = $1 AND r.id > $2 AND r.id < $3 AND r.kind = 6"
    };
}

macro_rules! past {
    ($of:ident) => {
        concat!(
            found_keys!(),
            "CROSS JOIN LATERAL (SELECT pes_json(r.body)) j (s) WHERE ",
            of_past!($of),
            " AND r.id >= $4 AND ($6::text IS NULL OR s ->> 'status' = $6)
                 AND ($7::text IS NULL OR s -> 'resolution' ->> 'decidedBy' = $7)
             ORDER BY r.id DESC LIMIT $8"
        )
    };
}

/// The last suspension that is scanned for the page that begins before this one.
macro_rules! last_past {
    ($of:ident) => {
        concat!("SELECT r.id FROM thread_rows r WHERE ", of_past!($of), " ORDER BY r.id DESC LIMIT 1 OFFSET $4")
    };
}

macro_rules! by_id {
    ($columns:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM unnest($1::bigint[], $2::smallint[], $3::text[]) w (pk, kind, id)
             JOIN thread_rows r ON r.pk = w.pk AND r.kind = w.kind AND r.id = w.id"
        )
    };
}

const BY_ID: &str = by_id!("r.pk, r.kind, r.id, r.ord, r.keep, r.body");

const BYTES: &str = by_id!("r.pk, r.kind, r.id, octet_length(r.body)::bigint AS bytes");

/// Uses the index `rows_found`, in which ids are ordered by kind, then by time.
const TASKS_OF: &str = concat!(
    found_keys!(),
    "WHERE r.tenant = $1 AND r.kind = 7 AND r.kind IN (1, 6, 7) AND r.id > $2 AND r.id < $3
     ORDER BY r.id DESC LIMIT $4"
);

const HISTORY: &str = "
SELECT pk, kind, id, octet_length(body)::bigint AS bytes FROM thread_rows WHERE pk = $1 AND kind = 2 AND keep <> 3
    AND ord < coalesce((SELECT ord FROM thread_rows WHERE pk = $1 AND kind = 2 AND id = $2), 9223372036854775807)
ORDER BY ord DESC, id DESC LIMIT $3";

/// A plain join would read all payloads of the thread.
const PAYLOADS: &str = "
SELECT r.id, r.body FROM unnest($2::text[]) WITH ORDINALITY w (id, place) CROSS JOIN LATERAL (
    SELECT p.id, p.body FROM thread_rows p WHERE p.pk = $1 AND p.kind = 8 AND p.id = w.id LIMIT 1) r
ORDER BY w.place";

/// A page of the caller statuses of runs, without rows of deleted threads.
macro_rules! status_page {
    ($which:literal) => {
        concat!(
            "SELECT s.pk, s.id, s.ord, t.thread_id FROM thread_rows s
             CROSS JOIN LATERAL (SELECT thread_id FROM threads WHERE pk = s.pk LIMIT 1) t
             WHERE s.tenant = $1 AND s.ord >= $2 AND (s.ord, s.id) < ($3, $4) AND ",
            $which,
            " ORDER BY s.ord DESC, s.id DESC LIMIT $5"
        )
    };
}

/// The runs of such a page. A plain join would read all runs; and if a kind were a parameter, the planner would use the
/// primary key.
macro_rules! runs_page {
    ($($page:tt)*) => {
        concat!(
            "SELECT s.pk, s.thread_id, r.kind, r.id, octet_length(r.body)::bigint AS bytes, s.ord AS since FROM (",
            $($page)*,
            ") s CROSS JOIN LATERAL (
                 SELECT kind, id, body FROM thread_rows WHERE pk = s.pk AND kind = $6 AND id = s.id LIMIT 1) r
             ORDER BY s.ord DESC, s.id DESC"
        )
    };
}

const RUNS: &str = runs_page!(status_page!("s.kind = 12"));

/// Reads a page of each of these statuses.
const RUNS_OF_STATUS: &str = runs_page!(
    "SELECT o.* FROM UNNEST($7::text[]) w (body) CROSS JOIN LATERAL (",
    status_page!("s.kind = 12 AND s.body = w.body"),
    ") o ORDER BY o.ord DESC, o.id DESC LIMIT $5"
);

/// Reads all runs of the thread, and no others.
const RUNS_OF_THREAD: &str =
    runs_page!(status_page!("s.pk = $8 AND s.kind = $9 AND ($7::text[] = '{}' OR s.body = ANY ($7))"));

/// The rows that deleted threads still have.
macro_rules! of_deleted {
    ($of:literal) => {
        concat!(
            "(SELECT coalesce(sum(d.n), 0)::bigint FROM erased_threads e CROSS JOIN LATERAL (
                 SELECT count(*) AS n FROM thread_rows s
                 WHERE s.pk = e.pk AND s.kind = $5 AND s.tenant = $1 AND s.ord >= $2 ",
            $of,
            ") d WHERE NOT e.is_empty)"
        )
    };
}

const COUNT: &str = concat!(
    "SELECT count(*) - ",
    of_deleted!(""),
    " AS total FROM thread_rows WHERE tenant = $1 AND kind = 12 AND ord >= $2"
);

const COUNT_OF_STATUS: &str = concat!(
    "SELECT coalesce(sum(c.n), 0)::bigint - ",
    of_deleted!("AND s.body = ANY ($3)"),
    " AS total FROM UNNEST($3::text[]) w (body) CROSS JOIN LATERAL (
         SELECT count(*) AS n FROM thread_rows s
         WHERE s.tenant = $1 AND s.kind = 12 AND s.ord >= $2 AND s.body = w.body) c"
);

const COUNT_OF_THREAD: &str = "
SELECT count(*) AS total FROM thread_rows
WHERE pk = $4 AND kind = $5 AND tenant = $1 AND ord >= $2 AND ($3::text[] = '{}' OR body = ANY ($3))";

#[async_trait]
impl RowStore for Postgres {
    async fn row(&self, pk: ThreadPk, kind: RowKind, id: &str) -> Result<Option<Row>> {
        let query = sqlx::query(ROW).bind(pk.0).bind(kind.code()).bind(escaped(id));
        self.pool.fetch_optional(query).await?.as_ref().map(read_row).transpose()
    }

    async fn find_row(&self, tenant: TenantPk, kind: RowKind, id: &str) -> Result<Option<FoundRow>> {
        let query = sqlx::query(FOUND).bind(tenant.0).bind(kind.code()).bind(escaped(id));
        self.pool.fetch_optional(query).await?.as_ref().map(FoundRow::read).transpose()
    }

    async fn rows(&self, pk: ThreadPk, kind: RowKind, order: Order, ask: &PageAsk) -> Result<Page<Row>> {
        let sql = match (matches!(kind, RowKind::Run | RowKind::Message), order) {
            (true, Order::Ascending) => select_page!(" AND kind <= 2", ">", "ASC"),
            (true, Order::Descending) => select_page!(" AND kind <= 2", "<", "DESC"),
            (false, Order::Ascending) => select_page!("", ">", "ASC"),
            (false, Order::Descending) => select_page!("", "<", "DESC"),
        };
        let from = rows_from(ask, order)?;
        let query = sqlx::query(sql).bind(pk.0).bind(kind.code()).bind(from.at).bind(escaped(&from.id));
        let query = query.bind(ask.rows());
        read_page(self, page_of_rows(&self.pool.fetch_all(query).await?, ask)?).await
    }

    async fn messages(&self, pk: ThreadPk, ask: &PageAsk) -> Result<Page<Row>> {
        let sql = select_page!(" AND kind <= 2 AND keep <> 3", ">", "ASC");
        let from = rows_from(ask, Order::Ascending)?;
        let query = sqlx::query(sql).bind(pk.0).bind(RowKind::Message.code()).bind(from.at).bind(escaped(&from.id));
        let query = query.bind(ask.rows());
        read_page(self, page_of_rows(&self.pool.fetch_all(query).await?, ask)?).await
    }

    async fn history(
        &self,
        pk: ThreadPk,
        before: &MessageId,
        limit: u32,
        bytes: u64,
    ) -> Result<Vec<ConversationMessage>> {
        let keys = |before: MessageId| async move {
            let query = sqlx::query(HISTORY).bind(pk.0).bind(escaped(before.as_str())).bind(i64::from(limit));
            rows::fitting_keys(&self.pool.fetch_all(query).await?, bytes)
        };
        rows::read_history(self, before.clone(), keys).await
    }

    async fn payloads(&self, pk: ThreadPk, ids: &[PayloadId]) -> Result<Vec<(PayloadId, Arc<Value>)>> {
        let ids: Vec<_> = ids.iter().map(|id| escaped(id.as_str())).collect();
        let query = sqlx::query(PAYLOADS).bind(pk.0).bind(ids);
        rows::payloads(&self.pool.fetch_all(query).await?)
    }

    async fn rows_by_id(&self, wanted: &[RowKey]) -> Result<Vec<(ThreadPk, Row)>> {
        let found = self.pool.fetch_all(of_these(BY_ID, wanted)).await?;
        found.iter().map(rows::read_row_with_pk).collect()
    }

    async fn row_bytes(&self, wanted: &[RowKey]) -> Result<Vec<(RowKey, u64)>> {
        let found = self.pool.fetch_all(of_these(BYTES, wanted)).await?;
        found.iter().map(rows::read_bytes).collect()
    }

    async fn suspensions(&self, ask: &SuspensionAsk) -> Result<Page<FoundRow>> {
        let (page, thread) = (&ask.page, ask.thread.map(|pk| pk.0));
        match &ask.wanted {
            SuspensionsWanted::Open => {
                let after = suspensions_after(page)?;
                let open = if thread.is_some() { open!("r.pk = $3") } else { open!("$3::bigint IS NULL") };
                let query = sqlx::query(open).bind(ask.tenant.0).bind(escaped(&after)).bind(thread).bind(page.rows());
                read_found_page(self, page_by_id(&self.pool.fetch_all(query).await?, page)?).await
            }
            SuspensionsWanted::OpenByExpiry => {
                let after = rows::expiring_after(page)?;
                let open = match thread {
                    Some(_) => open_by_expiry!("r.pk = $2"),
                    None => open_by_expiry!("$2::bigint IS NULL"),
                };
                let query = sqlx::query(open).bind(ask.tenant.0).bind(thread).bind(after.at);
                let query = query.bind(escaped(&after.id)).bind(page.rows());
                let keys = self.pool.fetch_all(query).await?;
                read_found_page(self, rows::page_by_expiry(&keys, page)?).await
            }
            SuspensionsWanted::Past { status, decided_by } => {
                let before = rows::suspensions_before(page)?;
                let (list, last) = match thread {
                    Some(_) => (past!(thread), last_past!(thread)),
                    None => (past!(tenant), last_past!(tenant)),
                };
                let last = sqlx::query_scalar(last).bind(ask.tenant.0).bind(SUSPENSIONS).bind(escaped(&before));
                let last = last.bind(i64::from(MAX_SCANNED) - 1).bind(thread);
                let last: Option<String> =
                    self.pool.with_query(async |connection| last.fetch_optional(connection).await).await?;
                let query = sqlx::query(list).bind(ask.tenant.0).bind(SUSPENSIONS).bind(escaped(&before));
                let query = query.bind(last.as_deref().unwrap_or_default()).bind(thread);
                let query = query.bind(status.map(|status| status.as_str())).bind(decided_by.as_deref().map(escaped));
                let query = query.bind(page.rows());
                let keys = self.pool.fetch_all(query).await?;
                read_found_page(self, rows::page_of_past(&keys, page, last)?).await
            }
        }
    }

    async fn tasks(&self, tenant: TenantPk, ask: &PageAsk) -> Result<Page<FoundRow>> {
        let before = tasks_before(ask)?;
        let query = sqlx::query(TASKS_OF).bind(tenant.0).bind(TASKS).bind(escaped(&before)).bind(ask.rows());
        read_found_page(self, page_by_id(&self.pool.fetch_all(query).await?, ask)?).await
    }

    async fn runs_by_caller_status(&self, ask: &RunsByStatusAsk) -> Result<Page<FoundRow>> {
        let list = match (ask.thread, ask.statuses.is_empty()) {
            (Some(_), _) => RUNS_OF_THREAD,
            (None, true) => RUNS,
            (None, false) => RUNS_OF_STATUS,
        };
        let before = ask.before()?;
        let query = sqlx::query(list).bind(ask.tenant.0).bind(ask.since()).bind(before.at).bind(escaped(&before.id));
        let query = query.bind(ask.page.rows()).bind(RowKind::Run.code()).bind(ask.bodies());
        let query = query.bind(ask.thread.map(|pk| pk.0)).bind(RowKind::CallerStatus.code());
        let keys = self.pool.fetch_all(query).await?;
        read_found_page(self, page_by_caller_status(&keys, &ask.page)?).await
    }

    async fn count_by_caller_status(&self, ask: &RunsByStatusAsk) -> Result<u64> {
        let count = match (ask.thread, ask.statuses.is_empty()) {
            (Some(_), _) => COUNT_OF_THREAD,
            (None, true) => COUNT,
            (None, false) => COUNT_OF_STATUS,
        };
        let query = sqlx::query(count).bind(ask.tenant.0).bind(ask.since()).bind(ask.bodies());
        let query = query.bind(ask.thread.map(|pk| pk.0)).bind(RowKind::CallerStatus.code());
        self.pool.fetch_one(query).await?.count("total")
    }
}

/// A query for these rows.
fn of_these(sql: &'static str, wanted: &[RowKey]) -> PgQuery<'static> {
    let pks: Vec<i64> = wanted.iter().map(|(pk, _, _)| pk.0).collect();
    let kinds: Vec<i16> = wanted.iter().map(|(_, kind, _)| kind.code()).collect();
    let ids: Vec<String> = wanted.iter().map(|(_, _, id)| escaped(id).into_owned()).collect();
    sqlx::query(sql).bind(pks).bind(kinds).bind(ids)
}
