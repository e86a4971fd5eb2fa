//! A batch as one statement, which is one transaction.
//!
//! Every column is sent as one array (those of a single commit as plain values), and `unnest` turns the arrays into tables.
//! They are unnested side by side in a select list, where each row is produced on demand; `unnest` of many arrays in FROM
//! would keep a copy of each. All parts of a statement see the same snapshot. So the parts after the fence join `ok`, the
//! threads whose commits are accepted, and never read `threads` again.

use std::sync::LazyLock;

use crate::store::committer::Sending;

/// The first arguments: the columns of every thread. A single commit omits the last three, because it keeps its lease.
const COLUMNS: [(&str, &str); 18] = [
    ("pk", "bigint"),
    ("version", "bigint"),
    ("epoch", "bigint"),
    ("old_lease", "uuid"),
    ("last_seq", "bigint"),
    ("token", "uuid"),
    ("now", "bigint"),
    ("status", "text"),
    ("wake_at", "bigint"),
    ("floor", "bigint"),
    ("records", "integer"),
    ("is_activity", "boolean"),
    ("head", "text"),
    ("sheet", "text"),
    ("title", "text"),
    ("change", "smallint"),
    ("lease", "uuid"),
    ("replica", "uuid"),
];

/// Many threads' columns as a table.
fn threads() -> String {
    let column = |(at, (name, kind)): (usize, &(&str, &str))| format!("unnest(${}::{kind}[]) AS {name}", at + 1);
    let columns: Vec<String> = COLUMNS.iter().enumerate().map(column).collect();
    format!("SELECT {}", columns.join(", "))
}

/// A column of the table `u`.
fn of_many(name: &str) -> String {
    format!("u.{name}")
}

/// A column of a single commit.
fn of_one(name: &str) -> String {
    let at = COLUMNS.iter().position(|(known, _)| *known == name).expect("a column's name");
    format!("${}::{}", at + 1, COLUMNS[at].1)
}

/// The fence: whether a commit is based on the current state of the thread `t`.
fn follows(of: fn(&str) -> String) -> String {
    let [version, epoch, old_lease, last_seq] = ["version", "epoch", "old_lease", "last_seq"].map(of);
    format!(
        "t.version = {version} AND t.epoch = {epoch} AND t.lease IS NOT DISTINCT FROM {old_lease} AND t.last_seq = {last_seq}"
    )
}

/// The assignments that every commit makes to its thread.
fn set(of: fn(&str) -> String) -> String {
    let [token, is_activity, status, now] = ["token", "is_activity", "status", "now"].map(of);
    let [wake_at, floor, records] = ["wake_at", "floor", "records"].map(of);
    let [title, sheet, head] = ["title", "sheet", "head"].map(of);
    format!(
        "
        version = t.version + 1,
        commits = {token} || t.commits[1:7],
        updated_at = CASE WHEN {is_activity} OR t.status <> {status} THEN {now} ELSE t.updated_at END,
        status = {status},
        wake_at = {wake_at},
        floor = {floor},
        last_seq = t.last_seq + {records},
        title = coalesce({title}, t.title),
        sheet = coalesce({sheet}, t.sheet),
        head = coalesce({head}, t.head)"
    )
}

/// Locks the threads in key order, and compares the fence with the newest version of each row. A row that another
/// transaction has locked is being written: its commit is skipped, so that it does not delay the others, and is stale. Only
/// a resent batch, whose first transaction may still be committing, waits for locks.
fn held(when_locked: &str) -> String {
    let follows = follows(of_many);
    format!(
        "
    SELECT u.* FROM u JOIN threads t ON t.pk = u.pk
    WHERE {follows}
        AND (u.change <> 1 OR t.replica IS NULL OR t.replica = u.replica OR NOT EXISTS (
            SELECT FROM replicas r WHERE r.id = t.replica))
    ORDER BY t.pk
    FOR UPDATE OF t {when_locked}"
    )
}

fn moved(shared: &Shared) -> String {
    let (set, only_allowed) = (set(of_many), shared.only_allowed);
    format!(
        "
    UPDATE threads t SET {set},
        epoch = t.epoch + (u.change = 1)::integer,
        lease = CASE u.change WHEN 0 THEN t.lease ELSE u.lease END,
        replica = CASE u.change WHEN 0 THEN t.replica ELSE u.replica END
    FROM held u
    WHERE t.pk = u.pk AND u.pk NOT IN (SELECT pk FROM known){only_allowed}
    RETURNING t.pk, t.tenant"
    )
}

