//! One step of an item: the model's reply becomes calls, a result, or another round.

use serde_json::Value;

use super::plan::REPAIRS;
use super::required_tools::Missing;
use super::state::{ModelCall, Said, Shape};
use super::transition::Transition;
use crate::domain::ids::{ItemId, StreamId};
use crate::domain::model::{ModelReply, Phase};
use crate::domain::plan::{ItemStatus, ValidationStatus};
use crate::parse::{self, CallDraft, Decision, StepDraft, TOO_LONG};

/// Who answered and with what, for whoever deals with the reply.
pub(super) struct Replied<'a> {
    pub stream: &'a StreamId,
    pub call: &'a ModelCall,
    pub reply: &'a ModelReply,
    /// The reply's text as it is stored.
    pub text: Value,
}

impl Transition<'_> {
    pub fn step_replied(&mut self, id: &ItemId, replied: Replied<'_>) {
        let draft = self.read_step(replied.reply);
        self.work(id, |work| work.model = None);
        let says_nothing = draft.is_empty() && !self.is_done_without_words(id, &draft);
        if says_nothing || (draft.calls.is_empty() && replied.reply.is_cut()) {
            return self.repair_step(id, &replied, draft.content);
        }
        if let (Some(thoughts), true) = (&draft.thoughts, replied.reply.thinking.is_empty()) {
            let text = self.store(format!("{}.thoughts", replied.stream), Value::String(thoughts.clone()));
            self.record_thoughts(replied.stream, Some(id), Phase::Execution, text);
        }
        self.work(id, |work| work.notes.clear());
        if draft.calls.is_empty() {
            self.step_said(id, draft, &replied);
        } else {
            if let Some(patch) = draft.updated_plan {
                self.say(id, Said::Patch { shown: replied.call.shown, patch });
                self.work(id, |work| work.patches = true);
            }
            self.open_batch(id, &replied, draft.calls);
        }
    }

    /// The item is said to be complete, or all tools that it needs were called successfully, and its last call brought
    /// what it was for. An answer takes words.
    fn is_done_without_words(&self, id: &ItemId, draft: &StepDraft) -> bool {
        let has_all = || matches!(self.missing_tools(id), Missing::Nothing(Some(ValidationStatus::Passed)));
        let is_done = draft.decision == Some(Decision::CompleteItem) || has_all();
        is_done && self.state.shape == Shape::Planned && self.last_output(id).is_some()
    }

    /// Where there is no plan, none can be changed.
    fn read_step(&self, reply: &ModelReply) -> StepDraft {
        let draft = parse::step(reply);
        match self.state.shape {
            Shape::Planned => draft,
            Shape::Single => StepDraft { updated_plan: None, ..draft },
        }
    }

    /// A reply without calls: a patch of the plan takes effect, then the item goes on or ends.
    fn step_said(&mut self, id: &ItemId, draft: StepDraft, replied: &Replied<'_>) {
        let is_silent = draft.is_empty();
        if let Some(patch) = draft.updated_plan {
            self.apply_patch(id, replied.call.shown, patch);
        }
        let goes_on = match draft.decision {
            Some(Decision::Continue | Decision::Wait | Decision::UpdatePlan) => true,
            Some(Decision::CompleteItem) => false,
            None => draft.content.trim().is_empty() && !is_silent,
        };
        if goes_on {
            self.said(id, replied, Vec::new());
            return self.next_iteration(id);
        }
        match self.missing_tools(id) {
            Missing::Nothing(validation) => {
                let result = self.result_text(id, &draft.content, replied);
                self.complete_item(id, result.clone(), validation);
                self.item_completed(draft.content, result);
            }
            Missing::Enforce(message) => {
                self.said(id, replied, Vec::new());
                self.enforce(id, message);
            }
            Missing::Hopeless(code, message) => self.fail_item(id, code, message),
        }
    }

    /// The result refers to the stream's text where it is the same; an item that is said to be complete without a word
    /// has what its last call brought.
    fn result_text(&mut self, id: &ItemId, content: &str, replied: &Replied<'_>) -> Value {
        if content.trim().is_empty() {
            return self.last_output(id).unwrap_or_default();
        }
        if content == replied.reply.text {
            return replied.text.clone();
        }
        self.store(format!("{}.result.{id}", replied.stream), Value::String(content.to_owned()))
    }

    fn last_output(&self, id: &ItemId) -> Option<Value> {
        let item = self.state.item(id)?;
        self.state.calls_of(item).filter_map(|call| call.result.as_ref()?.output.clone()).last()
    }

    /// Keeps what the model said, for its next prompt.
    pub fn said(&mut self, id: &ItemId, replied: &Replied<'_>, calls: Vec<crate::domain::ids::CallId>) {
        let replay =
            replied.reply.replay.clone().map(|replay| self.store(format!("{}.replay", replied.stream), replay));
        self.say(id, Said::Model { text: replied.text.clone(), calls, replay });
    }

    /// What was cut off is no result: it may end before what matters.
    fn repair_step(&mut self, id: &ItemId, replied: &Replied<'_>, content: String) {
        let round = self.work(id, |work| {
            work.repaired += 1;
            work.repaired
        });
        if round.is_none_or(|round| round > REPAIRS) {
            return match replied.reply.is_cut() {
                true => self.item_cut_off(id, content),
                false => self.fail_item(id, "empty_reply", "the model kept answering nothing".into()),
            };
        }
        if replied.reply.is_cut() && !replied.reply.text.trim().is_empty() {
            self.said(id, replied, Vec::new());
        }
        let text = match replied.reply.is_cut() {
            true => format!("Your reply cannot be used. {TOO_LONG} Call a tool, or answer with a shorter result."),
            false => "Your reply was empty. Call a tool, or answer with the result.".to_owned(),
        };
        self.say(id, Said::Engine { text });
        let again = replied.call.again(replied.call.iteration);
        self.work(id, |work| work.model = Some(again));
    }

    /// The batch is done or the model wants to go on: one more model call, if one is left.
    pub fn next_iteration(&mut self, id: &ItemId) {
        let most = self.settings().execution.max_iterations.max(1);
        let shown = self.state.head.plan_version;
        let used = self.state.item(id).and_then(|item| item.track.work.as_ref()).map_or(0, |work| work.iteration);
        if used >= most {
            return self.fail_item(id, "max_iterations", format!("not finished after {most} model calls"));
        }
        self.work(id, |work| {
            work.iteration += 1;
            work.model = Some(ModelCall::ready(work.iteration, shown));
        });
    }

    /// An item whose first step came with the plan.
    pub fn begin_with_calls(&mut self, id: &ItemId, replied: Replied<'_>, calls: Vec<CallDraft>) {
        let is_pending = self.state.item(id).is_some_and(|item| item.track.status == ItemStatus::Pending);
        if is_pending {
            self.begin_item(id, None);
            let call = ModelCall::ready(1, self.state.head.plan_version);
            self.open_batch(id, &Replied { call: &call, ..replied }, calls);
        }
    }
}
