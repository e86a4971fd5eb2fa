//! The parts of a batch for rows that threads share: schedules and spending. `batch_sql.rs` puts them into its statement.

use super::batch_sql::{CAPPED, IS_NEW, NOT_DUE, Parameters};

/// The additional parts of a batch in which a commit changes rows that threads share: schedules, spending.
#[derive(Default)]
pub(super) struct Shared {
    /// Locks those rows, and moves the schedules, for commits that are otherwise acceptable.
    pub(super) parts: String,
    /// A commit that fires is accepted only if its schedule was moved, one that spends only if it fits under the caps.
    pub(super) only_allowed: &'static str,
    /// The changes of spending, written last.
    pub(super) changes: String,
    pub(super) verdicts: String,
}

/// Both kinds of rows are changed only for a commit whose thread is locked, or is new: nothing else can prevent it from
/// being stored. They are locked after the threads, each kind in key order, and compared with their newest version. Locked
/// spend rows are waited for; a locked schedule is skipped. Of several commits that spend from one row, each is judged as if
/// all before it in the batch were stored.
pub(super) fn shared(parameters: &mut Parameters, when_locked: &str) -> Shared {
    let f = parameters
        .table("pk bigint, tenant bigint, id text, version bigint, due bigint, next_due bigint, look_at bigint");
    let s = parameters.table("pk bigint, tenant bigint, key text, period text, used bigint, held bigint, cap bigint");
    let parts = format!(
        "f AS (
    SELECT {f}
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
        SELECT {s}
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
        changes: SPENT.to_owned(),
        verdicts: format!(
            " UNION ALL SELECT pk, {NOT_DUE} FROM f WHERE pk NOT IN (SELECT pk FROM due)
    UNION ALL SELECT pk, {CAPPED} FROM capped"
        ),
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

/// The same, with notices of caps.
pub(super) fn shared_with_notices(parameters: &mut Parameters, when_locked: &str) -> Shared {
    let shared = shared(parameters, when_locked);
    Shared { changes: spent_with_notices(parameters), ..shared }
}

/// Of the commits in the batch that reach the same percentage of a cap together, one sends the notice, unless one was sent
/// before. The row is locked, so no other transaction sends it. Bodies get the amounts of the row.
fn spent_with_notices(parameters: &mut Parameters) -> String {
    let t = parameters.ordered_table(
        "pk bigint, at bigint, tenant bigint, key text, period text, unit bigint, percent bigint, reached bigint, \
        cap bigint, id text, kind text, target text, lane text, event text, body text",
    );
    let [used, held] = ["text"; 2].map(|kind| parameters.value(kind));
    format!(
        ", c AS (
    SELECT s.tenant, s.key, s.period, sum(s.used)::bigint AS used, sum(s.held)::bigint AS held
    FROM s JOIN ok ON ok.pk = s.pk
    GROUP BY s.tenant, s.key, s.period
), t AS (
    SELECT * FROM (
        SELECT t.*, c.used + b.used AS used, c.held + b.held AS held,
            min(t.pk) OVER (PARTITION BY t.tenant, t.key, t.period, t.percent, t.cap) AS first_pk
        FROM (
            SELECT {t}
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
        replace(replace(t.body, {used}, trim_scale(t.used::numeric / t.unit)::text),
            {held}, trim_scale(t.held::numeric / t.unit)::text)
    FROM t ORDER BY t.percent, t.place
)"
    )
}