/// The condition to create a thread: neither its key nor its id is taken.
const IS_NEW: &str = "thread_id IS NOT NULL AND version = 0 AND epoch = 0 AND old_lease IS NULL AND last_seq = 0
        AND pk NOT IN (SELECT pk FROM known) AND pk NOT IN (SELECT pk FROM taken)";

/// The additional parts of a batch in which a commit changes rows that threads share: schedules, spending.
#[derive(Default)]
struct Shared {
    /// Locks those rows, and moves the schedules, for commits that are otherwise acceptable.
    parts: String,
    /// A commit that fires is accepted only if its schedule was moved, one that spends only if it fits under the caps.
    only_allowed: &'static str,
    /// The changes of spending, written last.
    changes: &'static str,
    verdicts: &'static str,
}

/// Both kinds of rows are changed only for a commit whose thread is locked, or is new: nothing else can prevent it from
/// being stored. They are locked after the threads, each kind in key order, and compared with their newest version. Locked
/// spend rows are waited for; a locked schedule is skipped. Of several commits that spend from one row, each is judged as if
/// all before it in the batch were stored.
fn shared(when_locked: &str) -> Shared {
    let parts = format!(
        "f AS (
    SELECT unnest($64::bigint[]) AS pk, unnest($65::bigint[]) AS tenant, unnest($66::text[]) AS id,
        unnest($67::bigint[]) AS version, unnest($68::bigint[]) AS due, unnest($69::bigint[]) AS next_due,
        unnest($70::bigint[]) AS look_at
), due AS (
    SELECT f.* FROM f
    JOIN schedule_state s ON s.tenant = f.tenant AND s.id = f.id AND s.version = f.version AND s.next_due = f.due
    JOIN documents d ON d.tenant = f.tenant AND d.kind = 'schedule' AND d.id = f.id AND d.version = f.version
        AND d.body IS NOT NULL
), acceptable AS (
    SELECT pk FROM held WHERE pk NOT IN (SELECT pk FROM known)
    UNION ALL SELECT pk FROM u WHERE {IS_NEW}
), s AS (
    SELECT s.* FROM (
        SELECT unnest($71::bigint[]) AS pk, unnest($72::bigint[]) AS tenant, unnest($73::text[]) AS key,
            unnest($74::text[]) AS period, unnest($75::bigint[]) AS used, unnest($76::bigint[]) AS held,
            unnest($77::bigint[]) AS cap
    ) s WHERE s.pk IN (SELECT pk FROM acceptable)
), before AS (
    SELECT r.tenant, r.key, r.period, r.used + r.held AS taken, r.used, r.held, r.told, r.told_of
    FROM spend r
    WHERE (r.tenant, r.key, r.period) IN (SELECT s.tenant, s.key, s.period FROM s)
    ORDER BY r.tenant, r.key, r.period
    FOR UPDATE OF r
), capped AS (
    SELECT pk FROM (
        SELECT s.pk, s.cap, b.taken + s.used + s.held + coalesce(sum(greatest(s.used + s.held, 0)) OVER (
            PARTITION BY s.tenant, s.key, s.period ORDER BY s.pk ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0) AS taken
        FROM s JOIN before b ON b.tenant = s.tenant AND b.key = s.key AND b.period = s.period
    ) judged WHERE taken > cap
), moving AS (
    SELECT due.* FROM due
    JOIN schedule_state s ON s.tenant = due.tenant AND s.id = due.id AND s.version = due.version
        AND s.next_due = due.due
    WHERE due.pk IN (SELECT pk FROM acceptable) AND due.pk NOT IN (SELECT pk FROM capped)
    ORDER BY s.tenant, s.id
    FOR UPDATE OF s {when_locked}
), fired AS (
    UPDATE schedule_state s SET next_due = m.next_due, look_at = m.look_at, last_due = m.due, said = NULL
    FROM moving m WHERE s.tenant = m.tenant AND s.id = m.id
    RETURNING m.pk
), "
    );
    Shared {
        parts,
        only_allowed: " AND (u.pk NOT IN (SELECT pk FROM f) OR u.pk IN (SELECT pk FROM fired))
        AND u.pk NOT IN (SELECT pk FROM capped)",
        changes: SPENT,
        verdicts: " UNION ALL SELECT pk, 3 FROM f WHERE pk NOT IN (SELECT pk FROM due)
    UNION ALL SELECT pk, 2 FROM capped",
    }
}

