//! What is recorded: one function per kind of observation, each with the content that the contract names.
//!
//! Recorded contents hold changes and payload references; `history::fold` and `domain::payload` put the rest back:
//! - `PLAN` is `{plan, planVersion, rawOutput, changes}`; the `PLAN_UPDATE` of the same version right after it is
//!   `{planVersion, source}`: its changes are those. Any other `PLAN_UPDATE` has its own `changes`
//!   and the plan's text.
//! - a change is `{type, itemId, timestamp, item?}`, `item` as it is afterwards.
//! - `ITEM_STATUS_CHANGE` holds in `item` the fields that changed.

use serde_json::{Value, json};

use crate::domain::fault::Code;
use crate::domain::hitl::{Decision, ExpiryPolicy, Suspension};
use crate::domain::ids::{ItemId, RunId, StreamId};
use crate::domain::model::{ModelReply, Phase};
use crate::domain::observation::{ObservationType, Record};
use crate::domain::policy::Ruling;
use crate::domain::run::{Outcome, Run};
use crate::domain::tool::ToolResult;
use crate::domain::usage::{Nanos, usd};
use crate::parse::tags;
use crate::pes::state::{ModelCall, text};
use crate::pes::tx::Tx;

impl Tx<'_> {
    /// Records a fact of the active run; while the thread is idle, of none: nothing comes after a run's `RUN_FINISHED`.
    pub fn record(&mut self, kind: ObservationType, parent: Option<&ItemId>, title: impl Into<String>, content: Value) {
        let of = self.state.run.as_ref().map(|run| (run.run_id.clone(), run.trace_id.clone()));
        let (run_id, trace_id) = of.unwrap_or_else(|| (RunId::from(""), String::new()));
        self.push(run_id, trace_id, kind, parent, title.into(), content);
    }

    /// Records a fact of a run that need not be the active one.
    pub fn record_for(&mut self, run: &Run, kind: ObservationType, title: &str, content: Value) {
        self.push(run.run_id.clone(), run.trace_id.clone(), kind, None, title.into(), content);
    }

    fn push(
        &mut self,
        run_id: RunId,
        trace_id: String,
        kind: ObservationType,
        parent: Option<&ItemId>,
        title: String,
        content: Value,
    ) {
        let id = self.mint.observation();
        let (timestamp, parent_id) = (self.stamp.now, parent.cloned());
        self.records.push(Record { id, run_id, parent_id, trace_id, timestamp, kind, title, content, metadata: None });
    }

    pub fn record_run_started(&mut self, message: Value) {
        let run = self.state.active_run();
        let body = json!({ "query": message["content"], "message": message, "model": run.settings.model, "provider": run.settings.provider });
        self.record(ObservationType::RunStarted, None, "Run started", body);
    }

    pub fn record_stream_start(&mut self, stream: &StreamId, item: Option<&ItemId>, phase: Phase, call: &ModelCall) {
        let phase = call.phase(phase);
        let (provider, model) = self.state.settings().choice(call.choice).unwrap_or_default();
        let mut body = json!({
            "streamId": stream, "phase": phase, "provider": provider, "model": model, "attempt": call.attempt,
        });
        if item.is_some() {
            body["iteration"] = call.iteration.into();
        }
        if call.sums.is_some() {
            body["purpose"] = "summary".into();
        }
        self.record(ObservationType::LlmStreamStart, item, "Model called", body);
    }

    /// The end of a stream: its figures, its whole text, and its thoughts. Returns the text's written form.
    pub fn record_stream_end(
        &mut self,
        stream: &StreamId,
        item: Option<&ItemId>,
        phase: Phase,
        reply: &ModelReply,
        cost: Option<Nanos>,
    ) -> Value {
        let text = match phase {
            Phase::Planning | Phase::Execution => reply.text.clone(),
            // What the tokens said: the tags around an answer are not shown.
            Phase::Synthesis => tags::split(&reply.text).0,
        };
        let text = self.store(stream.as_str(), Value::String(text));
        let usage = &reply.usage;
        let mut figures = json!({
            "streamId": stream, "inputTokens": usage.input_tokens, "outputTokens": usage.output_tokens,
            "thinkingTokens": usage.thinking_tokens, "cachedInputTokens": usage.cached_input_tokens,
            "timeToFirstTokenMs": reply.time_to_first_token_ms, "totalGenerationTimeMs": reply.total_ms,
            "stopReason": reply.stop, "provider": reply.provider, "model": reply.model,
        });
        if let Some(cost) = cost {
            figures["costUsd"] = usd(cost).into();
        }
        self.record(ObservationType::LlmStreamMetadata, item, "Model figures", figures);
        if let (Some(fit), Some(figures)) = (&reply.fit, self.records.last_mut()) {
            figures.metadata = Some(json!({ "context": fit }));
        }
        let mut end = json!({ "streamId": stream, "text": text });
        let thinking = (!reply.thinking.is_empty())
            .then(|| self.store(format!("{stream}.thinking"), Value::String(reply.thinking.clone())));
        if let Some(thinking) = &thinking {
            end["thinking"] = thinking.clone();
        }
        self.record(ObservationType::LlmStreamEnd, item, "Model answered", end);
        if let Some(thinking) = thinking {
            self.record_thoughts(stream, item, phase, thinking);
        }
        text
    }

    pub fn record_thoughts(&mut self, stream: &StreamId, item: Option<&ItemId>, phase: Phase, text: Value) {
        let body = json!({ "streamId": stream, "phase": phase, "text": text });
        self.record(ObservationType::Thoughts, item, "Thoughts", body);
    }

    pub fn record_tool_execution(&mut self, item: Option<&ItemId>, result: &ToolResult, policy: Option<&Ruling>) {
        let title = format!("{} ended", result.tool_name);
        self.record(ObservationType::ToolExecution, item, title, text::to_value(result));
        self.ruled(policy);
    }

    /// Says by which rule what was just recorded came about.
    fn ruled(&mut self, policy: Option<&Ruling>) {
        if let (Some(ruling), Some(record)) = (policy, self.records.last_mut()) {
            record.metadata = Some(json!({ "policy": ruling }));
        }
    }

    pub fn record_suspended(&mut self, suspension: &Suspension) {
        let title = format!("Waiting for a person: {}", text::cut(&suspension.message, 120));
        self.record(
            ObservationType::AgentSuspended,
            suspension.item_id.as_ref(),
            title,
            suspension_content(suspension),
        );
        self.ruled(suspension.policy.as_ref());
    }

    pub fn record_resumed(&mut self, suspension: &Suspension, decision: Decision, by: &str) {
        let mut body = json!({ "suspensionId": suspension.suspension_id, "decision": decision, "decidedBy": by });
        let resolution = suspension.resolution.as_ref();
        let optional = [
            ("callId", suspension.call_id.as_ref().map(text::to_value)),
            ("toolName", suspension.tool_name.as_ref().map(text::to_value)),
            ("digest", resolution.and_then(|resolution| resolution.digest.as_ref()).map(text::to_value)),
            ("reason", resolution.and_then(|resolution| resolution.reason.as_ref()).map(text::to_value)),
        ];
        add(&mut body, optional);
        self.record(ObservationType::AgentResumed, suspension.item_id.as_ref(), "A person answered", body);
    }

    pub fn record_timeout(&mut self, suspension: &Suspension, policy: ExpiryPolicy) {
        let body = json!({ "suspensionId": suspension.suspension_id, "policy": policy });
        self.record(ObservationType::SuspensionTimeout, suspension.item_id.as_ref(), "Nobody answered in time", body);
    }

    pub fn record_state_update(&mut self, keys: Vec<String>, message: Option<Value>) {
        let mut body = json!({ "keys": keys, "stateVersion": self.state.agent_state.version });
        if let Some(message) = message {
            body["message"] = message;
        }
        self.record(ObservationType::StateUpdate, None, "State changed", body);
    }

    pub fn record_error(&mut self, phase: Phase, code: &str, message: &str, fatal: bool, item: Option<&ItemId>) {
        let body = json!({
            "phase": phase, "code": code, "message": message, "fatal": fatal, "retryable": is_retryable(code),
        });
        self.record(ObservationType::Error, item, text::cut(message, 120), body);
    }

    pub fn record_run_finished(&mut self, run: &Run, outcome: Option<&Outcome>) {
        let mut body = json!({
            "status": run.status,
            "totalDurationMs": self.stamp.now - run.started_at.unwrap_or(run.created_at),
            "llmCalls": run.counters.llm_calls, "toolCalls": run.counters.tool_calls, "usage": run.counters.usage,
        });
        if let Some(cost) = run.counters.cost_nanos {
            body["costUsd"] = usd(cost).into();
        }
        if let Some(outcome) = outcome {
            body["resultStatus"] = text::to_value(&outcome.status);
        }
        let title = format!("Run {}", run.status.as_str());
        self.record_for(run, ObservationType::RunFinished, &title, body);
    }
}

