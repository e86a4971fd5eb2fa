//! Handles one due time of one schedule: its run is accepted, or the store records that it has none.

use std::time::Duration;

use futures_util::future::try_join_all;
use metrics::counter;
use serde_json::{Map, json};
use tokio::time::timeout;

use super::key_of;
use super::pause::{of_ended_key, pause};
use super::plan::due as due_at;
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{TenantPk, ThreadId};
use crate::domain::run::{OnBusy, Run, RunStatus, SCHEDULE_PREFIX};
use crate::domain::schedule::{DueTimes, Overlap, StoredSchedule, ThreadMode, Timing};
use crate::failpoint;
use crate::service::runs::{self, ProcessAsk};
use crate::service::{Result, Service};
use crate::store::documents::{Document, DocumentKind};
use crate::store::{self, Due, Fire, ScheduleMove, ScheduleState};

/// How long a due time is postponed if its run cannot be accepted now: as long as the refusal says, within these bounds.
const RETRY_DELAY: Millis = 5_000;
const MAX_RETRY_DELAY: Millis = 60_000;
/// The same while an earlier run is unfinished; checking that costs little.
const OVERLAP_RETRY_DELAY: Millis = 1_000;
/// How long a due time waits for the runs that it cancels; then it is postponed. Other schedules wait for it. An owner that
/// is there stops a run within a second.
const MAX_CANCEL_TIME: Duration = Duration::from_secs(3);
/// How many of the schedule's last runs are read, to find the unfinished ones and the newest one that is over.
const MAX_LAST_RUNS: u32 = 20;

/// A due time of a schedule, as this process has read it.
struct DueTime<'a> {
    service: &'a Service,
    document: &'a Document,
    stored: &'a StoredSchedule,
    timing: &'a Timing,
    state: &'a ScheduleState,
    /// The schedule as a caller, with the rights of its writer.
    acting: Caller,
    due: Millis,
}

/// What happens with a due time.
enum FireDecision {
    /// Its run is started.
    Start(OnBusy),
    /// It gets no run.
    Skip,
    Wait,
    Pause,
    /// Another process was faster.
    Leave,
}

/// What the schedule's last runs say about a due time.
enum LastRuns {
    /// The newest that is over failed, and the schedule pauses then.
    NewestFailed,
    /// The unfinished ones, if the overlap rule needs them.
    Unfinished(Vec<Run>),
}

