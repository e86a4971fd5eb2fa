//! A run's observations and tokens as the chunks of one message. Pure: the same observations give the same message, with
//! tokens or without; tokens only bring it earlier.
//!
//! The message has the id of its run in every stream of it. What the client saw before a question is folded again
//! ([`unheard`](ChatEvents::unheard)), and what its copy of the message lacks is told when the stream
//! [begins](ChatEvents::begin).

use std::collections::HashSet;

use serde_json::{Value, json};

use super::calls::{Asks, Calls, KnownCall};
use super::chunk::{Chunk, FinishReason};
use super::plan::ShownPlan;
use crate::domain::console_urls::ConsoleUrls;
use crate::domain::facts::{Fact, FinalResponseBody, RunFinishedBody};
use crate::domain::frame::{Token, TokenType};
use crate::domain::hitl::{AskedQuestion, Decision, ExpiryPolicy};
use crate::domain::ids::{CallId, RunId, SuspensionId, ThreadId};
use crate::domain::message::ConversationMessage;
use crate::domain::observation::ObservationType;
use crate::domain::run::RunStatus;
use crate::http::doors::speech::{Speech, Spoken};
use crate::http::doors::told::{Says, ToldFact};

/// Whose message is told to whom.
#[derive(Clone, Debug)]
pub(super) struct Audience {
    pub(super) thread: ThreadId,
    pub(super) run: RunId,
    /// Who listens may decide about calls; else a question is shown with the place where it is answered.
    pub(super) may_approve: bool,
    pub(super) urls: Option<ConsoleUrls>,
}

pub(super) struct ChatEvents {
    audience: Audience,
    plan: ShownPlan,
    speech: Speech,
    calls: Calls,
    /// The open questions, oldest first.
    open: Vec<AskedQuestion>,
    is_cut: bool,
    failure: Option<String>,
    is_over: bool,
}

