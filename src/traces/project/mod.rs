//! What happened in a run, as spans: a pure function of its log. So nothing is lost with a process, nothing is made twice by
//! one that recovers, and whoever projects the same log comes to the same spans.
//!
//! A run is told in *activations*: from its start, or from what moved it again, until it stands still for a person or is
//! over. Each is a span of its own and links to the one before, so no span is open while a run waits for days. Calls of models,
//! tools and other agents stand in [`calls`].

mod calls;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use super::Part;
use super::names;
use super::span::{Attribute, Attributes, Kind, Span, SpanEvent, SpanId};
use crate::domain::Millis;
use crate::domain::facts::{ErrorBody, Fact, ItemStatusChangeBody, PlanSource, RunFinishedBody, RunStartedBody};
use crate::domain::ids::{CallId, ItemId, RunId, StreamId, TaskId, ThreadId};
use crate::domain::plan::ItemStatus;
use crate::domain::standing::RunActivity;

/// Of a text in a span, at most so many bytes.
const TEXT_BYTES: usize = 32 * 1024;

/// The run whose log is projected.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) thread: ThreadId,
    pub(super) run: RunId,
    pub(super) trace_id: String,
    /// The span of whoever asked for it.
    pub(super) parent: Option<SpanId>,
    /// What was said and done stands in the spans, too.
    pub(super) with_content: bool,
}

