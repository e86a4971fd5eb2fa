//! One step of an item: the model's reply becomes calls, a result, or another iteration.

use serde_json::Value;

use crate::domain::ids::ItemId;
use crate::domain::model::{ModelReply, Phase};
use crate::domain::plan::{ItemCode, ItemStatus, ValidationStatus};
use crate::parse::{self, CallDraft, Decision, StepDraft, TOO_LONG};
use crate::pes::plan::merge;
use crate::pes::settle::item;
use crate::pes::state::{MAX_REPAIRS, ModelCall, ReceivedReply, Shape, State, TurnContent};
use crate::pes::tx::Tx;
use crate::pes::work::required_tools::{self, RequiredTools};
use crate::pes::work::{batch, item_loop};

/// What a reply means for its item.
pub(crate) enum StepOutcome {
    /// The loop continues, or the item has failed.
    Settled,
    Completed {
        content: String,
        /// The content as observations hold it.
        shown: Value,
    },
    /// The replies are still cut off after all repairs; this is the last one.
    CutOff { content: String },
}

/// Handles the reply of an item's model: calls, a result, or another iteration.
pub(crate) fn on_reply(tx: &mut Tx<'_>, id: &ItemId, replied: ReceivedReply<'_>) -> StepOutcome {
    let draft = match parse_usable(tx, id, &replied) {
        Ok(draft) => draft,
        Err(outcome) => return outcome,
    };
    if draft.calls.is_empty() {
        return answered(tx, id, draft, &replied);
    }
    if let Some(patch) = draft.updated_plan {
        tx.add_turn(id, TurnContent::Patch { shown: replied.call.shown, patch });
        tx.change_loop(id, |work| work.has_patch = true);
    }
    batch::open(tx, id, Some(&replied), draft.calls);
    StepOutcome::Settled
}

/// The reply as a draft. `Err`: it was empty or cut off, and is asked for again or given up.
pub(crate) fn parse_usable(
    tx: &mut Tx<'_>,
    id: &ItemId,
    replied: &ReceivedReply<'_>,
) -> Result<StepDraft, StepOutcome> {
    let draft = read(tx.state, replied.reply);
    tx.change_loop(id, |work| work.model = None);
    let says_nothing = draft.is_empty() && !is_done_without_words(tx.state, id, &draft);
    if says_nothing || (draft.calls.is_empty() && replied.reply.is_cut()) {
        return Err(repair(tx, id, replied, draft.content));
    }
    if let (Some(thoughts), true) = (&draft.thoughts, replied.reply.thinking.is_empty()) {
        let text = tx.store(format!("{}.thoughts", replied.stream), Value::String(thoughts.clone()));
        tx.record_thoughts(replied.stream, Some(id), Phase::Execution, text);
    }
    // The notes that this prompt showed are dropped; later ones remain for the next prompt.
    let shown = replied.call.notes as usize;
    tx.change_loop(id, |work| work.notes.drain(..shown.min(work.notes.len())).count());
    Ok(draft)
}

/// Whether an empty reply means that the item is complete: the model said so, or all required tools were called
/// successfully, and the last call has an output. Without a plan the item is the answer, which needs words.
fn is_done_without_words(state: &State, id: &ItemId, draft: &StepDraft) -> bool {
    let has_all = || matches!(required_tools::check(state, id), RequiredTools::Passed(Some(ValidationStatus::Passed)));
    let is_done = draft.decision == Some(Decision::CompleteItem) || has_all();
    is_done && state.shape == Shape::Planned && last_output(state, id).is_some()
}

/// Parses the reply. Without a plan there is none to change.
fn read(state: &State, reply: &ModelReply) -> StepDraft {
    let draft = parse::step(reply);
    match state.shape {
        Shape::Planned => draft,
        Shape::Single => StepDraft { updated_plan: None, ..draft },
    }
}

