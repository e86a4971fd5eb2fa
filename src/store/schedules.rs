//! When schedules are due. The time that is due next is moved by the commit that accepts its run ([`Fire`]), so each time
//! brings one run, whoever looks and whoever dies.

use async_trait::async_trait;

use super::Result;
use super::columns::Columns;
use crate::domain::Millis;
use crate::domain::ids::TenantPk;

/// A time that is due, and when it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    pub due: Millis,
    pub look_at: Millis,
}

/// What a commit that accepts the run of a schedule carries. It is stored only if this time is still the next one of the
/// schedule, and its document still has this version.
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

/// A schedule as a version of its document has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedSchedule {
    pub tenant: TenantPk,
    pub id: String,
    /// Of the document.
    pub version: i64,
    /// What the document says of times: of two versions with the same, the later one changes nothing that is due.
    pub timing: String,
    pub next: Option<Due>,
}

/// A schedule's next time, moved without a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleMove {
    pub tenant: TenantPk,
    pub id: String,
    /// As they were read.
    pub version: i64,
    pub due: Millis,
    /// The same time again: it is looked at later.
    pub next: Option<Due>,
    /// How many times came too late.
    pub missed: u64,
    /// Why there was no run.
    pub said: Option<String>,
}

/// How a schedule stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleState {
    pub tenant: TenantPk,
    pub id: String,
    /// Of the document that it was made from.
    pub version: i64,
    pub next: Option<Due>,
    pub last_due: Option<Millis>,
    pub missed: u64,
    /// Why the last time brought no run.
    pub said: Option<String>,
}

/// A part of every [`Store`](super::Store).
#[async_trait]
pub trait ScheduleStore: Send + Sync + 'static {
    /// Stores when a schedule is due, unless that was done for this version of its document or a later one.
    async fn plan_schedule(&self, planned: PlannedSchedule) -> Result<()>;
    /// Those to be looked at by now, the longest due first, at most so many.
    async fn due_schedules(&self, now: Millis, limit: u32) -> Result<Vec<ScheduleState>>;
    /// When one is to be looked at next; `None`: never.
    async fn next_schedule(&self) -> Result<Option<Millis>>;
    /// `false`: what was read is not so any more, and nothing is changed.
    async fn move_schedule(&self, moved: ScheduleMove) -> Result<bool>;
    async fn schedule_state(&self, tenant: TenantPk, id: &str) -> Result<Option<ScheduleState>>;
    /// Forgets how one stood whose document is gone.
    async fn forget_schedule(&self, tenant: TenantPk, id: &str) -> Result<()>;
}

impl ScheduleState {
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