/// The changes of the accepted commits to the spend rows.
const SPENT: &str = ", p AS (
    UPDATE spend r SET used = r.used + c.used, held = r.held + c.held
    FROM (
        SELECT s.tenant, s.key, s.period, sum(s.used)::bigint AS used, sum(s.held)::bigint AS held
        FROM s JOIN ok ON ok.pk = s.pk
        GROUP BY s.tenant, s.key, s.period
    ) c
    WHERE r.tenant = c.tenant AND r.key = c.key AND r.period = c.period
)";

/// The same, with notices. Of the commits in the batch that reach the same percentage of a cap together, one sends the
/// notice, unless one was sent before. The row is locked, so no other transaction sends it. Bodies get the amounts of the
/// row.
const SPENT_AND_TOLD: &str = ", c AS (
    SELECT s.tenant, s.key, s.period, sum(s.used)::bigint AS used, sum(s.held)::bigint AS held
    FROM s JOIN ok ON ok.pk = s.pk
    GROUP BY s.tenant, s.key, s.period
), t AS (
    SELECT * FROM (
        SELECT t.*, c.used + b.used AS used, c.held + b.held AS held,
            min(t.pk) OVER (PARTITION BY t.tenant, t.key, t.period, t.percent, t.cap) AS first_pk
        FROM (
            SELECT unnest($78::bigint[]) AS pk, unnest($79::bigint[]) AS at, unnest($80::bigint[]) AS tenant,
                unnest($81::text[]) AS key, unnest($82::text[]) AS period, unnest($83::bigint[]) AS unit,
                unnest($84::bigint[]) AS percent, unnest($85::bigint[]) AS reached, unnest($86::text[]) AS id,
                unnest($87::text[]) AS kind, unnest($88::text[]) AS target, unnest($89::text[]) AS lane,
                unnest($90::text[]) AS event, unnest($91::text[]) AS body,
                unnest($94::bigint[]) AS cap, generate_subscripts($91::text[], 1) AS place
        ) t
        JOIN ok ON ok.pk = t.pk
        JOIN c ON c.tenant = t.tenant AND c.key = t.key AND c.period = t.period
        JOIN before b ON b.tenant = t.tenant AND b.key = t.key AND b.period = t.period
        WHERE (b.told < t.percent OR b.told_of NOT IN (0, t.cap)) AND c.used + b.used >= t.reached
    ) told WHERE pk = first_pk
), p AS (
    UPDATE spend r SET used = r.used + c.used, held = r.held + c.held, told = coalesce(x.percent, r.told),
        told_of = coalesce(x.cap, r.told_of)
    FROM c LEFT JOIN (
        SELECT DISTINCT ON (tenant, key, period) tenant, key, period, percent, cap FROM t
        ORDER BY tenant, key, period, percent DESC, cap
    ) x ON x.tenant = c.tenant AND x.key = c.key AND x.period = c.period
    WHERE r.tenant = c.tenant AND r.key = c.key AND r.period = c.period
), e AS (
    INSERT INTO deliveries (pk, tenant, due_at, created_at, attempts, id, target_kind, target, lane, event, status, body)
    SELECT 0, t.tenant, t.at, t.at, 0, t.id, t.kind, t.target, t.lane, t.event, 'pending',
        replace(replace(t.body, $92::text, trim_scale(t.used::numeric / t.unit)::text),
            $93::text, trim_scale(t.held::numeric / t.unit)::text)
    FROM t ORDER BY t.percent, t.place
)";

/// The rows and observations of the threads in `ok`. Existing rows are updated, the others inserted: an upsert would write a
/// lock record for each of the former and a confirmation for each of the latter. No other transaction writes rows of a
/// locked thread.
/// `NOT IN` is always planned as a hash; `NOT EXISTS` would be joined row by row.
const WRITTEN: &str = "
v AS (
    SELECT ok.pk, ok.tenant, v.ord, v.kind, v.keep, v.id, v.body
    FROM (
        SELECT unnest($19::bigint[]) AS pk, unnest($20::bigint[]) AS ord, unnest($21::smallint[]) AS kind,
            unnest($22::smallint[]) AS keep, unnest($23::text[]) AS id, unnest($24::text[]) AS body
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
        SELECT unnest($25::bigint[]) AS pk, unnest($26::bigint[]) AS seq, unnest($27::uuid[]) AS token,
            unnest($28::text[]) AS types, unnest($29::text[]) AS body
    ) v JOIN ok ON ok.pk = v.pk
)";

