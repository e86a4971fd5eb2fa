//! A batch as one statement, which is one transaction.
//!
//! Every column travels as one array, and `unnest` reads them back as tables. The parts of a statement all see the same
//! snapshot, so whatever follows the fence joins `ok`, the threads whose commits are accepted, and never reads `threads`
//! again.

use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;

use super::nul::escaped;
use crate::engine::step::Row;
use crate::store::committer::{Line, Parcel, Sending};
use crate::store::delivery::NewDelivery;
use crate::store::{AuditRow, IdempotencyRow, LeaseChange};

/// Verdicts, the strongest last; a thread without one is stale.
pub(super) const DONE: i32 = 1;
pub(super) const EXISTS: i32 = 2;
pub(super) const DUPLICATE: i32 = 3;

/// The threads' columns that every commit has.
macro_rules! threads {
    ($more_arrays:literal, $more_names:literal) => {
        concat!(
            "
    SELECT * FROM unnest(
        $1::bigint[], $2::bigint[], $3::bigint[], $4::uuid[], $5::bigint[], $6::uuid[], $7::bigint[], $8::text[],
        $9::bigint[], $10::bigint[], $11::integer[], $12::integer[], $13::boolean[], $14::smallint[], $15::uuid[],
        $16::uuid[], $17::text[], $18::text[], $19::text[]",
            $more_arrays,
            "
    ) u (pk, version, epoch, old_lease, last_seq, token, now, status, wake_at, floor, crash_count, records, is_activity,
        change, lease, replica, head, sheet, title",
            $more_names,
            ")
"
        )
    };
}

/// The fence is compared on the newest version of each row, under its lock, taken in key order. A row that somebody else
/// has locked is being written: skipped, so that it delays nobody, and stale. Only a batch that may be half-way through
/// its own commit waits instead.
macro_rules! held {
    ($when_locked:literal) => {
        concat!(
            "
    SELECT u.* FROM u JOIN threads t ON t.pk = u.pk
    WHERE t.version = u.version AND t.epoch = u.epoch AND t.lease IS NOT DISTINCT FROM u.old_lease
        AND t.last_seq = u.last_seq
        AND (u.change <> 1 OR t.replica IS NULL OR t.replica = u.replica OR NOT EXISTS (
            SELECT FROM replicas r WHERE r.id = t.replica AND r.alive_until > now()))
    ORDER BY t.pk
    FOR UPDATE OF t ",
            $when_locked
        )
    };
}

macro_rules! moved {
    ($unless:literal) => {
        concat!(
            "
    UPDATE threads t SET
        version = t.version + 1,
        epoch = t.epoch + (u.change = 1)::integer,
        lease = CASE u.change WHEN 0 THEN t.lease ELSE u.lease END,
        replica = CASE u.change WHEN 0 THEN t.replica ELSE u.replica END,
        commits = u.token || t.commits[1:7],
        updated_at = CASE WHEN u.is_activity OR t.status <> u.status THEN u.now ELSE t.updated_at END,
        status = u.status,
        wake_at = u.wake_at,
        floor = u.floor,
        crash_count = u.crash_count,
        last_seq = t.last_seq + u.records,
        title = coalesce(u.title, t.title),
        sheet = coalesce(u.sheet, t.sheet),
        head = coalesce(u.head, t.head)
    FROM held u
    WHERE t.pk = u.pk",
            $unless,
            "
    RETURNING t.pk, t.tenant"
        )
    };
}

/// The rows and observations of the threads in `ok`.
macro_rules! written {
    () => {
        "
r AS (
    INSERT INTO thread_rows (pk, tenant, ord, kind, keep, id, body)
    SELECT ok.pk, ok.tenant, v.ord, v.kind, v.keep, v.id, v.body
    FROM unnest($20::bigint[], $21::bigint[], $22::smallint[], $23::smallint[], $24::text[], $25::text[])
        v (pk, ord, kind, keep, id, body)
    JOIN ok ON ok.pk = v.pk
    ON CONFLICT (pk, kind, id) DO UPDATE SET ord = excluded.ord, keep = excluded.keep, body = excluded.body
), o AS (
    INSERT INTO observations (pk, seq, token, type, run, body)
    SELECT v.pk, v.seq, v.token, v.type, v.run, v.body
    FROM unnest($26::bigint[], $27::bigint[], $28::uuid[], $29::text[], $30::text[], $31::text[])
        v (pk, seq, token, type, run, body)
    JOIN ok ON ok.pk = v.pk
)"
    };
}

/// Nearly every batch: threads that are there, and nothing beside rows and observations. Each part of a statement costs
/// when it starts, whether it finds anything to do or not.
macro_rules! plain {
    ($when_locked:literal) => {
        concat!(
            "WITH u AS (",
            threads!("", ""),
            "), held AS (",
            held!($when_locked),
            "
), ok AS (",
            moved!(""),
            "
), ",
            written!(),
            "
SELECT pk, 1 FROM ok"
        )
    };
}