/// What is known of a call before it ends.
#[derive(Clone, Default)]
struct Call {
    item: Option<ItemId>,
    arguments: Option<String>,
    asked_at: Option<Millis>,
    decision: Option<(&'static str, Millis)>,
    rule: Option<(&'static str, String)>,
}

/// A span that is over, and the observation that ended it.
#[derive(Clone)]
struct Over {
    seq: i64,
    span: Span,
}

#[derive(Clone)]
struct Activation {
    number: i64,
    span: Span,
    /// When and where the run came to stand still, since it last moved.
    still: Option<(Millis, i64)>,
}

/// Everything of a run up to some observation.
#[derive(Clone)]
pub(super) struct Projection {
    subject: Subject,
    standing: RunActivity,
    activation: Option<Activation>,
    activations: i64,
    /// What every activation says of the run.
    about: Attributes,
    plan: Option<Span>,
    items: BTreeMap<ItemId, u32>,
    steps: HashMap<ItemId, Span>,
    chats: HashMap<StreamId, Span>,
    calls: HashMap<CallId, Call>,
    peers: HashMap<TaskId, Span>,
    /// The observation that is projected.
    seq: i64,
    /// Spans of the activation that goes on.
    over: Vec<Over>,
    /// Those of activations that ended, with the seq of that end.
    ended: Vec<(i64, Over)>,
}

impl Projection {
    pub(super) fn new(subject: Subject) -> Self {
        Self {
            subject,
            standing: RunActivity::default(),
            activation: None,
            activations: 0,
            about: Vec::new(),
            plan: None,
            items: BTreeMap::new(),
            steps: HashMap::new(),
            chats: HashMap::new(),
            calls: HashMap::new(),
            peers: HashMap::new(),
            seq: 0,
            over: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Takes what comes next in the run: under this number, of this item, if it is an item's, at this time.
    pub(super) fn take(&mut self, seq: i64, item: Option<&ItemId>, at: Millis, fact: &Fact) {
        self.seq = seq;
        if self.standing.is_resumed_by(at, Some(fact)) {
            self.end_activation();
        }
        let is_waited_for = self.standing.is_suspended();
        if self.activation.is_none() && (!is_waited_for || self.standing.is_resumed_by(at, Some(fact))) {
            self.begin_activation(at);
        }
        self.learn(item, at, fact);
        self.standing.apply(item, at, fact);
        let is_still = self.standing.is_suspended() || matches!(fact, Fact::RunFinished(_));
        if let Some(activation) = self.activation.as_mut().filter(|activation| activation.still.is_none() && is_still) {
            activation.still = Some((at, seq));
        }
    }

    /// Returns the spans that are sent for a part. If its activation goes on, these are the spans that have ended in that one;
    /// otherwise all spans of the activations that ended after `part.after`. Spans up to `part.told` were sent before and are left
    /// out. The last observation that was taken is the last of the part.
    pub(super) fn spans(mut self, part: &Part) -> Vec<Span> {
        self.end_activation();
        let ended = self.ended.into_iter().filter(|(end, _)| !part.goes_on && *end > part.after);
        let over = ended.map(|(_, over)| over).chain(self.over.into_iter().filter(|_| part.goes_on));
        over.filter(|over| over.seq > part.told).map(|over| over.span).collect()
    }

    /// Spans that are over.
    pub(super) fn count(&self) -> usize {
        self.over.len() + self.ended.len()
    }

    fn begin_activation(&mut self, at: Millis) {
        self.activations += 1;
        let number = self.activations;
        let mut span = Span::begun(self.activation_id(number), "invoke_agent", Kind::Internal, at);
        span.parent = self.subject.parent;
        span.link = (number > 1).then(|| self.activation_id(number - 1));
        span.set(names::OPERATION, "invoke_agent");
        span.set(names::RUN, self.subject.run.as_str().to_owned());
        span.set(names::ACTIVATION, number);
        self.activation = Some(Activation { number, span, still: None });
    }

    fn activation_id(&self, number: i64) -> SpanId {
        self.id(&format!("{}:activation:{number}", self.subject.run))
    }

    /// If it stands still: what is open in it is closed. Else it goes on, and is told another time.
    fn end_activation(&mut self) {
        let Some(Activation { span, still: Some((at, seq)), .. }) = self.activation.as_ref() else { return };
        let (mut span, at, seq) = (span.clone(), *at, *seq);
        span.end = at;
        if let Some(Attribute::Text(agent)) = value_of(&self.about, names::AGENT) {
            span.name = format!("invoke_agent {agent}").into();
        }
        span.attributes.splice(1..1, self.about.iter().cloned());
        let rest = self.plan.take().into_iter().chain(self.steps.drain().map(|(_, span)| span));
        let rest: Vec<Span> = rest.chain(self.chats.drain().map(|(_, span)| span)).collect();
        let rest = rest.into_iter().map(|open| Span { end: at, ..open }).chain([span]);
        self.over.extend(rest.map(|span| Over { seq, span }));
        self.over.sort_by_key(|over| (over.span.start, over.span.id));
        self.ended.extend(self.over.drain(..).map(|over| (seq, over)));
        self.activation = None;
    }

    fn learn(&mut self, item: Option<&ItemId>, at: Millis, fact: &Fact) {
        match fact {
            Fact::RunStarted(body) => self.run_started(body),
            Fact::LlmStreamStart(body) => self.chat_began(item, body, at),
            Fact::LlmStreamMetadata(body) => self.chat_took(body),
            Fact::LlmStreamEnd(body) => {
                let text = self.content(&body.text).map(|text| message("assistant", &text));
                self.chat_ended(&body.stream_id, at, |span| span.set_some(names::OUTPUT_MESSAGES, text));
            }
            Fact::LlmStreamError(body) => self.chat_failed(body, at),
            Fact::Plan(body) => self.plan_ended(body.plan_version, at),
            Fact::PlanUpdate(body) => match body.source {
                PlanSource::Planner | PlanSource::Refinement => self.plan_ended(body.plan_version, at),
                PlanSource::Agent | PlanSource::User => {}
            },
            Fact::ItemStatusChange(body) => self.item_changed(body, at),
            Fact::ToolCall(body) => body.tool_calls.iter().for_each(|call| self.called(item, call)),
            Fact::ToolExecution(result) => self.tool_ended(item, result, at),
            Fact::AgentSuspended(asked) => self.asked(asked, at),
            Fact::AgentResumed(body) => self.answered(body, at),
            Fact::SuspensionTimeout(_) => self.happened("pes.timeout", at, Vec::new()),
            Fact::A2aTask(task) => self.peer(item, task, at),
            Fact::Error(body) => self.failed(body),
            Fact::RunFinished(body) => self.finished(body),
            Fact::Intent(_)
            | Fact::Title(_)
            | Fact::Thoughts(_)
            | Fact::StateUpdate(_)
            | Fact::Synthesis(_)
            | Fact::FinalResponse(_) => {}
        }
    }

    fn run_started(&mut self, body: &RunStartedBody) {
        let agent = body.options.as_ref().map_or("pes", |options| options.agent_core.as_str());
        let mut about = vec![
            (names::AGENT.into(), agent.to_owned().into()),
            (names::CONVERSATION.into(), self.subject.thread.as_str().to_owned().into()),
            (names::PROVIDER.into(), names::provider(&body.provider).to_owned().into()),
            (names::REQUEST_MODEL.into(), body.model.clone().into()),
        ];
        let query = self.content(&body.query).map(|query| message("user", &query));
        about.extend(query.map(|query| (names::INPUT_MESSAGES.into(), query.into())));
        self.about = about;
    }

    fn item_changed(&mut self, body: &ItemStatusChangeBody, at: Millis) {
        self.items.insert(body.item_id.clone(), body.attempt);
        if body.status == ItemStatus::InProgress {
            self.step(&body.item_id, at);
        }
        if !body.status.is_settled() {
            return;
        }
        let Some(mut span) = self.steps.remove(&body.item_id) else { return };
        span.set(names::ITEM_STATUS, body.status.as_str());
        if body.status == ItemStatus::Failed {
            span.failure = Some(self.explained("failed", body.reason.as_deref().unwrap_or_default()));
        }
        self.ended_at(span, at);
    }

    fn ended_at(&mut self, mut span: Span, at: Millis) {
        span.end = at;
        self.over.push(Over { seq: self.seq, span });
    }

    /// The span of what is done for an item in this activation.
    fn step(&mut self, item: &ItemId, at: Millis) -> SpanId {
        let attempt = self.items.get(item).copied().unwrap_or(1);
        let activation = self.activation.as_ref().map_or(0, |activation| activation.number);
        let id = self.id(&format!("{}:item:{item}:{attempt}:{activation}", self.subject.run));
        let parent = self.top();
        let span = self.steps.entry(item.clone()).or_insert_with(|| {
            let mut span = Span::begun(id, "pes.step", Kind::Internal, at);
            span.parent = parent;
            span.set(names::ITEM, item.as_str().to_owned());
            span.set(names::ITEM_ATTEMPT, attempt);
            span
        });
        span.start = span.start.min(at);
        span.id
    }

    fn happened(&mut self, name: &'static str, at: Millis, attributes: Attributes) {
        if let Some(activation) = &mut self.activation {
            activation.span.events.push(SpanEvent { name, at, attributes });
        }
    }

    fn failed(&mut self, body: &ErrorBody) {
        let why = self.explained(&body.code, &body.message);
        if let Some(activation) = self.activation.as_mut().filter(|_| body.fatal) {
            activation.span.fail(&body.code, &why);
        }
    }

    fn finished(&mut self, body: &RunFinishedBody) {
        let Some(Activation { span, .. }) = &mut self.activation else { return };
        span.set(names::RUN_STATUS, body.status.as_str());
        span.set(names::INPUT_TOKENS, body.usage.input_tokens);
        span.set(names::OUTPUT_TOKENS, body.usage.output_tokens);
        span.set(names::CACHED_INPUT_TOKENS, body.usage.cached_input_tokens);
        span.set(names::REASONING_TOKENS, body.usage.thinking_tokens);
        span.set_some(names::COST, body.cost_usd);
    }

    fn top(&self) -> Option<SpanId> {
        self.activation.as_ref().map(|activation| activation.span.id)
    }

    fn id(&self, key: &str) -> SpanId {
        SpanId::of(&self.subject.trace_id, key)
    }

    /// A text of people, models and tools, if such stand in spans.
    fn content(&self, value: &Value) -> Option<String> {
        if !self.subject.with_content {
            return None;
        }
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some(text[..text.floor_char_boundary(TEXT_BYTES)].to_owned())
    }

    /// Why something failed: sentences may quote what was said, so without content it is the code alone.
    fn explained(&self, code: &str, message: &str) -> String {
        self.content(&Value::from(message)).unwrap_or_else(|| code.to_owned())
    }
}

/// A message, as the conventions write it.
fn message(role: &str, text: &str) -> String {
    json!([{ "role": role, "parts": [{ "type": "text", "content": text }] }]).to_string()
}

fn value_of<'a>(attributes: &'a [(Cow<'static, str>, Attribute)], name: &str) -> Option<&'a Attribute> {
    attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests;
