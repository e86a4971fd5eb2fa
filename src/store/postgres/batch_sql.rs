//! A batch as one statement, which is one transaction.
//!
//! Every column is sent as one array (those of a single commit as plain values), and `unnest` turns the arrays into tables.
//! They are unnested side by side in a select list, where each row is produced on demand; `unnest` of many arrays in FROM
//! would keep a copy of each. All parts of a statement see the same snapshot. So the parts after the fence join `ok`, the
//! threads whose commits are accepted, and never read `threads` again.
//!
//! The parts have short names: `u` commits, `k` idempotency keys, `v` rows of the accepted commits (`w` those updated, `r`
//! those inserted), `o` observations, `i` idempotency keys inserted, `a` audit, `d` deliveries, `l` lookup keys; and in
//! `batch_shared_sql.rs` `f` schedules that fire, `s` changes of spending (`c` their sums, `p` spend rows updated), `t`
//! notices of a cap, `e` the deliveries of these. Inside a part, a letter may stand for another table: `t` mostly for
//! `threads`.

use std::sync::LazyLock;

use super::batch_shared_sql::{Shared, shared, shared_with_notices};
use crate::store::committer::Sending;

/// The verdicts of the statement on a commit, the strongest last. A commit without a verdict is stale.
pub(super) const DONE: i32 = 1;
pub(super) const CAPPED: i32 = 2;
pub(super) const NOT_DUE: i32 = 3;
pub(super) const EXISTS: i32 = 4;
pub(super) const DUPLICATE: i32 = 5;

/// The columns of a commit's thread. A single commit sends them as plain values, then its rows and its log entry.
const THREAD: &str = "pk bigint, version bigint, epoch bigint, old_lease uuid, last_seq bigint, token uuid, now bigint, \
    status text, wake_at bigint, floor bigint, records integer, is_activity boolean, head text, sheet text, title text";

/// What only a batch sends of it: a single commit keeps its lease and creates no thread.
const LEASE_AND_NEW_THREAD: &str = "change smallint, lease uuid, replica uuid, tenant bigint, thread_id text, \
    core text, created_at bigint, created_by text";

const ROW: &str = "ord bigint, kind smallint, keep smallint, id text, body text";

/// Numbers the parameters of a statement. They are bound in the order in which the statement declares its tables and values,
/// those of a table in the order of its columns.
#[derive(Default)]
pub(super) struct Parameters {
    count: usize,
}

impl Parameters {
    /// A plain value.
    pub fn value(&mut self, kind: &str) -> String {
        self.count += 1;
        format!("${}::{kind}", self.count)
    }

    /// The select list of a table that is sent as one array per column. `columns` is `name type, name type, …`.
    pub fn table(&mut self, columns: &str) -> String {
        let column = |column: &str| {
            let (name, kind) = column.split_once(' ').expect("a name and a type");
            format!("unnest({}) AS {name}", self.value(&format!("{kind}[]")))
        };
        columns.split(", ").map(column).collect::<Vec<_>>().join(", ")
    }

    /// The same, with the `place` of each row.
    pub fn ordered_table(&mut self, columns: &str) -> String {
        let table = self.table(columns);
        format!("{table}, generate_subscripts(${}, 1) AS place", self.count)
    }
}

/// A column of the table `u`.
fn of_many(name: &str) -> String {
    format!("u.{name}")
}