/// Returns the verdicts as `(pk, verdict)`; a thread may have two.
macro_rules! full {
    ($when_locked:literal) => {
        concat!(
            "WITH u AS (",
            threads!(", $32::bigint[], $33::text[], $34::text[], $35::bigint[]", ", tenant, thread_id, core, created_at"),
            "), held AS (",
            held!($when_locked),
            "
), k AS (
    SELECT * FROM unnest(
        $36::bigint[], $37::bigint[], $38::text[], $39::text[], $40::text[], $41::integer[], $42::text[], $43::bigint[],
        $44::text[]
    ) k (pk, tenant, scope, key, fingerprint, status, location, created_at, body)
), known AS (
    SELECT k.pk FROM k JOIN idempotency i ON i.tenant = k.tenant AND i.scope = k.scope AND i.key = k.key
), taken AS (
    SELECT u.pk FROM u WHERE u.thread_id IS NOT NULL AND (
        EXISTS (SELECT FROM threads t WHERE t.pk = u.pk)
        OR EXISTS (SELECT FROM threads t WHERE t.tenant = u.tenant AND t.thread_id = u.thread_id))
), moved AS (",
            moved!(" AND u.pk NOT IN (SELECT pk FROM known)"),
            "
), made AS (
    INSERT INTO threads (pk, tenant, version, epoch, lease, replica, wake_at, floor, last_seq, min_seq, created_at,
        updated_at, crash_count, status, core, thread_id, commits, title, sheet, head)
    SELECT pk, tenant, 1, (change = 1)::integer, lease, replica, wake_at, floor, records, 1, created_at,
        now, crash_count, status, core, thread_id, ARRAY[token], coalesce(title, ''), coalesce(sheet, '{}'),
        coalesce(head, '')
    FROM u
    WHERE thread_id IS NOT NULL AND version = 0 AND epoch = 0 AND old_lease IS NULL AND last_seq = 0
        AND pk NOT IN (SELECT pk FROM known) AND pk NOT IN (SELECT pk FROM taken)
    RETURNING pk, tenant
), ok AS (
    SELECT * FROM moved UNION ALL SELECT * FROM made
), ",
            written!(),
            ", i AS (
    INSERT INTO idempotency (pk, tenant, scope, key, fingerprint, status, location, created_at, body)
    SELECT k.* FROM k JOIN ok ON ok.pk = k.pk
), a AS (
    INSERT INTO audit (pk, tenant, at, actor, action, detail)
    SELECT v.pk, v.tenant, v.at, v.actor, v.action, v.detail
    FROM unnest($45::bigint[], $46::bigint[], $47::bigint[], $48::text[], $49::text[], $50::text[])
        v (pk, tenant, at, actor, action, detail)
    JOIN ok ON ok.pk = v.pk
), d AS (
    INSERT INTO deliveries (pk, tenant, due_at, created_at, attempts, id, target_kind, target, lane, event, status, body)
    SELECT ok.pk, ok.tenant, v.at, v.at, 0, v.id, v.kind, v.target, v.lane, v.event, 'pending', v.body
    FROM unnest($51::bigint[], $52::bigint[], $53::text[], $54::text[], $55::text[], $56::text[], $57::text[],
        $58::text[]) WITH ORDINALITY v (pk, at, id, kind, target, lane, event, body, place)
    JOIN ok ON ok.pk = v.pk
    ORDER BY v.place
)
SELECT pk, 1 FROM ok UNION ALL SELECT pk, 2 FROM taken UNION ALL SELECT pk, 3 FROM known"
        )
    };
}