/// Fast path: one commit that keeps the lease, and writes only rows and log entries, as nearly every commit of a server with
/// little load. It is a statement of its own because each part of a statement costs time even if it has nothing to do. Here
/// an upsert's longer log costs less than one more part.
fn single_commit(when_locked: &str) -> String {
    let (set, follows, pk, token) = (set(of_one), follows(of_one), of_one("pk"), of_one("token"));
    format!(
        "WITH ok AS (
    UPDATE threads t SET {set}
    WHERE t.pk = (SELECT h.pk FROM threads h WHERE h.pk = {pk} FOR UPDATE {when_locked}) AND {follows}
    RETURNING t.pk, t.tenant
), r AS (
    INSERT INTO thread_rows (pk, tenant, ord, kind, keep, id, body)
    SELECT ok.pk, ok.tenant, unnest($16::bigint[]), unnest($17::smallint[]), unnest($18::smallint[]),
        unnest($19::text[]), unnest($20::text[])
    FROM ok
    ON CONFLICT (pk, kind, id) DO UPDATE SET ord = excluded.ord, keep = excluded.keep, body = excluded.body
), o AS (
    INSERT INTO observations (pk, seq, token, types, body)
    SELECT ok.pk, $21::bigint, {token}, $22::text, $23::text FROM ok WHERE $21::bigint IS NOT NULL
)
SELECT pk, 1 FROM ok"
    )
}

/// Returns the verdicts as `(pk, verdict)`; a thread may have two.
fn batch(when_locked: &str) -> String {
    batch_with(when_locked, &Shared::default())
}

/// The same with rows that threads share. The additional parts cost time even if they have nothing to do.
fn sharing_batch(when_locked: &str) -> String {
    batch_with(when_locked, &shared(when_locked))
}

/// The same with commits that may send notices of a cap.
fn telling_batch(when_locked: &str) -> String {
    batch_with(when_locked, &Shared { changes: SPENT_AND_TOLD, ..shared(when_locked) })
}

