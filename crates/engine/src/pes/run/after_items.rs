//! What follows when items have their results: the synthesis or, for a run without a plan, its answer or its failure.

use serde_json::Value;

use crate::domain::fault::Code;
use crate::domain::ids::ItemId;
use crate::domain::model;
use crate::domain::plan::ItemCode;
use crate::parse::SynthesisDraft;
use crate::pes::run::{direct_answer, finish, synthesize};
use crate::pes::settle::item;
use crate::pes::state::Shape;
use crate::pes::tx::Tx;

/// Decides what follows when nothing of the plan is left to do.
pub(crate) fn on_items_done(tx: &mut Tx<'_>) {
    match tx.state.shape {
        Shape::Planned => synthesize::begin(tx),
        Shape::Single => fail_with_single_item(tx),
    }
}

/// An item has its result; without a plan that is the answer.
pub(crate) fn on_item_completed(tx: &mut Tx<'_>, content: String, shown: Value) {
    match tx.state.shape {
        Shape::Planned => {}
        Shape::Single => {
            let status = tx.state.result_status();
            direct_answer::answer(tx, content, shown, status);
        }
    }
}

/// An item's replies stay cut off. Half a result is no result; but if it would have been the answer, it is shown.
pub(crate) fn on_item_cut_off(tx: &mut Tx<'_>, id: &ItemId, content: String) {
    item::fail(tx, id, ItemCode::ReplyCutOff.as_str(), "the model's replies were cut off for their length".into());
    match tx.state.shape {
        Shape::Single if !content.trim().is_empty() => synthesize::answer_incomplete(
            tx,
            SynthesisDraft { content, ui_metadata: None },
            Code::SynthesisFailed,
            "the model kept answering at too great a length",
        ),
        Shape::Single | Shape::Planned => {}
    }
}

/// Nothing is left to do and there was no answer: the single item failed, and with it the run.
fn fail_with_single_item(tx: &mut Tx<'_>) {
    let reason = tx.state.settled_now().last().and_then(|item| item.progress.reason.clone());
    let why = reason.unwrap_or_else(|| "the step did not end".into());
    let (code, message) = match why.split_once(": ") {
        Some((code, message)) => (run_code(code), message.to_owned()),
        None => (Code::StepFailed, why),
    };
    finish::fail(tx, code, message, model::Phase::Execution);
}

/// The code of a run whose only item failed with this code. Codes of items and tools are none of a run.
fn run_code(of_item: &str) -> Code {
    let of_both = [
        Code::ModelFailed,
        Code::ModelRefused,
        Code::PromptTooLong,
        Code::ReplyTooLarge,
        Code::ProviderSaturated,
        Code::SuspensionTimedOut,
    ];
    of_both.into_iter().find(|code| code.as_str() == of_item).unwrap_or(Code::StepFailed)
}
