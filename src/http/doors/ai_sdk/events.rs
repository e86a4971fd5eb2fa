//! Projects a run's observations and tokens to the chunks of one message. Pure: the same observations give the same
//! message. Tokens only bring it earlier.
//!
//! The message has the id of its run in every stream. Observations from before a stream are
//! [replayed](MessageChunks::replay) without sending chunks, and when the stream [begins](MessageChunks::begin) it
//! sends what the client's copy of the message lacks.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::calls::{KnownCall, QuestionRoute, ToolParts};
use super::chunk::{Chunk, FinishReason};
use super::plan::ShownPlan;
use crate::domain::console_urls::ConsoleUrls;
use crate::domain::facts::{Fact, FinalResponseBody, RunFinishedBody};
use crate::domain::frame::{Token, TokenType};
use crate::domain::hitl::{AskedQuestion, Decision, ExpiryPolicy};
use crate::domain::ids::{CallId, RunId, SuspensionId, ThreadId};
use crate::domain::observation::ObservationType;
use crate::domain::run::RunStatus;
use crate::http::doors::frames::{DecodedObservation, ObservationContent};
use crate::http::doors::text_events::{TextEmitter, TextEvent};

/// The run whose message is streamed, and what its reader may do.
#[derive(Clone, Debug)]
pub(super) struct MessageContext {
    pub(super) thread: ThreadId,
    pub(super) run: RunId,
    /// The reader may decide about calls. Otherwise a question is shown with the URL where it can be answered.
    pub(super) may_approve: bool,
    pub(super) urls: Option<ConsoleUrls>,
}

pub(super) struct MessageChunks {
    context: MessageContext,
    plan: ShownPlan,
    texts: TextEmitter,
    calls: ToolParts,
    /// The open questions, oldest first.
    open: Vec<AskedQuestion>,
    is_cut: bool,
    failure: Option<String>,
    is_finished: bool,
}

impl MessageChunks {
    /// The observation types that the projection needs.
    pub(super) const OBSERVATION_TYPES: [ObservationType; 15] = [
        ObservationType::Title,
        ObservationType::Plan,
        ObservationType::PlanUpdate,
        ObservationType::ItemStatusChange,
        ObservationType::LlmStreamEnd,
        ObservationType::LlmStreamError,
        ObservationType::Thoughts,
        ObservationType::ToolCall,
        ObservationType::ToolExecution,
        ObservationType::AgentSuspended,
        ObservationType::AgentResumed,
        ObservationType::SuspensionTimeout,
        ObservationType::Error,
        ObservationType::FinalResponse,
        ObservationType::RunFinished,
    ];

    pub(super) fn new(context: MessageContext) -> Self {
        Self {
            context,
            plan: ShownPlan::default(),
            texts: TextEmitter::default(),
            calls: ToolParts::default(),
            open: Vec::new(),
            is_cut: false,
            failure: None,
            is_finished: false,
        }
    }

    /// No chunk follows.
    pub(super) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Applies an observation from before the stream without sending its chunks.
    pub(super) fn replay(&mut self, observation: &DecodedObservation) {
        match &observation.content {
            ObservationContent::Fact(Fact::ToolExecution(result)) if observation.run == self.context.run => {
                self.calls.replay_end(result)
            }
            ObservationContent::Fact(_) | ObservationContent::Plan(_) | ObservationContent::PlanUpdate(_) => {
                self.observation(observation);
            }
        }
    }

    /// Begins the stream for a client whose copy of the message has these calls. The questions in `answered` are no
    /// longer open.
    pub(super) fn begin(&mut self, known: &[KnownCall], answered: &HashSet<SuspensionId>) -> Vec<Chunk> {
        let context = &self.context;
        let metadata = json!({ "threadId": context.thread, "runId": context.run });
        let mut chunks = vec![Chunk::Start { message_id: context.run.to_string(), message_metadata: metadata }];
        self.open.retain(|open| !answered.contains(&open.suspension_id));
        // A question that is still open stays in the step that the client shows.
        let continues_step = !known.is_empty() && !self.open.is_empty();
        chunks.extend((!continues_step).then_some(Chunk::StartStep));
        self.plan.forget_sent();
        chunks.extend(self.plan_chunk());
        chunks.extend(self.calls.catch_up(known));
        for open in self.open.clone() {
            if !QuestionRoute::of(&open, self.context.may_approve).is_shown_in(known) {
                chunks.extend(self.question_asked(&open));
            }
        }
        chunks
    }

