//! A run's observations and tokens as the events of AG-UI. Pure: the same observations give the same events, with tokens or
//! without; tokens only bring them earlier.
//!
//! One emitter for versions 0.x and 1.0: what only 1.0 knows goes to those who say that they speak it.

use serde_json::{Value, json};

use super::interrupt::interrupt;
use super::request::ClientRun;
use super::spoken::written;
use super::state::PlanState;
use super::subagents::Subagents;
use super::usage::Usage;
use crate::domain::Millis;
use crate::domain::facts::SynthesisStatus;
use crate::domain::facts::{Fact, FinalResponseBody, ItemStatusChangeBody, RunFinishedBody};
use crate::domain::fault::Code;
use crate::domain::frame::{Token, TokenType};
use crate::domain::hitl::{AskedQuestion, ExpiryPolicy, SuspensionKind};
use crate::domain::ids::{RunId, StreamId, SuspensionId};
use crate::domain::message::ConversationMessage;
use crate::domain::model::Phase;
use crate::domain::plan::ItemStatus;
use crate::domain::run::RunStatus;
use crate::domain::tool::ToolResult;
use crate::http::doors::speech::{Speech, TextMark};
use crate::http::doors::told::{Says, ToldFact};

/// Where an event comes from.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    pub(super) at: Millis,
    pub(super) seq: i64,
    pub(super) kind: &'static str,
}

pub(super) struct AguiEvents {
    client: ClientRun,
    run: RunId,
    state: PlanState,
    speech: Speech,
    /// The steps that were started and not finished.
    steps: Vec<String>,
    /// The open questions, oldest first.
    open: Vec<AskedQuestion>,
    usage: Usage,
    subagents: Subagents,
    /// The stream of the answer: its message has this id, whether tokens brought it or not.
    writing: Option<StreamId>,
    failure: Option<(String, String)>,
    answer: Option<Value>,
    is_over: bool,
}

impl AguiEvents {
    pub(super) fn new(client: ClientRun, run: RunId) -> Self {
        Self {
            client,
            run,
            state: PlanState::default(),
            speech: Speech::default(),
            steps: Vec::new(),
            open: Vec::new(),
            usage: Usage::default(),
            subagents: Subagents::default(),
            writing: None,
            failure: None,
            answer: None,
            is_over: false,
        }
    }

    /// Nothing follows.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Takes in what happened before the stream.
    pub(super) fn unheard(&mut self, told: &ToldFact) {
        self.observation(&Origin::default(), told);
        self.steps.clear();
        self.usage.clear();
        self.subagents.clear();
    }

    /// Another stream of events told so much of what is being said.
    pub(super) fn take_up(&mut self, answer: Option<(StreamId, TextMark)>, thoughts: Vec<(StreamId, u64)>) {
        self.speech.take_up(answer, thoughts);
    }

    /// What stands at the beginning of a stream, behind its `RUN_STARTED`.
    pub(super) fn begin(&mut self) -> Vec<Value> {
        let mut events = vec![json!({ "type": "STATE_SNAPSHOT", "snapshot": self.state.snapshot(false) })];
        events.extend(self.shows_plan());
        events
    }

