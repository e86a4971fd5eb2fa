//! When a thread must be woken.

use crate::World;
use crate::domain::Millis;
use crate::domain::task::{ActionSlot, Task, TaskAction, TaskActionKind};
use crate::domain::tool::CallStatus;
use crate::pes::state::funds::{self, Funds};
use crate::pes::state::{ItemLoop, ModelCall, ModelSlot, State};

/// How often it is checked whether the process that performs an action is still alive.
const LIVENESS_CHECK_INTERVAL: Millis = 5_000;

/// When the thread must be woken. What is `Ready` and could start now waits for the lease holder: now. What waits for
/// its turn, for a permit or for the end of a pause is woken by that event.
pub(crate) fn wake_at(state: &State, world: &World<'_>, now: Millis) -> Option<Millis> {
    let expiry = state.suspensions.values().filter_map(|open| open.expires_at);
    let tasks = state.tasks.values().filter_map(|(_, task)| task_wake_time(task));
    if state.is_cancelling() {
        return Some(now);
    }
    let held = state.head.active.as_ref().is_none_or(|active| active.is_held());
    let main = state.main_call().and_then(|call| model_wake_time(state, world, now, call));
    let loops = state.open_loops().filter(|work| work.has_permit).filter_map(|work| match &work.model {
        Some(call) => model_wake_time(state, world, now, call),
        None => {
            let sends = work.batch.iter().filter_map(|call| match state.send_slot(call)? {
                ActionSlot::Ready { at } => Some(at),
                ActionSlot::Running { .. } => None,
            });
            sends.chain(batch_wake_time(state, now, work)).min()
        }
    });
    let slots = main.into_iter().chain(loops).filter(|_| !held);
    let replies = state.calls_with_new_reply().map(|_| now);
    expiry.chain(tasks).chain(slots).chain(replies).chain(state.budget_deadline()).min()
}

/// When a task must be looked at again. A send is woken together with its item.
fn task_wake_time(task: &Task) -> Option<Millis> {
    let deadline = (!task.status.is_terminal()).then_some(task.deadline);
    match task.action {
        Some(TaskAction { what: TaskActionKind::Send | TaskActionKind::Resend, slot: ActionSlot::Running { .. } }) => {
            None
        }
        Some(TaskAction { what: TaskActionKind::Send | TaskActionKind::Resend, slot: ActionSlot::Ready { .. } })
        | None => deadline,
        Some(TaskAction { what: TaskActionKind::Ask | TaskActionKind::Cancel, slot }) => {
            let at = match slot {
                ActionSlot::Ready { at } => at,
                ActionSlot::Running { since, .. } => since.saturating_add(LIVENESS_CHECK_INTERVAL),
            };
            Some(deadline.map_or(at, |deadline| deadline.min(at)))
        }
    }
}

/// When the next `Ready` call of a batch may start. `None`: none is ready, or a running call must end first.
fn batch_wake_time(state: &State, now: Millis, work: &ItemLoop) -> Option<Millis> {
    if !work.is_together && state.batch_has(&work.batch, CallStatus::Running) {
        return None;
    }
    let ready = work.batch.iter().filter(|call| state.call_status(call) == Some(CallStatus::Ready));
    let mut due = ready.map(|call| state.retries_at(call).unwrap_or(now));
    if work.is_together { due.min() } else { due.next() }
}

fn model_wake_time(state: &State, world: &World<'_>, now: Millis, call: &ModelCall) -> Option<Millis> {
    match &call.slot {
        ModelSlot::Running { .. } => None,
        ModelSlot::Ready { not_before } => match funds::for_call(state, world, call) {
            // The calls in flight wake it when they end.
            Funds::Wait => None,
            Funds::Later(at) => Some(not_before.unwrap_or(now).max(at)),
            Funds::Enough(_) | Funds::Spent(_) => Some(not_before.unwrap_or(now)),
        },
    }
}

/// Whether that time has been reached.
pub(crate) fn is_due(now: Millis, not_before: Option<Millis>) -> bool {
    not_before.is_none_or(|at| at <= now)
}