/// Which of these commits are stored. The tokens of a thread's last eight commits stand in its row; that of a commit
/// with observations is found for ever.
const LANDED: &str = "
SELECT u.pk FROM unnest($1::bigint[], $2::uuid[], $3::bigint[]) u (pk, token, seq)
WHERE EXISTS (SELECT FROM threads t WHERE t.pk = u.pk AND u.token = ANY (t.commits))
    OR EXISTS (SELECT FROM observations o WHERE o.pk = u.pk AND o.seq = u.seq AND o.token = u.token)";

type Statement = Query<'static, Postgres, PgArguments>;

pub(super) fn write(parcels: &[Parcel], sending: Sending) -> Statement {
    let is_plain = parcels.iter().all(Parcel::is_plain);
    let sql = match (is_plain, sending) {
        (true, Sending::First) => plain!("SKIP LOCKED"),
        (true, Sending::Again) => plain!(""),
        (false, Sending::First) => full!("SKIP LOCKED"),
        (false, Sending::Again) => full!(""),
    };
    let query = with_threads(sqlx::query(sql), parcels);
    let query = with_rows(query, parcels);
    let query = with_observations(query, parcels);
    if is_plain {
        return query;
    }
    let query = with_new_threads(query, parcels);
    let query = with_keys(query, parcels);
    let query = with_audit(query, parcels);
    with_deliveries(query, parcels)
}

pub(super) fn landed(parcels: &[&Parcel]) -> Statement {
    sqlx::query(LANDED)
        .bind(column(parcels, |p| p.commit.pk.0))
        .bind(column(parcels, |p| p.commit.token))
        .bind(column(parcels, |p| p.commit.last_seq + 1))
}

fn column<'a, T, V>(items: &'a [T], value: impl Fn(&'a T) -> V) -> Vec<V> {
    items.iter().map(value).collect()
}

fn with_threads(query: Statement, parcels: &[Parcel]) -> Statement {
    query
        .bind(column(parcels, |p| p.commit.pk.0))
        .bind(column(parcels, |p| p.commit.fence.version))
        .bind(column(parcels, |p| p.commit.fence.epoch))
        .bind(column(parcels, |p| p.commit.fence.lease))
        .bind(column(parcels, |p| p.commit.last_seq))
        .bind(column(parcels, |p| p.commit.token))
        .bind(column(parcels, |p| p.commit.now))
        .bind(column(parcels, |p| p.commit.status.as_str()))
        .bind(column(parcels, |p| p.commit.wake_at))
        .bind(column(parcels, |p| p.commit.floor))
        .bind(column(parcels, |p| p.commit.crash_count))
        .bind(column(parcels, |p| p.lines.len() as i32))
        .bind(column(parcels, |p| p.commit.is_activity()))
        .bind(column(parcels, |p| change(&p.commit.lease).0))
        .bind(column(parcels, |p| change(&p.commit.lease).1))
        .bind(column(parcels, |p| change(&p.commit.lease).2))
        .bind(column(parcels, |p| p.commit.head.as_deref()))
        .bind(column(parcels, |p| p.sheet.as_deref()))
        .bind(column(parcels, |p| p.title.as_deref()))
}

fn with_new_threads(query: Statement, parcels: &[Parcel]) -> Statement {
    let new = |p: &'_ Parcel| p.commit.create.as_ref().map(|new| new.tenant.0);
    query
        .bind(column(parcels, new))
        .bind(column(parcels, |p| p.commit.create.as_ref().map(|new| escaped(new.thread_id.as_str()))))
        .bind(column(parcels, |p| p.commit.create.as_ref().map(|new| new.core.as_str())))
        .bind(column(parcels, |p| p.commit.create.as_ref().map(|new| new.created_at)))
}

/// 0 keep, 1 claim, 2 release; with the new lease and its replica.
fn change(lease: &LeaseChange) -> (i16, Option<uuid::Uuid>, Option<uuid::Uuid>) {
    match lease {
        LeaseChange::Keep => (0, None, None),
        LeaseChange::Claim { lease, replica } => (1, Some(*lease), Some(*replica)),
        LeaseChange::Release => (2, None, None),
    }
}

