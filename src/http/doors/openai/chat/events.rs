//! Projects a run's observations and tokens to the parts of a chat completion. Pure: the same observations give the
//! same answer. Tokens only bring it earlier.

use std::collections::HashSet;

use crate::domain::answer_text::AnswerText;
use crate::domain::console_urls::ConsoleUrls;
use crate::domain::facts::{Fact, FinalResponseBody, RunFinishedBody, ThoughtsBody};
use crate::domain::fault::Code;
use crate::domain::frame::{Token, TokenType};
use crate::domain::hitl::{AskedQuestion, ExpiryPolicy, SuspensionKind};
use crate::domain::ids::{RunId, StreamId, SuspensionId};
use crate::domain::model::Usage;
use crate::domain::observation::ObservationType;
use crate::domain::run::RunStatus;
use crate::http::doors::frames::{DecodedObservation, ObservationContent, RunFrame};
use crate::http::doors::openai::questions;
use crate::http::doors::openai::sources::{self, Citation};
use crate::http::doors::progress::ProgressLines;
use crate::http::doors::question;
use crate::http::doors::run_stream::Projection;

/// What a client is told when the server stops.
pub(super) const STOPPING: &str = "The server is stopping; send this again.";

/// Separates a failed attempt at the answer, or a question, from the text after it.
const SEPARATOR: &str = "\n\n---\n\n";

/// A part of the completion.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CompletionPart {
    Reasoning(String),
    Content(String),
    /// A complete call of one of the client's functions.
    Call(ClientCall),
    /// The sources of the answer.
    Sources(Vec<Citation>),
    Finished(Finish),
    /// There is no answer.
    Failed {
        code: String,
        message: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClientCall {
    pub(super) id: String,
    pub(super) name: String,
    /// JSON.
    pub(super) arguments: String,
}

/// Why the completion ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    Stop,
    /// The answer was cut off, or the budget was exhausted.
    Length,
    /// The client is to make calls.
    Calls,
}

pub(super) struct CompletionEvents {
    run: RunId,
    urls: Option<ConsoleUrls>,
    /// Only the whole answer is sent.
    is_buffered: bool,
    progress: ProgressLines,
    /// The open questions, oldest first.
    open: Vec<AskedQuestion>,
    /// The stream that writes the answer, how many of its bytes were received, and its text.
    streamed: Option<(StreamId, u64, AnswerText)>,
    /// Some text of the answer was sent, from this stream or an earlier one.
    has_text: bool,
    /// The stream whose thoughts are being sent, and how many bytes were sent. Only one at a time, so that thoughts of
    /// two items do not mix.
    thinking: Option<(StreamId, u64)>,
    /// The streams whose thoughts have ended. Tokens of them may still come: a subscription has the text so far of the
    /// streams that were open when it began, and the log, which may have more by then, is sent first.
    thought: HashSet<StreamId>,
    usage: Usage,
    is_cut: bool,
    failure: Option<(String, String)>,
    is_finished: bool,
}

impl Projection for CompletionEvents {
    type Event = CompletionPart;

    const OBSERVATION_TYPES: &'static [ObservationType] = &[
        ObservationType::Title,
        ObservationType::Plan,
        ObservationType::PlanUpdate,
        ObservationType::ItemStatusChange,
        ObservationType::LlmStreamMetadata,
        ObservationType::LlmStreamEnd,
        ObservationType::LlmStreamError,
        ObservationType::Thoughts,
        ObservationType::ToolCall,
        ObservationType::AgentSuspended,
        ObservationType::AgentResumed,
        ObservationType::SuspensionTimeout,
        ObservationType::Error,
        ObservationType::FinalResponse,
        ObservationType::RunFinished,
    ];

    async fn project(&mut self, frame: RunFrame) -> Vec<CompletionPart> {
        match frame {
            RunFrame::Observation(observation) => self.observation(&observation),
            RunFrame::Token(token) => self.token(&token),
            RunFrame::Suspended => self.suspended(),
            RunFrame::CaughtUp => self.end_if_running_call_asks(),
            RunFrame::CallStarted(_) => Vec::new(),
            RunFrame::Draining => self.interrupted(Code::Draining.as_str(), STOPPING),
            RunFrame::Gap => self.interrupted("gap", "The client reads too slowly; ask for the thread."),
            RunFrame::LogUnreadable => {
                self.interrupted(Code::StoreUnavailable.as_str(), "The events cannot be read now; ask for the thread.")
            }
            RunFrame::Erased => self.interrupted(Code::NotFound.as_str(), "The thread was erased."),
        }
    }

    fn is_finished(&self) -> bool {
        self.is_finished
    }
}

