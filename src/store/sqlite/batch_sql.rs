//! The statements of a batch. What they are bound to, and why they look like this, stands in `batch`.

/// Whether a commit follows the thread as it stands, and its lease is free to be taken.
fn fits(t: &str, p: &str) -> String {
    format!(
        "{t}.version = {p}.version AND {t}.epoch = {p}.epoch AND {t}.lease IS {p}.old_lease AND {t}.last_seq = {p}.last_seq
        AND ({p}.replica IS NULL OR {t}.replica IS NULL OR {t}.replica = {p}.replica OR NOT EXISTS (
            SELECT 1 FROM replicas r WHERE r.id = {t}.replica))"
    )
}

/// Judges the threads of a batch: their verdicts stand in `prepared` until the next one.
fn judged() -> String {
    let fits = fits("t", "p");
    format!(
        "
DELETE FROM prepared;

INSERT INTO prepared
SELECT p.pk,
    CASE
    WHEN t.last_commit = p.token THEN 4
    WHEN p.key IS NOT NULL AND EXISTS (
        SELECT 1 FROM idempotency i WHERE i.tenant = p.key_tenant AND i.scope = p.scope AND i.key = p.key) THEN 3
    WHEN p.thread_id IS NOT NULL AND (t.pk IS NOT NULL OR EXISTS (
        SELECT 1 FROM threads o WHERE o.tenant = p.tenant AND o.thread_id = p.thread_id)) THEN 2
    WHEN p.thread_id IS NOT NULL THEN
        NOT (p.version = 0 AND p.epoch = 0 AND p.old_lease IS NULL AND p.last_seq = 0)
    WHEN {fits} THEN 0
    ELSE 1 END,
    p.token, coalesce(p.tenant, t.tenant), p.now, p.status, p.wake_at,
    p.floor, p.records, p.is_activity, p.change, p.new_lease, p.replica,
    p.thread_id, p.core, p.created_at, p.created_by,
    CAST(substr(NEW.texts, p.head, p.head_len) AS TEXT),
    CAST(substr(NEW.texts, p.sheet, p.sheet_len) AS TEXT),
    CAST(substr(NEW.texts, p.title, p.title_len) AS TEXT)
FROM (
    SELECT value ->> 0 AS pk, value ->> 1 AS token, value ->> 2 AS version, value ->> 3 AS epoch,
        value ->> 4 AS old_lease, value ->> 5 AS last_seq, value ->> 6 AS now, value ->> 7 AS status,
        value ->> 8 AS wake_at, value ->> 9 AS floor, value ->> 10 AS records,
        value ->> 11 AS is_activity, value ->> 12 AS change, value ->> 13 AS new_lease, value ->> 14 AS replica,
        value ->> 15 AS tenant, value ->> 16 AS thread_id, value ->> 17 AS core, value ->> 18 AS created_at,
        value ->> 19 AS head, value ->> 20 AS head_len, value ->> 21 AS sheet, value ->> 22 AS sheet_len,
        value ->> 23 AS title, value ->> 24 AS title_len,
        value ->> 25 AS key_tenant, value ->> 26 AS scope, value ->> 27 AS key, value ->> 28 AS created_by
    FROM jsonb_each(NEW.threads)
) p LEFT JOIN threads t ON t.pk = p.pk;
"
    )
}

/// Changes the threads that `which` finds, by the values of `p`; `moved` finds those that it changed. To set a column is to
/// write its indexes, whether its value changes or not, and each is one more page to sync: columns with an index are set
/// only where they change.
fn moved(p: &str, from: &str, which: &str, moved: &str) -> String {
    format!(
        "
UPDATE threads SET
    version = threads.version + 1,
    epoch = threads.epoch + ({p}.change = 1),
    lease = CASE {p}.change WHEN 0 THEN threads.lease WHEN 1 THEN {p}.lease END,
    last_commit = {p}.token,
    floor = {p}.floor,
    last_seq = threads.last_seq + {p}.records,
    title = coalesce({p}.title, threads.title),
    sheet = coalesce({p}.sheet, threads.sheet),
    head = coalesce({p}.head, threads.head)
{from} WHERE {which};

UPDATE threads SET updated_at = {p}.now, status = {p}.status
{from} WHERE {moved} AND ({p}.is_activity OR threads.status <> {p}.status);

UPDATE threads SET
    wake_at = {p}.wake_at,
    replica = CASE {p}.change WHEN 0 THEN threads.replica WHEN 1 THEN {p}.replica END
{from} WHERE {moved} AND ({p}.change <> 0 OR threads.wake_at IS NOT {p}.wake_at);
"
    )
}

/// Writes rows and entries of the log, of the threads that `accepted` joins as `p`.
fn written(accepted: &str) -> String {
    format!(
        "
INSERT INTO thread_rows (pk, tenant, kind, id, ord, keep, body)
SELECT p.pk, p.tenant, r.value ->> 1, CAST(substr(NEW.bodies, r.value ->> 2, r.value ->> 3) AS TEXT), r.value ->> 4,
    r.value ->> 5, CAST(substr(NEW.bodies, r.value ->> 6, r.value ->> 7) AS TEXT)
FROM jsonb_each(NEW.changed) r CROSS JOIN {accepted}
WHERE true
ON CONFLICT (pk, kind, id) DO UPDATE SET ord = excluded.ord, keep = excluded.keep, body = excluded.body;

INSERT INTO observations (pk, seq, types, body)
SELECT p.pk, r.value ->> 1, r.value ->> 2, CAST(substr(NEW.entries, r.value ->> 3, r.value ->> 4) AS TEXT)
FROM jsonb_each(NEW.log) r CROSS JOIN {accepted};
"
    )
}

