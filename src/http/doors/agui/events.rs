//! Projects a run's observations and tokens to AG-UI events. Pure: the same observations give the same events. Tokens
//! only bring them earlier.
//!
//! One emitter serves versions 0.x and 1.0. Events that only 1.0 knows are sent only to clients that declare it.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::interrupt::interrupt;
use super::request::ClientRun;
use super::state::PlanState;
use super::subagents::Subagents;
use super::text_events::to_events;
use super::usage::ModelUsage;
use crate::domain::facts::SynthesisStatus;
use crate::domain::facts::{Fact, FinalResponseBody, ItemStatusChangeBody, RunFinishedBody};
use crate::domain::fault::Code;
use crate::domain::frame::{Token, TokenType};
use crate::domain::hitl::{AskedQuestion, ExpiryPolicy, SuspensionKind};
use crate::domain::ids::{CallId, RunId, StreamId, SuspensionId};
use crate::domain::model::Phase;
use crate::domain::plan::ItemStatus;
use crate::domain::run::RunStatus;
use crate::domain::tool::ToolResult;
use crate::http::doors::frames::{DecodedObservation, ObservationContent};
use crate::http::doors::text_events::{PrefixDigest, TextEmitter};

pub(super) struct AguiEvents {
    client: ClientRun,
    run: RunId,
    state: PlanState,
    texts: TextEmitter,
    /// The steps that have started and not finished.
    steps: Vec<String>,
    /// The open questions, oldest first.
    open: Vec<AskedQuestion>,
    /// The calls whose results the client sent. Another message with one would be shown beside its own.
    answered_calls: HashSet<CallId>,
    usage: ModelUsage,
    subagents: Subagents,
    /// The stream that writes the answer. Its id is the id of the answer's message, with or without tokens.
    answer_stream: Option<StreamId>,
    failure: Option<(String, String)>,
    answer: Option<Value>,
    is_finished: bool,
}

impl AguiEvents {
    pub(super) fn new(client: ClientRun, run: RunId) -> Self {
        Self {
            client,
            run,
            state: PlanState::default(),
            texts: TextEmitter::default(),
            steps: Vec::new(),
            open: Vec::new(),
            answered_calls: HashSet::new(),
            usage: ModelUsage::default(),
            subagents: Subagents::default(),
            answer_stream: None,
            failure: None,
            answer: None,
            is_finished: false,
        }
    }

    /// No event follows.
    pub(super) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Applies an observation from before the stream without sending its events.
    pub(super) fn replay(&mut self, observation: &DecodedObservation) {
        self.observation(observation);
        self.steps.clear();
        self.usage.clear();
        self.subagents.clear();
    }

    /// Continues texts that an earlier connection has sent up to here.
    pub(super) fn resume_texts(&mut self, answer: Option<(StreamId, PrefixDigest)>, thoughts: Vec<(StreamId, u64)>) {
        self.texts.resume(answer, thoughts);
    }

    /// The events at the start of a stream, after its `RUN_STARTED`.
    pub(super) fn begin(&mut self) -> Vec<Value> {
        let mut events = vec![json!({ "type": "STATE_SNAPSHOT", "snapshot": self.state.snapshot(false) })];
        events.extend(self.plan_snapshot());
        events
    }

    pub(super) fn observation(&mut self, observation: &DecodedObservation) -> Vec<Value> {
        if observation.run != self.run || self.is_finished {
            return Vec::new();
        }
        let mut events = match &observation.content {
            ObservationContent::Plan(plan) => {
                let delta = self.state.set_plan(plan.plan.as_str(), plan.plan_version, &plan.todo_list);
                self.plan_changed(delta)
            }
            ObservationContent::PlanUpdate(update) => {
                let plan = update.plan.as_ref().and_then(Value::as_str);
                let delta = self.state.set_plan(plan, update.plan_version, &update.todo_list);
                self.plan_changed(delta)
            }
            ObservationContent::Fact(fact) => self.fact(fact),
        };
        for event in &mut events {
            event["timestamp"] = json!(observation.at);
            let mut metadata =
                json!({ "pes": { "seq": observation.seq, "type": observation.kind.as_str(), "runId": self.run } });
            if let Some(retryable) = event["metadata"]["pes"].get("retryable") {
                metadata["pes"]["retryable"] = retryable.clone();
            }
            event["metadata"] = metadata;
        }
        events
    }

