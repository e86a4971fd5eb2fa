//! A run ends: one answer, one `RUN_FINISHED`, and the next queued run starts in the same transition.

use serde_json::{Map, Value, json};

use super::record::to_value;
use super::state::{Item, Phase};
use super::transition::Transition;
use crate::domain::fault::Code;
use crate::domain::hitl::Decision;
use crate::domain::ids::{MessageId, RunId, SuspensionId};
use crate::domain::message::{ConversationMessage, MessageRole};
use crate::domain::model;
use crate::domain::observation::ObservationType;
use crate::domain::plan::ItemStatus;
use crate::domain::run::{CallerStatus, Outcome, ResultStatus, Run, RunError, RunFailure, RunStatus};

impl Transition<'_> {
    /// The run's answer. `shown` is its text as observations hold it.
    pub fn answer(
        &mut self,
        content: String,
        shown: Value,
        ui: Option<Value>,
        status: ResultStatus,
        error: Option<RunError>,
    ) {
        let (run_status, marked) = match status {
            ResultStatus::Success | ResultStatus::Partial => (RunStatus::Completed, None),
            ResultStatus::Error => (RunStatus::Failed, error.as_ref()),
        };
        let message_id = self.answer_message(self.run().clone(), content, shown, ui, marked);
        let errors = self.failures(error.as_ref());
        self.end_run(run_status, Some(Outcome { status, message_id, error, errors }));
    }

    /// The plan was a direct answer. While the run has other work, or a message that the planner has not seen, it is a
    /// message, and the run goes on.
    pub fn answer_directly(&mut self, answer: String) {
        let id = format!("answer-{}", self.mint.hex());
        let shown = self.store(id, Value::String(answer.clone()));
        if !self.drop_rejected() && self.has_more_to_do() {
            let run = self.run().clone();
            let message = self.ai_message(&run, answer, None, None);
            let ord = self.ord();
            self.write_message(ord, &message);
            let mut told = to_value(&message);
            told["content"] = shown;
            self.record_state_update(vec!["messages".into()], Some(told));
            self.refined();
            return;
        }
        self.answer(answer, shown, None, ResultStatus::Success, None);
    }

    fn has_more_to_do(&self) -> bool {
        let mut open = self.state.list.iter().filter(|item| !item.track.status.is_settled());
        if !self.is_mid_run() {
            // What people wrote while the thread was idle is carried out by its next run.
            return self.is_refinement_due() || open.any(|item| item.def.edited.is_some());
        }
        self.is_refinement_due() || open.next().is_some() || self.settled_now().next().is_some()
    }

    /// The run cannot go on at all.
    pub fn fail_run(&mut self, code: Code, message: String, phase: model::Phase) {
        self.record_error(phase, code.as_str(), &message, true, None);
        let error = RunError { code, message: message.clone(), phase };
        let shown = Value::String(message.clone());
        self.answer(message, shown, None, ResultStatus::Error, Some(error));
    }

    fn ai_message(
        &mut self,
        run: &Run,
        content: String,
        ui: Option<&Value>,
        error: Option<&RunError>,
    ) -> ConversationMessage {
        let ui = ui.map(|ui| ("uiMetadata", ui.clone()));
        let error = error.map(|error| (ConversationMessage::ERROR, to_value(error)));
        let metadata: Map<String, Value> = ui.into_iter().chain(error).map(|(key, it)| (key.to_owned(), it)).collect();
        ConversationMessage {
            message_id: self.mint.message(),
            thread_id: run.thread_id.clone(),
            role: MessageRole::Ai,
            content,
            timestamp: self.stamp.now,
            run_id: Some(run.run_id.clone()),
            metadata: (!metadata.is_empty()).then_some(metadata),
        }
    }

    fn answer_message(
        &mut self,
        run: Run,
        content: String,
        shown: Value,
        ui: Option<Value>,
        error: Option<&RunError>,
    ) -> MessageId {
        let message = self.ai_message(&run, content, ui.as_ref(), error);
        let ord = self.ord();
        self.write_message(ord, &message);
        let mut told = to_value(&message);
        told["content"] = shown;
        let ui = ui.map(|ui| self.store(format!("{}.ui", message.message_id), ui));
        let mut body = json!({});
        if let Some(ui) = ui {
            told["metadata"]["uiMetadata"] = ui.clone();
            body["uiMetadata"] = ui;
        }
        body["message"] = told;
        self.record_for(&run, ObservationType::FinalResponse, "Answer", body);
        message.message_id
    }

    /// Items are settled by now. A pause that is still open goes on with the next run, which was not paused by itself;
    /// whoever cancels a run ends its pause.
    pub fn end_run(&mut self, status: RunStatus, outcome: Option<Outcome>) {
        let paused = self.paused().filter(|_| status != RunStatus::Cancelled);
        let open: Vec<SuspensionId> = self.state.suspensions.values().map(|open| open.suspension_id.clone()).collect();
        for id in open {
            self.close_suspension(&id, Decision::Cancelled, "engine", Some("the run ended".into()));
        }
        let Some(active) = self.state.head.active.take() else { return };
        let Some(mut run) = self.state.run.take() else { return };
        run.counters = active.counters;
        // What is not completed may be carried out by the next run, what a person wrote may be done again: it stays theirs.
        let lasts = |item: &Item| item.track.status != ItemStatus::Completed || item.def.edited.is_some();
        self.state.head.shapers = if self.state.list.iter().any(lasts) { run.requested_by.clone() } else { Vec::new() };
        self.conclude(active.ord, run, status, outcome);
        self.state.head.phase = Phase::Idle;
        self.state.head.floor = self.state.head.ord + 1;
        self.state.removed.clear();
        self.state.list.forget_turns();
        self.run_settled();
        self.start_next();
        if let (Some(message), true) = (paused, self.state.run.is_some()) {
            self.hold_back(message);
        }
    }

    fn conclude(&mut self, ord: i64, mut run: Run, status: RunStatus, outcome: Option<Outcome>) {
        run.status = status;
        (run.standing, run.since) = (CallerStatus::at_end(status, outcome.as_ref()), self.stamp.now);
        run.finished_at = Some(self.stamp.now);
        self.record_run_finished(&run, outcome.as_ref());
        run.outcome = outcome;
        self.write_run(ord, &run);
    }

    fn start_next(&mut self) {
        if self.state.head.queue.is_empty() {
            return;
        }
        let next = self.state.head.queue.remove(0);
        if let Some((ord, run)) = self.state.queued.remove(&next) {
            // Its message was counted when it was told.
            self.state.head.said = self.state.head.said.saturating_sub(run.query.len() as u64);
            self.start_run(ord, run);
        }
    }

    /// A run that never started ends.
    pub fn end_queued(&mut self, id: &RunId, status: RunStatus, error: Option<RunError>) {
        self.state.head.queue.retain(|queued| queued != id);
        let Some((ord, run)) = self.state.queued.remove(id) else { return };
        let outcome = error.map(|error| {
            let text = error.message.clone();
            let message_id = self.answer_message(run.clone(), text.clone(), Value::String(text), None, Some(&error));
            let errors = vec![RunFailure::from(&error)];
            Outcome { status: ResultStatus::Error, message_id, error: Some(error), errors }
        });
        self.conclude(ord, run, status, outcome);
    }
}
