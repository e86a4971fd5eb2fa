//! A batch as one call.
//!
//! Small values travel as JSON arrays, one per row, and `json_each` reads them back as tables; bodies, and names that we
//! did not choose, travel beside them as one blob per table, and `substr` cuts them out again: no body is escaped or
//! parsed, and no text ends early (SQLite's JSON stops at `\u0000`). Only one connection writes, so what is judged first
//! holds until it is written.
//!
//! The end of each statement wakes whoever waits for the call. Nearly every batch is therefore one statement, an insert
//! into a view whose trigger does the work, and so a transaction by itself; the others are a script.

use super::sheaf::Sheaf;
use super::writer::Script;
use crate::store::LeaseChange;
use crate::store::committer::Parcel;

pub(super) const DONE: i64 = 0;
pub(super) const STALE: i64 = 1;
pub(super) const EXISTS: i64 = 2;
pub(super) const DUPLICATE: i64 = 3;
/// Written by an earlier sending of the same batch.
pub(super) const LANDED: i64 = 4;

/// Judges the threads of a batch: their verdicts stand in `parcels` until the next one.
macro_rules! judged {
    ($threads:literal) => {
        concat!(
            "
DELETE FROM parcels;

INSERT INTO parcels
SELECT p.pk,
    CASE
    WHEN t.last_commit = p.token THEN 4
    WHEN p.key IS NOT NULL AND EXISTS (
        SELECT 1 FROM idempotency i WHERE i.tenant = p.key_tenant AND i.scope = p.scope AND i.key = p.key) THEN 3
    WHEN p.thread_id IS NOT NULL AND (t.pk IS NOT NULL OR EXISTS (
        SELECT 1 FROM threads o WHERE o.tenant = p.tenant AND o.thread_id = p.thread_id)) THEN 2
    WHEN p.thread_id IS NOT NULL THEN
        NOT (p.version = 0 AND p.epoch = 0 AND p.old_lease IS NULL AND p.last_seq = 0)
    WHEN t.version = p.version AND t.epoch = p.epoch AND t.lease IS p.old_lease AND t.last_seq = p.last_seq
        AND (p.replica IS NULL OR t.replica IS NULL OR t.replica = p.replica OR NOT EXISTS (
            SELECT 1 FROM replicas r
            WHERE r.id = t.replica AND r.alive_until > CAST(unixepoch('subsec') * 1000 AS INTEGER))) THEN 0
    ELSE 1 END,
    p.token, coalesce(p.tenant, t.tenant), p.now, p.status, p.wake_at,
    p.floor, p.crash_count, p.records, p.is_activity, p.change, p.new_lease, p.replica,
    p.thread_id, p.core, p.created_at,
    p.head, p.head_len, p.sheet, p.sheet_len, p.title, p.title_len
FROM (
    SELECT value ->> 0 AS pk, value ->> 1 AS token, value ->> 2 AS version, value ->> 3 AS epoch,
        value ->> 4 AS old_lease, value ->> 5 AS last_seq, value ->> 6 AS now, value ->> 7 AS status,
        value ->> 8 AS wake_at, value ->> 9 AS floor, value ->> 10 AS crash_count, value ->> 11 AS records,
        value ->> 12 AS is_activity, value ->> 13 AS change, value ->> 14 AS new_lease, value ->> 15 AS replica,
        value ->> 16 AS tenant, value ->> 17 AS thread_id, value ->> 18 AS core, value ->> 19 AS created_at,
        value ->> 20 AS head, value ->> 21 AS head_len, value ->> 22 AS sheet, value ->> 23 AS sheet_len,
        value ->> 24 AS title, value ->> 25 AS title_len,
        value ->> 26 AS key_tenant, value ->> 27 AS scope, value ->> 28 AS key
    FROM jsonb_each(",
            $threads,
            ")
) p LEFT JOIN threads t ON t.pk = p.pk;
"
        )
    };
}

/// Writes what was accepted: threads, rows and entries of the log.
macro_rules! written {
    ($texts:literal, $rows:literal, $bodies:literal, $log:literal, $entries:literal) => {
        concat!(
            "
UPDATE threads SET
    version = version + 1,
    epoch = epoch + (p.change = 1),
    lease = CASE p.change WHEN 0 THEN threads.lease WHEN 1 THEN p.lease END,
    replica = CASE p.change WHEN 0 THEN threads.replica WHEN 1 THEN p.replica END,
    last_commit = p.token,
    updated_at = CASE WHEN p.is_activity OR threads.status <> p.status THEN p.now ELSE updated_at END,
    status = p.status,
    wake_at = p.wake_at,
    floor = p.floor,
    crash_count = p.crash_count,
    last_seq = last_seq + p.records,
    title = iif(p.title IS NULL, threads.title, CAST(substr(",
            $texts,
            ", p.title, p.title_len) AS TEXT)),
    sheet = iif(p.sheet IS NULL, threads.sheet, CAST(substr(",
            $texts,
            ", p.sheet, p.sheet_len) AS TEXT)),
    head = iif(p.head IS NULL, threads.head, CAST(substr(",
            $texts,
            ", p.head, p.head_len) AS TEXT))
-- The plus keeps `parcels` the outer loop: never a scan of all threads.
FROM parcels p WHERE threads.pk = +p.pk AND p.verdict = 0;

INSERT INTO thread_rows (pk, tenant, kind, id, ord, keep, body)
SELECT p.pk, p.tenant, r.value ->> 1, CAST(substr(",
            $bodies,
            ", r.value ->> 2, r.value ->> 3) AS TEXT), r.value ->> 4,
    r.value ->> 5, CAST(substr(",
            $bodies,
            ", r.value ->> 6, r.value ->> 7) AS TEXT)
FROM jsonb_each(",
            $rows,
            ") r CROSS JOIN parcels p ON p.pk = r.value ->> 0 AND p.verdict = 0
WHERE true
ON CONFLICT (pk, kind, id) DO UPDATE SET ord = excluded.ord, keep = excluded.keep, body = excluded.body;

INSERT INTO observations (pk, seq, types, body)
SELECT p.pk, o.value ->> 1, o.value ->> 2, CAST(substr(",
            $entries,
            ", o.value ->> 3, o.value ->> 4) AS TEXT)
FROM jsonb_each(",
            $log,
            ") o CROSS JOIN parcels p ON p.pk = o.value ->> 0 AND p.verdict = 0;
"
        )
    };
}

/// On the writing connection; lives in memory.
pub(super) const PREPARED: &str = concat!(
    "
CREATE TEMP TABLE parcels (
    pk INTEGER PRIMARY KEY, verdict INTEGER, token TEXT, tenant INTEGER, now INTEGER, status TEXT, wake_at INTEGER,
    floor INTEGER, crash_count INTEGER, records INTEGER, is_activity INTEGER, change INTEGER, lease TEXT, replica TEXT,
    thread_id TEXT, core TEXT, created_at INTEGER,
    head INTEGER, head_len INTEGER, sheet INTEGER, sheet_len INTEGER, title INTEGER, title_len INTEGER
);

CREATE TEMP VIEW batch (threads, texts, changed, bodies, log, entries) AS SELECT 0, 0, 0, 0, 0, 0;

CREATE TEMP TRIGGER batch_written INSTEAD OF INSERT ON batch BEGIN
",
    judged!("NEW.threads"),
    written!("NEW.texts", "NEW.changed", "NEW.bodies", "NEW.log", "NEW.entries"),
    "
END;
"
);

/// Nearly every batch: threads that are there, and nothing beside rows and entries of the log. Returns the pks that are
/// not `DONE`, as does the script below.
const PLAIN: &str = "
INSERT INTO batch VALUES ($1, $2, $3, $4, $5, $6);
SELECT pk, verdict FROM parcels WHERE verdict <> 0;
";

/// Arguments: $1 parcels, $2 heads, sheets and titles, $3 rows, $4 their bodies, $5 entries of the log, $6 their bodies,
/// $7 idempotency keys, $8 their answers, $9 audit lines, $10 their details, $11 deliveries, $12 their bodies. (`$7` is the
/// seventh argument of the call in whatever statement it stands; `?7` would not be.)
const FULL: &str = concat!(
    "BEGIN IMMEDIATE;
",
    judged!("$1"),
    "
INSERT INTO threads (pk, tenant, thread_id, core, version, epoch, last_commit, status, floor, last_seq, min_seq,
    crash_count, created_at, updated_at, title, sheet, head)
SELECT pk, tenant, thread_id, core, 0, 0, token, status, 0, 0, 1, 0, created_at, now, '', '{}', ''
FROM parcels WHERE verdict = 0 AND thread_id IS NOT NULL;
",
    written!("$2", "$3", "$4", "$5", "$6"),
    "
INSERT INTO idempotency (pk, tenant, scope, key, fingerprint, status, location, created_at, body)
SELECT p.pk, k.value ->> 1, k.value ->> 2, k.value ->> 3, k.value ->> 4, k.value ->> 5, k.value ->> 6, k.value ->> 7,
    CAST(substr($8, k.value ->> 8, k.value ->> 9) AS TEXT)
FROM jsonb_each($7) k CROSS JOIN parcels p ON p.pk = k.value ->> 0 AND p.verdict = 0;

INSERT INTO audit (pk, tenant, at, actor, action, detail)
SELECT a.value ->> 1, a.value ->> 2, a.value ->> 3, CAST(substr($10, a.value ->> 4, a.value ->> 5) AS TEXT),
    a.value ->> 6, CAST(substr($10, a.value ->> 7, a.value ->> 8) AS TEXT)
FROM jsonb_each($9) a CROSS JOIN parcels p ON p.pk = a.value ->> 0 AND p.verdict = 0;

INSERT INTO deliveries (pk, tenant, id, target_kind, target, lane, event, status, due_at, attempts, created_at, body)
SELECT p.pk, p.tenant, d.value ->> 1, d.value ->> 2, CAST(substr($12, d.value ->> 3, d.value ->> 4) AS TEXT),
    d.value ->> 5, d.value ->> 6, 'pending', p.now, 0, p.now, CAST(substr($12, d.value ->> 7, d.value ->> 8) AS TEXT)
FROM jsonb_each($11) d CROSS JOIN parcels p ON p.pk = d.value ->> 0 AND p.verdict = 0;

COMMIT;

SELECT pk, verdict FROM parcels WHERE verdict <> 0;
"
);

pub(super) fn script(parcels: &[Parcel]) -> Script {
    let [mut threads, mut rows, mut log] = [const { Sheaf::new() }; 3];
    for parcel in parcels {
        let pk = parcel.commit.pk;
        thread(&mut threads, parcel);
        for row in &parcel.commit.rows {
            rows.row(pk)
                .cell(row.kind.code())
                .body(Some(&row.id))
                .cell(row.ord)
                .cell(row.keep.code())
                .body(Some(&row.body));
        }
        if let Some(entry) = &parcel.entry {
            log.row(pk).cell(entry.seq).cell(&entry.types).body(Some(&entry.body));
        }
    }
    if parcels.iter().all(Parcel::is_plain) {
        bound(sqlx::query(PLAIN), [threads, rows, log])
    } else {
        let [keys, audit, deliveries] = beside(parcels);
        bound(sqlx::query(FULL), [threads, rows, log, keys, audit, deliveries])
    }
}

/// Idempotency keys, audit lines and deliveries.
fn beside(parcels: &[Parcel]) -> [Sheaf; 3] {
    let [mut keys, mut audit, mut deliveries] = [const { Sheaf::new() }; 3];
    for Parcel { commit, audit: details, .. } in parcels {
        if let Some(key) = &commit.idempotency {
            keys.row(commit.pk)
                .cell(key.tenant)
                .cell(&key.scope)
                .cell(&key.key)
                .cell(&key.fingerprint)
                .cell(key.status);
            keys.cell(&key.location).cell(key.created_at).body(Some(&key.body));
        }
        for (line, detail) in commit.audit.iter().zip(details) {
            audit.row(commit.pk).cell(line.thread).cell(line.tenant).cell(line.at).body(Some(&line.actor));
            audit.cell(&line.action).body(Some(detail));
        }
        for new in &commit.deliveries {
            deliveries.row(commit.pk).cell(&new.id).cell(new.kind.as_str()).body(Some(&new.target)).cell(&new.lane);
            deliveries.cell(&new.event).body(Some(&new.body));
        }
    }
    [keys, audit, deliveries]
}

fn bound<const N: usize>(query: Script, sheaves: [Sheaf; N]) -> Script {
    sheaves.into_iter().fold(query, |query, sheaf| {
        let (rows, bodies) = sheaf.tied();
        query.bind(rows).bind(bodies)
    })
}

fn thread(threads: &mut Sheaf, parcel: &Parcel) {
    let commit = &parcel.commit;
    threads.row(commit.pk).id(Some(commit.token)).cell(commit.fence.version).cell(commit.fence.epoch);
    threads.id(commit.fence.lease).cell(commit.last_seq).cell(commit.now).cell(commit.status).cell(commit.wake_at);
    threads.cell(commit.floor).cell(commit.crash_count).cell(parcel.records).cell(u8::from(commit.is_activity()));
    match commit.lease {
        LeaseChange::Keep => threads.cell(0).id(None).id(None),
        LeaseChange::Claim { lease, replica } => threads.cell(1).id(Some(lease)).id(Some(replica)),
        LeaseChange::Release => threads.cell(2).id(None).id(None),
    };
    let new = commit.create.as_ref();
    threads.cell(new.map(|new| new.tenant)).cell(new.map(|new| &new.thread_id));
    threads.cell(new.map(|new| &new.core)).cell(new.map(|new| new.created_at));
    threads.body(commit.head.as_deref()).body(parcel.sheet.as_deref()).body(parcel.title.as_deref());
    let key = commit.idempotency.as_ref();
    threads.cell(key.map(|key| key.tenant)).cell(key.map(|key| &key.scope)).cell(key.map(|key| &key.key));
}