fn with_keys(query: Statement, parcels: &[Parcel]) -> Statement {
    let keys: Vec<(i64, &IdempotencyRow)> =
        parcels.iter().filter_map(|p| Some((p.commit.pk.0, p.commit.idempotency.as_ref()?))).collect();
    query
        .bind(column(&keys, |(pk, _)| *pk))
        .bind(column(&keys, |(_, key)| key.tenant.0))
        .bind(column(&keys, |(_, key)| escaped(&key.scope)))
        .bind(column(&keys, |(_, key)| escaped(&key.key)))
        .bind(column(&keys, |(_, key)| key.fingerprint.as_str()))
        .bind(column(&keys, |(_, key)| i32::from(key.status)))
        .bind(column(&keys, |(_, key)| key.location.as_deref()))
        .bind(column(&keys, |(_, key)| key.created_at))
        .bind(column(&keys, |(_, key)| key.body.as_str()))
}

fn with_rows(query: Statement, parcels: &[Parcel]) -> Statement {
    let rows: Vec<(i64, &Row)> =
        parcels.iter().flat_map(|p| p.commit.rows.iter().map(|row| (p.commit.pk.0, row))).collect();
    query
        .bind(column(&rows, |(pk, _)| *pk))
        .bind(column(&rows, |(_, row)| row.ord))
        .bind(column(&rows, |(_, row)| row.kind.code()))
        .bind(column(&rows, |(_, row)| row.keep.code()))
        .bind(column(&rows, |(_, row)| escaped(&row.id)))
        .bind(column(&rows, |(_, row)| row.body.as_str()))
}

fn with_observations(query: Statement, parcels: &[Parcel]) -> Statement {
    let lines: Vec<(&Parcel, &Line)> = parcels.iter().flat_map(|p| p.lines.iter().map(move |line| (p, line))).collect();
    let is_first = |(p, line): &(&Parcel, &Line)| line.seq == p.commit.last_seq + 1;
    query
        .bind(column(&lines, |(p, _)| p.commit.pk.0))
        .bind(column(&lines, |(_, line)| line.seq))
        .bind(column(&lines, |pair| is_first(pair).then_some(pair.0.commit.token)))
        .bind(column(&lines, |(_, line)| line.kind))
        .bind(column(&lines, |(_, line)| escaped(&line.run)))
        .bind(column(&lines, |(_, line)| line.body.as_str()))
}

fn with_audit(query: Statement, parcels: &[Parcel]) -> Statement {
    let lines: Vec<(&AuditRow, &String)> = parcels.iter().flat_map(|p| p.commit.audit.iter().zip(&p.audit)).collect();
    query
        .bind(column(&lines, |(line, _)| line.thread.0))
        .bind(column(&lines, |(line, _)| line.tenant.0))
        .bind(column(&lines, |(line, _)| line.at))
        .bind(column(&lines, |(line, _)| escaped(&line.actor)))
        .bind(column(&lines, |(line, _)| escaped(&line.action)))
        .bind(column(&lines, |(_, detail)| detail.as_str()))
}

fn with_deliveries(query: Statement, parcels: &[Parcel]) -> Statement {
    let of = |p: &'_ Parcel| (p.commit.pk.0, p.commit.now);
    let new: Vec<((i64, i64), &NewDelivery)> =
        parcels.iter().flat_map(|p| p.commit.deliveries.iter().map(move |new| (of(p), new))).collect();
    query
        .bind(column(&new, |((pk, _), _)| *pk))
        .bind(column(&new, |((_, now), _)| *now))
        .bind(column(&new, |(_, new)| new.id.as_str()))
        .bind(column(&new, |(_, new)| new.kind.as_str()))
        .bind(column(&new, |(_, new)| escaped(&new.target)))
        .bind(column(&new, |(_, new)| new.lane.as_deref().map(escaped)))
        .bind(column(&new, |(_, new)| new.event.as_str()))
        .bind(column(&new, |(_, new)| new.body.as_str()))
}
