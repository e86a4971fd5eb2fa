//! Pause: nothing new starts until a person ends it; what is running continues to its end.

use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{FeedbackSchema, InputType, Suspension, SuspensionKind};
use crate::pes::people::suspend;
use crate::pes::state::State;
use crate::pes::tx::{EventOutcome, HandlerResult, Tx};

/// Pauses the active run: nothing new starts from now on. A second pause changes nothing.
pub(crate) fn pause(tx: &mut Tx<'_>, by: &str) -> HandlerResult {
    let Some(active) = tx.state.head.active.as_ref().filter(|active| active.cancel.is_none()) else {
        return Err(Fault::new(Code::NothingToPause, "No run is active on this thread."));
    };
    if active.pause.is_some() {
        return Ok(EventOutcome::Ignored);
    }
    open_pause(tx, format!("Paused by {by}."));
    Ok(EventOutcome::Applied)
}

/// Pauses a run of a restored thread, unless it is being cancelled or is paused already.
pub(crate) fn pause_restored(tx: &mut Tx<'_>, message: String) -> EventOutcome {
    let active = tx.state.head.active.as_ref();
    if active.is_none_or(|active| active.cancel.is_some() || active.pause.is_some()) {
        return EventOutcome::Ignored;
    }
    open_pause(tx, message);
    EventOutcome::Applied
}

/// The message of the active run's pause, if it is paused.
pub(crate) fn message(state: &State) -> Option<String> {
    let pause = state.head.active.as_ref()?.pause.as_ref()?;
    state.suspension(pause).map(|open| open.message.clone())
}

/// Opens the question that ends the pause.
pub(crate) fn open_pause(tx: &mut Tx<'_>, message: String) {
    let schema = FeedbackSchema::new(InputType::Confirm, "Go on?");
    let question = suspend::question(tx, SuspensionKind::Pause, message, schema);
    let question = Suspension { expires_at: None, expiry_policy: None, ..question };
    tx.active().pause = Some(question.suspension_id.clone());
    suspend::open(tx, question);
}
