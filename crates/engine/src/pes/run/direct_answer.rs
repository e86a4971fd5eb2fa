//! An answer without a synthesis: the planner's own, or the last reply of a core without a plan.

use serde_json::Value;

use crate::domain::facts::RecordedMessage;
use crate::domain::run::ResultStatus;
use crate::pes::plan::{refine, review};
use crate::pes::run::finish::{self, FinalAnswer};
use crate::pes::run::{answer_form, synthesize};
use crate::pes::state::State;
use crate::pes::tx::Tx;

/// The planner answered directly. While the run has other work, or a message that the planner has not seen, the answer
/// becomes a message, and the run continues.
pub(crate) fn of_planner(tx: &mut Tx<'_>, text: String) {
    let id = format!("answer-{}", tx.mint.hex());
    let shown = tx.store(id, Value::String(text.clone()));
    if !review::drop_rejected(tx) && has_more_to_do(tx.state) {
        let run = tx.state.active_run().clone();
        let message = finish::ai_message(tx, &run, text, None, None);
        let ord = tx.next_ord();
        tx.write_message(ord, &message);
        tx.record_message("messages", RecordedMessage::of(&message, shown));
        refine::end(tx);
        return;
    }
    answer(tx, text, shown, ResultStatus::Success);
}

/// Ends the run with this answer if it has the required form; else asks for it again.
pub(crate) fn answer(tx: &mut Tx<'_>, text: String, shown: Value, status: ResultStatus) {
    match answer_form::fit(tx, &text) {
        Ok(content) => {
            let shown = answer_form::shown(tx, &content, &text, shown);
            finish::answer(tx, FinalAnswer { content, shown, ui: None }, status, None);
        }
        Err(fault) => synthesize::ask_for_form(tx, shown, fault),
    }
}

fn has_more_to_do(state: &State) -> bool {
    let mut open = state.list.iter().filter(|item| !item.progress.status.is_settled());
    if !state.is_mid_run() {
        // The next run carries out what people edited while the thread was idle.
        return state.is_refinement_due() || open.any(|item| item.def.edited.is_some());
    }
    state.is_refinement_due() || open.next().is_some() || state.settled_now().next().is_some()
}