    pub(super) fn observation(&mut self, observation: &DecodedObservation) -> Vec<Chunk> {
        if observation.run != self.context.run || self.is_finished {
            return Vec::new();
        }
        match &observation.content {
            ObservationContent::Plan(plan) => {
                self.plan.replace(plan.plan_version, &plan.todo_list);
                self.plan_chunk()
            }
            ObservationContent::PlanUpdate(update) => {
                self.plan.replace(update.plan_version, &update.todo_list);
                self.plan_chunk()
            }
            ObservationContent::Fact(fact) => self.fact(fact),
        }
    }

    fn fact(&mut self, fact: &Fact) -> Vec<Chunk> {
        match fact {
            Fact::Title(body) => self.plan.set_title(&body.title),
            Fact::ItemStatusChange(body) => {
                self.plan.change(body);
                return self.plan_chunk();
            }
            Fact::LlmStreamEnd(body) => {
                let thinking = body.thinking.as_ref().and_then(Value::as_str).unwrap_or_default();
                return to_chunks(self.texts.finish_thoughts(&body.stream_id, thinking));
            }
            Fact::LlmStreamError(body) => return to_chunks(self.texts.fail_attempt(&body.stream_id)),
            Fact::Thoughts(body) => {
                return to_chunks(self.texts.finish_thoughts(&body.stream_id, body.text.as_str().unwrap_or_default()));
            }
            Fact::ToolCall(body) => body.tool_calls.iter().for_each(|call| self.calls.add(call)),
            Fact::ToolExecution(result) => return self.calls.call_ended(result),
            Fact::AgentSuspended(question) => {
                self.open.push(question.clone());
                return self.question_asked(question);
            }
            Fact::AgentResumed(body) => return self.question_closed(&body.suspension_id, body.decision),
            // After a reminder the question is still open.
            Fact::SuspensionTimeout(body) if body.policy == ExpiryPolicy::Remind => {}
            Fact::SuspensionTimeout(body) => return self.question_closed(&body.suspension_id, Decision::Expired),
            Fact::Error(body) => self.is_cut |= body.cuts_the_answer(),
            Fact::FinalResponse(body) => return self.final_response(body),
            Fact::RunFinished(body) => return self.run_ended(body),
            Fact::RunStarted(_)
            | Fact::Intent(_)
            | Fact::Plan(_)
            | Fact::PlanUpdate(_)
            | Fact::LlmStreamStart(_)
            | Fact::LlmStreamMetadata(_)
            | Fact::A2aTask(_)
            | Fact::StateUpdate(_)
            | Fact::Synthesis(_) => {}
        }
        Vec::new()
    }

    /// Handles a token of the answer or of a model's thoughts.
    pub(super) fn token(&mut self, token: &Token) -> Vec<Chunk> {
        if token.run_id != self.context.run || self.is_finished {
            return Vec::new();
        }
        match token.token_type {
            TokenType::SynthesisResponse => to_chunks(self.texts.answer_token(token)),
            TokenType::PlanningThinking | TokenType::ExecutionThinking | TokenType::SynthesisThinking => {
                to_chunks(self.texts.thought_token(token))
            }
            TokenType::PlanningResponse | TokenType::ExecutionResponse => Vec::new(),
        }
    }

    /// A call is about to be made.
    pub(super) fn call_started(&mut self, run: &RunId, call: &CallId) -> Vec<Chunk> {
        if *run == self.context.run && !self.is_finished { self.calls.call_started(call) } else { Vec::new() }
    }

    fn plan_chunk(&mut self) -> Vec<Chunk> {
        self.plan.take_changed().map(|data| Chunk::DataPlan { id: "plan".to_owned(), data }).into_iter().collect()
    }

    fn question_asked(&mut self, question: &AskedQuestion) -> Vec<Chunk> {
        match QuestionRoute::of(question, self.context.may_approve) {
            QuestionRoute::Approval(call) => self.calls.approval_requested(&call, question),
            QuestionRoute::Result(call) => self.calls.client_call_requested(&call, question),
            QuestionRoute::Elsewhere => vec![self.question_chunk(question, "open")],
        }
    }

    fn question_chunk(&self, question: &AskedQuestion, status: &str) -> Chunk {
        let mut data = json!(question);
        data["status"] = json!(status);
        if let Some(urls) = &self.context.urls {
            data["url"] = json!(urls.question(&question.suspension_id));
        }
        Chunk::DataQuestion { id: question.suspension_id.to_string(), data }
    }

