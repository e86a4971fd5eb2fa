//! The answer: what was done becomes one message.

use serde_json::{Value, json};

use super::execute::Replied;
use super::plan::REPAIRS;
use super::state::{Item, ModelCall, Phase, Repair};
use super::transition::Transition;
use crate::domain::fault::Code;
use crate::domain::model;
use crate::domain::observation::ObservationType;
use crate::domain::plan::ItemStatus;
use crate::domain::run::{ResultStatus, RunError};
use crate::domain::settings::OnBudget;
use crate::parse::{self, SynthesisDraft, TOO_LONG};

impl Transition<'_> {
    pub fn begin_synthesis(&mut self) {
        self.state.head.phase = Phase::Synthesizing;
        let shown = self.state.head.plan_version;
        self.active().model = Some(ModelCall::ready(1, shown));
        self.record_synthesis("started");
    }

    pub fn synthesis_replied(&mut self, replied: Replied<'_>) {
        let draft = parse::synthesis(&replied.reply.text);
        if draft.content.trim().is_empty() || replied.reply.is_cut() {
            return self.repair_synthesis(replied, draft);
        }
        self.record_synthesis("completed");
        let shown = match draft.content == replied.reply.text {
            true => replied.text,
            false => self.store(format!("{}.answer", replied.stream), Value::String(draft.content.clone())),
        };
        let status = self.result_status();
        self.answer(draft.content, shown, draft.ui_metadata, status, None);
    }

    fn repair_synthesis(&mut self, replied: Replied<'_>, draft: SynthesisDraft) {
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
                true => {
                    self.answer_half(draft, Code::SynthesisFailed, "the model kept answering at too great a length")
                }
                false => self.synthesis_failed("the model kept answering nothing"),
            };
        }
        self.active().model = Some(ModelCall { repair: Some(repair), ..again });
        let ends = self.settings().execution.on_budget == OnBudget::Stop;
        if let (true, Some(why)) = (has_words && ends, self.spent()) {
            self.answer_half(draft, Code::BudgetExceeded, &format!("the run's budget leaves no other, {why}"));
        }
    }

    /// Half an answer is better than none, if it says that it is half.
    pub fn answer_half(&mut self, draft: SynthesisDraft, code: Code, why: &str) {
        let message = format!("The answer was cut off: {why}.");
        self.record_error(model::Phase::Synthesis, code.as_str(), &message, false, None);
        let content = format!("{}\n\n{message}", draft.content);
        let error = RunError { code, message, phase: model::Phase::Synthesis };
        let shown = self.store(format!("answer-{}", self.run().run_id), Value::String(content.clone()));
        self.answer(content, shown, draft.ui_metadata, ResultStatus::Partial, Some(error));
    }

    /// The work is done but the answer could not be written: the run says so, and what was done and what failed.
    pub fn synthesis_failed(&mut self, why: &str) {
        let message = format!("The answer could not be written: {why}");
        self.record_error(model::Phase::Synthesis, Code::SynthesisFailed.as_str(), &message, false, None);
        let content = self.account(&message);
        let error = RunError { code: Code::SynthesisFailed, message, phase: model::Phase::Synthesis };
        let shown = self.store(format!("account-{}", self.run().run_id), Value::String(content.clone()));
        self.answer(content, shown, None, ResultStatus::Partial, Some(error));
    }

    /// An answer in place of the model's: what happened, and what became of each item.
    pub fn account(&self, what_happened: &str) -> String {
        let mut text = format!("{what_happened}\n\nThis is what was done:\n");
        for item in self.settled_now() {
            let word = super::view::status_word(item.track.status);
            text.push_str(&format!("\n- {}: {word}", item.def.description));
            if let Some(reason) = &item.track.reason {
                text.push_str(&format!(" ({reason})"));
            }
            if let Some(result) = item.track.result.as_ref().and_then(Value::as_str) {
                text.push_str(&format!(" — {result}"));
            }
        }
        text
    }

    fn record_synthesis(&mut self, status: &str) {
        let count = |wanted: ItemStatus| self.settled_now().filter(|item| item.track.status == wanted).count();
        let body = json!({
            "status": status,
            "completedItems": count(ItemStatus::Completed), "failedItems": count(ItemStatus::Failed),
        });
        self.record(ObservationType::Synthesis, None, "Synthesis", body);
    }

    /// Items that settled in this run.
    pub fn settled_now(&self) -> impl Iterator<Item = &Item> {
        let run = &self.run().run_id;
        let list = self.state.list.iter();
        list.filter(move |item| item.track.run.as_ref() == Some(run) && item.track.status.is_settled())
    }

    /// `partial`: an item failed or was cancelled other than by an edit, or a tool's last word in an item was an error.
    pub fn result_status(&self) -> ResultStatus {
        let is_whole = self.settled_now().all(|item| match item.track.status {
            ItemStatus::Completed => self.last_errors(item).is_empty(),
            ItemStatus::Cancelled => item.track.edited_away,
            ItemStatus::Failed | ItemStatus::Pending | ItemStatus::InProgress | ItemStatus::Waiting => false,
        });
        if is_whole { ResultStatus::Success } else { ResultStatus::Partial }
    }
}