/// Handles a schedule that is due. Returns whether its state in the store has changed, by this process or another.
pub(super) async fn due(service: &Service, state: ScheduleState) -> store::Result<bool> {
    let Some(next) = state.next else { return Ok(false) };
    let Some(document) = service.documents.get(state.tenant, DocumentKind::Schedule, &state.id) else {
        service.store.forget_schedule(state.tenant, &state.id).await?;
        return Ok(false);
    };
    // This version was not planned yet, or another process planned one that is not in this process's cache yet.
    if document.version != state.version {
        return Ok(false);
    }
    let stored = document.legible::<StoredSchedule>().map_err(|why| why.to_string());
    let timed = stored.and_then(|stored| Ok((Timing::of(&stored.spec).map_err(|fault| fault.detail)?, stored)));
    let (timing, stored) = match timed {
        Ok(timed) => timed,
        // A newer version of the server may have written it; its processes can handle it.
        Err(why) => {
            let look_again = Due { due: next.due, look_at: service.now() + RETRY_DELAY };
            return move_schedule(service, &state, Some(look_again), 0, Some(why)).await;
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
    // `handle` also returns `false` if another process was faster. Then the state has changed, too.
    Ok(time.handle().await? || !time.is_unchanged().await?)
}

/// The schedule as the caller of its runs.
pub(super) fn acting(tenant: TenantPk, tenant_name: String, stored: &StoredSchedule) -> Caller {
    let (name, scopes) = (format!("{SCHEDULE_PREFIX}{}", stored.spec.id), stored.scopes.clone());
    Caller { tenant, tenant_name, name, scopes, groups: Vec::new() }
}

/// The request of the schedule, without the parts that depend on the due time.
pub(super) fn request(stored: &StoredSchedule, tenant: TenantPk) -> ProcessAsk {
    ProcessAsk {
        query: stored.spec.query.clone(),
        options: stored.spec.options.clone(),
        lookups: vec![key_of(tenant, stored)],
        // The last writer comes first: the run has its rights, and counts against its caps.
        shaped_by: stored.writers.iter().rev().cloned().collect(),
        ..ProcessAsk::default()
    }
}

/// The thread on which the schedule runs.
pub(super) fn thread(service: &Service, stored: &StoredSchedule) -> ThreadId {
    let fixed = stored.spec.thread.id.clone().filter(|_| stored.spec.thread.mode == ThreadMode::Fixed);
    fixed.unwrap_or_else(|| service.mint().thread())
}

impl DueTime<'_> {
    async fn handle(&self) -> store::Result<bool> {
        let DueTimes { missed, first } = self.timing.due_times(self.due, self.service.now());
        if missed > 0 {
            let said = format!("{missed} times came too late");
            let is_moved = self.move_to(self.at(first), missed, Some(said)).await?;
            count("missed", if is_moved { missed } else { 0 });
            return Ok(is_moved);
        }
        let decision = match self.decide().await {
            Ok(decision) => decision,
            Err(fault) => return self.handle_refusal(fault).await,
        };
        match decision {
            FireDecision::Start(on_busy) => self.start(on_busy).await,
            FireDecision::Wait => self.postpone(OVERLAP_RETRY_DELAY, None).await,
            FireDecision::Leave => Ok(true),
            FireDecision::Skip => self.skip("skipped", "a run before it was not over").await,
            FireDecision::Pause => self.pause("Its last run failed.").await,
        }
    }

    /// Decides by the last runs and the overlap rule. Cancels unfinished runs if the rule says so.
    async fn decide(&self) -> Result<FireDecision> {
        match self.last_runs().await? {
            LastRuns::NewestFailed => Ok(FireDecision::Pause),
            LastRuns::Unfinished(open) => self.decide_by_overlap(open).await,
        }
    }

    async fn last_runs(&self) -> Result<LastRuns> {
        let (spec, service) = (&self.stored.spec, self.service);
        let needs_open = self.needs_open_runs();
        if !needs_open && !spec.pause_on_failure {
            return Ok(LastRuns::Unfinished(Vec::new()));
        }
        let key = key_of(self.acting.tenant, self.stored);
        let (mut open, mut is_any_over) = (Vec::new(), false);
        for found in service.store.lookups(self.acting.tenant, &key, MAX_LAST_RUNS).await? {
            // A run that is over and cannot be read is no reason to fire nothing.
            let Some((_, run)) = runs::legible_run(service, &self.acting, &found.run_id).await? else { continue };
            if !run.status.is_terminal() {
                open.push(run);
                continue;
            }
            // A failure before the schedule was last written does not count.
            let is_new = found.created_at > self.document.updated_at;
            // The newest run that is over counts. If runs that fail take longer than the schedule's interval, the newest of
            // all is always unfinished.
            if !is_any_over && is_new && run.status == RunStatus::Failed && spec.pause_on_failure {
                return Ok(LastRuns::NewestFailed);
            }
            is_any_over = true;
            if !needs_open {
                break;
            }
        }
        Ok(LastRuns::Unfinished(open))
    }

    async fn decide_by_overlap(&self, mut open: Vec<Run>) -> Result<FireDecision> {
        let spec = &self.stored.spec;
        Ok(match (spec.thread.mode, spec.overlap) {
            // Checked after reading those runs: otherwise one of them may be the run of this due time, started by another
            // process.
            (ThreadMode::New | ThreadMode::Fixed, Overlap::Cancel) if !self.is_unchanged().await? => {
                FireDecision::Leave
            }
            (ThreadMode::Fixed, Overlap::Skip) => FireDecision::Start(OnBusy::Reject),
            (ThreadMode::Fixed, Overlap::Cancel) => {
                // The active run of the thread is cancelled by the commit that accepts the new one. If it were cancelled
                // before, the next queued query, which may be anybody's, would begin and be cancelled, too.
                let is_active =
                    |run: &Run| run.status != RunStatus::Queued && Some(&run.thread_id) == spec.thread.id.as_ref();
                open.retain(|run| !is_active(run));
                self.cancel(&open).await?;
                FireDecision::Start(OnBusy::Interrupt)
            }
            (ThreadMode::Fixed, Overlap::Queue | Overlap::Allow) => FireDecision::Start(OnBusy::Enqueue),
            (ThreadMode::New, Overlap::Skip) if !open.is_empty() => FireDecision::Skip,
            (ThreadMode::New, Overlap::Queue) if !open.is_empty() => FireDecision::Wait,
            (ThreadMode::New, Overlap::Cancel) => {
                self.cancel(&open).await?;
                FireDecision::Start(OnBusy::Enqueue)
            }
            (ThreadMode::New, Overlap::Skip | Overlap::Queue | Overlap::Allow) => FireDecision::Start(OnBusy::Enqueue),
        })
    }

    /// Whether the overlap rule needs the unfinished runs.
    fn needs_open_runs(&self) -> bool {
        match (self.stored.spec.thread.mode, self.stored.spec.overlap) {
            (ThreadMode::New, Overlap::Skip | Overlap::Queue)
            | (ThreadMode::New | ThreadMode::Fixed, Overlap::Cancel) => true,
            // A fixed thread itself has one run at a time.
            (ThreadMode::Fixed, Overlap::Skip | Overlap::Queue)
            | (ThreadMode::New | ThreadMode::Fixed, Overlap::Allow) => false,
        }
    }

    /// Cancels these runs. The cancel is stored also of one that has not stopped when this returns.
    async fn cancel(&self, open: &[Run]) -> Result<()> {
        let cancels = open.iter().map(async |run| {
            match runs::cancel(self.service, &self.acting, &run.run_id, None).await {
                // The run has ended in the meantime, or its thread was deleted.
                Err(fault) if matches!(fault.code, Code::RunFinished | Code::NotFound) => Ok(()),
                answered => answered.map(drop),
            }
        });
        let cancelled = timeout(MAX_CANCEL_TIME, try_join_all(cancels)).await;
        cancelled.unwrap_or_else(|_| Err(still_stopping())).map(drop)
    }

    async fn start(&self, on_busy: OnBusy) -> store::Result<bool> {
        let next = self.at(self.timing.next(self.due));
        let (tenant, id) = (self.acting.tenant, self.state.id.clone());
        let fire = Fire { tenant, id, version: self.state.version, due: self.due, next };
        let metadata = Map::from_iter([("schedule".to_owned(), json!({ "id": self.state.id, "due": self.due }))]);
        let plain = request(self.stored, tenant);
        let asked = ProcessAsk { on_busy, metadata: Some(metadata), fire: Some(fire), ..plain };
        failpoint::reached("schedule.asking");
        let thread = thread(self.service, self.stored);
        match runs::process(self.service, &self.acting, &thread, asked, None).await {
            Ok(_) => {
                failpoint::reached("schedule.asked");
                count("fired", 1);
                Ok(true)
            }
            Err(fault) => self.handle_refusal(fault).await,
        }
    }

    /// Handles the refusal of the run: another process was faster, or the time is postponed, or it gets no run.
    async fn handle_refusal(&self, fault: Fault) -> store::Result<bool> {
        if !self.is_unchanged().await? {
            return Ok(true);
        }
        if fault.code == Code::RequestInProgress {
            // Another process has changed the schedule; this one's cache is stale.
            self.service.documents.refresh().await?;
            return Ok(false);
        }
        if fault.code == Code::ThreadBusy {
            return self.skip("skipped", "the thread had a run").await;
        }
        if fault.code.retryable() {
            let wait = fault.retry_after_ms.unwrap_or(RETRY_DELAY).clamp(RETRY_DELAY, MAX_RETRY_DELAY);
            return self.postpone(wait, Some(fault.detail)).await;
        }
        let (schedule, code, detail) = (&self.state.id, fault.code.as_str(), &fault.detail);
        tracing::warn!(schedule, code, detail, "the run of a schedule was refused");
        let is_moved = self.skip("failed", detail).await?;
        if is_moved && self.stored.spec.pause_on_failure { self.pause(detail).await } else { Ok(is_moved) }
    }

    /// Whether the schedule's state in the store is still the one that was read.
    async fn is_unchanged(&self) -> store::Result<bool> {
        let now = self.service.store.schedule_state(self.state.tenant, &self.state.id).await?;
        Ok(now.as_ref() == Some(self.state))
    }

    /// Moves the schedule to its next time. This one gets no run.
    async fn skip(&self, outcome: &'static str, why: &str) -> store::Result<bool> {
        let next = self.at(self.timing.next(self.due));
        let is_moved = self.move_to(next, 0, Some(why.to_owned())).await?;
        count(outcome, u64::from(is_moved));
        Ok(is_moved)
    }

    /// Postpones this due time.
    async fn postpone(&self, wait: Millis, why: Option<String>) -> store::Result<bool> {
        let next = Due { due: self.due, look_at: self.service.now() + wait };
        self.move_to(Some(next), 0, why).await
    }

    /// Pauses the schedule. The due time gets no run.
    async fn pause(&self, why: &str) -> store::Result<bool> {
        pause(self.service, self.document, why).await.map(|()| false)
    }

    fn at(&self, time: Option<Millis>) -> Option<Due> {
        due_at(self.timing, &self.state.id, time)
    }

    async fn move_to(&self, next: Option<Due>, missed: u64, said: Option<String>) -> store::Result<bool> {
        move_schedule(self.service, self.state, next, missed, said).await
    }
}

/// Moves the schedule to its next time, unless another process has.
async fn move_schedule(
    service: &Service,
    state: &ScheduleState,
    next: Option<Due>,
    missed: u64,
    said: Option<String>,
) -> store::Result<bool> {
    let Some(read) = state.next else { return Ok(false) };
    let (tenant, id, version, due) = (state.tenant, state.id.clone(), state.version, read.due);
    service.store.move_schedule(ScheduleMove { tenant, id, version, due, next, missed, said }).await
}

fn still_stopping() -> Fault {
    Fault::new(Code::StoreUnavailable, "A run before it is cancelled, and has not stopped yet.")
}

fn count(outcome: &'static str, times: u64) {
    counter!("pes_schedule_fires_total", "outcome" => outcome).increment(times);
}
