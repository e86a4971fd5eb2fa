//! A run ends: one answer, one `RUN_FINISHED`, and the next queued run starts in the same transition.

use serde_json::{Map, Value};

use crate::domain::actor::ServerActor;
use crate::domain::facts::{FinalResponseBody, RecordedMessage, StateUpdateBody};
use crate::domain::fault::Code;
use crate::domain::hitl::Decision;
use crate::domain::ids::{MessageId, RunId, SuspensionId};
use crate::domain::message::{ConversationMessage, MessageRole};
use crate::domain::model;
use crate::domain::run::{CallerStatus, Outcome, ResultStatus, Run, RunError, RunFailure, RunStatus};
use crate::domain::to_value;
use crate::pes::people::pause;
use crate::pes::run::{answer_form, begin, message};
use crate::pes::settle::suspension;
use crate::pes::state::{Item, RunPhase, rows};
use crate::pes::tx::Tx;
use crate::world::RunAdmission;

/// The answer of a run.
pub(crate) struct FinalAnswer {
    pub content: String,
    /// The content as observations hold it.
    pub shown: Value,
    pub ui: Option<Value>,
}

impl FinalAnswer {
    /// An answer that this server wrote or changed; the name is part of its payload's id.
    pub fn written(tx: &mut Tx<'_>, name: &str, content: String, ui: Option<Value>) -> Self {
        let id = format!("{name}-{}", tx.state.active_run().run_id);
        let shown = tx.store(id, Value::String(content.clone()));
        Self { content, shown, ui }
    }

    /// A short text, which observations hold whole.
    fn short(content: String) -> Self {
        Self { shown: Value::String(content.clone()), content, ui: None }
    }
}

/// Ends the run with an answer. If the caller wants JSON, an account in words is of no use to it: the run fails
/// instead.
pub(crate) fn answer(tx: &mut Tx<'_>, answer: FinalAnswer, status: ResultStatus, error: Option<RunError>) {
    let is_account = error.is_some() && answer_form::is_wanted(tx.state);
    let status = if is_account { ResultStatus::Error } else { status };
    answer_in_any_form(tx, answer, status, error);
}

/// Ends the run because of this error, with an account of what was done.
pub(crate) fn answer_with_account(tx: &mut Tx<'_>, error: RunError, is_fatal: bool) {
    tx.record_error(error.phase, error.code.as_str(), &error.message, is_fatal, None);
    let content = tx.state.account(&error.message);
    let account = FinalAnswer::written(tx, "account", content, None);
    answer(tx, account, ResultStatus::Partial, Some(error));
}

/// Ends the run with an answer that may lack the required form, because its caller limited its length.
pub(crate) fn answer_in_any_form(tx: &mut Tx<'_>, answer: FinalAnswer, status: ResultStatus, error: Option<RunError>) {
    let (run_status, marked) = match status {
        ResultStatus::Success | ResultStatus::Partial => (RunStatus::Completed, None),
        ResultStatus::Error => (RunStatus::Failed, error.as_ref()),
    };
    let message_id = answer_message(tx, tx.state.active_run().clone(), answer, marked);
    let errors = tx.state.failures(error.as_ref());
    end(tx, run_status, Some(Outcome { status, message_id, error, errors }));
}

/// Fails the run.
pub(crate) fn fail(tx: &mut Tx<'_>, code: Code, message: String, phase: model::Phase) {
    tx.record_error(phase, code.as_str(), &message, true, None);
    let error = RunError { code, message: message.clone(), phase };
    answer(tx, FinalAnswer::short(message), ResultStatus::Error, Some(error));
}

pub(crate) fn ai_message(
    tx: &mut Tx<'_>,
    run: &Run,
    content: String,
    ui: Option<&Value>,
    error: Option<&RunError>,
) -> ConversationMessage {
    let ui = ui.map(|ui| (ConversationMessage::UI, ui.clone()));
    let error = error.map(|error| (ConversationMessage::ERROR, to_value(error)));
    let metadata: Map<String, Value> = ui.into_iter().chain(error).map(|(key, it)| (key.to_owned(), it)).collect();
    ConversationMessage {
        message_id: tx.mint.message(),
        thread_id: run.thread_id.clone(),
        role: MessageRole::Ai,
        content,
        timestamp: tx.stamp.now,
        run_id: Some(run.run_id.clone()),
        requested_by: None,
        metadata: (!metadata.is_empty()).then_some(metadata),
    }
}

fn answer_message(tx: &mut Tx<'_>, run: Run, answer: FinalAnswer, error: Option<&RunError>) -> MessageId {
    let FinalAnswer { content, shown, ui } = answer;
    let message = ai_message(tx, &run, content, ui.as_ref(), error);
    let ord = tx.next_ord();
    tx.write_message(ord, &message);
    let mut recorded = RecordedMessage::of(&message, shown);
    let ui_metadata = ui.map(|ui| tx.store(format!("{}.ui", message.message_id), ui));
    if let Some(ui) = &ui_metadata {
        recorded.metadata.get_or_insert_default().insert(ConversationMessage::UI.to_owned(), ui.clone());
    }
    tx.record_for(&run, "Answer", FinalResponseBody { ui_metadata, message: recorded });
    message.message_id
}

