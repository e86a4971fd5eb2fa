//! One time of one schedule: it has its run, or is known to have none.

use metrics::counter;
use serde_json::{Map, json};

use super::key_of;
use super::pause::{of_ended_key, pause};
use super::plan::due as due_at;
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{RunId, TenantPk, ThreadId};
use crate::domain::run::{OnBusy, RunStatus, SCHEDULE_PREFIX};
use crate::domain::schedule::{Overlap, Passed, StoredSchedule, ThreadMode, Timing};
use crate::failpoint;
use crate::service::Service;
use crate::service::runs::{self, ProcessAsk};
use crate::store::documents::{Document, DocumentKind};
use crate::store::{Due, Fire, Result, ScheduleMove, ScheduleState};

/// How long a time waits that cannot have its run now.
const LATER: Millis = 5_000;
/// The same while a run before it is not over: looking costs little.
const SOON: Millis = 1_000;
/// How many of its last runs may be under way, of those that count.
const LAST_RUNS: u32 = 20;

/// A time that is due, of a schedule as this process knows it.
struct DueTime<'a> {
    service: &'a Service,
    document: &'a Document,
    stored: &'a StoredSchedule,
    timing: &'a Timing,
    state: &'a ScheduleState,
    /// The schedule itself, with the rights of who wrote it.
    acting: Caller,
    due: Millis,
}

/// What becomes of a time that is due.
enum Course {
    Ask(OnBusy),
    /// It has no run.
    Skip,
    Wait,
    Pause,
    /// Somebody else was faster.
    Leave,
}

/// Does what is to be done about a schedule that is due. Whether it stands otherwise now.
pub(super) async fn due(service: &Service, state: ScheduleState) -> Result<bool> {
    let Some(next) = state.next else { return Ok(false) };
    let Some(document) = service.documents.get(state.tenant, DocumentKind::Schedule, &state.id) else {
        service.store.forget_schedule(state.tenant, &state.id).await?;
        return Ok(false);
    };
    // Seen here before it was planned, or planned elsewhere before it was seen here.
    if document.version != state.version {
        return Ok(false);
    }
    let stored = document.legible::<StoredSchedule>().map_err(|why| why.to_string());
    let timed = stored.and_then(|stored| Ok((Timing::of(&stored.spec).map_err(|fault| fault.detail)?, stored)));
    let (timing, stored) = match timed {
        Ok(timed) => timed,
        // A newer program may have written it, and does what is due.
        Err(why) => {
            let look_again = Due { due: next.due, look_at: service.now() + LATER };
            return moved(service, &state, Some(look_again), 0, Some(why)).await;
        }
    };
    if let Some(why) = of_ended_key(service, state.tenant, &stored).await? {
        pause(service, &document, &why).await?;
        return Ok(false);
    }
    let tenant_name = service.store.tenant_name(state.tenant).await?.unwrap_or_default();
    let acting = acting(state.tenant, tenant_name, &stored);
    let (document, stored, timing) = (&*document, &stored, &timing);
    let time = DueTime { service, document, stored, timing, state: &state, acting, due: next.due };
    // Nothing was done also where somebody else was faster: then it stands otherwise all the same.
    Ok(time.handle().await? || !time.is_as_read().await?)
}

/// The schedule as the caller of what it asks.
pub(super) fn acting(tenant: TenantPk, tenant_name: String, stored: &StoredSchedule) -> Caller {
    let (name, scopes) = (format!("{SCHEDULE_PREFIX}{}", stored.spec.id), stored.scopes.clone());
    Caller { tenant, tenant_name, name, scopes, groups: Vec::new() }
}

/// What it asks, as far as that does not depend on the time.
pub(super) fn ask(stored: &StoredSchedule, tenant: TenantPk) -> ProcessAsk {
    ProcessAsk {
        query: stored.spec.query.clone(),
        options: stored.spec.options.clone(),
        lookups: vec![key_of(tenant, stored)],
        shaped_by: stored.writers.clone(),
        ..ProcessAsk::default()
    }
}