fn batch_with(when_locked: &str, shared: &Shared) -> String {
    let (u, held, moved) = (threads(), held(when_locked), moved(shared));
    let Shared { parts, only_allowed, changes, verdicts } = shared;
    format!(
        "WITH u AS ({u},
        unnest($30::bigint[]) AS tenant, unnest($31::text[]) AS thread_id, unnest($32::text[]) AS core,
        unnest($33::bigint[]) AS created_at, unnest($58::text[]) AS created_by), held AS ({held}
), k AS (
    SELECT unnest($34::bigint[]) AS pk, unnest($35::bigint[]) AS tenant, unnest($36::text[]) AS scope,
        unnest($37::text[]) AS key, unnest($38::text[]) AS fingerprint, unnest($39::integer[]) AS status,
        unnest($40::text[]) AS location, unnest($41::bigint[]) AS created_at, unnest($42::text[]) AS body
), known AS (
    SELECT k.pk FROM k JOIN idempotency i ON i.tenant = k.tenant AND i.scope = k.scope AND i.key = k.key
), taken AS (
    SELECT u.pk FROM u WHERE u.thread_id IS NOT NULL AND (
        EXISTS (SELECT FROM threads t WHERE t.pk = u.pk)
        OR EXISTS (SELECT FROM threads t WHERE t.tenant = u.tenant AND t.thread_id = u.thread_id))
), {parts}moved AS ({moved}
), made AS (
    INSERT INTO threads (pk, tenant, version, epoch, lease, replica, wake_at, floor, last_seq, min_seq, created_at,
        updated_at, created_by, status, core, thread_id, commits, title, sheet, head)
    SELECT pk, tenant, 1, (change = 1)::integer, lease, replica, wake_at, floor, records, 1, created_at,
        now, created_by, status, core, thread_id, ARRAY[token], coalesce(title, ''), coalesce(sheet, '{{}}'),
        coalesce(head, '')
    FROM u
    WHERE {IS_NEW}{only_allowed}
    RETURNING pk, tenant
), ok AS (
    SELECT * FROM moved UNION ALL SELECT * FROM made
), {WRITTEN}, i AS (
    INSERT INTO idempotency (pk, tenant, scope, key, fingerprint, status, location, created_at, body)
    SELECT k.* FROM k JOIN ok ON ok.pk = k.pk
), a AS (
    INSERT INTO audit (pk, tenant, thread_id, at, actor, action, detail)
    SELECT v.pk, v.tenant, v.thread_id, v.at, v.actor, v.action, v.detail
    FROM (
        SELECT unnest($43::bigint[]) AS pk, unnest($44::bigint[]) AS tenant, unnest($45::bigint[]) AS at,
            unnest($46::text[]) AS actor, unnest($47::text[]) AS action, unnest($48::text[]) AS detail,
            unnest($57::text[]) AS thread_id, generate_subscripts($48::text[], 1) AS place
    ) v JOIN ok ON ok.pk = v.pk ORDER BY v.place
), d AS (
    INSERT INTO deliveries (pk, tenant, due_at, created_at, attempts, id, target_kind, target, lane, event, status, body)
    SELECT ok.pk, ok.tenant, v.at, v.at, 0, v.id, v.kind, v.target, v.lane, v.event, 'pending', v.body
    FROM (
        SELECT unnest($49::bigint[]) AS pk, unnest($50::bigint[]) AS at, unnest($51::text[]) AS id,
            unnest($52::text[]) AS kind, unnest($53::text[]) AS target, unnest($54::text[]) AS lane,
            unnest($55::text[]) AS event, unnest($56::text[]) AS body, generate_subscripts($56::text[], 1) AS place
    ) v JOIN ok ON ok.pk = v.pk
    ORDER BY v.place
), l AS (
    INSERT INTO lookup_keys (pk, tenant, created_at, listening_until, kind, digest, run_id)
    SELECT ok.pk, ok.tenant, v.at, 0, v.kind, v.digest, v.run
    FROM (
        SELECT unnest($59::bigint[]) AS pk, unnest($60::bigint[]) AS at, unnest($61::text[]) AS kind,
            unnest($62::text[]) AS digest, unnest($63::text[]) AS run
    ) v JOIN ok ON ok.pk = v.pk
    ON CONFLICT DO NOTHING
){changes}
SELECT pk, 1 FROM ok UNION ALL SELECT pk, 4 FROM taken UNION ALL SELECT pk, 5 FROM known{verdicts}"
    )
}

/// Which of these commits are stored. A thread's row has the tokens of its last eight commits; the token of a commit with
/// observations is kept with them.
pub(super) const LANDED: &str = "
SELECT u.pk FROM unnest($1::bigint[], $2::uuid[], $3::bigint[]) u (pk, token, seq)
WHERE EXISTS (SELECT FROM threads t WHERE t.pk = u.pk AND u.token = ANY (t.commits))
    OR EXISTS (SELECT FROM observations o WHERE o.pk = u.pk AND o.seq = u.seq AND o.token = u.token)";

/// The statement of a batch, with the two ways to lock its threads: a batch that is sent for the first time skips locked
/// rows, one that is sent again waits for them.
pub(super) struct SqlBySending {
    first: String,
    again: String,
}

impl SqlBySending {
    fn of(statement: fn(&str) -> String) -> Self {
        Self { first: statement("SKIP LOCKED"), again: statement("") }
    }

    pub fn of_sending(&self, sending: Sending) -> &str {
        match sending {
            Sending::First => &self.first,
            Sending::Again => &self.again,
        }
    }
}

/// A batch of one commit that changes an existing thread and writes only rows and log entries.
pub(super) static SINGLE_COMMIT_SQL: LazyLock<SqlBySending> = LazyLock::new(|| SqlBySending::of(single_commit));
/// Every other batch: any commits, of any tables.
pub(super) static BATCH_SQL: LazyLock<SqlBySending> = LazyLock::new(|| SqlBySending::of(batch));
/// A batch with a commit that fires a schedule, or spends under a cap.
pub(super) static SHARING_BATCH_SQL: LazyLock<SqlBySending> = LazyLock::new(|| SqlBySending::of(sharing_batch));
/// A batch with a commit that may send a notice of a cap.
pub(super) static TELLING_BATCH_SQL: LazyLock<SqlBySending> = LazyLock::new(|| SqlBySending::of(telling_batch));
