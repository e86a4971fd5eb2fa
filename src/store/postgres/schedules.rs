//! When schedules are due.

use async_trait::async_trait;

use super::Postgres;
use super::nul::escaped;
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::store::{PlannedSchedule, Result, ScheduleMove, ScheduleReads, ScheduleState, ScheduleStore};

const PLAN: &str = "
INSERT INTO schedule_state AS s (tenant, id, version, timing, next_due, look_at, missed)
VALUES ($1, $2, $3, $4, $5, $6, 0)
ON CONFLICT (tenant, id) DO UPDATE SET
    version = excluded.version,
    timing = excluded.timing,
    next_due = CASE s.timing WHEN excluded.timing THEN s.next_due ELSE excluded.next_due END,
    look_at = CASE s.timing WHEN excluded.timing THEN s.look_at ELSE excluded.look_at END,
    said = CASE s.timing WHEN excluded.timing THEN s.said END
WHERE s.version < excluded.version";

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT tenant, id, version, next_due, look_at, last_due, missed, said FROM schedule_state WHERE ",
            $rest
        )
    };
}

const DUE: &str = select!("look_at <= $1 ORDER BY look_at, tenant, id LIMIT $2");

const ONE: &str = select!("tenant = $1 AND id = $2");

const NEXT: &str = "SELECT min(look_at) FROM schedule_state WHERE look_at IS NOT NULL";

/// A postponed time does not become `last_due`.
const MOVE: &str = "
UPDATE schedule_state SET next_due = $5, look_at = $6, missed = missed + $7, said = $8,
    last_due = CASE WHEN next_due IS NOT DISTINCT FROM $5 THEN last_due ELSE next_due END
WHERE tenant = $1 AND id = $2 AND version = $3 AND next_due = $4";

const FORGET: &str = "
DELETE FROM schedule_state WHERE tenant = $1 AND id = $2 AND NOT EXISTS (
    SELECT FROM documents WHERE tenant = $1 AND kind = 'schedule' AND id = $2 AND body IS NOT NULL)";

/// Stops every schedule until its document is written again.
pub(super) const HOLD: &str = "
INSERT INTO schedule_state (tenant, id, version, timing, missed, said)
SELECT tenant, id, version, '', 0, $1 FROM documents WHERE kind = 'schedule' AND body IS NOT NULL
ON CONFLICT (tenant, id) DO UPDATE SET
    version = excluded.version, timing = '', next_due = NULL, look_at = NULL, said = excluded.said";

#[async_trait]
impl ScheduleReads for Postgres {
    async fn due_schedules(&self, now: Millis, limit: u32) -> Result<Vec<ScheduleState>> {
        let query = sqlx::query(DUE).bind(now).bind(i64::from(limit));
        let found = self.pool.fetch_all(query).await?;
        Ok(ScheduleState::read_due(&found))
    }

    async fn next_schedule(&self) -> Result<Option<Millis>> {
        let query = sqlx::query_scalar(NEXT);
        self.pool.fetch_scalar(query).await
    }

    async fn schedule_state(&self, tenant: TenantPk, id: &str) -> Result<Option<ScheduleState>> {
        let query = sqlx::query(ONE).bind(tenant.0).bind(escaped(id));
        let found = self.pool.fetch_optional(query).await?;
        found.as_ref().map(ScheduleState::read).transpose()
    }
}

#[async_trait]
impl ScheduleStore for Postgres {
    async fn plan_schedule(&self, planned: PlannedSchedule) -> Result<()> {
        let PlannedSchedule { tenant, id, version, timing, next } = planned;
        let query = sqlx::query(PLAN).bind(tenant.0).bind(escaped(&id)).bind(version).bind(timing);
        let query = query.bind(next.map(|next| next.due)).bind(next.map(|next| next.look_at));
        self.pool.execute(query).await.map(drop)
    }

    async fn move_schedule(&self, moved: ScheduleMove) -> Result<bool> {
        let ScheduleMove { tenant, id, version, due, next, missed, said } = moved;
        let query = sqlx::query(MOVE).bind(tenant.0).bind(escaped(&id)).bind(version).bind(due);
        let query = query.bind(next.map(|next| next.due)).bind(next.map(|next| next.look_at));
        let query = query.bind(i64::try_from(missed).unwrap_or(i64::MAX)).bind(said.as_deref().map(escaped));
        Ok(self.pool.execute(query).await? == 1)
    }

    async fn forget_schedule(&self, tenant: TenantPk, id: &str) -> Result<()> {
        let query = sqlx::query(FORGET).bind(tenant.0).bind(escaped(id));
        self.pool.execute(query).await.map(drop)
    }
}
