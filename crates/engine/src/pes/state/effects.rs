//! The effects in flight: those of the slots marked `Running`, and the input of each.

use crate::domain::ids::{CallId, TaskId};
use crate::domain::task::{ActionSlot, Task, TaskAction, TaskActionKind};
use crate::domain::tool::{CallRecord, CallStatus};
use crate::effect::Effect;
use crate::pes::state::{ModelCall, State};
use crate::{Invocation, PeerCallInput};

/// The effects of the slots marked `Running`, in list order.
pub(crate) fn running(state: &State) -> Vec<Effect> {
    let mut effects = Vec::new();
    effects.extend(state.main_call().and_then(model_effect));
    for item in state.list.open() {
        let Some(work) = &item.progress.work else { continue };
        effects.extend(work.model.as_ref().and_then(model_effect));
        let running = work.batch.iter().filter_map(|id| state.calls.get(id));
        effects.extend(
            running
                .filter(|call| call.record.status == CallStatus::Running)
                .map(|call| Effect::CallTool { call: call.record.call_id.clone(), attempt: call.record.attempt }),
        );
    }
    effects.extend(state.tasks.values().filter_map(|(_, task)| task_effect(task)));
    effects
}

fn task_effect(task: &Task) -> Option<Effect> {
    let (id, attempt) = (task.task_id.clone(), task.attempt);
    match task.action? {
        TaskAction { slot: ActionSlot::Ready { .. }, .. } => None,
        TaskAction { what: TaskActionKind::Send | TaskActionKind::Resend, .. } => {
            Some(Effect::Delegate { task: id, attempt })
        }
        TaskAction { what: TaskActionKind::Ask, .. } => Some(Effect::AskPeer { task: id, attempt }),
        TaskAction { what: TaskActionKind::Cancel, .. } => Some(Effect::CancelPeer { task: id, attempt }),
    }
}

fn model_effect(call: &ModelCall) -> Option<Effect> {
    Some(Effect::CallModel { stream: call.stream()?.clone(), attempt: call.attempt })
}

/// The input of a running tool call.
pub(crate) fn invocation(state: &State, id: &CallId) -> Option<Invocation> {
    let record = &state.calls.get(id)?.record;
    let run = state.run.as_ref()?;
    if record.status != CallStatus::Running {
        return None;
    }
    let idempotency_key = format!("{}:{id}", state.thread_id);
    Some(Invocation {
        call_id: id.clone(),
        tool_name: record.tool_name.clone(),
        arguments: record.modified_arguments.clone().unwrap_or_else(|| record.arguments.clone()),
        digest: record.digest.clone(),
        policy: record.policy.clone(),
        judged_before: has_waited(record).then(|| run.settings.clone()),
        run_id: run.run_id.clone(),
        item_id: record.item_id.clone(),
        user_id: run.user_id.clone(),
        trace: run.call_trace(&idempotency_key),
        idempotency_key,
        agent_state: state.agent_state.clone(),
    })
}

/// Whether it waited for a person, for another attempt or for its turn. The last is seen by the time, which another process
/// may have told it by a clock that is behind.
fn has_waited(record: &CallRecord) -> bool {
    record.digest.is_some() || record.attempt > 1 || record.updated_at != record.created_at
}

/// The input of a task's action in flight.
pub(crate) fn peer_call_input(state: &State, id: &TaskId) -> Option<PeerCallInput> {
    let (_, task) = state.tasks.get(id)?;
    let record = state.calls.get(&task.call_id).map(|call| &call.record);
    let run = state.run.as_ref().filter(|run| run.run_id == task.run_id);
    // A message that may have arrived may also not have: it is sent again to an agent that takes it once.
    let sends = task.action.is_some_and(|action| match action.what {
        TaskActionKind::Send | TaskActionKind::Resend => true,
        TaskActionKind::Ask | TaskActionKind::Cancel => false,
    });
    let is_first = sends && task.reply.is_none();
    let is_later = task.attempt > 1 || record.is_some_and(has_waited);
    Some(PeerCallInput {
        task: task.clone(),
        judged_before: run.filter(|_| is_first && is_later).map(|run| run.settings.clone()),
        arguments: record.map(|it| it.modified_arguments.as_ref().unwrap_or(&it.arguments).clone()).unwrap_or_default(),
        digest: record.and_then(|record| record.digest.clone()),
        user_id: run.and_then(|run| run.user_id.clone()),
        trace: run.map(|run| run.trace.clone()).unwrap_or_default().call(&task.trace_id, id.as_str()),
    })
}
