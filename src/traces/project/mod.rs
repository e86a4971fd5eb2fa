//! The spans of a run are a pure function of its log. So no span is lost with a process, recovery makes no span twice, and
//! every process that projects the same log gets the same spans.
//!
//! A run is divided into *activations*. An activation begins when the run starts or resumes, and ends when the run waits for
//! a person or has ended. Each is a span that links to the one before, so no span is open while a run waits for days. The
//! spans of calls to models, tools and other agents are in [`calls`].

mod calls;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use super::LogRange;
use super::names;
use super::span::{Attribute, Attributes, Span, SpanEvent, SpanId, SpanKind};
use crate::domain::Millis;
use crate::domain::facts::{ErrorBody, Fact, ItemStatusChangeBody, PlanSource, RunFinishedBody, RunStartedBody};
use crate::domain::ids::{CallId, ItemId, RunId, StreamId, TaskId, ThreadId};
use crate::domain::plan::ItemStatus;
use crate::domain::run_activity::RunActivity;

/// Bounds a text in a span.
const MAX_TEXT_BYTES: usize = 32 * 1024;

/// The run whose log is projected.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) thread: ThreadId,
    pub(super) run: RunId,
    pub(super) trace_id: String,
    /// The caller's span.
    pub(super) parent: Option<SpanId>,
    /// Spans contain texts of people, models and tools.
    pub(super) with_content: bool,
}

