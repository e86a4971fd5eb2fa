//! A run as people see it: its plan, the work on each item, its questions. Built from observations in order.

use std::collections::HashSet;

use serde::Deserialize as _;

use super::events::{ObservationFrame, TokenFrame};
use super::replay::Base;
use super::show;
use crate::domain::Millis;
use crate::domain::facts::{Fact, WholePlan, WholePlanUpdate};
use crate::domain::hitl::{AskedQuestion, ExpiryPolicy, Suspension, SuspensionKind};
use crate::domain::ids::{CallId, ItemId, SuspensionId};
use crate::domain::observation::ObservationType;
use crate::domain::plan::{ItemStatus, TodoItem};
use crate::domain::task::TaskStatus;
use crate::domain::tool::ToolClass;

/// How many characters of a model's current output are kept for its item.
const SAYING: usize = 400;

#[derive(Default)]
pub(super) struct PlanView {
    pub title: String,
    pub model: String,
    pub items: Vec<ItemView>,
    pub questions: Vec<AskedQuestionView>,
    /// When the run began; updated by each run.
    pub began: Option<Millis>,
    /// When the run ended; `None` while it goes on.
    pub ended: Option<Millis>,
    pub tokens: u64,
    pub cost: Option<f64>,
    /// The error that ended the run, or cut its answer short.
    pub error: Option<String>,
    pub seq: i64,
    /// The time of the last observation.
    pub at: Millis,
    /// Current output of the model that plans or synthesizes.
    pub saying: Option<Saying>,
    /// The streams that have ended: some of their tokens may arrive after their end was read from the log.
    pub ended_streams: HashSet<String>,
    /// What the client itself tells below the plan.
    pub notice: Option<String>,
}

pub(super) struct ItemView {
    pub id: ItemId,
    pub description: String,
    pub dependencies: Vec<ItemId>,
    pub status: ItemStatus,
    pub began: Option<Millis>,
    pub ended: Option<Millis>,
    pub attempts: u32,
    pub errors: u32,
    /// Why its status is what it is, such as why it failed.
    pub reason: Option<String>,
    /// The agent that the item waits for, and since when.
    pub agent: Option<(String, Millis)>,
    /// The calls of tools that have no result yet, each with the name of its tool.
    pub calls: Vec<(CallId, String)>,
    pub saying: Option<Saying>,
}

pub(super) struct Saying {
    stream: String,
    pub text: String,
}

pub(super) struct AskedQuestionView {
    pub item: Option<ItemId>,
    pub asked: AskedQuestion,
    /// How long the question stays open; each reminder extends it by the same time.
    patience: Option<Millis>,
}

impl PlanView {
    /// Starts from the base of the log.
    pub fn begin(&mut self, base: &Base) {
        if self.title.is_empty() {
            self.title = show::line(&base.title);
        }
        self.plan(&base.todo_list);
        self.seq = base.last_seq;
        self.at = base.todo_list.iter().map(|item| item.updated_timestamp).max().unwrap_or_default();
    }

    /// Ignores an observation that this version cannot read.
    pub fn take(&mut self, frame: &ObservationFrame) {
        self.seq = frame.seq;
        self.at = frame.timestamp;
        let Some(kind) = ObservationType::parse(&frame.kind) else { return };
        // The observation of a plan has the whole list, which `Fact` does not have.
        if kind == ObservationType::Plan {
            if let Ok(plan) = WholePlan::deserialize(&frame.content) {
                self.plan(&plan.todo_list);
            }
        } else if kind == ObservationType::PlanUpdate {
            if let Ok(plan) = WholePlanUpdate::deserialize(&frame.content) {
                self.plan(&plan.todo_list);
            }
        } else if let Ok(fact) = Fact::read(kind, &frame.content) {
            self.fact(&fact, frame);
        }
    }

