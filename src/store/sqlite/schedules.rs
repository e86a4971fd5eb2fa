//! When schedules are due.

use async_trait::async_trait;
use rusqlite::{Transaction, params};

use super::Sqlite;
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::store::{Fire, PlannedSchedule, Result, ScheduleMove, ScheduleReads, ScheduleState, ScheduleStore};

const PLAN: &str = "
INSERT INTO schedule_state (tenant, id, version, timing, next_due, look_at, missed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0)
ON CONFLICT (tenant, id) DO UPDATE SET
    version = excluded.version,
    timing = excluded.timing,
    next_due = CASE timing WHEN excluded.timing THEN next_due ELSE excluded.next_due END,
    look_at = CASE timing WHEN excluded.timing THEN look_at ELSE excluded.look_at END,
    said = CASE timing WHEN excluded.timing THEN said END
WHERE version < excluded.version";

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT tenant, id, version, next_due, look_at, last_due, missed, said FROM schedule_state WHERE ",
            $rest
        )
    };
}

const DUE: &str = select!("look_at <= ? ORDER BY look_at, tenant, id LIMIT ?");

const ONE: &str = select!("tenant = ? AND id = ?");

const NEXT: &str = "SELECT min(look_at) FROM schedule_state WHERE look_at IS NOT NULL";

const IS_DUE: &str = "
SELECT 1 FROM schedule_state s JOIN documents d ON d.tenant = s.tenant AND d.kind = 'schedule' AND d.id = s.id
WHERE s.tenant = ?1 AND s.id = ?2 AND s.version = ?3 AND s.next_due = ?4 AND d.version = ?3 AND d.body IS NOT NULL";

const FIRE: &str = "
UPDATE schedule_state SET next_due = ?5, look_at = ?6, last_due = ?4, said = NULL
WHERE tenant = ?1 AND id = ?2 AND version = ?3 AND next_due = ?4";

/// A postponed time does not become `last_due`.
const MOVE: &str = "
UPDATE schedule_state SET next_due = ?5, look_at = ?6, missed = missed + ?7, said = ?8,
    last_due = CASE WHEN next_due IS ?5 THEN last_due ELSE next_due END
WHERE tenant = ?1 AND id = ?2 AND version = ?3 AND next_due = ?4";

const FORGET: &str = "
DELETE FROM schedule_state WHERE tenant = ?1 AND id = ?2 AND NOT EXISTS (
    SELECT 1 FROM documents WHERE tenant = ?1 AND kind = 'schedule' AND id = ?2 AND body IS NOT NULL)";

/// Stops every schedule until its document is written again.
pub(super) const HOLD: &str = "
INSERT INTO schedule_state (tenant, id, version, timing, missed, said)
SELECT tenant, id, version, '', 0, ?1 FROM documents WHERE kind = 'schedule' AND body IS NOT NULL
ON CONFLICT (tenant, id) DO UPDATE SET
    version = excluded.version, timing = '', next_due = NULL, look_at = NULL, said = excluded.said";

/// Whether the time is still the next one of the current version of the schedule.
pub(super) fn is_due(tx: &Transaction<'_>, fire: &Fire) -> rusqlite::Result<bool> {
    tx.prepare_cached(IS_DUE)?.exists(params![fire.tenant.0, fire.id, fire.version, fire.due])
}

/// Moves a schedule that is due to its next time.
pub(super) fn fire(tx: &Transaction<'_>, fire: &Fire) -> rusqlite::Result<()> {
    let next = fire.next.map(|next| (next.due, next.look_at)).unzip();
    let arguments = params![fire.tenant.0, fire.id, fire.version, fire.due, next.0, next.1];
    tx.prepare_cached(FIRE)?.execute(arguments).map(drop)
}

#[async_trait]
impl ScheduleReads for Sqlite {
    async fn due_schedules(&self, now: Millis, limit: u32) -> Result<Vec<ScheduleState>> {
        let found = sqlx::query(DUE).bind(now).bind(limit).fetch_all(&self.readers).await.map_err(self.unreadable())?;
        Ok(ScheduleState::read_due(&found))
    }

    async fn next_schedule(&self) -> Result<Option<Millis>> {
        sqlx::query_scalar(NEXT).fetch_one(&self.readers).await.map_err(self.unreadable())
    }

    async fn schedule_state(&self, tenant: TenantPk, id: &str) -> Result<Option<ScheduleState>> {
        let query = sqlx::query(ONE).bind(tenant.0).bind(id);
        let found = query.fetch_optional(&self.readers).await.map_err(self.unreadable())?;
        found.as_ref().map(ScheduleState::read).transpose()
    }
}

#[async_trait]
impl ScheduleStore for Sqlite {
    async fn plan_schedule(&self, planned: PlannedSchedule) -> Result<()> {
        let plan = move |tx: &Transaction<'_>| {
            let PlannedSchedule { tenant, id, version, timing, next } = &planned;
            let next = next.map(|next| (next.due, next.look_at)).unzip();
            tx.prepare_cached(PLAN)?.execute(params![tenant.0, id, version, timing, next.0, next.1])
        };
        self.writer.write(plan).await.map(drop)
    }

    async fn move_schedule(&self, moved: ScheduleMove) -> Result<bool> {
        let write = move |tx: &Transaction<'_>| {
            let ScheduleMove { tenant, id, version, due, next, missed, said } = &moved;
            let next = next.map(|next| (next.due, next.look_at)).unzip();
            let missed = i64::try_from(*missed).unwrap_or(i64::MAX);
            tx.prepare_cached(MOVE)?.execute(params![tenant.0, id, version, due, next.0, next.1, missed, said])
        };
        Ok(self.writer.write(write).await? == 1)
    }

    async fn forget_schedule(&self, tenant: TenantPk, id: &str) -> Result<()> {
        let id = id.to_owned();
        let forget = move |tx: &Transaction<'_>| tx.prepare_cached(FORGET)?.execute(params![tenant.0, id]);
        self.writer.write(forget).await.map(drop)
    }
}