/// Where it asks.
pub(super) fn thread(service: &Service, stored: &StoredSchedule) -> ThreadId {
    let fixed = stored.spec.thread.id.clone().filter(|_| stored.spec.thread.mode == ThreadMode::Fixed);
    fixed.unwrap_or_else(|| service.mint().thread())
}

impl DueTime<'_> {
    async fn handle(&self) -> Result<bool> {
        let Passed { missed, first } = self.timing.passed(self.due, self.service.now());
        if missed > 0 {
            let said = format!("{missed} times came too late");
            let is_moved = self.moved(self.at(first), missed, Some(said)).await?;
            count("missed", if is_moved { missed } else { 0 });
            return Ok(is_moved);
        }
        let course = match self.course().await {
            Ok(course) => course,
            Err(fault) => return self.refused(fault).await,
        };
        match course {
            Course::Ask(on_busy) => self.ask(on_busy).await,
            Course::Wait => self.later(SOON, None).await,
            Course::Leave => Ok(true),
            Course::Skip => self.passed_over("skipped", "a run before it was not over").await,
            Course::Pause => self.pause("Its last run failed.").await,
        }
    }

    /// What its last runs and its overlap say. Cancels what is to be cancelled.
    async fn course(&self) -> std::result::Result<Course, Fault> {
        let (spec, service) = (&self.stored.spec, self.service);
        let key = key_of(self.acting.tenant, self.stored);
        let mut open: Vec<RunId> = Vec::new();
        let last = match self.last_runs() {
            0 => Vec::new(),
            wanted => service.store.lookups(self.acting.tenant, &key, wanted).await?,
        };
        for (at, found) in last.into_iter().enumerate() {
            let status = match runs::stored(service, &self.acting, &found.run_id).await {
                Ok((_, run)) => run.status,
                Err(fault) if fault.code == Code::NotFound => continue,
                Err(fault) => return Err(fault),
            };
            // One that failed before somebody wrote the schedule again is forgiven.
            let is_new = found.created_at > self.document.updated_at;
            if at == 0 && is_new && status == RunStatus::Failed && spec.pause_on_failure {
                return Ok(Course::Pause);
            }
            if !status.is_terminal() {
                open.push(found.run_id);
            }
        }
        Ok(match (spec.thread.mode, spec.overlap) {
            (ThreadMode::Fixed, Overlap::Skip) => Course::Ask(OnBusy::Reject),
            (ThreadMode::Fixed, Overlap::Cancel) => Course::Ask(OnBusy::Interrupt),
            (ThreadMode::Fixed, Overlap::Queue | Overlap::Allow) => Course::Ask(OnBusy::Enqueue),
            (ThreadMode::New, Overlap::Skip) if !open.is_empty() => Course::Skip,
            (ThreadMode::New, Overlap::Queue) if !open.is_empty() => Course::Wait,
            // Read after those runs: else one of them may be the run of this very time, asked by another process.
            (ThreadMode::New, Overlap::Cancel) if !self.is_as_read().await? => Course::Leave,
            (ThreadMode::New, Overlap::Cancel) => {
                self.cancel(&open).await?;
                Course::Ask(OnBusy::Enqueue)
            }
            (ThreadMode::New, Overlap::Skip | Overlap::Queue | Overlap::Allow) => Course::Ask(OnBusy::Enqueue),
        })
    }

    /// How many of its last runs say what becomes of the time.
    fn last_runs(&self) -> u32 {
        let spec = &self.stored.spec;
        match (spec.thread.mode, spec.overlap) {
            (ThreadMode::New, Overlap::Skip | Overlap::Queue | Overlap::Cancel) => LAST_RUNS,
            // Only whether the last one failed.
            (ThreadMode::New, Overlap::Allow) | (ThreadMode::Fixed, _) => u32::from(spec.pause_on_failure),
        }
    }

    async fn cancel(&self, open: &[RunId]) -> std::result::Result<(), Fault> {
        for run in open {
            match runs::cancel(self.service, &self.acting, run, None).await {
                // It came to its end meanwhile, or its thread did.
                Err(fault) if matches!(fault.code, Code::RunFinished | Code::NotFound) => {}
                answered => drop(answered?),
            }
        }
        Ok(())
    }

    async fn ask(&self, on_busy: OnBusy) -> Result<bool> {
        let next = self.at(self.timing.next(self.due));
        let (tenant, id) = (self.acting.tenant, self.state.id.clone());
        let fire = Fire { tenant, id, version: self.state.version, due: self.due, next };
        let metadata = Map::from_iter([("schedule".to_owned(), json!({ "id": self.state.id, "due": self.due }))]);
        let plain = ask(self.stored, tenant);
        let asked = ProcessAsk { on_busy, metadata: Some(metadata), fire: Some(fire), ..plain };
        failpoint::reached("schedule.asking");
        let thread = thread(self.service, self.stored);
        match runs::process(self.service, &self.acting, &thread, asked, None).await {
            Ok(_) => {
                failpoint::reached("schedule.asked");
                count("fired", 1);
                Ok(true)
            }
            Err(fault) => self.refused(fault).await,
        }
    }

    /// The run was not accepted: somebody else was faster, or it may be later, or never.
    async fn refused(&self, fault: Fault) -> Result<bool> {
        if !self.is_as_read().await? {
            return Ok(true);
        }
        if fault.code == Code::RequestInProgress {
            // Another process has changed it, which is not seen here yet.
            self.service.documents.refresh().await?;
            return Ok(false);
        }
        if fault.code == Code::ThreadBusy {
            return self.passed_over("skipped", "the thread had a run").await;
        }
        if fault.code.retryable() {
            return self.later(LATER, Some(fault.detail)).await;
        }
        let (schedule, code, detail) = (&self.state.id, fault.code.as_str(), &fault.detail);
        tracing::warn!(schedule, code, detail, "the run of a schedule was refused");
        let is_moved = self.passed_over("failed", detail).await?;
        if is_moved && self.stored.spec.pause_on_failure { self.pause(detail).await } else { Ok(is_moved) }
    }

    /// Whether nobody has moved the schedule.
    async fn is_as_read(&self) -> Result<bool> {
        let now = self.service.store.schedule_state(self.state.tenant, &self.state.id).await?;
        Ok(now.as_ref() == Some(self.state))
    }

    /// The time has no run.
    async fn passed_over(&self, outcome: &'static str, why: &str) -> Result<bool> {
        let next = self.at(self.timing.next(self.due));
        let is_moved = self.moved(next, 0, Some(why.to_owned())).await?;
        count(outcome, u64::from(is_moved));
        Ok(is_moved)
    }

    /// The time is looked at again.
    async fn later(&self, wait: Millis, why: Option<String>) -> Result<bool> {
        let next = Due { due: self.due, look_at: self.service.now() + wait };
        self.moved(Some(next), 0, why).await
    }

    /// The schedule pauses itself. A time that is due then has no run.
    async fn pause(&self, why: &str) -> Result<bool> {
        pause(self.service, self.document, why).await.map(|()| false)
    }

    fn at(&self, time: Option<Millis>) -> Option<Due> {
        due_at(self.timing, &self.state.id, time)
    }

    async fn moved(&self, next: Option<Due>, missed: u64, said: Option<String>) -> Result<bool> {
        moved(self.service, self.state, next, missed, said).await
    }
}

/// Moves the schedule, unless somebody else has.
async fn moved(
    service: &Service,
    state: &ScheduleState,
    next: Option<Due>,
    missed: u64,
    said: Option<String>,
) -> Result<bool> {
    let Some(read) = state.next else { return Ok(false) };
    let (tenant, id, version, due) = (state.tenant, state.id.clone(), state.version, read.due);
    service.store.move_schedule(ScheduleMove { tenant, id, version, due, next, missed, said }).await
}

fn count(outcome: &'static str, times: u64) {
    counter!("pes_schedule_fires_total", "outcome" => outcome).increment(times);
}
