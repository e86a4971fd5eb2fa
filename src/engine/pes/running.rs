//! What is under way.

use super::state::{ModelCall, State};
use crate::domain::task::{Errand, Slot, Task, What};
use crate::domain::tool::CallStatus;
use crate::engine::effect::Effect;

/// Slots marked `Running`, in list order.
pub(super) fn running(state: &State) -> Vec<Effect> {
    let mut effects = Vec::new();
    let main = state.head.active.as_ref().and_then(|active| active.model.as_ref());
    effects.extend(main.and_then(model_effect));
    for item in state.list.open() {
        let Some(work) = &item.track.work else { continue };
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
    match task.errand? {
        Errand { slot: Slot::Ready { .. }, .. } => None,
        Errand { what: What::Send | What::Resend, .. } => Some(Effect::Delegate { task: id, attempt }),
        Errand { what: What::Ask, .. } => Some(Effect::AskPeer { task: id, attempt }),
        Errand { what: What::Cancel, .. } => Some(Effect::CancelPeer { task: id, attempt }),
    }
}

fn model_effect(call: &ModelCall) -> Option<Effect> {
    Some(Effect::CallModel { stream: call.stream()?.clone(), attempt: call.attempt })
}