/// What `AGENT_SUSPENDED` says.
/// Whether the same may go well another time; what is no code of ours may not.
fn is_retryable(code: &str) -> bool {
    Code::ALL.iter().any(|known| known.as_str() == code && known.retryable())
}

fn suspension_content(suspension: &Suspension) -> Value {
    let mut body = json!({
        "suspensionId": suspension.suspension_id, "kind": suspension.kind, "message": suspension.message,
        "feedbackSchema": suspension.feedback_schema,
    });
    if suspension.while_running {
        body["whileRunning"] = true.into();
    }
    let optional = [
        ("callId", suspension.call_id.as_ref().map(text::to_value)),
        ("toolName", suspension.tool_name.as_ref().map(text::to_value)),
        ("toolInput", suspension.tool_input.clone()),
        ("plan", suspension.plan.clone()),
        ("digest", suspension.digest.as_ref().map(text::to_value)),
        ("riskLevel", suspension.risk_level.as_ref().map(text::to_value)),
        ("policy", suspension.policy.as_ref().map(text::to_value)),
        ("expiresAt", suspension.expires_at.as_ref().map(text::to_value)),
        ("expiryPolicy", suspension.expiry_policy.as_ref().map(text::to_value)),
    ];
    add(&mut body, optional);
    body
}

fn add<const N: usize>(body: &mut Value, optional: [(&str, Option<Value>); N]) {
    for (key, value) in optional {
        if let Some(value) = value {
            body[key] = value;
        }
    }
}