impl ChatEvents {
    /// What it must hear.
    pub(super) const HEARD: [ObservationType; 15] = [
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

    pub(super) fn new(audience: Audience) -> Self {
        Self {
            audience,
            plan: ShownPlan::default(),
            speech: Speech::default(),
            calls: Calls::default(),
            open: Vec::new(),
            is_cut: false,
            failure: None,
            is_over: false,
        }
    }

    /// Nothing follows.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Takes in what happened before the stream.
    pub(super) fn unheard(&mut self, told: &ToldFact) {
        match &told.says {
            Says::Fact(Fact::ToolExecution(result)) if told.run == self.audience.run => {
                self.calls.ended_unheard(result)
            }
            Says::Fact(_) | Says::Plan(_) | Says::PlanUpdate(_) => {
                self.observation(told);
            }
        }
    }

    /// Begins the stream for a client whose copy of the message has these calls; the questions of `answered` are no longer
    /// open.
    pub(super) fn begin(&mut self, known: &[KnownCall], answered: &HashSet<SuspensionId>) -> Vec<Chunk> {
        let audience = &self.audience;
        let metadata = json!({ "threadId": audience.thread, "runId": audience.run });
        let mut chunks = vec![Chunk::Start { message_id: audience.run.to_string(), message_metadata: metadata }];
        self.open.retain(|open| !answered.contains(&open.suspension_id));
        // What is asked still stays in the step that the client looks at.
        let goes_on = !known.is_empty() && !self.open.is_empty();
        chunks.extend((!goes_on).then_some(Chunk::StartStep));
        self.plan.forget_shown();
        chunks.extend(self.shows_plan());
        chunks.extend(self.calls.catch_up(known));
        for open in self.open.clone() {
            if !Asks::of(&open, self.audience.may_approve).is_known(known) {
                chunks.extend(self.asks(&open));
            }
        }
        chunks
    }

    pub(super) fn observation(&mut self, told: &ToldFact) -> Vec<Chunk> {
        if told.run != self.audience.run || self.is_over {
            return Vec::new();
        }
        match &told.says {
            Says::Plan(plan) => {
                self.plan.replace(plan.plan_version, &plan.todo_list);
                self.shows_plan()
            }
            Says::PlanUpdate(update) => {
                self.plan.replace(update.plan_version, &update.todo_list);
                self.shows_plan()
            }
            Says::Fact(fact) => self.fact(fact),
        }
    }

    fn fact(&mut self, fact: &Fact) -> Vec<Chunk> {
        match fact {
            Fact::Title(body) => self.plan.name(&body.title),
            Fact::ItemStatusChange(body) => {
                self.plan.change(body);
                return self.shows_plan();
            }
            Fact::LlmStreamEnd(body) => {
                let thinking = body.thinking.as_ref().and_then(Value::as_str).unwrap_or_default();
                return chunks(self.speech.thoughts(&body.stream_id, thinking));
            }
            Fact::LlmStreamError(body) => return chunks(self.speech.breaks_off(&body.stream_id)),
            Fact::Thoughts(body) => {
                return chunks(self.speech.thoughts(&body.stream_id, body.text.as_str().unwrap_or_default()));
            }
            Fact::ToolCall(body) => body.tool_calls.iter().for_each(|call| self.calls.learn(call)),
            Fact::ToolExecution(result) => return self.calls.ended(result),
            Fact::AgentSuspended(question) => {
                self.open.push(question.clone());
                return self.asks(question);
            }
            Fact::AgentResumed(body) => return self.closed(&body.suspension_id, body.decision),
            // Whoever is reminded is still asked.
            Fact::SuspensionTimeout(body) if body.policy == ExpiryPolicy::Remind => {}
            Fact::SuspensionTimeout(body) => return self.closed(&body.suspension_id, Decision::Expired),
            Fact::Error(body) => self.is_cut |= body.cuts_the_answer(),
            Fact::FinalResponse(body) => return self.answered(body),
            Fact::RunFinished(body) => return self.finished(body),
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

    /// A piece of the answer, or of what a model thinks.
    pub(super) fn token(&mut self, token: &Token) -> Vec<Chunk> {
        if token.run_id != self.audience.run || self.is_over {
            return Vec::new();
        }
        match token.token_type {
            TokenType::SynthesisResponse => chunks(self.speech.speaks(token)),
            TokenType::PlanningThinking | TokenType::ExecutionThinking | TokenType::SynthesisThinking => {
                chunks(self.speech.thinks(token))
            }
            TokenType::PlanningResponse | TokenType::ExecutionResponse => Vec::new(),
        }
    }

    /// A call is about to be made.
    pub(super) fn call_begins(&mut self, run: &RunId, call: &CallId) -> Vec<Chunk> {
        if *run == self.audience.run && !self.is_over { self.calls.begins(call) } else { Vec::new() }
    }

    fn shows_plan(&mut self) -> Vec<Chunk> {
        self.plan.news().map(|data| Chunk::DataPlan { id: "plan".to_owned(), data }).into_iter().collect()
    }

    fn asks(&mut self, question: &AskedQuestion) -> Vec<Chunk> {
        match Asks::of(question, self.audience.may_approve) {
            Asks::Approval(call) => self.calls.gated(&call, question),
            Asks::Result(call) => self.calls.handed_over(&call, question),
            Asks::Elsewhere => vec![self.shows_question(question, "open")],
        }
    }

    fn shows_question(&self, question: &AskedQuestion, status: &str) -> Chunk {
        let mut data = json!(question);
        data["status"] = json!(status);
        if let Some(urls) = &self.audience.urls {
            data["url"] = json!(urls.question(&question.suspension_id));
        }
        Chunk::DataQuestion { id: question.suspension_id.to_string(), data }
    }

    /// A question that is open no longer.
    fn closed(&mut self, id: &SuspensionId, decision: Decision) -> Vec<Chunk> {
        let Some(at) = self.open.iter().position(|open| open.suspension_id == *id) else { return Vec::new() };
        let question = self.open.remove(at);
        match Asks::of(&question, self.audience.may_approve) {
            Asks::Approval(call) if matches!(decision, Decision::Approved | Decision::Modified) => {
                self.calls.let_run(&call)
            }
            // The end of the call says it.
            Asks::Approval(_) | Asks::Result(_) => Vec::new(),
            Asks::Elsewhere => vec![self.shows_question(&question, decision.as_str())],
        }
    }

    /// What the tokens have not said of the answer, and what it brings besides.
    fn answered(&mut self, body: &FinalResponseBody) -> Vec<Chunk> {
        let Some(whole) = body.message.content.as_str() else { return Vec::new() };
        if body.message.metadata.as_ref().is_some_and(|metadata| metadata.contains_key(ConversationMessage::ERROR)) {
            self.failure = Some(whole.to_owned());
            return Vec::new();
        }
        let id = body.message.message_id.as_str();
        let mut chunks = chunks(self.speech.answers(id, id, whole));
        if let Some(beside) = &body.ui_metadata {
            chunks.extend(sources(beside));
            let suggestions = &beside["suggestions"];
            if suggestions.as_array().is_some_and(|all| !all.is_empty()) {
                chunks.push(Chunk::DataSuggestions { id: "suggestions".to_owned(), data: suggestions.clone() });
            }
        }
        chunks
    }

    fn finished(&mut self, body: &RunFinishedBody) -> Vec<Chunk> {
        self.is_over = true;
        let mut chunks = chunks(self.speech.ends());
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

    /// Nothing goes on before somebody answers.
    pub(super) fn suspended(&mut self, run: &RunId) -> Vec<Chunk> {
        if *run != self.audience.run || self.is_over || self.open.is_empty() {
            return Vec::new();
        }
        self.is_over = true;
        let may_approve = self.audience.may_approve;
        let is_for_page = self.open.iter().any(|open| Asks::of(open, may_approve) != Asks::Elsewhere);
        let finish_reason = if is_for_page { FinishReason::ToolCalls } else { FinishReason::Stop };
        let mut chunks = chunks(self.speech.ends());
        chunks.push(Chunk::FinishStep);
        chunks.push(Chunk::Finish { finish_reason, message_metadata: None });
        chunks
    }

    /// What is told ends here although the run does not.
    pub(super) fn interrupted(&mut self, why: &str) -> Vec<Chunk> {
        if std::mem::replace(&mut self.is_over, true) {
            return Vec::new();
        }
        let mut chunks = chunks(self.speech.ends());
        chunks.push(Chunk::Error { error_text: why.to_owned() });
        chunks
    }
}

fn chunks(spoken: Vec<Spoken>) -> Vec<Chunk> {
    spoken.into_iter().map(Chunk::from).collect()
}

/// The addresses that an answer rests on; a page makes links of them, so nothing else than a web address is one.
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