    fn fact(&mut self, fact: &Fact, frame: &ObservationFrame) {
        let (now, parent) = (frame.timestamp, frame.parent_id.as_ref());
        match fact {
            Fact::RunStarted(body) => {
                self.model = show::line(&format!("{}:{}", body.provider, body.model));
                (self.began, self.ended) = (Some(now), None);
                (self.tokens, self.cost, self.error, self.saying) = (0, None, None, None);
                self.questions.clear();
            }
            // The first title of a thread stays.
            Fact::Title(body) => {
                if self.title.is_empty() {
                    self.title = show::line(&body.title);
                }
            }
            Fact::ItemStatusChange(body) => {
                let Some(item) = self.items.iter_mut().find(|item| item.id == body.item_id) else { return };
                item.change(body.status, body.attempt, now);
                item.reason = body.reason.as_deref().map(show::line);
            }
            Fact::LlmStreamMetadata(body) => {
                self.tokens += body.input_tokens + body.output_tokens;
                if let Some(cost) = body.cost_usd {
                    *self.cost.get_or_insert(0.0) += cost;
                }
            }
            Fact::LlmStreamStart(_) => *self.saying_of(parent) = None,
            Fact::LlmStreamEnd(body) => {
                self.ended_streams.insert(body.stream_id.to_string());
                *self.saying_of(parent) = None;
            }
            Fact::LlmStreamError(body) => {
                self.ended_streams.insert(body.stream_id.to_string());
                self.item(parent, |item| item.errors += 1);
            }
            Fact::ToolCall(body) => self.item(parent, |item| {
                item.calls
                    .extend(body.tool_calls.iter().map(|call| (call.call_id.clone(), show::line(&call.tool_name))));
            }),
            Fact::ToolExecution(body) => self.item(parent, |item| {
                item.calls.retain(|(call, _)| *call != body.call_id);
                item.errors += u32::from(body.error.is_some());
            }),
            Fact::AgentSuspended(asked) => {
                let patience = asked.expires_at.map(|at| at - now);
                self.asks(AskedQuestionView { item: parent.cloned(), asked: asked.clone(), patience });
            }
            Fact::AgentResumed(body) => self.answered(&body.suspension_id),
            Fact::SuspensionTimeout(body) => match body.policy {
                ExpiryPolicy::Remind => self.reminded(&body.suspension_id, now),
                ExpiryPolicy::Deny | ExpiryPolicy::Fail => self.answered(&body.suspension_id),
            },
            Fact::A2aTask(body) => {
                let is_open = match body.status {
                    TaskStatus::Sending
                    | TaskStatus::Working
                    | TaskStatus::InputRequired
                    | TaskStatus::AuthRequired
                    | TaskStatus::InDoubt => true,
                    TaskStatus::Completed
                    | TaskStatus::Failed
                    | TaskStatus::Rejected
                    | TaskStatus::Canceled
                    | TaskStatus::Lost => false,
                };
                self.item(parent, |item| item.agent = is_open.then(|| (show::line(&body.agent_id), body.submitted_at)));
            }
            Fact::Error(body) => {
                if body.fatal || body.cuts_the_answer() {
                    self.error = Some(show::line(&format!("{}: {}", body.code, body.message)));
                }
            }
            Fact::RunFinished(body) => {
                (self.cost, self.ended) = (body.cost_usd, Some(now));
                self.saying = None;
                self.questions.clear();
            }
            Fact::Intent(_)
            | Fact::Plan(_)
            | Fact::PlanUpdate(_)
            | Fact::Thoughts(_)
            | Fact::StateUpdate(_)
            | Fact::Synthesis(_)
            | Fact::FinalResponse(_) => {}
        }
    }

    fn plan(&mut self, items: &[TodoItem]) {
        let mut before: Vec<ItemView> = std::mem::take(&mut self.items);
        for item in items {
            let known = before.iter().position(|known| known.id == item.id).map(|at| before.swap_remove(at));
            let mut view = known.unwrap_or_else(|| ItemView::of(item));
            view.description = show::line(&item.description);
            view.dependencies.clone_from(&item.dependencies);
            view.status = item.status;
            view.reason = item.reason.as_deref().map(show::line);
            self.items.push(view);
        }
    }

    /// Adds an open question, whether an observation announced it or not.
    pub fn add_open(&mut self, open: &Suspension) {
        let patience = open.expires_after_ms.or_else(|| open.expires_at.map(|at| at - open.created_at));
        self.asks(AskedQuestionView { item: open.item_id.clone(), asked: open.asked(), patience });
    }

    /// Adds a question once.
    fn asks(&mut self, question: AskedQuestionView) {
        let id = &question.asked.suspension_id;
        match self.questions.iter_mut().find(|known| known.asked.suspension_id == *id) {
            Some(known) => *known = question,
            None => self.questions.push(question),
        }
    }

    /// A reminder extends the question by its full time.
    fn reminded(&mut self, suspension: &SuspensionId, now: Millis) {
        for question in self.questions.iter_mut().filter(|question| question.asked.suspension_id == *suspension) {
            question.asked.expires_at = question.patience.map(|patience| now + patience);
        }
    }

    fn answered(&mut self, suspension: &SuspensionId) {
        self.questions.retain(|question| question.asked.suspension_id != *suspension);
    }

    fn item(&mut self, id: Option<&ItemId>, change: impl FnOnce(&mut ItemView)) {
        if let Some(item) = self.items.iter_mut().find(|item| Some(&item.id) == id) {
            change(item);
        }
    }

    fn saying_of(&mut self, id: Option<&ItemId>) -> &mut Option<Saying> {
        match self.items.iter().position(|item| Some(&item.id) == id) {
            Some(at) => &mut self.items[at].saying,
            None => &mut self.saying,
        }
    }