/// The accepted threads of a batch. The plus keeps `prepared` the outer loop: never a scan of all threads.
const ACCEPTED: &str = "threads.pk = +p.pk AND p.verdict = 0";

/// Makes the threads that a judged batch creates, as they were before their commits.
const CREATED: &str = "
INSERT INTO threads (pk, tenant, thread_id, core, version, epoch, last_commit, status, floor, last_seq, min_seq,
    created_at, updated_at, created_by, title, sheet, head)
SELECT pk, tenant, thread_id, core, 0, 0, token, status, 0, 0, 1, created_at, now, created_by, '', '{}', ''
FROM prepared WHERE verdict = 0 AND thread_id IS NOT NULL;
";

/// Writes idempotency keys, audit lines and deliveries of what is accepted of a batch.
const WRITTEN_BESIDE: &str = "
INSERT INTO idempotency (pk, tenant, scope, key, fingerprint, status, location, created_at, body)
SELECT p.pk, k.value ->> 1, k.value ->> 2, k.value ->> 3, k.value ->> 4, k.value ->> 5, k.value ->> 6, k.value ->> 7,
    CAST(substr(NEW.answers, k.value ->> 8, k.value ->> 9) AS TEXT)
FROM jsonb_each(NEW.keys) k CROSS JOIN prepared p ON p.pk = k.value ->> 0 AND p.verdict = 0;

INSERT INTO audit (pk, tenant, at, thread_id, actor, action, detail)
SELECT a.value ->> 1, a.value ->> 2, a.value ->> 3, CAST(substr(NEW.details, a.value ->> 4, a.value ->> 5) AS TEXT),
    CAST(substr(NEW.details, a.value ->> 6, a.value ->> 7) AS TEXT), a.value ->> 8,
    CAST(substr(NEW.details, a.value ->> 9, a.value ->> 10) AS TEXT)
FROM jsonb_each(NEW.audit) a CROSS JOIN prepared p ON p.pk = a.value ->> 0 AND p.verdict = 0;

INSERT INTO deliveries (pk, tenant, id, target_kind, target, lane, event, status, due_at, attempts, created_at, body)
SELECT p.pk, p.tenant, d.value ->> 1, d.value ->> 2, CAST(substr(NEW.messages, d.value ->> 3, d.value ->> 4) AS TEXT),
    d.value ->> 5, d.value ->> 6, 'pending', p.now, 0, p.now,
    CAST(substr(NEW.messages, d.value ->> 7, d.value ->> 8) AS TEXT)
FROM jsonb_each(NEW.deliveries) d CROSS JOIN prepared p ON p.pk = d.value ->> 0 AND p.verdict = 0;
";

/// On the writing connection; lives in memory.
pub(super) fn prepared() -> String {
    let judged = judged();
    let settled = moved("p", "FROM prepared p", ACCEPTED, ACCEPTED)
        + &written("prepared p ON p.pk = r.value ->> 0 AND p.verdict = 0");
    let follows = format!("threads.pk = NEW.pk AND {}", fits("threads", "NEW"));
    let alone = moved("NEW", "", &follows, "threads.pk = NEW.pk AND threads.last_commit = NEW.token")
        + &written("threads p ON p.pk = NEW.pk AND p.last_commit = NEW.token");
    format!(
        "
CREATE TEMP TABLE prepared (
    pk INTEGER PRIMARY KEY, verdict INTEGER, token TEXT, tenant INTEGER, now INTEGER, status TEXT, wake_at INTEGER,
    floor INTEGER, records INTEGER, is_activity INTEGER, change INTEGER, lease TEXT, replica TEXT,
    thread_id TEXT, core TEXT, created_at INTEGER, created_by TEXT, head TEXT, sheet TEXT, title TEXT
);

CREATE TEMP VIEW batch (threads, texts, changed, bodies, log, entries, keys, answers, audit, details, deliveries, messages)
AS SELECT 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0;

CREATE TEMP TRIGGER batch_written INSTEAD OF INSERT ON batch BEGIN
{judged}{CREATED}{settled}{WRITTEN_BESIDE}
END;

CREATE TEMP VIEW alone (pk, token, version, epoch, old_lease, last_seq, now, status, wake_at, floor,
    records, is_activity, change, lease, replica, head, sheet, title, changed, bodies, log, entries)
AS SELECT 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0;

CREATE TEMP TRIGGER alone_written INSTEAD OF INSERT ON alone BEGIN
{alone}
END;
"
    )
}

/// Fast path: a batch of one commit that changes an existing thread and writes only rows and log entries, sent for the
/// first time. Its token is new, so the commit was accepted if the thread's row has the token afterwards.
pub(super) const SINGLE_COMMIT_SQL: &str = "
INSERT INTO alone VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
    $20, $21, $22);
SELECT $1, 1 WHERE NOT EXISTS (SELECT 1 FROM threads WHERE pk = $1 AND last_commit = $2);
";

/// Every other batch: any commits, of any tables. Returns the pks of the commits that are not `DONE`, as does the other.
///
/// Arguments: $1 commits, $2 heads, profiles and titles, $3 rows, $4 their bodies, $5 entries of the log, $6 their bodies,
/// $7 idempotency keys, $8 their answers, $9 audit lines, $10 their details, $11 deliveries, $12 their bodies.
pub(super) const BATCH_SQL: &str = "
INSERT INTO batch VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);
SELECT pk, verdict FROM prepared WHERE verdict <> 0;
";
