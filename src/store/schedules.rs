//! When schedules are due. The commit that accepts the run of a due time moves the schedule to its next time ([`Fire`]). So
//! each time brings one run, whichever process fires it and whichever crashes. In the table `schedule_state`, `said` holds
//! why the last time had no run.

use async_trait::async_trait;

use super::columns::Columns;
use super::{Error, Result};
use crate::domain::Millis;
use crate::domain::ids::TenantPk;

/// A due time, and when it is to be handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    pub due: Millis,
    pub look_at: Millis,
}

/// Part of a commit that accepts the run of a schedule. The commit is stored only if this time is still the schedule's next
/// one, and its document still has this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fire {
    pub tenant: TenantPk,
    pub id: String,
    /// Of the document.
    pub version: i64,
    pub due: Millis,
    /// `None`: this was the last one.
    pub next: Option<Due>,
}

/// The plan of one version of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedSchedule {
    pub tenant: TenantPk,
    pub id: String,
    /// Of the document.
    pub version: i64,
    /// A fingerprint of the document's timing: if it is unchanged, a later version does not change what is due.
    pub timing: String,
    pub next: Option<Due>,
}

/// Moves a schedule to its next time without a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleMove {
    pub tenant: TenantPk,
    pub id: String,
    /// Version and due time as they were read.
    pub version: i64,
    pub due: Millis,
    /// If this is the same time, it is postponed.
    pub next: Option<Due>,
    /// How many times came too late.
    pub missed: u64,
    /// Why there was no run.
    pub said: Option<String>,
}

/// The state of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleState {
    pub tenant: TenantPk,
    pub id: String,
    /// The version of the document from which it was planned.
    pub version: i64,
    pub next: Option<Due>,
    pub last_due: Option<Millis>,
    pub missed: u64,
    /// Why the last time had no run.
    pub said: Option<String>,
}

/// What is read of schedules. A part of [`Reads`](super::Reads).
#[async_trait]
pub trait ScheduleReads: Send + Sync + 'static {
    /// At most `limit` schedules to be handled by now, the longest due first.
    async fn due_schedules(&self, now: Millis, limit: u32) -> Result<Vec<ScheduleState>>;
    /// When the next schedule is to be handled; `None`: never.
    async fn next_schedule(&self) -> Result<Option<Millis>>;
    async fn schedule_state(&self, tenant: TenantPk, id: &str) -> Result<Option<ScheduleState>>;
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait ScheduleStore: Send + Sync + 'static {
    /// Stores when a schedule is due, unless that was done for this version of its document or a later one.
    async fn plan_schedule(&self, planned: PlannedSchedule) -> Result<()>;
    /// Moves a schedule. `false`: its state has changed since it was read, and nothing is stored.
    async fn move_schedule(&self, moved: ScheduleMove) -> Result<bool>;
    /// Deletes the state of a schedule whose document was deleted.
    async fn forget_schedule(&self, tenant: TenantPk, id: &str) -> Result<()>;
}

impl ScheduleState {
    /// Reads the rows that are due. Those that cannot be read are logged and left out.
    pub(crate) fn read_due(rows: &[impl Columns]) -> Vec<Self> {
        let unreadable =
            |error: &Error| tracing::error!(%error, "a schedule that is due cannot be read: it fires nothing");
        rows.iter().filter_map(|row| Self::read(row).inspect_err(unreadable).ok()).collect()
    }

    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        let due = row.number_or_none("next_due")?.zip(row.number_or_none("look_at")?);
        Ok(Self {
            tenant: TenantPk(row.number("tenant")?),
            id: row.name("id")?,
            version: row.number("version")?,
            next: due.map(|(due, look_at)| Due { due, look_at }),
            last_due: row.number_or_none("last_due")?,
            missed: row.count("missed")?,
            said: row.name_or_none("said")?,
        })
    }
}
