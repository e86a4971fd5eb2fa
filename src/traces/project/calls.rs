//! Spans of calls to models, tools and other agents, and the decisions of people about these calls.

use serde_json::json;

use super::projection::{OpenSpan, Projection, message, value_of};
use crate::domain::facts::{
    A2aTaskBody, AgentResumedBody, LlmStreamEndBody, LlmStreamErrorBody, LlmStreamMetadataBody, LlmStreamStartBody,
};
use crate::domain::hitl::AskedQuestion;
use crate::domain::ids::{ItemId, StreamId};
use crate::domain::model::Phase;
use crate::domain::task::TaskStatus;
use crate::domain::tool::{ToolCall, ToolResult};
use crate::domain::{Millis, word_of};
use crate::traces::names;
use crate::traces::span::{Attribute, Span, SpanId, SpanKind};

impl Projection {
    pub(super) fn start_chat(&mut self, item: Option<&ItemId>, body: &LlmStreamStartBody, at: Millis) {
        let mut span =
            Span::new(self.span_id(body.stream_id.as_str()), format!("chat {}", body.model), SpanKind::Client, at);
        span.parent = match (body.phase, item) {
            (Phase::Planning, _) if body.purpose.is_none() => Some(self.plan_span(&body.stream_id, at)),
            (Phase::Execution, Some(item)) => Some(self.item_span(item, at)),
            (Phase::Planning | Phase::Execution | Phase::Synthesis, _) => self.activation_span(),
        };
        span.set(names::OPERATION, "chat");
        span.set(names::PROVIDER, names::provider(&body.provider).to_owned());
        span.set(names::REQUEST_MODEL, body.model.clone());
        span.set(names::ATTEMPT, body.attempt);
        self.chats.insert(body.stream_id.clone(), OpenSpan::new(span, item));
    }

    pub(super) fn record_chat_usage(&mut self, body: &LlmStreamMetadataBody) {
        let Some(OpenSpan { span, .. }) = self.chats.get_mut(&body.stream_id) else { return };
        span.set(names::RESPONSE_MODEL, body.model.clone());
        span.set(names::INPUT_TOKENS, body.input_tokens);
        span.set(names::OUTPUT_TOKENS, body.output_tokens);
        span.set(names::CACHED_INPUT_TOKENS, body.cached_input_tokens);
        span.set(names::REASONING_TOKENS, body.thinking_tokens);
        span.attributes.push((names::FINISH_REASONS.into(), Attribute::TextList(vec![word_of(&body.stop_reason)])));
        span.set_some(names::FIRST_TOKEN, body.time_to_first_token_ms.map(seconds));
        span.set_some(names::QUEUED, body.queued_ms);
        span.set_some(names::COST, body.cost_usd);
    }

    pub(super) fn end_chat_with_text(&mut self, body: &LlmStreamEndBody, at: Millis) {
        let text = self.content(&body.text);
        self.end_chat(&body.stream_id, at, |span| {
            let output = text.map(|text| {
                let mut output = message("assistant", &text);
                // The conventions require it of each output.
                output["finish_reason"] = finish_reason(span).into();
                json!([output]).to_string()
            });
            span.set_some(names::OUTPUT_MESSAGES, output);
        });
    }

    pub(super) fn fail_chat(&mut self, body: &LlmStreamErrorBody, at: Millis) {
        let why = self.failure_text(&word_of(&body.code), &body.message);
        self.end_chat(&body.stream_id, at, |span| {
            span.fail(&word_of(&body.code), &why);
            span.set_some(names::HTTP_STATUS, body.http_status.map(i64::from));
        });
    }

    pub(super) fn end_chat(&mut self, stream: &StreamId, at: Millis, last: impl FnOnce(&mut Span)) {
        let Some(mut open) = self.chats.remove(stream) else { return };
        last(&mut open.span);
        self.end_call(open, at);
    }

    /// The id of the span in which the model makes the next plan. Starts the span if there is none.
    pub(super) fn plan_span(&mut self, stream: &StreamId, at: Millis) -> SpanId {
        let id = self.span_id(&format!("plan:{stream}"));
        let parent = self.activation_span();
        let span = self.plan.get_or_insert_with(|| {
            let mut span = Span::new(id, "plan", SpanKind::Internal, at);
            span.parent = parent;
            span.set(names::OPERATION, "plan");
            span
        });
        span.id
    }

    pub(super) fn end_plan(&mut self, version: i64, at: Millis) {
        let Some(mut span) = self.plan.take() else { return };
        span.set(names::PLAN_VERSION, version);
        self.end_span(span, at);
    }

