//! What is recorded: one function per kind of fact, each with the body that the contract names.
//!
//! Recorded bodies hold changes and payload references; `history::fold` and `domain::payload` restore the rest:
//! - A `PLAN_UPDATE` right after a `PLAN` of the same version has no changes: they are those of the `PLAN`. Any other
//!   `PLAN_UPDATE` has its own.
//! - A change holds the item as it is afterwards; an `ITEM_STATUS_CHANGE` the members of the item that changed.

use serde_json::Value;

use crate::domain::facts::{
    AgentResumedBody, ErrorBody, Fact, LlmStreamEndBody, LlmStreamErrorBody, LlmStreamMetadataBody, LlmStreamStartBody,
    Purpose, RecordedMessage, RunFinishedBody, RunStartedBody, StateUpdateBody, SuspensionTimeoutBody, ThoughtsBody,
};
use crate::domain::fault::Code;
use crate::domain::hitl::{Decision, ExpiryPolicy, Suspension};
use crate::domain::ids::{ItemId, RunId, StreamId};
use crate::domain::model::{ModelFailure, ModelReply, Phase};
use crate::domain::observation::{Record, RecordMetadata};
use crate::domain::policy::Ruling;
use crate::domain::run::{Outcome, Run, RunError};
use crate::domain::tool::ToolResult;
use crate::domain::usage::{Nanos, usd};
use crate::parse::tags;
use crate::pes::state::{ModelCall, text};
use crate::pes::tx::Tx;

/// Messages in titles are cut at this length.
const MAX_TITLE_CHARS: usize = 120;

