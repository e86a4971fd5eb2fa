//! Stops a model call before it is answered.

use crate::domain::ids::ItemId;
use crate::domain::model::{FailureKind, ModelFailure};
use crate::pes::state::ModelSlot;
use crate::pes::tx::Tx;

/// Stops the open call of the planner, the synthesizer or an item; it ends without an answer.
pub(crate) fn stop(tx: &mut Tx<'_>, item: Option<&ItemId>) {
    let call = match item {
        Some(item) => tx.change_loop(item, |work| work.model.take()).flatten(),
        None => tx.active().model.take(),
    };
    if let Some(ModelSlot::Running { stream, .. }) = call.map(|call| call.slot) {
        let failure = interrupted("the run was stopped");
        tx.record_stream_error(&stream, item, &failure, None);
    }
}

/// A failure that is not the model's fault.
pub(crate) fn interrupted(message: &str) -> ModelFailure {
    ModelFailure::new(FailureKind::Interrupted, message)
}
