//! Inserts a million expired rows into the database of a stopped server, or the same rows unexpired.

use sqlx::{Connection, Executor, SqliteConnection};

use super::retention::Backlog;
use crate::Outcome;
use crate::bed::Kind;
use crate::server::Place;

/// The thread that all others copy.
pub const TEMPLATE: &str = "template";

/// Key of the deleted thread; no other thread has it.
const DELETED: i64 = 7;

/// The number of rows of each kind.
#[derive(Clone, Copy, Debug)]
pub struct Amounts {
    pub threads: i64,
    pub answers: i64,
    pub observations: i64,
}

/// Inserts the rows. `is_old`: retention has to delete them; else they are recent, and their thread exists.
pub async fn insert(place: &Place, backlog: Backlog, amounts: Amounts, is_old: bool) -> Outcome<()> {
    let day_ms = 86_400_000_i64;
    let age = if is_old { backlog.days() * day_ms } else { 0 };
    let age_of_answers = if is_old { 2 * day_ms } else { 0 };
    let body = match kind(place) {
        Kind::Sqlite => "json_set(body, '$.timestamp', json_extract(body, '$.timestamp') - AGE)",
        Kind::Postgres => {
            "jsonb_set(body::jsonb, '{timestamp}', to_jsonb((body::jsonb ->> 'timestamp')::bigint - AGE))::text"
        }
    };
    let (now, text, no, last) = match kind(place) {
        Kind::Sqlite => ("CAST(unixepoch('subsec') * 1000 AS INTEGER)", "printf('%0200d', n.n)", "0", "last_commit"),
        Kind::Postgres => {
            ("(extract(epoch FROM now()) * 1000)::bigint", "lpad(n.n::text, 200, '0')", "false", "commits")
        }
    };
    let Amounts { threads, answers, observations } = amounts;
    let numbers =
        |last: i64| format!("WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {last})");
    let template = format!("(SELECT pk FROM threads WHERE thread_id = '{TEMPLATE}')");
    let mut sql = format!(
        "UPDATE observations SET body = {body} WHERE pk = {template};
        UPDATE thread_rows SET ord = ord - AGE WHERE pk = {template} AND kind IN (11, 12);
        UPDATE threads SET created_at = created_at - AGE, updated_at = updated_at - AGE WHERE pk = {template};
        {} INSERT INTO threads (pk, tenant, thread_id, core, version, epoch, {last}, status, floor, last_seq, min_seq,
            created_at, updated_at, created_by, title, sheet, head)
        SELECT t.pk + n.n, tenant, 'old-' || n.n, core, version, epoch, {last}, status, floor, last_seq, min_seq,
            created_at, updated_at, created_by, title, sheet, head FROM n, threads t WHERE pk = {template};
        {} INSERT INTO thread_rows (pk, tenant, kind, id, ord, keep, body)
        SELECT pk + n.n, tenant, kind, CASE kind WHEN 12 THEN id || '-' || n.n ELSE id END, ord, keep, body
        FROM n, thread_rows WHERE pk = {template};
        {} INSERT INTO observations (pk, seq, body, compressed, types)
        SELECT pk + n.n, seq, body, compressed, types FROM n, observations WHERE pk = {template};
        {} INSERT INTO idempotency (pk, tenant, scope, key, fingerprint, status, created_at, body)
        SELECT 0, 1, 'process', 'old-' || n.n, 'f', 202, {now} - {age_of_answers}, {text} FROM n;
        {} INSERT INTO observations (pk, seq, body, types) SELECT {DELETED}, n.n, {text}, 'INTENT' FROM n;",
        numbers(threads),
        numbers(threads),
        numbers(threads),
        numbers(answers),
        numbers(observations),
    )
    .replace("AGE", &age.to_string());
    if is_old {
        sql += &format!("INSERT INTO erased_threads (pk, erased_at, is_empty) VALUES ({DELETED}, 1, {no});");
    }
    match &place.database {
        None => {
            let mut connection = sqlite(place).await?;
            connection.execute("PRAGMA synchronous = off").await?;
            sqlx::raw_sql(sqlx::AssertSqlSafe(format!("BEGIN; {sql} COMMIT"))).execute(&mut connection).await?;
            connection.execute("PRAGMA wal_checkpoint(truncate)").await?;
        }
        Some(database) => {
            let mut connection = database.connect().await;
            sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await?;
            connection.execute("VACUUM ANALYZE").await?;
            connection.execute("CHECKPOINT").await?;
        }
    }
    Ok(())
}

/// Remaining rows of each kind: of the copies, of the answers, and of the deleted thread.
pub async fn left(place: &Place, backlog: Backlog) -> Outcome<[i64; 3]> {
    let of_copies = match backlog {
        Backlog::Threads => "SELECT count(*) FROM threads WHERE thread_id LIKE 'old-%'",
        Backlog::Logs => "SELECT count(*) FROM threads WHERE thread_id LIKE 'old-%' AND min_seq = 1",
    };
    let of_answers = "SELECT count(*) FROM idempotency WHERE key LIKE 'old-%'";
    let of_deleted = "SELECT count(*) FROM observations WHERE pk = 7";
    let mut counts = [0; 3];
    for (count, sql) in counts.iter_mut().zip([of_copies, of_answers, of_deleted]) {
        *count = match &place.database {
            None => sqlx::query_scalar(sql).fetch_one(&mut sqlite(place).await?).await?,
            Some(database) => sqlx::query_scalar(sql).fetch_one(&mut database.connect().await).await?,
        };
    }
    Ok(counts)
}

fn kind(place: &Place) -> Kind {
    if place.database.is_some() { Kind::Postgres } else { Kind::Sqlite }
}

async fn sqlite(place: &Place) -> Outcome<SqliteConnection> {
    Ok(SqliteConnection::connect(&format!("sqlite://{}", place.data().join("pes.db").display())).await?)
}