impl Tx<'_> {
    /// Records a fact of the active run, or of no run while the thread is idle: nothing comes after a run's
    /// `RUN_FINISHED`.
    pub fn record(&mut self, parent: Option<&ItemId>, title: impl Into<String>, fact: impl Into<Fact>) {
        let of = self.state.run.as_ref().map(|run| (run.run_id.clone(), run.trace_id.clone()));
        let (run_id, trace_id) = of.unwrap_or_else(|| (RunId::from(""), String::new()));
        self.push(run_id, trace_id, parent, title.into(), fact.into());
    }

    /// Records a fact of a run that need not be the active one.
    pub fn record_for(&mut self, run: &Run, title: &str, fact: impl Into<Fact>) {
        self.push(run.run_id.clone(), run.trace_id.clone(), None, title.into(), fact.into());
    }

    fn push(&mut self, run_id: RunId, trace_id: String, parent: Option<&ItemId>, title: String, fact: Fact) {
        let id = self.mint.observation();
        let (timestamp, parent_id) = (self.stamp.now, parent.cloned());
        self.records.push(Record { id, run_id, parent_id, trace_id, timestamp, title, fact, metadata: None });
    }

    /// Sets the metadata of the last record: how it came about.
    pub fn annotate(&mut self, metadata: RecordMetadata) {
        if let Some(record) = self.records.last_mut() {
            record.metadata = Some(metadata);
        }
    }

    pub fn record_run_started(&mut self, message: RecordedMessage) {
        let settings = &self.state.active_run().settings;
        let (model, provider) = (settings.model.clone(), settings.provider.clone());
        let options = Some(Box::new(settings.options()));
        let body = RunStartedBody { query: message.content.clone(), message, model, provider, options };
        self.record(None, "Run started", body);
    }

    pub fn record_stream_start(&mut self, stream: &StreamId, item: Option<&ItemId>, phase: Phase, call: &ModelCall) {
        let (provider, model) = self.state.run_settings().choice(call.choice).unwrap_or_default();
        let body = LlmStreamStartBody {
            stream_id: stream.clone(),
            phase: call.phase(phase),
            provider: provider.to_owned(),
            model: model.to_owned(),
            attempt: call.attempt,
            iteration: item.is_some().then_some(call.iteration),
            purpose: call.sums.is_some().then_some(Purpose::Summary),
        };
        self.record(item, "Model called", body);
    }

    /// Records the end of a stream: its figures, its whole text, and its thoughts. Returns the text as it is stored.
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
            // Only what was streamed: the tags around an answer are not shown.
            Phase::Synthesis => tags::split(&reply.text).0,
        };
        let text = self.store(stream.as_str(), Value::String(text));
        self.record(item, "Model figures", figures(stream, reply, cost));
        if let Some(fit) = reply.fit {
            self.annotate(RecordMetadata { context: Some(fit), ..RecordMetadata::default() });
        }
        let thinking = (!reply.thinking.is_empty())
            .then(|| self.store(format!("{stream}.thinking"), Value::String(reply.thinking.clone())));
        let end = LlmStreamEndBody { stream_id: stream.clone(), text: text.clone(), thinking: thinking.clone() };
        self.record(item, "Model answered", end);
        if let Some(thinking) = thinking {
            self.record_thoughts(stream, item, phase, thinking);
        }
        text
    }

    pub fn record_stream_error(
        &mut self,
        stream: &StreamId,
        item: Option<&ItemId>,
        failure: &ModelFailure,
        delay: Option<i64>,
    ) {
        let body = LlmStreamErrorBody {
            stream_id: stream.clone(),
            code: failure.kind,
            message: text::cut(&failure.message, 2000),
            retryable: delay.is_some(),
            http_status: failure.http_status,
            retry_in_ms: delay,
        };
        self.record(item, "Model call failed", body);
    }

    pub fn record_thoughts(&mut self, stream: &StreamId, item: Option<&ItemId>, phase: Phase, text: Value) {
        self.record(item, "Thoughts", ThoughtsBody { stream_id: stream.clone(), phase, text });
    }

    pub fn record_tool_execution(&mut self, item: Option<&ItemId>, result: &ToolResult, policy: Option<&Ruling>) {
        self.record(item, format!("{} ended", result.tool_name), result.clone());
        self.annotate_policy(policy);
    }

    /// Sets the policy rule behind the last record as its metadata, if there is one.
    fn annotate_policy(&mut self, policy: Option<&Ruling>) {
        if let Some(ruling) = policy {
            self.annotate(RecordMetadata { policy: Some(ruling.clone()), ..RecordMetadata::default() });
        }
    }

    pub fn record_suspended(&mut self, suspension: &Suspension) {
        let title = format!("Waiting for a person: {}", text::cut(&suspension.message, MAX_TITLE_CHARS));
        self.record(suspension.item_id.as_ref(), title, suspension.asked());
        self.annotate_policy(suspension.policy.as_ref());
    }

    pub fn record_resumed(&mut self, suspension: &Suspension, decision: Decision, by: &str) {
        let resolution = suspension.resolution.as_ref();
        let body = AgentResumedBody {
            suspension_id: suspension.suspension_id.clone(),
            decision,
            decided_by: by.to_owned(),
            call_id: suspension.call_id.clone(),
            tool_name: suspension.tool_name.clone(),
            digest: resolution.and_then(|resolution| resolution.digest.clone()),
            reason: resolution.and_then(|resolution| resolution.reason.clone()),
        };
        self.record(suspension.item_id.as_ref(), "A person answered", body);
    }

    pub fn record_timeout(&mut self, suspension: &Suspension, policy: ExpiryPolicy) {
        let body = SuspensionTimeoutBody { suspension_id: suspension.suspension_id.clone(), policy };
        self.record(suspension.item_id.as_ref(), "Nobody answered in time", body);
    }

    pub fn record_message(&mut self, key: &str, message: RecordedMessage) {
        let body = StateUpdateBody { message: Some(message), ..self.state_update(vec![key.to_owned()]) };
        self.record(None, "State changed", body);
    }

    /// A `STATE_UPDATE` with the current version, to which the caller adds what was written.
    pub fn state_update(&self, keys: Vec<String>) -> StateUpdateBody {
        StateUpdateBody::of(keys, self.state.agent_state.version)
    }

    pub fn record_error(&mut self, phase: Phase, code: &str, message: &str, fatal: bool, item: Option<&ItemId>) {
        self.record(item, text::cut(message, MAX_TITLE_CHARS), error_body(phase, code, message, fatal));
    }

    /// Records the error because of which a run fails that is not the active one.
    pub fn record_fatal_error_of(&mut self, run: &Run, error: &RunError) {
        let body = error_body(error.phase, error.code.as_str(), &error.message, true);
        self.record_for(run, &text::cut(&error.message, MAX_TITLE_CHARS), body);
    }

    /// Adds to the errors that `fail` records which model did not answer, and how often it was asked.
    pub fn name_model_in_errors(&mut self, call: &ModelCall, fail: impl FnOnce(&mut Self)) {
        let (provider, model) = self.state.run_settings().choice(call.choice).unwrap_or_default();
        let (provider, model) = (provider.to_owned(), model.to_owned());
        let before = self.records.len();
        fail(self);
        for record in &mut self.records[before..] {
            if let Fact::Error(body) = &mut record.fact {
                body.provider = Some(provider.clone());
                body.model = Some(model.clone());
                body.attempts = Some(call.attempt);
            }
        }
    }

    pub fn record_run_finished(&mut self, run: &Run, outcome: Option<&Outcome>) {
        let body = RunFinishedBody {
            status: run.status,
            total_duration_ms: self.stamp.now - run.started_at.unwrap_or(run.created_at),
            llm_calls: run.counters.llm_calls,
            tool_calls: run.counters.tool_calls,
            usage: run.counters.usage.clone(),
            cost_usd: run.counters.cost_nanos.map(usd),
            result_status: outcome.map(|outcome| outcome.status),
        };
        self.record_for(run, &format!("Run {}", run.status.as_str()), body);
    }
}

fn error_body(phase: Phase, code: &str, message: &str, fatal: bool) -> ErrorBody {
    let (code, message, retryable) = (code.to_owned(), message.to_owned(), is_retryable(code));
    ErrorBody { phase, code, message, fatal, retryable, provider: None, model: None, attempts: None }
}

fn figures(stream: &StreamId, reply: &ModelReply, cost: Option<Nanos>) -> LlmStreamMetadataBody {
    let usage = &reply.usage;
    LlmStreamMetadataBody {
        stream_id: stream.clone(),
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        thinking_tokens: usage.thinking_tokens,
        cached_input_tokens: usage.cached_input_tokens,
        time_to_first_token_ms: reply.time_to_first_token_ms,
        queued_ms: reply.queued_ms,
        total_generation_time_ms: reply.total_ms,
        stop_reason: reply.stop.clone(),
        provider: reply.provider.clone(),
        model: reply.model.clone(),
        cost_usd: cost.map(usd),
        prompt_digest: reply.prompt_digest.clone(),
    }
}

/// Whether the same request may succeed later; `false` for codes that are not in our list.
fn is_retryable(code: &str) -> bool {
    Code::ALL.iter().any(|known| known.as_str() == code && known.retryable())
}