    /// A question was answered or has expired.
    fn question_closed(&mut self, id: &SuspensionId, decision: Decision) -> Vec<Chunk> {
        let Some(at) = self.open.iter().position(|open| open.suspension_id == *id) else { return Vec::new() };
        let question = self.open.remove(at);
        match QuestionRoute::of(&question, self.context.may_approve) {
            QuestionRoute::Approval(call) if matches!(decision, Decision::Approved | Decision::Modified) => {
                self.calls.call_approved(&call)
            }
            // The end of the call shows it.
            QuestionRoute::Approval(_) | QuestionRoute::Result(_) => Vec::new(),
            QuestionRoute::Elsewhere => vec![self.question_chunk(&question, decision.as_str())],
        }
    }

    /// Sends what the tokens did not bring of the answer, and its sources and suggestions.
    fn final_response(&mut self, body: &FinalResponseBody) -> Vec<Chunk> {
        let Some(whole) = body.message.content.as_str() else { return Vec::new() };
        if body.message.is_error() {
            self.failure = Some(whole.to_owned());
            return Vec::new();
        }
        let id = body.message.message_id.as_str();
        let mut chunks = to_chunks(self.texts.finish_answer(id, id, whole));
        if let Some(beside) = &body.ui_metadata {
            chunks.extend(sources(beside));
            let suggestions = &beside["suggestions"];
            if suggestions.as_array().is_some_and(|all| !all.is_empty()) {
                chunks.push(Chunk::DataSuggestions { id: "suggestions".to_owned(), data: suggestions.clone() });
            }
        }
        chunks
    }

    fn run_ended(&mut self, body: &RunFinishedBody) -> Vec<Chunk> {
        self.is_finished = true;
        let mut chunks = to_chunks(self.texts.end_all());
        match body.status {
            RunStatus::Completed => {
                let usage = &body.usage;
                let metadata = json!({
                    "status": body.result_status,
                    "durationMs": body.total_duration_ms,
                    "usage": {
                        "inputTokens": usage.input_tokens,
                        "outputTokens": usage.output_tokens,
                        "totalTokens": usage.input_tokens + usage.output_tokens,
                    },
                });
                let finish_reason = if self.is_cut { FinishReason::Length } else { FinishReason::Stop };
                chunks.push(Chunk::FinishStep);
                chunks.push(Chunk::Finish { finish_reason, message_metadata: Some(metadata) });
            }
            RunStatus::Cancelled => chunks.push(Chunk::Abort { reason: "The run was cancelled.".to_owned() }),
            RunStatus::Failed | RunStatus::Queued | RunStatus::Running | RunStatus::Suspended | RunStatus::Waiting => {
                let error_text = self.failure.take().unwrap_or_else(|| "The run failed.".to_owned());
                chunks.push(Chunk::Error { error_text });
            }
        }
        chunks
    }

    /// Ends the stream, because the run waits for an answer.
    pub(super) fn suspended(&mut self) -> Vec<Chunk> {
        if self.is_finished || self.open.is_empty() {
            return Vec::new();
        }
        self.is_finished = true;
        let may_approve = self.context.may_approve;
        let is_for_page = self.open.iter().any(|open| QuestionRoute::of(open, may_approve) != QuestionRoute::Elsewhere);
        let finish_reason = if is_for_page { FinishReason::ToolCalls } else { FinishReason::Stop };
        let mut chunks = to_chunks(self.texts.end_all());
        chunks.push(Chunk::FinishStep);
        chunks.push(Chunk::Finish { finish_reason, message_metadata: None });
        chunks
    }

    /// Ends the stream although the run goes on.
    pub(super) fn interrupted(&mut self, why: &str) -> Vec<Chunk> {
        if std::mem::replace(&mut self.is_finished, true) {
            return Vec::new();
        }
        let mut chunks = to_chunks(self.texts.end_all());
        chunks.push(Chunk::Error { error_text: why.to_owned() });
        chunks
    }
}

fn to_chunks(events: Vec<TextEvent>) -> Vec<Chunk> {
    events.into_iter().map(Chunk::from).collect()
}

/// The sources of an answer. Pages make links of them, so only web addresses are taken.
fn sources(beside: &Value) -> Vec<Chunk> {
    let sources = beside["sources"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_web = |url: &&str| url.starts_with("https://") || url.starts_with("http://");
    let link = |(at, source): (usize, &Value)| {
        let url = source["url"].as_str().filter(is_web)?.to_owned();
        let title = source["sourceName"].as_str().map(str::to_owned);
        Some(Chunk::SourceUrl { source_id: format!("source-{at}"), url, title })
    };
    sources.iter().enumerate().filter_map(link).collect()
}

#[cfg(test)]
mod tests;