    fn fact(&mut self, fact: &Fact) -> Vec<Value> {
        match fact {
            Fact::Intent(body) => vec![delta(self.state.set_intent(&body.intent))],
            Fact::Title(body) => vec![delta(self.state.set_title(&body.title))],
            Fact::ItemStatusChange(body) => self.item_changed(body),
            Fact::LlmStreamStart(body) => {
                if body.phase == Phase::Synthesis && body.purpose.is_none() {
                    self.answer_stream = Some(body.stream_id.clone());
                }
                let mut events = match body.phase {
                    Phase::Planning => self.start_step("planning"),
                    Phase::Execution | Phase::Synthesis => Vec::new(),
                };
                events.push(custom("pes.llm_stream_start", json!(body)));
                events
            }
            Fact::LlmStreamMetadata(body) => {
                self.usage.add(body);
                vec![custom("pes.llm_stream_metadata", json!(body))]
            }
            Fact::LlmStreamEnd(body) => {
                let thinking = body.thinking.as_ref().and_then(Value::as_str).unwrap_or_default();
                to_events(self.texts.finish_thoughts(&body.stream_id, thinking))
            }
            Fact::LlmStreamError(body) => {
                self.answer_stream = self.answer_stream.take().filter(|answer_stream| *answer_stream != body.stream_id);
                let mut events = to_events(self.texts.fail_attempt(&body.stream_id));
                events.push(custom("pes.llm_error", json!(body)));
                events
            }
            Fact::Thoughts(body) => {
                to_events(self.texts.finish_thoughts(&body.stream_id, body.text.as_str().unwrap_or_default()))
            }
            Fact::ToolCall(body) => body
                .tool_calls
                .iter()
                .flat_map(|call| {
                    // A snapshot has the call in a message of the same id, so that no client shows it twice.
                    let (id, name) = (&call.call_id, &call.tool_name);
                    [
                        json!({ "type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": name, "parentMessageId": id }),
                        json!({ "type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": call.arguments.to_string() }),
                        json!({ "type": "TOOL_CALL_END", "toolCallId": id }),
                    ]
                })
                .collect(),
            Fact::ToolExecution(result) if self.answered_calls.contains(&result.call_id) => Vec::new(),
            Fact::ToolExecution(result) => vec![call_result(result)],
            Fact::AgentSuspended(question) => {
                self.answered_calls.extend(self.client.answered_call(question));
                self.open.push(question.clone());
                Vec::new()
            }
            Fact::AgentResumed(body) => self.question_closed(&body.suspension_id),
            // After a reminder the question is still open.
            Fact::SuspensionTimeout(body) if body.policy == ExpiryPolicy::Remind => Vec::new(),
            Fact::SuspensionTimeout(body) => self.question_closed(&body.suspension_id),
            Fact::A2aTask(body) => {
                let id = &body.task_id;
                let mut events = if self.client.speaks_v1 { self.subagents.apply(body) } else { Vec::new() };
                events.push(json!({
                    "type": "ACTIVITY_SNAPSHOT", "messageId": id, "activityType": "A2A_TASK", "content": body,
                }));
                events
            }
            Fact::Synthesis(body) => match body.status {
                SynthesisStatus::Started => self.start_step("synthesis"),
                SynthesisStatus::Completed => self.finish_step("synthesis"),
            },
            Fact::Error(body) => {
                if body.fatal {
                    self.failure = Some((body.code.clone(), body.message.clone()));
                    return Vec::new();
                }
                vec![custom("pes.error", json!(body))]
            }
            Fact::FinalResponse(body) => self.final_response(body),
            Fact::RunFinished(body) => self.run_ended(body),
            Fact::RunStarted(_) | Fact::Plan(_) | Fact::PlanUpdate(_) | Fact::StateUpdate(_) => Vec::new(),
        }
    }