/// A tool call that has not ended.
#[derive(Clone, Default)]
struct OpenCall {
    item: Option<ItemId>,
    arguments: Option<String>,
    asked_at: Option<Millis>,
    decision: Option<(&'static str, Millis)>,
    rule: Option<(&'static str, String)>,
}

/// A span that has ended, and the seq of the observation that ended it.
#[derive(Clone)]
struct EndedSpan {
    seq: i64,
    span: Span,
}

#[derive(Clone)]
struct Activation {
    number: i64,
    span: Span,
    /// When the run came to rest since it last moved, and at which seq.
    at_rest: Option<(Millis, i64)>,
}

/// The projection of a run up to some observation.
#[derive(Clone)]
pub(super) struct Projection {
    subject: Subject,
    activity: RunActivity,
    activation: Option<Activation>,
    activations: i64,
    /// The attributes of the run that every activation has.
    run_attributes: Attributes,
    plan: Option<Span>,
    items: BTreeMap<ItemId, u32>,
    steps: HashMap<ItemId, Span>,
    chats: HashMap<StreamId, Span>,
    calls: HashMap<CallId, OpenCall>,
    peers: HashMap<TaskId, Span>,
    /// The seq of the observation that is applied.
    seq: i64,
    /// Ended spans of the activation that is open.
    in_open_activation: Vec<EndedSpan>,
    /// Spans of activations that ended, with the seq of that end.
    in_ended_activations: Vec<(i64, EndedSpan)>,
}

impl Projection {
    pub(super) fn new(subject: Subject) -> Self {
        Self {
            subject,
            activity: RunActivity::default(),
            activation: None,
            activations: 0,
            run_attributes: Vec::new(),
            plan: None,
            items: BTreeMap::new(),
            steps: HashMap::new(),
            chats: HashMap::new(),
            calls: HashMap::new(),
            peers: HashMap::new(),
            seq: 0,
            in_open_activation: Vec::new(),
            in_ended_activations: Vec::new(),
        }
    }

    /// Applies the next fact of the run.
    pub(super) fn apply(&mut self, seq: i64, item: Option<&ItemId>, at: Millis, fact: &Fact) {
        self.seq = seq;
        if self.activity.is_resumed_by(at, Some(fact)) {
            self.end_activation();
        }
        let was_suspended = self.activity.is_suspended();
        if self.activation.is_none() && (!was_suspended || self.activity.is_resumed_by(at, Some(fact))) {
            self.begin_activation(at);
        }
        self.update_spans(item, at, fact);
        self.activity.apply(item, at, fact);
        let is_at_rest = self.activity.is_suspended() || matches!(fact, Fact::RunFinished(_));
        if let Some(activation) =
            self.activation.as_mut().filter(|activation| activation.at_rest.is_none() && is_at_rest)
        {
            activation.at_rest = Some((at, seq));
        }
    }

    /// The spans to export for a range that ends with the last applied fact. If its activation is open, these are the spans
    /// that have ended in it; otherwise all spans of the activations that ended after `range.after`. Spans up to
    /// `range.exported_until` are left out.
    pub(super) fn spans(mut self, range: &LogRange) -> Vec<Span> {
        self.end_activation();
        let closed = self.in_ended_activations.into_iter().filter(|(end, _)| !range.is_open && *end > range.after);
        let open = self.in_open_activation.into_iter().filter(|_| range.is_open);
        let ended = closed.map(|(_, ended)| ended).chain(open);
        ended.filter(|ended| ended.seq > range.exported_until).map(|ended| ended.span).collect()
    }

    /// How many spans have ended.
    pub(super) fn count(&self) -> usize {
        self.in_open_activation.len() + self.in_ended_activations.len()
    }

    fn begin_activation(&mut self, at: Millis) {
        self.activations += 1;
        let number = self.activations;
        let mut span = Span::new(self.activation_id(number), "invoke_agent", SpanKind::Internal, at);
        span.parent = self.subject.parent;
        span.link = (number > 1).then(|| self.activation_id(number - 1));
        span.set(names::OPERATION, "invoke_agent");
        span.set(names::RUN, self.subject.run.as_str().to_owned());
        span.set(names::ACTIVATION, number);
        self.activation = Some(Activation { number, span, at_rest: None });
    }

    fn activation_id(&self, number: i64) -> SpanId {
        self.span_id(&format!("{}:activation:{number}", self.subject.run))
    }

    /// Ends the activation, and the open spans in it, if the run is at rest; otherwise does nothing.
    fn end_activation(&mut self) {
        let Some(Activation { span, at_rest: Some((at, seq)), .. }) = self.activation.as_ref() else { return };
        let (mut span, at, seq) = (span.clone(), *at, *seq);
        span.end = at;
        if let Some(Attribute::Text(agent)) = value_of(&self.run_attributes, names::AGENT) {
            span.name = format!("invoke_agent {agent}").into();
        }
        span.attributes.splice(1..1, self.run_attributes.iter().cloned());
        let rest = self.plan.take().into_iter().chain(self.steps.drain().map(|(_, span)| span));
        let rest: Vec<Span> = rest.chain(self.chats.drain().map(|(_, span)| span)).collect();
        let rest = rest.into_iter().map(|open| Span { end: at, ..open }).chain([span]);
        let spans = &mut self.in_open_activation;
        spans.extend(rest.map(|span| EndedSpan { seq, span }));
        spans.sort_by_key(|ended| (ended.span.start, ended.span.id));
        self.in_ended_activations.extend(spans.drain(..).map(|ended| (seq, ended)));
        self.activation = None;
    }

    fn update_spans(&mut self, item: Option<&ItemId>, at: Millis, fact: &Fact) {
        match fact {
            Fact::RunStarted(body) => self.set_run_attributes(body),
            Fact::LlmStreamStart(body) => self.start_chat(item, body, at),
            Fact::LlmStreamMetadata(body) => self.record_chat_usage(body),
            Fact::LlmStreamEnd(body) => {
                let text = self.content(&body.text).map(|text| message("assistant", &text));
                self.end_chat(&body.stream_id, at, |span| span.set_some(names::OUTPUT_MESSAGES, text));
            }
            Fact::LlmStreamError(body) => self.fail_chat(body, at),
            Fact::Plan(body) => self.end_plan(body.plan_version, at),
            Fact::PlanUpdate(body) => match body.source {
                PlanSource::Planner | PlanSource::Refinement => self.end_plan(body.plan_version, at),
                PlanSource::Agent | PlanSource::User => {}
            },
            Fact::ItemStatusChange(body) => self.change_item(body, at),
            Fact::ToolCall(body) => body.tool_calls.iter().for_each(|call| self.record_tool_call(item, call)),
            Fact::ToolExecution(result) => self.record_tool_result(item, result, at),
            Fact::AgentSuspended(asked) => self.record_suspension(asked, at),
            Fact::AgentResumed(body) => self.record_decision(body, at),
            Fact::SuspensionTimeout(_) => self.add_event("pes.timeout", at, Vec::new()),
            Fact::A2aTask(task) => self.record_peer_task(item, task, at),
            Fact::Error(body) => self.record_error(body),
            Fact::RunFinished(body) => self.record_run_end(body),
            Fact::Intent(_)
            | Fact::Title(_)
            | Fact::Thoughts(_)
            | Fact::StateUpdate(_)
            | Fact::Synthesis(_)
            | Fact::FinalResponse(_) => {}
        }
    }

    fn set_run_attributes(&mut self, body: &RunStartedBody) {
        let agent = body.options.as_ref().map_or("pes", |options| options.agent_core.as_str());
        let mut attributes = vec![
            (names::AGENT.into(), agent.to_owned().into()),
            (names::CONVERSATION.into(), self.subject.thread.as_str().to_owned().into()),
            (names::PROVIDER.into(), names::provider(&body.provider).to_owned().into()),
            (names::REQUEST_MODEL.into(), body.model.clone().into()),
        ];
        let query = self.content(&body.query).map(|query| message("user", &query));
        attributes.extend(query.map(|query| (names::INPUT_MESSAGES.into(), query.into())));
        self.run_attributes = attributes;
    }

    fn change_item(&mut self, body: &ItemStatusChangeBody, at: Millis) {
        self.items.insert(body.item_id.clone(), body.attempt);
        if body.status == ItemStatus::InProgress {
            self.item_span(&body.item_id, at);
        }
        if !body.status.is_settled() {
            return;
        }
        let Some(mut span) = self.steps.remove(&body.item_id) else { return };
        span.set(names::ITEM_STATUS, body.status.as_str());
        if body.status == ItemStatus::Failed {
            span.failure = Some(self.failure_text("failed", body.reason.as_deref().unwrap_or_default()));
        }
        self.end_span(span, at);
    }

    fn end_span(&mut self, mut span: Span, at: Millis) {
        span.end = at;
        self.in_open_activation.push(EndedSpan { seq: self.seq, span });
    }

    /// The id of the span of an item's work in this activation. Starts the span if there is none.
    fn item_span(&mut self, item: &ItemId, at: Millis) -> SpanId {
        let attempt = self.items.get(item).copied().unwrap_or(1);
        let activation = self.activation.as_ref().map_or(0, |activation| activation.number);
        let id = self.span_id(&format!("{}:item:{item}:{attempt}:{activation}", self.subject.run));
        let parent = self.activation_span();
        let span = self.steps.entry(item.clone()).or_insert_with(|| {
            let mut span = Span::new(id, "pes.step", SpanKind::Internal, at);
            span.parent = parent;
            span.set(names::ITEM, item.as_str().to_owned());
            span.set(names::ITEM_ATTEMPT, attempt);
            span
        });
        span.start = span.start.min(at);
        span.id
    }

    fn add_event(&mut self, name: &'static str, at: Millis, attributes: Attributes) {
        if let Some(activation) = &mut self.activation {
            activation.span.events.push(SpanEvent { name, at, attributes });
        }
    }

    fn record_error(&mut self, body: &ErrorBody) {
        let why = self.failure_text(&body.code, &body.message);
        if let Some(activation) = self.activation.as_mut().filter(|_| body.fatal) {
            activation.span.fail(&body.code, &why);
        }
    }

    fn record_run_end(&mut self, body: &RunFinishedBody) {
        let Some(Activation { span, .. }) = &mut self.activation else { return };
        span.set(names::RUN_STATUS, body.status.as_str());
        span.set(names::INPUT_TOKENS, body.usage.input_tokens);
        span.set(names::OUTPUT_TOKENS, body.usage.output_tokens);
        span.set(names::CACHED_INPUT_TOKENS, body.usage.cached_input_tokens);
        span.set(names::REASONING_TOKENS, body.usage.thinking_tokens);
        span.set_some(names::COST, body.cost_usd);
    }

    fn activation_span(&self) -> Option<SpanId> {
        self.activation.as_ref().map(|activation| activation.span.id)
    }

    fn span_id(&self, key: &str) -> SpanId {
        SpanId::derived(&self.subject.trace_id, key)
    }

    /// A text of people, models or tools, cut to [`MAX_TEXT_BYTES`]; `None`: spans contain no such texts.
    fn content(&self, value: &Value) -> Option<String> {
        if !self.subject.with_content {
            return None;
        }
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some(text[..text.floor_char_boundary(MAX_TEXT_BYTES)].to_owned())
    }

    /// The description of a failure. Without content it is the code alone, as the message may quote texts.
    fn failure_text(&self, code: &str, message: &str) -> String {
        self.content(&Value::from(message)).unwrap_or_else(|| code.to_owned())
    }
}

/// A message in the format of the conventions.
fn message(role: &str, text: &str) -> String {
    json!([{ "role": role, "parts": [{ "type": "text", "content": text }] }]).to_string()
}

fn value_of<'a>(attributes: &'a [(Cow<'static, str>, Attribute)], name: &str) -> Option<&'a Attribute> {
    attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests;