/// A column of a single commit.
fn of_one(name: &str) -> String {
    let columns = THREAD.split(", ").filter_map(|column| column.split_once(' '));
    let (at, (_, kind)) = (1..).zip(columns).find(|(_, (known, _))| *known == name).expect("a column's name");
    format!("${at}::{kind}")
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
pub(super) const IS_NEW: &str =
    "thread_id IS NOT NULL AND version = 0 AND epoch = 0 AND old_lease IS NULL AND last_seq = 0
        AND pk NOT IN (SELECT pk FROM known) AND pk NOT IN (SELECT pk FROM taken)";

/// The rows and observations of the threads in `ok`. Existing rows are updated, the others inserted: an upsert would write a
/// lock record for each of the former and a confirmation for each of the latter. No other transaction writes rows of a
/// locked thread.
/// `NOT IN` is always planned as a hash; `NOT EXISTS` would be joined row by row.
fn written(rows: &str, entries: &str) -> String {
    format!(
        "
v AS (
    SELECT ok.pk, ok.tenant, v.ord, v.kind, v.keep, v.id, v.body
    FROM (
        SELECT {rows}
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
    INSERT INTO observations (pk, seq, token, types, body, compressed)
    SELECT v.pk, v.seq, v.token, v.types, v.body, v.compressed
    FROM (
        SELECT {entries}
    ) v JOIN ok ON ok.pk = v.pk
)"
    )
}

/// Fast path: one commit that keeps the lease, and writes only rows and log entries, as nearly every commit of a server with
/// little load. It is a statement of its own because each part of a statement costs time even if it has nothing to do. Here
/// an upsert's longer log costs less than one more part.
fn single_commit(when_locked: &str) -> String {
    let (set, follows, pk, token) = (set(of_one), follows(of_one), of_one("pk"), of_one("token"));
    let mut parameters = Parameters { count: THREAD.split(", ").count() };
    let rows = parameters.table(ROW);
    let [seq, types, body, compressed] = ["bigint", "text", "text", "bytea"].map(|kind| parameters.value(kind));
    format!(
        "WITH ok AS (
    UPDATE threads t SET {set}
    WHERE t.pk = (SELECT h.pk FROM threads h WHERE h.pk = {pk} FOR UPDATE {when_locked}) AND {follows}
    RETURNING t.pk, t.tenant
), r AS (
    INSERT INTO thread_rows (pk, tenant, ord, kind, keep, id, body)
    SELECT ok.pk, ok.tenant, {rows} FROM ok
    ON CONFLICT (pk, kind, id) DO UPDATE SET ord = excluded.ord, keep = excluded.keep, body = excluded.body
), o AS (
    INSERT INTO observations (pk, seq, token, types, body, compressed)
    SELECT ok.pk, {seq}, {token}, {types}, {body}, {compressed} FROM ok WHERE {seq} IS NOT NULL
)
SELECT pk, {DONE} FROM ok"
    )
}

/// Returns the verdicts as `(pk, verdict)`; a thread may have two.
fn batch(when_locked: &str) -> String {
    batch_with(when_locked, |_, _| Shared::default())
}

/// The same with rows that threads share. The additional parts cost time even if they have nothing to do.
fn sharing_batch(when_locked: &str) -> String {
    batch_with(when_locked, shared)
}

/// The same with commits that may send notices of a cap.
fn notifying_batch(when_locked: &str) -> String {
    batch_with(when_locked, shared_with_notices)
}

fn batch_with(when_locked: &str, shared: fn(&mut Parameters, &str) -> Shared) -> String {
    let mut parameters = Parameters::default();
    let u = parameters.table(&format!("{THREAD}, {LEASE_AND_NEW_THREAD}"));
    let v = parameters.table(&format!("pk bigint, {ROW}"));
    let o = parameters.table("pk bigint, seq bigint, token uuid, types text, body text, compressed bytea");
    let k = parameters.table(
        "pk bigint, tenant bigint, scope text, key text, fingerprint text, status integer, location text, \
        created_at bigint, body text",
    );
    let a = parameters
        .ordered_table("pk bigint, tenant bigint, thread_id text, at bigint, actor text, action text, detail text");
    let d = parameters
        .ordered_table("pk bigint, at bigint, id text, kind text, target text, lane text, event text, body text");
    let l = parameters.table("pk bigint, at bigint, kind text, digest text, run text");
    let shared = shared(&mut parameters, when_locked);
    let (held, moved, written) = (held(when_locked), moved(&shared), written(&v, &o));
    let Shared { parts, only_allowed, changes, verdicts } = shared;
    format!(
        "WITH u AS (
    SELECT {u}
), held AS ({held}
), k AS (
    SELECT {k}
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
), {written}, i AS (
    INSERT INTO idempotency (pk, tenant, scope, key, fingerprint, status, location, created_at, body)
    SELECT k.* FROM k JOIN ok ON ok.pk = k.pk
), a AS (
    INSERT INTO audit (pk, tenant, thread_id, at, actor, action, detail)
    SELECT v.pk, v.tenant, v.thread_id, v.at, v.actor, v.action, v.detail
    FROM (
        SELECT {a}
    ) v JOIN ok ON ok.pk = v.pk ORDER BY v.place
), d AS (
    INSERT INTO deliveries (pk, tenant, due_at, created_at, attempts, id, target_kind, target, lane, event, status, body)
    SELECT ok.pk, ok.tenant, v.at, v.at, 0, v.id, v.kind, v.target, v.lane, v.event, 'pending', v.body
    FROM (
        SELECT {d}
    ) v JOIN ok ON ok.pk = v.pk
    ORDER BY v.place
), l AS (
    INSERT INTO lookup_keys (pk, tenant, created_at, listening_until, kind, digest, run_id)
    SELECT ok.pk, ok.tenant, v.at, 0, v.kind, v.digest, v.run
    FROM (
        SELECT {l}
    ) v JOIN ok ON ok.pk = v.pk
    ON CONFLICT DO NOTHING
){changes}
SELECT pk, {DONE} FROM ok UNION ALL SELECT pk, {EXISTS} FROM taken UNION ALL SELECT pk, {DUPLICATE} FROM known{verdicts}"
    )
}

/// Which of these commits are stored. A thread's row has the tokens of its last eight commits; the token of a commit with
/// observations is kept with them. PostgreSQL shows a commit that a synchronous standby does not have, once the connection
/// that waited for the standby has ended. A lock of a row is a write, which waits for the standby as the commit did.
pub(super) const LANDED: &str = "
WITH landed AS (
    SELECT u.pk FROM unnest($1::bigint[], $2::uuid[], $3::bigint[]) u (pk, token, seq)
    WHERE EXISTS (SELECT FROM threads t WHERE t.pk = u.pk AND u.token = ANY (t.commits))
        OR EXISTS (SELECT FROM observations o WHERE o.pk = u.pk AND o.seq = u.seq AND o.token = u.token)),
locked AS (
    SELECT t.pk FROM threads t JOIN landed USING (pk) ORDER BY t.pk FOR NO KEY UPDATE OF t)
SELECT landed.pk FROM landed LEFT JOIN locked USING (pk)";

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
pub(super) static NOTIFYING_BATCH_SQL: LazyLock<SqlBySending> = LazyLock::new(|| SqlBySending::of(notifying_batch));