    /// Handles a token of the answer or of a model's thoughts.
    pub(super) fn token(&mut self, token: &Token) -> Vec<Value> {
        if token.run_id != self.run || self.is_finished {
            return Vec::new();
        }
        match token.token_type {
            TokenType::SynthesisResponse => to_events(self.texts.answer_token(token)),
            TokenType::PlanningThinking | TokenType::ExecutionThinking | TokenType::SynthesisThinking => {
                to_events(self.texts.thought_token(token))
            }
            TokenType::PlanningResponse | TokenType::ExecutionResponse => Vec::new(),
        }
    }

    fn plan_changed(&mut self, patch: Value) -> Vec<Value> {
        let mut events = vec![delta(patch)];
        events.extend(self.plan_snapshot());
        events.extend(self.finish_step("planning"));
        events
    }

    fn plan_snapshot(&self) -> Option<Value> {
        let content = self.state.activity()?;
        let id = self.plan_id();
        Some(json!({ "type": "ACTIVITY_SNAPSHOT", "messageId": id, "activityType": "PLAN", "content": content }))
    }

    fn plan_id(&self) -> String {
        format!("plan-{}", self.run)
    }

    fn item_changed(&mut self, change: &ItemStatusChangeBody) -> Vec<Value> {
        let id = change.item_id.as_str();
        let mut events = Vec::new();
        if change.status == ItemStatus::InProgress {
            events.extend(self.start_step(id));
        }
        if let Some((state, activity)) = self.state.apply_status(change) {
            let message = self.plan_id();
            events.push(delta(state));
            events.push(json!({
                "type": "ACTIVITY_DELTA", "messageId": message, "activityType": "PLAN", "patch": activity,
            }));
        }
        if change.status != ItemStatus::InProgress {
            events.extend(self.finish_step(id));
        }
        events
    }

    fn start_step(&mut self, step: &str) -> Vec<Value> {
        if self.steps.iter().any(|open| open == step) {
            return Vec::new();
        }
        self.steps.push(step.to_owned());
        vec![json!({ "type": "STEP_STARTED", "stepName": step })]
    }

    fn finish_step(&mut self, step: &str) -> Vec<Value> {
        let Some(at) = self.steps.iter().position(|open| open == step) else { return Vec::new() };
        self.steps.remove(at);
        vec![json!({ "type": "STEP_FINISHED", "stepName": step })]
    }

    /// Ends everything that is still open.
    fn end_all(&mut self) -> Vec<Value> {
        let mut events = to_events(self.texts.end_all());
        events.extend(self.steps.drain(..).map(|step| json!({ "type": "STEP_FINISHED", "stepName": step })));
        events.extend(self.subagents.end_all());
        events
    }

    fn question_closed(&mut self, id: &SuspensionId) -> Vec<Value> {
        self.open.retain(|open| open.suspension_id != *id);
        Vec::new()
    }

    /// Sends what the tokens did not bring of the answer.
    fn final_response(&mut self, body: &FinalResponseBody) -> Vec<Value> {
        let Some(whole) = body.message.content.as_str() else { return Vec::new() };
        if body.message.is_error() {
            self.failure.get_or_insert_with(|| ("failed".to_owned(), whole.to_owned()));
            return Vec::new();
        }
        let mut result = json!({ "messageId": body.message.message_id, "content": whole });
        if let Some(beside) = &body.ui_metadata {
            result["uiMetadata"] = beside.clone();
        }
        self.answer = Some(result);
        let own = body.message.message_id.as_str();
        let stream = self.answer_stream.as_ref().map_or(own, StreamId::as_str);
        to_events(self.texts.finish_answer(stream, own, whole))
    }