    pub fn say(&mut self, token: &TokenFrame) {
        if self.ended_streams.contains(&token.stream_id) {
            return;
        }
        let saying = self.saying_of(token.step_id.as_ref());
        let saying = match saying {
            Some(saying) if saying.stream == token.stream_id => saying,
            other => other.insert(Saying { stream: token.stream_id.clone(), text: String::new() }),
        };
        saying.text.push_str(&token.data);
        if saying.text.len() > 2 * SAYING {
            let from = saying.text.floor_char_boundary(saying.text.len() - SAYING);
            saying.text.drain(..from);
        }
    }

    pub fn is_open(&self, suspension: &SuspensionId) -> bool {
        self.questions.iter().any(|question| question.asked.suspension_id == *suspension)
    }

    pub fn question_of(&self, item: &ItemId) -> Option<&AskedQuestion> {
        self.questions.iter().find(|question| question.item.as_ref() == Some(item)).map(|question| &question.asked)
    }

    /// Questions of no item: a plan review, a pause, the budget.
    pub fn questions_of_the_run(&self) -> impl Iterator<Item = &AskedQuestion> {
        let no_item = move |question: &&AskedQuestionView| {
            question.item.as_ref().is_none_or(|id| self.items.iter().all(|item| item.id != *id))
        };
        self.questions.iter().filter(no_item).map(|question| &question.asked)
    }

    /// The number of completed items, and of all.
    pub fn progress(&self) -> (usize, usize) {
        // Counts items of earlier runs too, whose observations are not in this view.
        let done = self.items.iter().filter(|item| item.status == ItemStatus::Completed).count();
        (done, self.items.len())
    }

    /// The items that failed, each with the reason.
    pub fn failures(&self) -> impl Iterator<Item = (&ItemView, &str)> {
        let failed = self.items.iter().filter(|item| item.status == ItemStatus::Failed);
        failed.filter_map(|item| Some((item, item.reason.as_deref()?)))
    }
}

impl ItemView {
    fn of(item: &TodoItem) -> Self {
        Self {
            id: item.id.clone(),
            description: String::new(),
            dependencies: Vec::new(),
            status: item.status,
            began: None,
            ended: None,
            attempts: 0,
            errors: 0,
            reason: None,
            agent: None,
            calls: Vec::new(),
            saying: None,
        }
    }

    fn change(&mut self, status: ItemStatus, attempt: u32, now: Millis) {
        self.status = status;
        self.attempts = self.attempts.max(attempt);
        match status {
            ItemStatus::InProgress => {
                self.began.get_or_insert(now);
                self.ended = None;
            }
            ItemStatus::Completed | ItemStatus::Failed | ItemStatus::Cancelled => {
                self.ended = Some(now);
                (self.saying, self.agent) = (None, None);
                self.calls.clear();
            }
            ItemStatus::Pending => {
                (self.began, self.ended) = (None, None);
                self.calls.clear();
            }
            ItemStatus::Waiting => {}
        }
    }
}

/// The subject of a question, in a word or two.
pub(super) fn subject(asked: &AskedQuestion) -> String {
    match &asked.tool_name {
        Some(tool) => show::line(tool),
        None => kind(asked.kind).to_owned(),
    }
}

pub(super) fn kind(kind: SuspensionKind) -> &'static str {
    match kind {
        SuspensionKind::Approval => "approval",
        SuspensionKind::Input => "a question",
        SuspensionKind::InDoubt => "in doubt",
        SuspensionKind::ClientTool => "a call of the caller",
        SuspensionKind::Budget => "the budget",
        SuspensionKind::PeerInput => "a question of an agent",
        SuspensionKind::PeerAuth => "an agent's login",
        SuspensionKind::PlanReview => "the plan",
        SuspensionKind::Pause => "the pause",
    }
}

/// The rule that asks. Where a call itself or an agent asks, or the call is in doubt, the rule allowed the call, so it is
/// not the reason.
pub(super) fn rule(asked: &AskedQuestion) -> Option<String> {
    let asks = match asked.kind {
        SuspensionKind::Approval | SuspensionKind::PlanReview | SuspensionKind::Budget | SuspensionKind::Pause => true,
        SuspensionKind::Input
        | SuspensionKind::InDoubt
        | SuspensionKind::ClientTool
        | SuspensionKind::PeerInput
        | SuspensionKind::PeerAuth => false,
    };
    let ruling = asked.policy.as_ref().filter(|_| asks && asked.remote.is_none());
    ruling.map(|ruling| show::line(&ruling.rule))
}

/// Why a call in doubt is asked about.
pub(super) fn doubt(asked: &AskedQuestion) -> Option<&'static str> {
    (asked.kind == SuspensionKind::InDoubt).then_some("in doubt, it may have been made")
}

/// What cannot be undone after a call of this class.
pub(super) fn consequence(class: ToolClass) -> Option<&'static str> {
    match class {
        ToolClass::Irreversible => Some("cannot be undone"),
        ToolClass::External => Some("leaves this server"),
        ToolClass::Read | ToolClass::Write => None,
    }
}

#[cfg(test)]
mod tests;
