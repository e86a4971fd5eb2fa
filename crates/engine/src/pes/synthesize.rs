//! The answer: what was done becomes one message.

use super::state::State;
use super::{budget, finish};
use serde_json::{Value, json};

use super::execute::Replied;
use super::plan::REPAIRS;
use super::state::{Item, ModelCall, Phase, Repair};
use super::tx::Tx;
use crate::domain::fault::Code;
use crate::domain::model;
use crate::domain::observation::ObservationType;
use crate::domain::plan::ItemStatus;
use crate::domain::run::{ResultStatus, RunError};
use crate::domain::settings::OnBudget;
use crate::parse::{self, SynthesisDraft, TOO_LONG};

pub(super) fn begin(tx: &mut Tx<'_>) {
    tx.state.head.phase = Phase::Synthesizing;
    let shown = tx.state.head.plan_version;
    tx.active().model = Some(ModelCall::ready(1, shown));
    record(tx, "started");
}

pub(super) fn replied(tx: &mut Tx<'_>, replied: Replied<'_>) {
    let draft = parse::synthesis(&replied.reply.text);
    if draft.content.trim().is_empty() || replied.reply.is_cut() {
        return repair(tx, replied, draft);
    }
    record(tx, "completed");
    let shown = match draft.content == replied.reply.text {
        true => replied.text,
        false => tx.store(format!("{}.answer", replied.stream), Value::String(draft.content.clone())),
    };
    let status = tx.state.result_status();
    finish::answer(tx, draft.content, shown, draft.ui_metadata, status, None);
}

fn repair(tx: &mut Tx<'_>, replied: Replied<'_>, draft: SynthesisDraft) {
    let round = replied.call.repair.as_ref().map_or(0, |repair| repair.round) + 1;
    let fault = match replied.reply.is_cut() {
        true => format!("{TOO_LONG} Write a shorter answer for the user."),
        false => "The answer was empty. Write the answer for the user.".to_owned(),
    };
    let again = replied.call.again(replied.call.iteration + 1);
    let repair = Repair { round, reply: replied.text, fault, names: false };
    let has_words = !draft.content.trim().is_empty();
    if round > REPAIRS {
        return match has_words {
            true => answer_half(tx, draft, Code::SynthesisFailed, "the model kept answering at too great a length"),
            false => failed(tx, "the model kept answering nothing"),
        };
    }
    tx.active().model = Some(ModelCall { repair: Some(repair), ..again });
    let ends = tx.state.settings().execution.on_budget == OnBudget::Stop;
    if let (true, Some(why)) = (has_words && ends, budget::spent(tx.state, tx.world, tx.stamp.now)) {
        answer_half(tx, draft, Code::BudgetExceeded, &format!("the run's budget leaves no other, {why}"));
    }
}

/// Half an answer is better than none, if it says that it is half.
pub(super) fn answer_half(tx: &mut Tx<'_>, draft: SynthesisDraft, code: Code, why: &str) {
    let message = format!("The answer was cut off: {why}.");
    tx.record_error(model::Phase::Synthesis, code.as_str(), &message, false, None);
    let content = format!("{}\n\n{message}", draft.content);
    let error = RunError { code, message, phase: model::Phase::Synthesis };
    let shown = tx.store(format!("answer-{}", tx.state.active_run().run_id), Value::String(content.clone()));
    finish::answer(tx, content, shown, draft.ui_metadata, ResultStatus::Partial, Some(error));
}

/// The work is done but the answer could not be written: the run says so, and what was done and what failed.
pub(super) fn failed(tx: &mut Tx<'_>, why: &str) {
    let message = format!("The answer could not be written: {why}");
    tx.record_error(model::Phase::Synthesis, Code::SynthesisFailed.as_str(), &message, false, None);
    let content = tx.state.account(&message);
    let error = RunError { code: Code::SynthesisFailed, message, phase: model::Phase::Synthesis };
    let shown = tx.store(format!("account-{}", tx.state.active_run().run_id), Value::String(content.clone()));
    finish::answer(tx, content, shown, None, ResultStatus::Partial, Some(error));
}

fn record(tx: &mut Tx<'_>, status: &str) {
    let count = |wanted: ItemStatus| tx.state.settled_now().filter(|item| item.progress.status == wanted).count();
    let body = json!({
        "status": status,
        "completedItems": count(ItemStatus::Completed), "failedItems": count(ItemStatus::Failed),
    });
    tx.record(ObservationType::Synthesis, None, "Synthesis", body);
}

impl State {
    /// An answer in place of the model's: what happened, and what became of each item.
    pub(super) fn account(&self, what_happened: &str) -> String {
        let mut text = format!("{what_happened}\n\nThis is what was done:\n");
        for item in self.settled_now() {
            let word = super::view::status_word(item.progress.status);
            text.push_str(&format!("\n- {}: {word}", item.def.description));
            if let Some(reason) = &item.progress.reason {
                text.push_str(&format!(" ({reason})"));
            }
            if let Some(result) = item.progress.result.as_ref().and_then(Value::as_str) {
                text.push_str(&format!(" — {result}"));
            }
        }
        text
    }

    /// Items that settled in this run.
    pub(super) fn settled_now(&self) -> impl Iterator<Item = &Item> {
        let run = &self.active_run().run_id;
        let list = self.list.iter();
        list.filter(move |item| item.progress.run.as_ref() == Some(run) && item.progress.status.is_settled())
    }

    /// `partial`: an item failed or was cancelled other than by an edit, or a tool's last word in an item was an error.
    pub(super) fn result_status(&self) -> ResultStatus {
        let is_whole = self.settled_now().all(|item| match item.progress.status {
            ItemStatus::Completed => self.last_errors(item).is_empty(),
            ItemStatus::Cancelled => item.progress.edited_away,
            ItemStatus::Failed | ItemStatus::Pending | ItemStatus::InProgress | ItemStatus::Waiting => false,
        });
        if is_whole { ResultStatus::Success } else { ResultStatus::Partial }
    }
}