    pub(super) fn observation(&mut self, origin: &Origin, told: &ToldFact) -> Vec<Value> {
        if told.run != self.run || self.is_over {
            return Vec::new();
        }
        let mut events = match &told.says {
            Says::Plan(plan) => {
                let delta = self.state.plans(plan.plan.as_str(), plan.plan_version, &plan.todo_list);
                self.plans(delta)
            }
            Says::PlanUpdate(update) => {
                let plan = update.plan.as_ref().and_then(Value::as_str);
                let delta = self.state.plans(plan, update.plan_version, &update.todo_list);
                self.plans(delta)
            }
            Says::Fact(fact) => self.fact(fact),
        };
        for event in &mut events {
            event["timestamp"] = json!(origin.at);
            let mut metadata = json!({ "pes": { "seq": origin.seq, "type": origin.kind, "runId": self.run } });
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
            Fact::ItemStatusChange(body) => self.item(body),
            Fact::LlmStreamStart(body) => {
                if body.phase == Phase::Synthesis && body.purpose.is_none() {
                    self.writing = Some(body.stream_id.clone());
                }
                let mut events = match body.phase {
                    Phase::Planning => self.starts("planning"),
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
                written(self.speech.thoughts(&body.stream_id, thinking))
            }
            Fact::LlmStreamError(body) => {
                self.writing = self.writing.take().filter(|writing| *writing != body.stream_id);
                let mut events = written(self.speech.breaks_off(&body.stream_id));
                events.push(custom("pes.llm_error", json!(body)));
                events
            }
            Fact::Thoughts(body) => {
                written(self.speech.thoughts(&body.stream_id, body.text.as_str().unwrap_or_default()))
            }
            Fact::ToolCall(body) => body
                .tool_calls
                .iter()
                .flat_map(|call| {
                    let id = &call.call_id;
                    [
                        json!({ "type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": call.tool_name }),
                        json!({ "type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": call.arguments.to_string() }),
                        json!({ "type": "TOOL_CALL_END", "toolCallId": id }),
                    ]
                })
                .collect(),
            Fact::ToolExecution(result) => vec![ended(result)],
            Fact::AgentSuspended(question) => {
                self.open.push(question.clone());
                Vec::new()
            }
            Fact::AgentResumed(body) => self.closed(&body.suspension_id),
            // Whoever is reminded is still asked.
            Fact::SuspensionTimeout(body) if body.policy == ExpiryPolicy::Remind => Vec::new(),
            Fact::SuspensionTimeout(body) => self.closed(&body.suspension_id),
            Fact::A2aTask(body) => {
                let id = &body.task_id;
                let mut events = if self.client.is_one { self.subagents.hears(body) } else { Vec::new() };
                events.push(json!({
                    "type": "ACTIVITY_SNAPSHOT", "messageId": id, "activityType": "A2A_TASK", "content": body,
                }));
                events
            }
            Fact::Synthesis(body) => match body.status {
                SynthesisStatus::Started => self.starts("synthesis"),
                SynthesisStatus::Completed => self.finishes("synthesis"),
            },
            Fact::Error(body) => {
                if body.fatal {
                    self.failure = Some((body.code.clone(), body.message.clone()));
                    return Vec::new();
                }
                vec![custom("pes.error", json!(body))]
            }
            Fact::FinalResponse(body) => self.answers(body),
            Fact::RunFinished(body) => self.finished(body),
            Fact::RunStarted(_) | Fact::Plan(_) | Fact::PlanUpdate(_) | Fact::StateUpdate(_) => Vec::new(),
        }
    }

    /// A piece of the answer, or of what a model thinks.
    pub(super) fn token(&mut self, token: &Token) -> Vec<Value> {
        if token.run_id != self.run || self.is_over {
            return Vec::new();
        }
        match token.token_type {
            TokenType::SynthesisResponse => written(self.speech.speaks(token)),
            TokenType::PlanningThinking | TokenType::ExecutionThinking | TokenType::SynthesisThinking => {
                written(self.speech.thinks(token))
            }
            TokenType::PlanningResponse | TokenType::ExecutionResponse => Vec::new(),
        }
    }

    fn plans(&mut self, patch: Value) -> Vec<Value> {
        let mut events = vec![delta(patch)];
        events.extend(self.shows_plan());
        events.extend(self.finishes("planning"));
        events
    }

    fn shows_plan(&self) -> Option<Value> {
        let content = self.state.activity()?;
        let id = self.plan_id();
        Some(json!({ "type": "ACTIVITY_SNAPSHOT", "messageId": id, "activityType": "PLAN", "content": content }))
    }

    fn plan_id(&self) -> String {
        format!("plan-{}", self.run)
    }

    fn item(&mut self, change: &ItemStatusChangeBody) -> Vec<Value> {
        let id = change.item_id.as_str();
        let mut events = Vec::new();
        if change.status == ItemStatus::InProgress {
            events.extend(self.starts(id));
        }
        if let Some((state, activity)) = self.state.changes(change) {
            let message = self.plan_id();
            events.push(delta(state));
            events.push(json!({
                "type": "ACTIVITY_DELTA", "messageId": message, "activityType": "PLAN", "patch": activity,
            }));
        }
        if change.status != ItemStatus::InProgress {
            events.extend(self.finishes(id));
        }
        events
    }

    fn starts(&mut self, step: &str) -> Vec<Value> {
        if self.steps.iter().any(|open| open == step) {
            return Vec::new();
        }
        self.steps.push(step.to_owned());
        vec![json!({ "type": "STEP_STARTED", "stepName": step })]
    }

    fn finishes(&mut self, step: &str) -> Vec<Value> {
        let Some(at) = self.steps.iter().position(|open| open == step) else { return Vec::new() };
        self.steps.remove(at);
        vec![json!({ "type": "STEP_FINISHED", "stepName": step })]
    }

    /// Nothing stays open behind what is told.
    fn ends(&mut self) -> Vec<Value> {
        let mut events = written(self.speech.ends());
        events.extend(self.steps.drain(..).map(|step| json!({ "type": "STEP_FINISHED", "stepName": step })));
        events.extend(self.subagents.ends());
        events
    }

    fn closed(&mut self, id: &SuspensionId) -> Vec<Value> {
        self.open.retain(|open| open.suspension_id != *id);
        Vec::new()
    }

    /// What the tokens have not said of the answer.
    fn answers(&mut self, body: &FinalResponseBody) -> Vec<Value> {
        let Some(whole) = body.message.content.as_str() else { return Vec::new() };
        if body.message.metadata.as_ref().is_some_and(|metadata| metadata.contains_key(ConversationMessage::ERROR)) {
            self.failure.get_or_insert_with(|| ("failed".to_owned(), whole.to_owned()));
            return Vec::new();
        }
        let mut result = json!({ "messageId": body.message.message_id, "content": whole });
        if let Some(beside) = &body.ui_metadata {
            result["uiMetadata"] = beside.clone();
        }
        self.answer = Some(result);
        let own = body.message.message_id.as_str();
        let stream = self.writing.as_ref().map_or(own, StreamId::as_str);
        written(self.speech.answers(stream, own, whole))
    }

    fn finished(&mut self, body: &RunFinishedBody) -> Vec<Value> {
        let mut events = self.ends();
        self.is_over = true;
        let end = match body.status {
            RunStatus::Completed => {
                let mut end = self.run_finished(json!({ "type": "success" }));
                if let Some(mut result) = self.answer.take() {
                    result["status"] = json!(body.result_status);
                    end["result"] = result;
                }
                end
            }
            RunStatus::Cancelled if self.client.is_one => self.run_finished(json!({ "type": "cancelled" })),
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

    /// Nothing goes on before somebody answers: calls that are the client's alone end the stream as any other; a question to a
    /// person interrupts it. `messages` is the conversation up to here.
    pub(super) fn suspended(&mut self, messages: Vec<Value>) -> Vec<Value> {
        if self.is_over || self.open.is_empty() {
            return Vec::new();
        }
        let mut events = self.ends();
        self.is_over = true;
        events.push(json!({ "type": "STATE_SNAPSHOT", "snapshot": self.state.snapshot(true) }));
        events.push(json!({ "type": "MESSAGES_SNAPSHOT", "messages": messages }));
        let outcome = if self.open.iter().all(|open| open.kind == SuspensionKind::ClientTool) {
            let calls: Vec<_> = self.open.iter().filter_map(|open| open.call_id.as_ref()).collect();
            if self.client.is_one {
                json!({ "type": "success", "pendingToolCallIds": calls })
            } else {
                json!({ "type": "success" })
            }
        } else {
            json!({ "type": "interrupt", "interrupts": self.open.iter().map(interrupt).collect::<Vec<_>>() })
        };
        events.push(self.run_finished(outcome));
        events
    }

    /// What is told ends here although the run does not.
    pub(super) fn interrupted(&mut self, code: &str, why: &str) -> Vec<Value> {
        if self.is_over {
            return Vec::new();
        }
        let mut events = self.ends();
        self.is_over = true;
        events.push(run_error(code, why, code != Code::NotFound.as_str()));
        events
    }

    fn run_finished(&self, outcome: Value) -> Value {
        let mut end = json!({
            "type": "RUN_FINISHED", "threadId": self.client.thread, "runId": self.client.id, "outcome": outcome,
        });
        if let Some(usage) = self.usage.json() {
            end["usage"] = usage;
        }
        end
    }
}

/// How a stream ends that has no good end; `is_retryable`: whoever connects again is told the rest.
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

/// The result of a call is text for whoever reads it.
fn ended(result: &ToolResult) -> Value {
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