/// Ends the active run. Its items are settled by now. A pause that is still open is carried over to the next run,
/// unless this run is cancelled: cancelling ends its pause.
pub(crate) fn end(tx: &mut Tx<'_>, status: RunStatus, outcome: Option<Outcome>) {
    let paused = pause::message(tx.state).filter(|_| status != RunStatus::Cancelled);
    let open: Vec<SuspensionId> = tx.state.suspensions.values().map(|open| open.suspension_id.clone()).collect();
    for id in open {
        suspension::close(tx, &id, Decision::Cancelled, ServerActor::Engine, Some("the run ended".into()));
    }
    let Some(active) = tx.state.head.active.take() else { return };
    let Some(mut run) = tx.state.run.take() else { return };
    run.counters = active.counters;
    tx.state.head.shapers =
        if tx.state.list.iter().any(Item::may_be_done_as_shaped) { run.requested_by.clone() } else { Vec::new() };
    if status == RunStatus::Completed {
        tx.state.head.later_calls.clear();
    }
    conclude(tx, active.ord, run, status, outcome);
    tx.state.head.phase = RunPhase::Idle;
    tx.state.head.floor = tx.state.head.ord + 1;
    tx.state.removed.clear();
    tx.state.list.forget_turns();
    tx.unmark_run();
    match paused {
        Some(message) => start_paused(tx, message),
        None => start_next(tx),
    }
}

fn conclude(tx: &mut Tx<'_>, ord: i64, mut run: Run, status: RunStatus, outcome: Option<Outcome>) {
    (run.status, run.reason) = (status, None);
    (run.caller_status, run.since) = (CallerStatus::at_end(status, outcome.as_ref()), tx.stamp.now);
    run.finished_at = Some(tx.stamp.now);
    tx.record_run_finished(&run, outcome.as_ref());
    run.outcome = outcome;
    tx.write_run(ord, &run);
}

/// Starts the first run of the queue, if a run may begin.
pub(crate) fn start_next(tx: &mut Tx<'_>) {
    if tx.world.admission == RunAdmission::Now {
        start_first(tx);
    }
}

/// Starts the first run of the queue, if there is one, in a pause that a person must end.
pub(crate) fn start_paused(tx: &mut Tx<'_>, message: String) {
    start_first(tx);
    if tx.state.run.is_some() {
        pause::open_pause(tx, message);
    }
}

fn start_first(tx: &mut Tx<'_>) {
    if tx.state.head.queue.is_empty() {
        return;
    }
    let next = tx.state.head.queue.remove(0);
    if let Some((ord, run)) = tx.state.queued.remove(&next) {
        uncount_message(tx, &run);
        begin::start(tx, ord, run);
    }
}

/// The message of a queued run was counted when it was stored.
fn uncount_message(tx: &mut Tx<'_>, run: &Run) {
    tx.state.head.history_bytes = tx.state.head.history_bytes.saturating_sub(run.query.len() as u64);
}

/// Ends a run that never started. A cancelled run takes its message back; that of a failed one counts from now on, and
/// gets an answer that says why.
pub(crate) fn end_queued(tx: &mut Tx<'_>, id: &RunId, status: RunStatus, error: Option<RunError>) {
    tx.state.head.queue.retain(|queued| queued != id);
    let Some((ord, run)) = tx.state.queued.remove(id) else { return };
    let outcome = error.map(|error| {
        count_message(tx, &run);
        tx.record_fatal_error_of(&run, &error);
        let message_id = answer_message(tx, run.clone(), FinalAnswer::short(error.message.clone()), Some(&error));
        let errors = vec![RunFailure::from(&error)];
        Outcome { status: ResultStatus::Error, message_id, error: Some(error), errors }
    });
    if outcome.is_none() {
        withdraw_message(tx, ord, &run);
    }
    conclude(tx, ord, run, status, outcome);
}

/// Takes the message of a cancelled queued run out of the conversation: the log has it as queued only, so no copy of
/// the thread contains it. Its row number is the one after the run's.
fn withdraw_message(tx: &mut Tx<'_>, ord: i64, run: &Run) {
    let message = message::user_message(run);
    tx.written.put(rows::superseded_message(ord + 1, &message));
    uncount_message(tx, run);
}

/// Makes the message of a failed queued run part of the conversation, after the messages of earlier runs, as if the run
/// had begun: the log has it as queued only. Of a run whose row cannot be read, the message is not known.
fn count_message(tx: &mut Tx<'_>, run: &Run) {
    if run.message_id.as_str().is_empty() {
        return;
    }
    uncount_message(tx, run);
    let shown = message::store(tx, &message::user_message(run));
    let body = StateUpdateBody { message: Some(shown), ..tx.state_update(vec!["messages".to_owned()]) };
    tx.record_for(run, "State changed", body);
}
