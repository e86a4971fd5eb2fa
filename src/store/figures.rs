//! Counts of open work (runs, questions, deliveries), of late work, and the size of the store, for metrics.

use async_trait::async_trait;
use serde::de::DeserializeOwned;

use super::columns::Columns;
use super::spend::read_period;
use super::{Result, text};
use crate::domain::Millis;
use crate::domain::hitl::SuspensionKind;
use crate::domain::ids::TenantPk;
use crate::domain::run::RunStatus;
use crate::domain::spend::{Amount, Capped, Spender};

/// Counts over all tenants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Unfinished runs.
    pub runs: Vec<(RunStatus, u64)>,
    pub questions: Vec<OpenQuestions>,
    /// The pending deliveries, and since when the oldest is due.
    pub deliveries: u64,
    pub oldest_due: Option<Millis>,
    pub threads: LateThreads,
    /// The schedules whose next time has come, whether or not it was postponed.
    pub schedules: Vec<DueSchedule>,
    /// When the next API key expires.
    pub next_key_end: Option<Millis>,
    /// The spending in the current day and month.
    pub spent: Vec<MostSpent>,
    pub size: Size,
}

/// A tenant's spending for one cap. For a cap of keys, that of the key with the highest spending.
#[derive(Clone, Debug, PartialEq)]
pub struct MostSpent {
    pub tenant: TenantPk,
    pub capped: Capped,
    pub used: Amount,
}

/// Threads that may be stuck.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LateThreads {
    /// How many have a due timer, and since when the most overdue is due.
    pub due: u64,
    pub due_since: Option<Millis>,
    /// The oldest of the last commits of running threads.
    pub running_since: Option<Millis>,
}

/// A schedule with a time that has come and has had no run yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueSchedule {
    pub tenant: TenantPk,
    pub id: String,
    /// The time, without jitter.
    pub due: Millis,
}

/// Sizes in bytes. What the database does not report is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Size {
    pub tables: Vec<(String, u64)>,
    /// The free space on the disk.
    pub free: Option<u64>,
    pub wal: Option<u64>,
}

/// The connections of one pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Pooled {
    pub pool: &'static str,
    pub busy: u32,
    pub idle: u32,
    pub limit: u32,
}

impl Pooled {
    pub(crate) fn of<DB: sqlx::Database>(pool: &'static str, of: &sqlx::Pool<DB>) -> Self {
        let idle = u32::try_from(of.num_idle()).unwrap_or(u32::MAX);
        Self { pool, busy: of.size().saturating_sub(idle), idle, limit: of.options().get_max_connections() }
    }
}

/// Open suspensions of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenQuestions {
    pub kind: SuspensionKind,
    pub count: u64,
    /// When the oldest was asked.
    pub since: Millis,
}

/// What is read for metrics. A part of [`Reads`](super::Reads).
#[async_trait]
pub trait FigureStore: Send + Sync + 'static {
    /// Counts open and due work of all tenants. Uses indexes, so that the cost does not depend on how much is finished. `wall`:
    /// the time by the clock of the machine, by which keys expire. Runs of a status and questions of a kind that a newer
    /// release added are left out.
    async fn figures(&self, now: Millis, wall: Millis) -> Result<Figures>;
    /// The current state of its connection pools.
    fn pools(&self) -> Vec<Pooled>;
}

/// The rows of the queries, and their columns.
pub(crate) struct FigureRows<R> {
    /// `word, count`.
    pub runs: Vec<R>,
    /// `word, count, since`.
    pub questions: Vec<R>,
    /// `count, since`.
    pub deliveries: R,
    /// `count, since, running`, and `key_end` of the API keys.
    pub threads: R,
    /// `tenant, period, of_key, used`.
    pub spent: Vec<R>,
    /// `tenant, id, next_due`.
    pub schedules: Vec<R>,
}

impl<R: Columns> FigureRows<R> {
    /// The size is left empty.
    pub(crate) fn read(&self) -> Result<Figures> {
        let FigureRows { runs, questions, deliveries, threads, spent, schedules } = self;
        let run = |row: &R| match known_word(row)? {
            Some(status) => Ok(Some((status, row.count("count")?))),
            None => Ok(None),
        };
        let question = |row: &R| match known_word(row)? {
            Some(kind) => Ok(Some(OpenQuestions { kind, count: row.count("count")?, since: row.number("since")? })),
            None => Ok(None),
        };
        let most = |row: &R| {
            let (period, unit) = read_period(row.text("period")?);
            let tenant = TenantPk(row.number("tenant")?);
            let spender = match (tenant, row.number("of_key")?) {
                (TenantPk::NONE, _) => Spender::Server,
                (_, 1) => Spender::Key,
                _ => Spender::Tenant,
            };
            let used = row.number("used")?;
            Ok(Capped::of_period(period, unit, spender).map(|capped| MostSpent { tenant, capped, used }))
        };
        let due = |row: &R| {
            Ok(DueSchedule {
                tenant: TenantPk(row.number("tenant")?),
                id: row.name("id")?,
                due: row.number("next_due")?,
            })
        };
        Ok(Figures {
            spent: spent.iter().filter_map(|row| most(row).transpose()).collect::<Result<_>>()?,
            runs: runs.iter().filter_map(|row| run(row).transpose()).collect::<Result<_>>()?,
            questions: questions.iter().filter_map(|row| question(row).transpose()).collect::<Result<_>>()?,
            deliveries: deliveries.count("count")?,
            oldest_due: deliveries.number_or_none("since")?,
            threads: LateThreads {
                due: threads.count("count")?,
                due_since: threads.number_or_none("since")?,
                running_since: threads.number_or_none("running")?,
            },
            schedules: schedules.iter().map(due).collect::<Result<_>>()?,
            next_key_end: threads.number_or_none("key_end")?,
            size: Size::default(),
        })
    }
}

/// `None`: a word of a newer release, or none.
fn known_word<T: DeserializeOwned>(row: &impl Columns) -> Result<Option<T>> {
    Ok(row.text_or_none("word")?.and_then(|word| text::word(word).ok()))
}
