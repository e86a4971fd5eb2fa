//! A run's budget: when it is spent, no further model call is made, and the run ends with what there is.

use super::state::Cancel;
use super::transition::Transition;
use crate::domain::Millis;
use crate::domain::fault::Code;
use crate::domain::model;
use crate::domain::plan::ItemStatus;
use crate::domain::run::{ResultStatus, RunError};

impl Transition<'_> {
    /// What of the budget is spent, in words.
    pub fn spent(&self) -> Option<&'static str> {
        let budget = self.settings().budget.as_ref()?;
        let counters = &self.state.head.active.as_ref()?.counters;
        let tokens = counters.usage.input_tokens + counters.usage.output_tokens;
        let is_out_of_calls = budget.max_llm_calls.is_some_and(|most| counters.llm_calls >= most);
        let is_out_of_tokens = budget.max_tokens.is_some_and(|most| tokens >= most);
        let is_late = self.deadline().is_some_and(|at| at <= self.stamp.now);
        match (is_late, is_out_of_calls, is_out_of_tokens) {
            (true, _, _) => Some("its time is over"),
            (false, true, _) => Some("its model calls are used up"),
            (false, false, true) => Some("its tokens are used up"),
            (false, false, false) => None,
        }
    }

    /// When the run must be over.
    pub fn deadline(&self) -> Option<Millis> {
        let run = self.state.run.as_ref()?;
        let after = run.settings.budget.as_ref()?.deadline_ms?;
        Some(run.started_at.unwrap_or(run.created_at).saturating_add(after))
    }

    /// Whether a model call would be next, or time is over.
    pub fn is_budget_spent(&self) -> bool {
        if self.state.head.active.as_ref().is_some_and(|active| active.cancel.is_some()) {
            return false;
        }
        let is_late = self.deadline().is_some_and(|at| at <= self.stamp.now);
        (is_late || self.is_model_ready()) && self.spent().is_some()
    }

    fn is_model_ready(&self) -> bool {
        let main = self.state.head.active.as_ref().and_then(|active| active.model.as_ref());
        main.is_some_and(|call| !call.is_running())
            || self.state.works().any(|work| work.model.as_ref().is_some_and(|call| !call.is_running()))
    }

    /// Nothing begins any more. What still runs is stopped first, as in a cancel; then the run ends.
    pub fn stop_on_budget(&mut self) {
        if !self.state.is_any_running() {
            return self.end_on_budget();
        }
        let reason = "the run's budget is spent".to_owned();
        self.active().cancel = Some(Cancel { by: "engine".to_owned(), reason, spent: true });
        self.run_changed();
    }

    /// The run ends with an account of what was done: `partial` if anything was, else an error.
    pub fn end_on_budget(&mut self) {
        let why = self.spent().unwrap_or("it is spent");
        let message = format!("The run's budget ended it: {why}.");
        let phase = self.model_phase(None);
        let phase = if self.state.list.is_any_open() { model::Phase::Execution } else { phase };
        self.stop_everything("the run's budget is spent");
        self.record_error(phase, Code::BudgetExceeded.as_str(), &message, true, None);
        let is_anything_done = self.settled_now().any(|item| item.track.status == ItemStatus::Completed);
        let status = if is_anything_done { ResultStatus::Partial } else { ResultStatus::Error };
        let content = self.account(&message);
        let id = format!("account-{}", self.run().run_id);
        let shown = self.store(id, serde_json::Value::String(content.clone()));
        self.answer(content, shown, None, status, Some(RunError { code: Code::BudgetExceeded, message, phase }));
    }
}
