//! Pause: nothing new starts until a person says so; what runs comes to its end.

use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{FeedbackSchema, InputType, Suspension, SuspensionKind};
use crate::pes::people::suspend;
use crate::pes::state::State;
use crate::pes::tx::{Handled, Taken, Tx};

/// Nothing new starts from now on. A second pause changes nothing.
pub(crate) fn pause(tx: &mut Tx<'_>, by: &str) -> Handled {
    let Some(active) = tx.state.head.active.as_ref().filter(|active| active.cancel.is_none()) else {
        return Err(Fault::new(Code::NothingToPause, "No run is active on this thread."));
    };
    if active.pause.is_some() {
        return Ok(Taken::No);
    }
    hold_back(tx, format!("Paused by {by}."));
    Ok(Taken::Yes)
}

/// A run that is not over waits until a person says that it may go on.
pub(crate) fn restored(tx: &mut Tx<'_>, message: String) -> Taken {
    let active = tx.state.head.active.as_ref();
    if active.is_none_or(|active| active.cancel.is_some() || active.pause.is_some()) {
        return Taken::No;
    }
    hold_back(tx, message);
    Taken::Yes
}

/// The pause of the active run, in the words of its question.
pub(crate) fn paused(state: &State) -> Option<String> {
    let pause = state.head.active.as_ref()?.pause.as_ref()?;
    state.suspension(pause).map(|open| open.message.clone())
}

/// Opens the question that ends the pause.
pub(crate) fn hold_back(tx: &mut Tx<'_>, message: String) {
    let schema = FeedbackSchema::new(InputType::Confirm, "Go on?");
    let question = suspend::question(tx, SuspensionKind::Pause, message, schema);
    let question = Suspension { expires_at: None, expiry_policy: None, ..question };
    tx.active().pause = Some(question.suspension_id.clone());
    suspend::open(tx, question);
}