impl CompletionEvents {
    /// `open` are the questions that are open already, oldest first, without those that the request has answered. The
    /// frames may repeat them.
    pub(super) fn new(run: RunId, open: Vec<AskedQuestion>, urls: Option<ConsoleUrls>) -> Self {
        Self {
            run,
            urls,
            is_buffered: false,
            progress: ProgressLines::default(),
            open,
            streamed: None,
            has_text: false,
            thinking: None,
            thought: HashSet::new(),
            usage: Usage::default(),
            is_cut: false,
            failure: None,
            is_finished: false,
        }
    }

    /// Sends the answer only when it is complete. A JSON answer may be written more than once before it fits its
    /// schema.
    pub(super) fn with_buffering(self, is_buffered: bool) -> Self {
        Self { is_buffered, ..self }
    }

    /// The usage of the model calls so far.
    pub(super) fn usage(&self) -> &Usage {
        &self.usage
    }

    fn observation(&mut self, observation: &DecodedObservation) -> Vec<CompletionPart> {
        if observation.run != self.run || self.is_finished {
            return Vec::new();
        }
        let lines = self.progress.lines(observation);
        let mut parts: Vec<CompletionPart> =
            (!lines.is_empty()).then_some(CompletionPart::Reasoning(lines)).into_iter().collect();
        if let ObservationContent::Fact(fact) = &observation.content {
            parts.extend(self.fact(fact));
        }
        parts
    }

    fn fact(&mut self, fact: &Fact) -> Vec<CompletionPart> {
        match fact {
            Fact::LlmStreamMetadata(body) => self.usage.add(&body.usage()),
            Fact::Thoughts(body) => return self.rest_of_thoughts(body),
            Fact::LlmStreamError(body) => self.end_thoughts(&body.stream_id),
            Fact::AgentSuspended(question) => {
                if !self.open.iter().any(|open| open.suspension_id == question.suspension_id) {
                    self.open.push(question.clone());
                }
                return self.end_if_running_call_asks();
            }
            Fact::AgentResumed(body) => self.question_closed(&body.suspension_id),
            Fact::SuspensionTimeout(body) if body.policy == ExpiryPolicy::Remind => {}
            Fact::SuspensionTimeout(body) => self.question_closed(&body.suspension_id),
            Fact::Error(body) => {
                self.is_cut |= body.cuts_the_answer();
                if body.fatal {
                    self.failure = Some((body.code.clone(), body.message.clone()));
                }
            }
            Fact::FinalResponse(body) => return self.final_response(body),
            Fact::RunFinished(body) => return self.run_ended(body),
            Fact::RunStarted(_)
            | Fact::Intent(_)
            | Fact::Title(_)
            | Fact::Plan(_)
            | Fact::PlanUpdate(_)
            | Fact::ItemStatusChange(_)
            | Fact::LlmStreamStart(_)
            // Its thoughts follow in an observation of their own.
            | Fact::LlmStreamEnd(_)
            | Fact::ToolCall(_)
            | Fact::ToolExecution(_)
            | Fact::A2aTask(_)
            | Fact::StateUpdate(_)
            | Fact::Synthesis(_) => {}
        }
        Vec::new()
    }

    /// Handles a token of the answer or of a model's thoughts.
    fn token(&mut self, token: &Token) -> Vec<CompletionPart> {
        if token.run_id != self.run || self.is_finished {
            return Vec::new();
        }
        match token.token_type {
            TokenType::SynthesisResponse if self.is_buffered => Vec::new(),
            TokenType::SynthesisResponse => self.answer_token(token),
            TokenType::PlanningThinking | TokenType::ExecutionThinking | TokenType::SynthesisThinking => {
                self.thought_token(token)
            }
            TokenType::PlanningResponse | TokenType::ExecutionResponse => Vec::new(),
        }
    }

    /// If a token was lost, the rest is sent when the whole answer is known.
    fn answer_token(&mut self, token: &Token) -> Vec<CompletionPart> {
        if token.offset == 0 {
            self.streamed = Some((token.stream_id.clone(), 0, AnswerText::default()));
        }
        let Some((stream, received, text)) = &mut self.streamed else { return Vec::new() };
        if *stream != token.stream_id || *received != token.offset {
            return Vec::new();
        }
        *received += token.data.len() as u64;
        let is_first = text.sent().is_empty();
        let next = text.push(&token.data);
        self.content(next, is_first)
    }

    fn thought_token(&mut self, token: &Token) -> Vec<CompletionPart> {
        if self.thought.contains(&token.stream_id) {
            return Vec::new();
        }
        let (stream, received) = self.thinking.get_or_insert_with(|| (token.stream_id.clone(), 0));
        if *stream != token.stream_id || *received != token.offset {
            return Vec::new();
        }
        *received += token.data.len() as u64;
        vec![CompletionPart::Reasoning(token.data.clone())]
    }

