//! The projection of a run: its observations, applied one after the other, become its activations, and the plan and the
//! items in them.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use super::{Subject, is_no_work};
use crate::domain::Millis;
use crate::domain::facts::{ErrorBody, Fact, ItemStatusChangeBody, PlanSource, RunFinishedBody, RunStartedBody};
use crate::domain::ids::{CallId, ItemId, StreamId, TaskId};
use crate::domain::plan::ItemStatus;
use crate::traces::span::{Attribute, Attributes, Span, SpanEvent, SpanId, SpanKind};
use crate::traces::{LogRange, names};

/// Bounds a text in a span.
pub(super) const MAX_TEXT_BYTES: usize = 32 * 1024;

/// A tool call that has not ended.
#[derive(Default)]
pub(super) struct OpenCall {
    pub(super) item: Option<ItemId>,
    pub(super) arguments: Option<String>,
    pub(super) asked_at: Option<Millis>,
    pub(super) decision: Option<(&'static str, Millis)>,
    pub(super) rule: Option<(&'static str, String)>,
}

/// A call to a model or another agent that has not ended.
pub(super) struct OpenSpan {
    pub(super) span: Span,
    item: Option<ItemId>,
    /// The activation in which it began has ended.
    is_carried_over: bool,
}

impl OpenSpan {
    pub(super) fn new(span: Span, item: Option<&ItemId>) -> Self {
        Self { span, item: item.cloned(), is_carried_over: false }
    }
}

/// A span that has ended, and the seq of the observation that ended it.
struct EndedSpan {
    seq: i64,
    span: Span,
}

/// The projection of a run up to some observation.
pub(in crate::traces) struct Projection {
    pub(super) subject: Subject,
    /// The span of the activation, once it has begun.
    activation: Option<Span>,
    /// The number of the activation that is open or begins next.
    number: i64,
    /// The attributes of the run that every activation has.
    run_attributes: Attributes,
    pub(super) plan: Option<Span>,
    item_attempts: BTreeMap<ItemId, u32>,
    item_spans: HashMap<ItemId, Span>,
    pub(super) chats: HashMap<StreamId, OpenSpan>,
    pub(super) calls: HashMap<CallId, OpenCall>,
    pub(super) peers: HashMap<TaskId, OpenSpan>,
    /// The seq and the time of the last applied observation.
    seq: i64,
    at: Millis,
    has_run_ended: bool,
    /// Ended spans that were not taken yet.
    ended: Vec<EndedSpan>,
}

impl Projection {
    pub(in crate::traces) fn new(subject: Subject) -> Self {
        Self {
            subject,
            activation: None,
            number: 1,
            run_attributes: Vec::new(),
            plan: None,
            item_attempts: BTreeMap::new(),
            item_spans: HashMap::new(),
            chats: HashMap::new(),
            calls: HashMap::new(),
            peers: HashMap::new(),
            seq: 0,
            at: 0,
            has_run_ended: false,
            ended: Vec::new(),
        }
    }

    /// Applies the next fact of the run.
    pub(in crate::traces) fn apply(&mut self, seq: i64, item: Option<&ItemId>, at: Millis, fact: &Fact) {
        (self.seq, self.at) = (seq, at);
        let is_new_task = matches!(fact, Fact::A2aTask(task) if !self.peers.contains_key(&task.task_id));
        if self.activation.is_none() && (is_new_task || !is_no_work(fact)) {
            self.begin_activation(at);
        }
        self.update_spans(item, at, fact);
    }

    /// Ends the activation with the last applied fact, without its spans, which were exported before. The next one has this
    /// number.
    pub(in crate::traces) fn continue_as(&mut self, number: i64) {
        self.end_activation();
        self.ended.clear();
        self.number = number;
    }

    /// Takes the spans to export for a range that ends with the last applied fact: those that have ended since spans were
    /// last taken, without those up to `range.exported_until`. Unless the range is open, the activation ends with it.
    pub(in crate::traces) fn take_spans(&mut self, range: &LogRange) -> Vec<Span> {
        if !range.is_open {
            self.end_activation();
        }
        let mut ended = std::mem::take(&mut self.ended);
        ended.sort_by_key(|ended| (ended.span.start, ended.span.id));
        ended.into_iter().filter(|ended| ended.seq > range.exported_until).map(|ended| ended.span).collect()
    }

    /// How many spans have ended and were not taken.
    pub(in crate::traces) fn count(&self) -> usize {
        self.ended.len()
    }

    fn begin_activation(&mut self, at: Millis) {
        let number = self.number;
        let mut span = Span::new(self.activation_id(number), "invoke_agent", SpanKind::Internal, at);
        span.parent = self.subject.parent;
        span.link = (number > 1).then(|| self.activation_id(number - 1));
        span.set(names::OPERATION, "invoke_agent");
        span.set(names::RUN, self.subject.run.as_str().to_owned());
        span.set(names::ACTIVATION, number);
        self.activation = Some(span);
    }

    fn activation_id(&self, number: i64) -> SpanId {
        self.span_id(&format!("{}:activation:{number}", self.subject.run))
    }

    /// Ends the activation with the last applied fact, and with it the plan and the items. Calls that have not ended go on in
    /// the next activation, unless the run has ended.
    fn end_activation(&mut self) {
        if self.activation.is_none() {
            self.begin_activation(self.at);
        }
        if self.has_run_ended {
            let chats: Vec<OpenSpan> = self.chats.drain().map(|(_, open)| open).collect();
            chats.into_iter().for_each(|open| self.end_call(open, self.at));
        }
        let Some(mut span) = self.activation.take() else { return };
        if let Some(Attribute::Text(agent)) = value_of(&self.run_attributes, names::AGENT) {
            span.name = format!("invoke_agent {agent}").into();
        }
        span.attributes.splice(1..1, self.run_attributes.iter().cloned());
        let open: Vec<Span> =
            self.plan.take().into_iter().chain(self.item_spans.drain().map(|(_, span)| span)).collect();
        open.into_iter().chain([span]).for_each(|span| self.end_span(span, self.at));
        self.chats.values_mut().chain(self.peers.values_mut()).for_each(|open| open.is_carried_over = true);
        self.number += 1;
    }

    fn update_spans(&mut self, item: Option<&ItemId>, at: Millis, fact: &Fact) {
        match fact {
            Fact::RunStarted(body) => self.set_run_attributes(body),
            Fact::LlmStreamStart(body) => self.start_chat(item, body, at),
            Fact::LlmStreamMetadata(body) => self.record_chat_usage(body),
            Fact::LlmStreamEnd(body) => self.end_chat_with_text(body, at),
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
        let query = self.content(&body.query).map(|query| json!([message("user", &query)]).to_string());
        attributes.extend(query.map(|query| (names::INPUT_MESSAGES.into(), query.into())));
        self.run_attributes = attributes;
    }

    fn change_item(&mut self, body: &ItemStatusChangeBody, at: Millis) {
        self.item_attempts.insert(body.item_id.clone(), body.attempt);
        if body.status == ItemStatus::InProgress {
            self.item_span(&body.item_id, at);
        }
        if !body.status.is_settled() {
            return;
        }
        let Some(mut span) = self.item_spans.remove(&body.item_id) else { return };
        span.set(names::ITEM_STATUS, body.status.as_str());
        if body.status == ItemStatus::Failed {
            span.failure = Some(self.failure_text("failed", body.reason.as_deref().unwrap_or_default()));
        }
        self.end_span(span, at);
    }

    pub(super) fn end_span(&mut self, mut span: Span, at: Millis) {
        span.end = at;
        self.ended.push(EndedSpan { seq: self.seq, span });
    }

    /// Ends a call. One that began in an earlier activation stands below its item's span in this one, if that is open, or else
    /// below the activation.
    pub(super) fn end_call(&mut self, open: OpenSpan, at: Millis) {
        let OpenSpan { mut span, item, is_carried_over } = open;
        if is_carried_over {
            let parent = item.and_then(|item| self.item_spans.get(&item)).map(|span| span.id);
            span.parent = parent.or_else(|| self.activation_span());
        }
        self.end_span(span, at);
    }

    /// The id of the span of an item's work in this activation. Starts the span if there is none.
    pub(super) fn item_span(&mut self, item: &ItemId, at: Millis) -> SpanId {
        let attempt = self.item_attempts.get(item).copied().unwrap_or(1);
        let id = self.span_id(&format!("{}:item:{item}:{attempt}:{}", self.subject.run, self.number));
        let parent = self.activation_span();
        // A call may have begun before the activation.
        let at = self.activation.as_ref().map_or(at, |activation| at.max(activation.start));
        let span = self.item_spans.entry(item.clone()).or_insert_with(|| {
            let mut span = Span::new(id, "pes.step", SpanKind::Internal, at);
            span.parent = parent;
            span.set(names::ITEM, item.as_str().to_owned());
            span.set(names::ITEM_ATTEMPT, attempt);
            span
        });
        span.start = span.start.min(at);
        span.id
    }

    pub(super) fn add_event(&mut self, name: &'static str, at: Millis, attributes: Attributes) {
        if let Some(activation) = &mut self.activation {
            activation.events.push(SpanEvent { name, at, attributes });
        }
    }

    fn record_error(&mut self, body: &ErrorBody) {
        let why = self.failure_text(&body.code, &body.message);
        if let Some(activation) = self.activation.as_mut().filter(|_| body.fatal) {
            activation.fail(&body.code, &why);
        }
    }

    fn record_run_end(&mut self, body: &RunFinishedBody) {
        self.has_run_ended = true;
        let Some(span) = &mut self.activation else { return };
        span.set(names::RUN_STATUS, body.status.as_str());
        span.set(names::INPUT_TOKENS, body.usage.input_tokens);
        span.set(names::OUTPUT_TOKENS, body.usage.output_tokens);
        span.set(names::CACHED_INPUT_TOKENS, body.usage.cached_input_tokens);
        span.set(names::REASONING_TOKENS, body.usage.thinking_tokens);
        span.set_some(names::COST, body.cost_usd);
    }

    pub(super) fn activation_span(&self) -> Option<SpanId> {
        self.activation.as_ref().map(|activation| activation.id)
    }

    pub(super) fn span_id(&self, key: &str) -> SpanId {
        SpanId::derived(&self.subject.trace_id, key)
    }

    /// A text of people, models or tools, cut to [`MAX_TEXT_BYTES`]; `None`: spans contain no such texts.
    pub(super) fn content(&self, value: &Value) -> Option<String> {
        if !self.subject.with_content {
            return None;
        }
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some(text[..text.floor_char_boundary(MAX_TEXT_BYTES)].to_owned())
    }

    /// The description of a failure. Without content it is the code alone, as the message may quote texts.
    pub(super) fn failure_text(&self, code: &str, message: &str) -> String {
        self.content(&Value::from(message)).unwrap_or_else(|| code.to_owned())
    }
}

/// A message in the format of the conventions. A reply that only asks for calls has no text.
pub(super) fn message(role: &str, text: &str) -> Value {
    let part = (!text.is_empty()).then(|| json!({ "type": "text", "content": text }));
    json!({ "role": role, "parts": part.as_slice() })
}

pub(super) fn value_of<'a>(attributes: &'a [(Cow<'static, str>, Attribute)], name: &str) -> Option<&'a Attribute> {
    attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value)
}
