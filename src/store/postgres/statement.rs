//! A batch as one statement, which is one transaction.
//!
//! Every column travels as one array, and `unnest` reads them back as tables: side by side in a list of columns, where a
//! row is made as it is asked for; among the tables, `unnest` of many arrays keeps a copy of each. The parts of a statement all see the same
//! snapshot, so whatever follows the fence joins `ok`, the threads whose commits are accepted, and never reads `threads`
//! again.

use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;

use super::nul::escaped;
use crate::engine::step::Row;
use crate::store::committer::{Parcel, Sending};
use crate::store::delivery::NewDelivery;
use crate::store::log::NewEntry;
use crate::store::{AuditRow, IdempotencyRow, LeaseChange};

/// Verdicts, the strongest last; a thread without one is stale.
pub(super) const DONE: i32 = 1;
pub(super) const EXISTS: i32 = 2;
pub(super) const DUPLICATE: i32 = 3;

/// The threads' columns that every commit has.
macro_rules! threads {
    ($more:literal) => {
        concat!(
            "
    SELECT unnest($1::bigint[]) AS pk, unnest($2::bigint[]) AS version, unnest($3::bigint[]) AS epoch,
        unnest($4::uuid[]) AS old_lease, unnest($5::bigint[]) AS last_seq, unnest($6::uuid[]) AS token,
        unnest($7::bigint[]) AS now, unnest($8::text[]) AS status, unnest($9::bigint[]) AS wake_at,
        unnest($10::bigint[]) AS floor, unnest($11::integer[]) AS crash_count, unnest($12::integer[]) AS records,
        unnest($13::boolean[]) AS is_activity, unnest($14::smallint[]) AS change, unnest($15::uuid[]) AS lease,
        unnest($16::uuid[]) AS replica, unnest($17::text[]) AS head, unnest($18::text[]) AS sheet,
        unnest($19::text[]) AS title",
            $more
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

/// The rows and observations of the threads in `ok`. Rows that are there are updated, the others inserted: an upsert logs a
/// lock for each of the ones and a confirmation for each of the others. Nobody else writes rows of a thread whose lock is
/// held. `NOT IN` is a hash whatever the planner expects; `NOT EXISTS` it joins row by row.
macro_rules! written {
    () => {
        "
v AS (
    SELECT ok.pk, ok.tenant, v.ord, v.kind, v.keep, v.id, v.body
    FROM (
        SELECT unnest($20::bigint[]) AS pk, unnest($21::bigint[]) AS ord, unnest($22::smallint[]) AS kind,
            unnest($23::smallint[]) AS keep, unnest($24::text[]) AS id, unnest($25::text[]) AS body
    ) v JOIN ok ON ok.pk = v.pk
), w AS (
    UPDATE thread_rows r SET ord = v.ord, keep = v.keep, body = v.body FROM v
    WHERE r.pk = v.pk AND r.kind = v.kind AND r.id = v.id
    RETURNING r.pk, r.kind, r.id
), r AS (
    INSERT INTO thread_rows (pk, tenant, ord, kind, keep, id, body)
    SELECT v.pk, v.tenant, v.ord, v.kind, v.keep, v.id, v.body FROM v
    WHERE (v.pk, v.kind, v.id) NOT IN (SELECT w.pk, w.kind, w.id FROM w)
), o AS (
    INSERT INTO observations (pk, seq, token, types, body)
    SELECT v.pk, v.seq, v.token, v.types, v.body
    FROM (
        SELECT unnest($26::bigint[]) AS pk, unnest($27::bigint[]) AS seq, unnest($28::uuid[]) AS token,
            unnest($29::text[]) AS types, unnest($30::text[]) AS body
    ) v JOIN ok ON ok.pk = v.pk
)"
    };
}

/// Nearly every batch: threads that are there, and nothing beside rows and observations. Each part of a statement costs
/// when it starts, whether it finds anything to do or not.
macro_rules! plain {
    ($when_locked:literal) => {
        concat!(
            "WITH u AS (",
            threads!(""),
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
            threads!(
                ",
        unnest($31::bigint[]) AS tenant, unnest($32::text[]) AS thread_id, unnest($33::text[]) AS core,
        unnest($34::bigint[]) AS created_at"
            ),
            "), held AS (",
            held!($when_locked),
            "
), k AS (
    SELECT unnest($35::bigint[]) AS pk, unnest($36::bigint[]) AS tenant, unnest($37::text[]) AS scope,
        unnest($38::text[]) AS key, unnest($39::text[]) AS fingerprint, unnest($40::integer[]) AS status,
        unnest($41::text[]) AS location, unnest($42::bigint[]) AS created_at, unnest($43::text[]) AS body
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
    FROM (
        SELECT unnest($44::bigint[]) AS pk, unnest($45::bigint[]) AS tenant, unnest($46::bigint[]) AS at,
            unnest($47::text[]) AS actor, unnest($48::text[]) AS action, unnest($49::text[]) AS detail
    ) v JOIN ok ON ok.pk = v.pk
), d AS (
    INSERT INTO deliveries (pk, tenant, due_at, created_at, attempts, id, target_kind, target, lane, event, status, body)
    SELECT ok.pk, ok.tenant, v.at, v.at, 0, v.id, v.kind, v.target, v.lane, v.event, 'pending', v.body
    FROM (
        SELECT unnest($50::bigint[]) AS pk, unnest($51::bigint[]) AS at, unnest($52::text[]) AS id,
            unnest($53::text[]) AS kind, unnest($54::text[]) AS target, unnest($55::text[]) AS lane,
            unnest($56::text[]) AS event, unnest($57::text[]) AS body, generate_subscripts($57::text[], 1) AS place
    ) v JOIN ok ON ok.pk = v.pk
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
    let query = with_entries(query, parcels);
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
        .bind(column(parcels, |p| p.commit.last_seq + p.records as i64))
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
        .bind(column(parcels, |p| p.records as i32))
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

fn with_entries(query: Statement, parcels: &[Parcel]) -> Statement {
    let entries: Vec<(&Parcel, &NewEntry)> = parcels.iter().filter_map(|p| Some((p, p.entry.as_ref()?))).collect();
    query
        .bind(column(&entries, |(p, _)| p.commit.pk.0))
        .bind(column(&entries, |(_, entry)| entry.seq))
        .bind(column(&entries, |(p, _)| p.commit.token))
        .bind(column(&entries, |(_, entry)| entry.types.as_str()))
        .bind(column(&entries, |(_, entry)| entry.body.as_str()))
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