    /// Sends the rest of the thoughts, which the tokens did not bring.
    fn rest_of_thoughts(&mut self, body: &ThoughtsBody) -> Vec<CompletionPart> {
        let text = body.text.as_str().unwrap_or_default();
        let received =
            self.thinking.as_ref().filter(|(stream, _)| *stream == body.stream_id).map_or(0, |(_, received)| *received);
        let rest = usize::try_from(received).ok().and_then(|received| text.get(received..)).unwrap_or_default();
        self.end_thoughts(&body.stream_id);
        let rest = rest.trim_end();
        // Clients show thoughts after the text of the answer as a block of its own, also if they are only a line break.
        let has_answered =
            |(stream, _, text): &(StreamId, u64, AnswerText)| *stream == body.stream_id && !text.sent().is_empty();
        let is_answered = self.streamed.as_ref().is_some_and(has_answered);
        if rest.is_empty() && (received == 0 || is_answered) {
            return Vec::new();
        }
        vec![CompletionPart::Reasoning(format!("{rest}\n"))]
    }

    fn end_thoughts(&mut self, stream: &StreamId) {
        self.thinking = self.thinking.take().filter(|(thinking, _)| thinking != stream);
        self.thought.insert(stream.clone());
    }

    fn question_closed(&mut self, id: &SuspensionId) {
        self.open.retain(|open| open.suspension_id != *id);
    }

    /// Sends what the tokens did not bring of the answer, and its sources.
    fn final_response(&mut self, body: &FinalResponseBody) -> Vec<CompletionPart> {
        let Some(whole) = body.message.content.as_str() else { return Vec::new() };
        if body.message.is_error() {
            return Vec::new();
        }
        let text = self.streamed.take().map(|(_, _, text)| text).filter(|text| !text.sent().is_empty());
        let mut parts = match text.as_ref().and_then(|text| text.rest_of(whole)) {
            Some(rest) => self.content(rest.to_owned(), false),
            None => self.content(whole.to_owned(), true),
        };
        let sources = sources::of(body);
        parts.extend((!sources.is_empty()).then_some(CompletionPart::Sources(sources)));
        parts
    }

    fn content(&mut self, text: String, is_first: bool) -> Vec<CompletionPart> {
        if text.is_empty() {
            return Vec::new();
        }
        let is_after_another = std::mem::replace(&mut self.has_text, true) && is_first;
        vec![CompletionPart::Content(if is_after_another { format!("{SEPARATOR}{text}") } else { text })]
    }

    fn run_ended(&mut self, body: &RunFinishedBody) -> Vec<CompletionPart> {
        self.is_finished = true;
        let part = match body.status {
            RunStatus::Completed if self.is_cut => CompletionPart::Finished(Finish::Length),
            RunStatus::Completed => CompletionPart::Finished(Finish::Stop),
            RunStatus::Cancelled => failed(Code::RunCancelled.as_str(), "The run was cancelled."),
            RunStatus::Failed | RunStatus::Queued | RunStatus::Running | RunStatus::Suspended | RunStatus::Waiting => {
                match self.failure.take() {
                    Some((code, message)) => failed(&code, &message),
                    None => failed(Code::Internal.as_str(), "The run failed."),
                }
            }
        };
        vec![part]
    }

    /// Ends the completion if a call that keeps running has asked something, also before the completion: the run is not
    /// suspended for it, and cannot end before it is answered.
    fn end_if_running_call_asks(&mut self) -> Vec<CompletionPart> {
        if self.open.iter().any(|open| open.while_running) { self.suspended() } else { Vec::new() }
    }

    /// Ends the completion, because the run waits for an answer: with the client's calls, or with the questions as
    /// text.
    pub(super) fn suspended(&mut self) -> Vec<CompletionPart> {
        if self.is_finished || self.open.is_empty() {
            return Vec::new();
        }
        self.is_finished = true;
        let mut parts = Vec::new();
        for open in std::mem::take(&mut self.open) {
            match call(&open) {
                Some(call) => parts.push(CompletionPart::Call(call)),
                None => parts.extend(self.content(question::text(&open, self.urls.as_ref()), true)),
            }
        }
        let has_calls = parts.iter().any(|part| matches!(part, CompletionPart::Call(_)));
        parts.push(CompletionPart::Finished(if has_calls { Finish::Calls } else { Finish::Stop }));
        parts
    }

    /// Ends the completion although the run goes on.
    fn interrupted(&mut self, code: &str, message: &str) -> Vec<CompletionPart> {
        if std::mem::replace(&mut self.is_finished, true) { Vec::new() } else { vec![failed(code, message)] }
    }
}

fn failed(code: &str, message: &str) -> CompletionPart {
    CompletionPart::Failed { code: code.to_owned(), message: message.to_owned() }
}

fn call(open: &AskedQuestion) -> Option<ClientCall> {
    if open.kind != SuspensionKind::ClientTool {
        return None;
    }
    Some(ClientCall {
        id: questions::call_id(&open.suspension_id),
        name: open.tool_name.clone()?,
        arguments: question::arguments(open),
    })
}

#[cfg(test)]
mod tests;