/// A reply without calls: a patch of the plan is applied, then the item continues or ends.
fn answered(tx: &mut Tx<'_>, id: &ItemId, draft: StepDraft, replied: &ReceivedReply<'_>) -> StepOutcome {
    let is_empty = draft.is_empty();
    if let Some(patch) = draft.updated_plan {
        merge::apply_patch(tx, id, replied.call.shown, patch);
    }
    let continues = match draft.decision {
        Some(Decision::Continue | Decision::Wait | Decision::UpdatePlan) => true,
        Some(Decision::CompleteItem) => false,
        None => draft.content.trim().is_empty() && !is_empty,
    };
    if continues {
        item_loop::store_reply(tx, id, replied, Vec::new());
        item_loop::next_iteration(tx, id);
        return StepOutcome::Settled;
    }
    match required_tools::check(tx.state, id) {
        RequiredTools::Passed(validation) => {
            let result = result_text(tx, id, &draft.content, replied);
            item::complete(tx, id, result.clone(), &draft.content, validation);
            return StepOutcome::Completed { content: draft.content, shown: result };
        }
        RequiredTools::Enforce(message) => {
            item_loop::store_reply(tx, id, replied, Vec::new());
            required_tools::enforce(tx, id, message);
        }
        RequiredTools::Failed(code, message) => item::fail(tx, id, code, message),
    }
    StepOutcome::Settled
}

/// The result refers to the stream's stored text if it is the same. An item that is complete without words has the
/// output of its last call as its result.
fn result_text(tx: &mut Tx<'_>, id: &ItemId, content: &str, replied: &ReceivedReply<'_>) -> Value {
    if content.trim().is_empty() {
        return last_output(tx.state, id).unwrap_or_default();
    }
    if content == replied.reply.text {
        return replied.text.clone();
    }
    tx.store(format!("{}.result.{id}", replied.stream), Value::String(content.to_owned()))
}

fn last_output(state: &State, id: &ItemId) -> Option<Value> {
    let item = state.item(id)?;
    state.calls_of(item).filter_map(|call| call.result.as_ref()?.output.clone()).last()
}

/// Asks for the reply again. A reply that was cut off is no result: it may end before what matters.
fn repair(tx: &mut Tx<'_>, id: &ItemId, replied: &ReceivedReply<'_>, content: String) -> StepOutcome {
    let round = tx.change_loop(id, |work| {
        work.repairs += 1;
        work.repairs
    });
    if round.is_none_or(|round| round > MAX_REPAIRS) {
        if replied.reply.is_cut() {
            return StepOutcome::CutOff { content };
        }
        item::fail(tx, id, ItemCode::EmptyReply.as_str(), "the model kept answering nothing".into());
        return StepOutcome::Settled;
    }
    if replied.reply.is_cut() && !replied.reply.text.trim().is_empty() {
        item_loop::store_reply(tx, id, replied, Vec::new());
    }
    let text = if replied.reply.is_cut() {
        format!("Your reply cannot be used. {TOO_LONG} Call a tool, or answer with a shorter result.")
    } else {
        "Your reply was empty. Call a tool, or answer with the result.".to_owned()
    };
    tx.add_turn(id, TurnContent::Engine { text });
    let again = replied.call.again(replied.call.iteration);
    tx.change_loop(id, |work| work.model = Some(again));
    StepOutcome::Settled
}

/// Begins an item whose first calls came with the plan.
pub(crate) fn begin_with_calls(tx: &mut Tx<'_>, id: &ItemId, replied: ReceivedReply<'_>, calls: Vec<CallDraft>) {
    let is_pending = tx.state.item(id).is_some_and(|item| item.progress.status == ItemStatus::Pending);
    if is_pending {
        item_loop::begin(tx, id, None);
        let call = ModelCall::ready(1, tx.state.head.plan_version);
        batch::open(tx, id, Some(&ReceivedReply { call: &call, ..replied }), calls);
    }
}