    fn run_ended(&mut self, body: &RunFinishedBody) -> Vec<Value> {
        let mut events = self.end_all();
        self.is_finished = true;
        let end = match body.status {
            RunStatus::Completed => {
                let mut end = self.run_finished(json!({ "type": "success" }));
                if let Some(mut result) = self.answer.take() {
                    result["status"] = json!(body.result_status);
                    end["result"] = result;
                }
                end
            }
            RunStatus::Cancelled if self.client.speaks_v1 => self.run_finished(json!({ "type": "cancelled" })),
            RunStatus::Cancelled => run_error("cancelled", "The run was cancelled.", false),
            RunStatus::Failed | RunStatus::Queued | RunStatus::Running | RunStatus::Suspended | RunStatus::Waiting => {
                let failed = || ("failed".to_owned(), "The run failed.".to_owned());
                let (code, message) = self.failure.take().unwrap_or_else(failed);
                run_error(&code, &message, false)
            }
        };
        events.push(end);
        events
    }

    /// Ends the stream, because the run waits for an answer. Open calls of client tools end it like any other end; a
    /// question to a person ends it with an interrupt. `messages` is the conversation up to here.
    pub(super) fn suspended(&mut self, messages: Vec<Value>) -> Vec<Value> {
        if self.is_finished || self.open.is_empty() {
            return Vec::new();
        }
        let mut events = self.end_all();
        self.is_finished = true;
        events.push(json!({ "type": "STATE_SNAPSHOT", "snapshot": self.state.snapshot(true) }));
        let is_left_to_client = self.open.iter().all(|open| open.kind == SuspensionKind::ClientTool);
        // Before 1.0 assistant-ui misreads messages without an interrupt, and sends no results after a `success`.
        let has_messages = self.client.speaks_v1 || !is_left_to_client;
        events.extend(has_messages.then(|| json!({ "type": "MESSAGES_SNAPSHOT", "messages": messages })));
        let outcome = if is_left_to_client {
            let calls: Vec<_> = self.open.iter().filter_map(|open| open.call_id.as_ref()).collect();
            self.client.speaks_v1.then(|| json!({ "type": "success", "pendingToolCallIds": calls }))
        } else {
            Some(json!({ "type": "interrupt", "interrupts": self.open.iter().map(interrupt).collect::<Vec<_>>() }))
        };
        events.push(self.run_finished(outcome));
        events
    }

    /// Ends the stream although the run goes on.
    pub(super) fn interrupted(&mut self, code: &str, why: &str) -> Vec<Value> {
        if self.is_finished {
            return Vec::new();
        }
        let mut events = self.end_all();
        self.is_finished = true;
        events.push(run_error(code, why, code != Code::NotFound.as_str()));
        events
    }

    /// Sends nothing more, not even the ends of what is open.
    pub(super) fn abandon(&mut self) {
        self.is_finished = true;
    }

    fn run_finished(&self, outcome: impl Into<Option<Value>>) -> Value {
        let mut end = json!({ "type": "RUN_FINISHED", "threadId": self.client.thread, "runId": self.client.id });
        if let Some(outcome) = outcome.into() {
            end["outcome"] = outcome;
        }
        if let Some(usage) = self.usage.json() {
            end["usage"] = usage;
        }
        end
    }
}

/// The event that ends a stream with an error. `is_retryable` says that a client which connects again gets the rest.
pub(super) fn run_error(code: &str, message: &str, is_retryable: bool) -> Value {
    let metadata = json!({ "pes": { "retryable": is_retryable } });
    json!({ "type": "RUN_ERROR", "message": message, "code": code, "metadata": metadata })
}

fn delta(patch: Value) -> Value {
    json!({ "type": "STATE_DELTA", "delta": patch })
}

fn custom(name: &str, value: Value) -> Value {
    json!({ "type": "CUSTOM", "name": name, "value": value })
}

/// The result of a call, as text.
fn call_result(result: &ToolResult) -> Value {
    let content = match (&result.error, &result.output) {
        (Some(error), _) => json!({ "error": error }).to_string(),
        (None, Some(Value::String(text))) => text.clone(),
        (None, output) => json!(output).to_string(),
    };
    json!({
        "type": "TOOL_CALL_RESULT", "messageId": format!("result-{}", result.call_id), "toolCallId": result.call_id,
        "content": content, "role": "tool",
    })
}

#[cfg(test)]
mod tests;