    pub(super) fn record_tool_call(&mut self, item: Option<&ItemId>, call: &ToolCall) {
        let arguments = self.content(&call.arguments);
        let known = self.calls.entry(call.call_id.clone()).or_default();
        known.item = item.cloned();
        known.arguments = arguments;
    }

    pub(super) fn record_tool_result(&mut self, item: Option<&ItemId>, result: &ToolResult, end: Millis) {
        let call = self.calls.remove(&result.call_id).unwrap_or_default();
        let start = end - result.duration_ms.max(0);
        let key = format!("{}:{}", self.subject.thread, result.call_id);
        let mut span =
            Span::new(self.span_id(&key), format!("execute_tool {}", result.tool_name), SpanKind::Internal, start);
        let item = item.or(call.item.as_ref());
        span.parent = item.map(|item| self.item_span(item, start)).or_else(|| self.activation_span());
        span.set(names::OPERATION, "execute_tool");
        span.set(names::TOOL, result.tool_name.as_str().to_owned());
        span.set(names::TOOL_CALL, result.call_id.as_str().to_owned());
        span.set(names::TOOL_TYPE, "function");
        if let Some((action, rule)) = call.rule {
            span.set(names::POLICY_ACTION, action);
            span.set(names::POLICY_RULE, rule);
        }
        if let Some((decision, at)) = call.decision {
            span.set(names::DECISION, decision);
            span.set_some(names::WAITED, call.asked_at.map(|asked| seconds(at - asked)));
        }
        span.set_some(names::TOOL_ARGUMENTS, call.arguments);
        span.set_some(names::TOOL_RESULT, result.output.as_ref().and_then(|output| self.content(output)));
        if let Some(error) = &result.error {
            let why = self.failure_text(&error.code, &error.message);
            span.fail(&error.code, &why);
        }
        self.end_span(span, end);
    }

    pub(super) fn record_suspension(&mut self, asked: &AskedQuestion, at: Millis) {
        if let Some(call) = &asked.call_id {
            let known = self.calls.entry(call.clone()).or_default();
            known.asked_at = Some(at);
            known.rule = asked.policy.as_ref().map(|ruling| (ruling.action.as_str(), ruling.rule.clone()));
        }
        let mut about = vec![(names::SUSPENSION_KIND.into(), asked.kind.as_str().into())];
        about.extend(asked.tool_name.clone().map(|tool| (names::TOOL.into(), tool.into())));
        self.add_event("pes.suspended", at, about);
    }

    /// Who decided is not exported: names of people stay on this server.
    pub(super) fn record_decision(&mut self, body: &AgentResumedBody, at: Millis) {
        let decision = body.decision.as_str();
        if let Some(call) = body.call_id.as_ref().and_then(|id| self.calls.get_mut(id)) {
            call.decision = Some((decision, at));
        }
        self.add_event("pes.resumed", at, vec![(names::DECISION.into(), decision.into())]);
    }

    pub(super) fn record_peer_task(&mut self, item: Option<&ItemId>, task: &A2aTaskBody, at: Millis) {
        if !self.peers.contains_key(&task.task_id) {
            let mut span = Span::new(
                self.span_id(task.task_id.as_str()),
                format!("invoke_agent {}", task.agent_id),
                SpanKind::Client,
                task.submitted_at,
            );
            span.parent = item.map(|item| self.item_span(item, task.submitted_at)).or_else(|| self.activation_span());
            span.set(names::OPERATION, "invoke_agent");
            span.set(names::PEER, task.agent_id.as_str().to_owned());
            span.set(names::TASK, task.task_id.as_str().to_owned());
            self.peers.insert(task.task_id.clone(), OpenSpan::new(span, item));
        }
        if !task.status.is_terminal() {
            return;
        }
        let Some(mut open) = self.peers.remove(&task.task_id) else { return };
        open.span.set(names::TASK_STATUS, task.status.as_str());
        if task.status != TaskStatus::Completed {
            let why = self.failure_text(task.status.as_str(), task.reason.as_deref().unwrap_or_default());
            open.span.fail(task.status.as_str(), &why);
        }
        self.end_call(open, at);
    }
}

/// Why the model stopped; its metadata said so before its text ended.
fn finish_reason(chat: &Span) -> String {
    match value_of(&chat.attributes, names::FINISH_REASONS) {
        Some(Attribute::TextList(reasons)) => reasons.concat(),
        Some(Attribute::Text(_) | Attribute::Integer(_) | Attribute::Float(_)) | None => String::new(),
    }
}

#[allow(clippy::cast_precision_loss, reason = "a time of waiting is far below 2^52 ms")]
fn seconds(ms: Millis) -> f64 {
    ms as f64 / 1_000.0
}
