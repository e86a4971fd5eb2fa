//! The synthesis: the results become one message.

use serde_json::Value;

use crate::domain::facts::{SynthesisBody, SynthesisStatus};
use crate::domain::fault::Code;
use crate::domain::model;
use crate::domain::plan::ItemStatus;
use crate::domain::run::{ResultStatus, RunError};
use crate::domain::settings::OnBudget;
use crate::parse::{self, SynthesisDraft, TOO_LONG};
use crate::pes::run::answer_form;
use crate::pes::run::finish::{self, FinalAnswer};
use crate::pes::state::{MAX_REPAIRS, ModelCall, ReceivedReply, Repair, RunPhase, funds, model_call};
use crate::pes::tx::Tx;

/// Asks for the answer.
pub(crate) fn begin(tx: &mut Tx<'_>) {
    tx.state.head.phase = RunPhase::Synthesizing;
    let shown = tx.state.head.plan_version;
    tx.active().model = Some(ModelCall::ready(1, shown));
    record(tx, SynthesisStatus::Started);
}

/// The answer does not have the required form: asks for it again.
pub(crate) fn ask_for_form(tx: &mut Tx<'_>, answer: Value, fault: String) {
    begin(tx);
    if let Some(call) = &mut tx.active().model {
        call.repair = Some(Repair { round: 0, reply: answer, fault, names: false });
    }
}

/// Handles the reply. An answer that is empty, cut off or of the wrong form is asked for again, a few times.
pub(crate) fn on_reply(tx: &mut Tx<'_>, replied: ReceivedReply<'_>) {
    let (draft, misfit) = read(tx, &replied.reply.text);
    let is_limited = tx.state.run_settings().synthesis_params.contains_key("maxTokens");
    if replied.reply.is_cut() && is_limited && !draft.content.trim().is_empty() {
        return answer_limited(tx, draft);
    }
    if draft.content.trim().is_empty() || replied.reply.is_cut() || misfit.is_some() {
        return repair(tx, replied, draft, misfit);
    }
    record(tx, SynthesisStatus::Completed);
    let shown = if draft.content == replied.reply.text {
        replied.text
    } else {
        tx.store(format!("{}.answer", replied.stream), Value::String(draft.content.clone()))
    };
    let status = tx.state.result_status();
    let answer = FinalAnswer { content: draft.content, shown, ui: draft.ui_metadata };
    finish::answer(tx, answer, status, None);
}

/// The reply as a draft, and what is wrong with its form.
fn read(tx: &Tx<'_>, text: &str) -> (SynthesisDraft, Option<String>) {
    if !answer_form::is_wanted(tx.state) {
        return (parse::synthesis(text), None);
    }
    let (content, misfit) = match answer_form::fit(tx, text) {
        Ok(answer) => (answer, None),
        Err(fault) => (text.trim().to_owned(), Some(fault)),
    };
    (SynthesisDraft { content, ui_metadata: None }, misfit)
}

fn repair(tx: &mut Tx<'_>, replied: ReceivedReply<'_>, draft: SynthesisDraft, misfit: Option<String>) {
    let round = model_call::repair_rounds(replied.call) + 1;
    let has_words = !draft.content.trim().is_empty();
    let fault = match &misfit {
        _ if replied.reply.is_cut() => format!("{TOO_LONG} Write a shorter answer for the user."),
        Some(misfit) if has_words => misfit.clone(),
        Some(_) | None => "The answer was empty. Write the answer for the user.".to_owned(),
    };
    let again = replied.call.again(replied.call.iteration + 1);
    let repair = Repair { round, reply: replied.text, fault, names: false };
    if round > MAX_REPAIRS {
        return match misfit {
            _ if !has_words => on_failed(tx, "the model kept answering nothing"),
            Some(misfit) if !replied.reply.is_cut() => {
                on_failed(tx, &format!("the model kept answering in another form than `answerSchema`. {misfit}"))
            }
            Some(_) | None => {
                answer_incomplete(tx, draft, Code::SynthesisFailed, "the model kept answering at too great a length")
            }
        };
    }
    tx.active().model = Some(ModelCall { repair: Some(repair), ..again });
    let ends = tx.state.run_settings().execution.on_budget == OnBudget::Stop;
    if let (true, Some(spent)) = (has_words && ends, funds::why_spent(tx.state, tx.world, tx.stamp.now)) {
        let why = format!("the run's budget leaves no other, {}", spent.why());
        answer_incomplete(tx, draft, Code::BudgetExceeded, &why);
    }
}

/// Half an answer is better than none, if it says that it is incomplete.
pub(crate) fn answer_incomplete(tx: &mut Tx<'_>, draft: SynthesisDraft, code: Code, why: &str) {
    let message = format!("The answer was cut off: {why}.");
    let is_fatal = answer_form::is_wanted(tx.state);
    tx.record_error(model::Phase::Synthesis, code.as_str(), &message, is_fatal, None);
    let content = format!("{}\n\n{message}", draft.content);
    let error = RunError { code, message, phase: model::Phase::Synthesis };
    let answer = FinalAnswer::written(tx, "answer", content, draft.ui_metadata);
    finish::answer(tx, answer, ResultStatus::Partial, Some(error));
}

/// A caller that limited the length of the answer gets the cut answer without an added sentence; the error says that it
/// was cut.
fn answer_limited(tx: &mut Tx<'_>, draft: SynthesisDraft) {
    let message = "The answer is as long as `synthesisParams.maxTokens` allows.".to_owned();
    tx.record_error(model::Phase::Synthesis, Code::SynthesisFailed.as_str(), &message, false, None);
    let error = RunError { code: Code::SynthesisFailed, message, phase: model::Phase::Synthesis };
    let answer = FinalAnswer::written(tx, "answer", draft.content, draft.ui_metadata);
    finish::answer_in_any_form(tx, answer, ResultStatus::Partial, Some(error));
}

/// The work is done but the answer could not be written: the run ends with an account of what was done and what failed.
pub(crate) fn on_failed(tx: &mut Tx<'_>, why: &str) {
    let message = format!("The answer could not be written: {why}");
    let error = RunError { code: Code::SynthesisFailed, message, phase: model::Phase::Synthesis };
    finish::answer_with_account(tx, error, answer_form::is_wanted(tx.state));
}

fn record(tx: &mut Tx<'_>, status: SynthesisStatus) {
    let count = |wanted: ItemStatus| tx.state.settled_now().filter(|item| item.progress.status == wanted).count();
    let (completed_items, failed_items) = (count(ItemStatus::Completed), count(ItemStatus::Failed));
    tx.record(None, "Synthesis", SynthesisBody { status, completed_items, failed_items });
}
