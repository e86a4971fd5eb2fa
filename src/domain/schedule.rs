//! Schedules: queries that are asked repeatedly, or once at a future time.

pub mod cron;
mod timing;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::Millis;
use super::caller::Scope;
use super::ids::ThreadId;
use super::settings::CallOptions;

pub use timing::{DueTimes, Timing};

/// A schedule as a tenant writes it. Of `cron`, `everyMs` and `at` it has one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScheduleSpec {
    pub id: String,
    /// Minute, hour, day of the month, month, day of the week: as a clock in `timezone` shows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// Counted from `startAt`, else from the beginning of 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<Millis>,
    /// Once: in milliseconds since 1970.
    #[serde(default, deserialize_with = "moment", skip_serializing_if = "Option::is_none")]
    pub at: Option<Millis>,
    /// A name of the IANA time zone database.
    #[serde(default = "utc")]
    pub timezone: String,
    #[serde(default)]
    pub thread: ScheduleThread,
    pub query: String,
    #[serde(default)]
    pub options: CallOptions,
    #[serde(default)]
    pub overlap: Overlap,
    /// A due time that has had no run for this long is skipped.
    #[serde(default = "hour")]
    pub catch_up_ms: Millis,
    /// Each run starts up to this much after its due time; the delay of a due time is always the same.
    #[serde(default)]
    pub jitter_ms: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_at: Option<Millis>,
    #[serde(default)]
    pub paused: bool,
    /// Whether it pauses itself when its last run failed.
    #[serde(default)]
    pub pause_on_failure: bool,
}

/// Where its queries are asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScheduleThread {
    #[serde(default)]
    pub mode: ThreadMode,
    /// Of the one thread, which its first run creates if it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ThreadId>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ThreadMode {
    /// Each on a thread of its own.
    #[default]
    New,
    /// All on one.
    Fixed,
}

/// What happens at a due time while a run of the schedule is unfinished; on a fixed thread, while any run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Overlap {
    /// It is skipped.
    #[default]
    Skip,
    /// It waits until that run is over, on new threads for at most `catchUpMs`.
    Queue,
    /// That run is cancelled.
    Cancel,
    /// Both run; not on a fixed thread.
    Allow,
}

/// What is stored of a schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredSchedule {
    pub spec: ScheduleSpec,
    /// Differs each time a schedule is created under this id.
    pub uid: String,
    /// The names of the keys that wrote it, the last one last.
    pub writers: Vec<String>,
    /// What the last one may do.
    pub scopes: Vec<Scope>,
    /// Why the server paused it, until somebody writes it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_because: Option<String>,
}

/// How a schedule stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleStanding {
    /// The first time that has had no run yet. Absent: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_due: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_due: Option<Millis>,
    /// How many times had no run because they came too late.
    pub missed: u64,
    /// Why the last time had no run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// A schedule as clients see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleResource {
    #[serde(flatten)]
    pub spec: ScheduleSpec,
    /// The names of the keys that wrote it: none of them may approve what it asks for.
    pub written_by: Vec<String>,
    /// Why the server paused it; absent: it did not, or somebody wrote it since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_because: Option<String>,
    /// How it stands; of one schedule only, not in a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<ScheduleStanding>,
    /// Why it does nothing: what is stored of it cannot be read. Nothing else is known of it; replace or delete it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_error: Option<String>,
}

/// A time to come.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduledTime {
    pub due: Millis,
    /// As a clock in the schedule's time zone shows it.
    pub local: String,
}

impl StoredSchedule {
    pub fn resource(self) -> ScheduleResource {
        let Self { spec, writers: written_by, paused_because, .. } = self;
        ScheduleResource { spec, written_by, paused_because, standing: None, stored_error: None }
    }
}

impl ScheduleResource {
    /// One that cannot be read: only its id is known.
    pub fn illegible(id: String, why: String) -> Self {
        let spec = ScheduleSpec {
            id,
            cron: None,
            every_ms: None,
            at: None,
            timezone: utc(),
            thread: ScheduleThread::default(),
            query: String::new(),
            options: CallOptions::default(),
            overlap: Overlap::default(),
            catch_up_ms: hour(),
            jitter_ms: 0,
            start_at: None,
            end_at: None,
            paused: false,
            pause_on_failure: false,
        };
        Self { spec, written_by: Vec::new(), paused_because: None, standing: None, stored_error: Some(why) }
    }
}

/// Names the expected form if a date is written as text.
fn moment<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Millis>, D::Error> {
    let said = Option::<Value>::deserialize(from)?.unwrap_or_default();
    match (said.as_i64(), said.is_null()) {
        (Some(at), _) => Ok(Some(at)),
        (None, true) => Ok(None),
        (None, false) => {
            Err(D::Error::custom(format!("is {said}, and must be a whole number of milliseconds since 1970")))
        }
    }
}

fn utc() -> String {
    "UTC".to_owned()
}

fn hour() -> Millis {
    3_600_000
}
