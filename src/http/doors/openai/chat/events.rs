//! A run's observations and tokens as the pieces of a chat completion. Pure: the same observations give the same answer, with
//! tokens or without; tokens only bring it earlier.

use crate::domain::answer_text::AnswerText;
use crate::domain::console_urls::ConsoleUrls;
use crate::domain::facts::{Fact, FinalResponseBody, RunFinishedBody, ThoughtsBody};
use crate::domain::fault::Code;
use crate::domain::frame::{Token, TokenType};
use crate::domain::hitl::{AskedQuestion, ExpiryPolicy, SuspensionKind};
use crate::domain::ids::{RunId, StreamId, SuspensionId};
use crate::domain::message::ConversationMessage;
use crate::domain::model::Usage;
use crate::domain::observation::ObservationType;
use crate::domain::run::RunStatus;
use crate::http::doors::openai::sources::{self, Citation};
use crate::http::doors::progress::Progress;
use crate::http::doors::question;
use crate::http::doors::told::{Says, ToldFact};

/// Between an answer that broke off, or a question, and what follows.
const RULE: &str = "\n\n---\n\n";

/// A piece of the answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    Reasoning(String),
    Content(String),
    /// A call of the client's own, whole.
    Call(ClientCall),
    /// What the answer rests on.
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
    /// The id of the suspension: it alone finds the thread again.
    pub(super) id: String,
    pub(super) name: String,
    /// JSON.
    pub(super) arguments: String,
}

/// Why an answer is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    Stop,
    /// It was cut off, or the budget was spent.
    Length,
    /// The client has calls to make.
    Calls,
}

pub(super) struct ChatEvents {
    run: RunId,
    urls: Option<ConsoleUrls>,
    /// Only the whole answer can be used.
    in_one_piece: bool,
    progress: Progress,
    /// The open questions, oldest first.
    open: Vec<AskedQuestion>,
    /// The stream that the answer is told from.
    streamed: Option<(StreamId, u64, AnswerText)>,
    /// Some text of the answer was sent, of this stream or an earlier one.
    has_text: bool,
    /// The stream whose thoughts are told as they come, and how many bytes of them were: one at a time, so that thoughts of
    /// two items do not mix.
    thinking: Option<(StreamId, u64)>,
    usage: Usage,
    is_cut: bool,
    failure: Option<(String, String)>,
    is_over: bool,
}

impl ChatEvents {
    /// What it must hear.
    pub(super) const HEARD: [ObservationType; 15] = [
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

    /// `open` are the questions that are open already, oldest first.
    pub(super) fn new(run: RunId, open: Vec<AskedQuestion>, urls: Option<ConsoleUrls>) -> Self {
        Self {
            run,
            urls,
            in_one_piece: false,
            progress: Progress::default(),
            open,
            streamed: None,
            has_text: false,
            thinking: None,
            usage: Usage::default(),
            is_cut: false,
            failure: None,
            is_over: false,
        }
    }

    /// The answer is told when it is whole: one that is JSON may be written more than once before it fits.
    pub(super) fn in_one_piece(self, in_one_piece: bool) -> Self {
        Self { in_one_piece, ..self }
    }

    /// Nothing follows.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Of the model calls so far.
    pub(super) fn usage(&self) -> &Usage {
        &self.usage
    }

    pub(super) fn observation(&mut self, told: &ToldFact) -> Vec<Piece> {
        if told.run != self.run || self.is_over {
            return Vec::new();
        }
        let lines = self.progress.lines(told);
        let mut pieces: Vec<Piece> = (!lines.is_empty()).then_some(Piece::Reasoning(lines)).into_iter().collect();
        if let Says::Fact(fact) = &told.says {
            pieces.extend(self.fact(fact));
        }
        pieces
    }

    fn fact(&mut self, fact: &Fact) -> Vec<Piece> {
        match fact {
            Fact::LlmStreamMetadata(body) => self.usage.add(&Usage {
                input_tokens: body.input_tokens,
                output_tokens: body.output_tokens,
                thinking_tokens: body.thinking_tokens,
                cached_input_tokens: body.cached_input_tokens,
            }),
            Fact::Thoughts(body) => return self.thoughts(body),
            Fact::LlmStreamError(body) => self.stops_thinking(&body.stream_id),
            Fact::AgentSuspended(question) => {
                self.open.push(question.clone());
                // Its call runs on and comes to no end before it is answered.
                if question.while_running {
                    return self.suspended();
                }
            }
            Fact::AgentResumed(body) => self.closed(&body.suspension_id),
            Fact::SuspensionTimeout(body) if body.policy == ExpiryPolicy::Remind => {}
            Fact::SuspensionTimeout(body) => self.closed(&body.suspension_id),
            Fact::Error(body) => {
                self.is_cut |= body.cuts_the_answer();
                if body.fatal {
                    self.failure = Some((body.code.clone(), body.message.clone()));
                }
            }
            Fact::FinalResponse(body) => return self.answered(body),
            Fact::RunFinished(body) => return self.finished(body),
            Fact::RunStarted(_)
            | Fact::Intent(_)
            | Fact::Title(_)
            | Fact::Plan(_)
            | Fact::PlanUpdate(_)
            | Fact::ItemStatusChange(_)
            | Fact::LlmStreamStart(_)
            // What it thought follows.
            | Fact::LlmStreamEnd(_)
            | Fact::ToolCall(_)
            | Fact::ToolExecution(_)
            | Fact::A2aTask(_)
            | Fact::StateUpdate(_)
            | Fact::Synthesis(_) => {}
        }
        Vec::new()
    }

    /// A piece of the answer, or of what a model thinks.
    pub(super) fn token(&mut self, token: &Token) -> Vec<Piece> {
        if token.run_id != self.run || self.is_over {
            return Vec::new();
        }
        match token.token_type {
            TokenType::SynthesisResponse if self.in_one_piece => Vec::new(),
            TokenType::SynthesisResponse => self.speaks(token),
            TokenType::PlanningThinking | TokenType::ExecutionThinking | TokenType::SynthesisThinking => {
                self.thinks(token)
            }
            TokenType::PlanningResponse | TokenType::ExecutionResponse => Vec::new(),
        }
    }

    /// After a piece that was lost, the rest waits for the whole.
    fn speaks(&mut self, token: &Token) -> Vec<Piece> {
        if token.offset == 0 {
            self.streamed = Some((token.stream_id.clone(), 0, AnswerText::default()));
        }
        let Some((stream, heard, text)) = &mut self.streamed else { return Vec::new() };
        if *stream != token.stream_id || *heard != token.offset {
            return Vec::new();
        }
        *heard += token.data.len() as u64;
        let is_first = text.sent().is_empty();
        let next = text.push(&token.data);
        self.content(next, is_first)
    }

    fn thinks(&mut self, token: &Token) -> Vec<Piece> {
        let (stream, heard) = self.thinking.get_or_insert_with(|| (token.stream_id.clone(), 0));
        if *stream != token.stream_id || *heard != token.offset {
            return Vec::new();
        }
        *heard += token.data.len() as u64;
        vec![Piece::Reasoning(token.data.clone())]
    }

    /// What of the thoughts was not told as they came.
    fn thoughts(&mut self, body: &ThoughtsBody) -> Vec<Piece> {
        let text = body.text.as_str().unwrap_or_default();
        let heard =
            self.thinking.as_ref().filter(|(stream, _)| *stream == body.stream_id).map_or(0, |(_, heard)| *heard);
        let rest = usize::try_from(heard).ok().and_then(|heard| text.get(heard..)).unwrap_or_default();
        self.stops_thinking(&body.stream_id);
        let rest = rest.trim_end();
        if rest.is_empty() && heard == 0 { Vec::new() } else { vec![Piece::Reasoning(format!("{rest}\n"))] }
    }

    fn stops_thinking(&mut self, stream: &StreamId) {
        self.thinking = self.thinking.take().filter(|(thinking, _)| thinking != stream);
    }

    fn closed(&mut self, id: &SuspensionId) {
        self.open.retain(|open| open.suspension_id != *id);
    }

    /// What the tokens have not said of the answer, and what it rests on.
    fn answered(&mut self, body: &FinalResponseBody) -> Vec<Piece> {
        let Some(whole) = body.message.content.as_str() else { return Vec::new() };
        if body.message.metadata.as_ref().is_some_and(|metadata| metadata.contains_key(ConversationMessage::ERROR)) {
            return Vec::new();
        }
        let text = self.streamed.take().map(|(_, _, text)| text).filter(|text| !text.sent().is_empty());
        let mut pieces = match text.as_ref().and_then(|text| text.rest_of(whole)) {
            Some(rest) => self.content(rest.to_owned(), false),
            None => self.content(whole.to_owned(), true),
        };
        let sources = sources::of(body);
        pieces.extend((!sources.is_empty()).then_some(Piece::Sources(sources)));
        pieces
    }

    fn content(&mut self, text: String, is_first: bool) -> Vec<Piece> {
        if text.is_empty() {
            return Vec::new();
        }
        let is_after_another = std::mem::replace(&mut self.has_text, true) && is_first;
        vec![Piece::Content(if is_after_another { format!("{RULE}{text}") } else { text })]
    }

    fn finished(&mut self, body: &RunFinishedBody) -> Vec<Piece> {
        self.is_over = true;
        let piece = match body.status {
            RunStatus::Completed if self.is_cut => Piece::Finished(Finish::Length),
            RunStatus::Completed => Piece::Finished(Finish::Stop),
            RunStatus::Cancelled => failed(Code::RunCancelled.as_str(), "The run was cancelled."),
            RunStatus::Failed | RunStatus::Queued | RunStatus::Running | RunStatus::Suspended | RunStatus::Waiting => {
                match self.failure.take() {
                    Some((code, message)) => failed(&code, &message),
                    None => failed(Code::Internal.as_str(), "The run failed."),
                }
            }
        };
        vec![piece]
    }

    /// Nothing goes on before somebody answers: the client's calls, or the questions as text.
    pub(super) fn suspended(&mut self) -> Vec<Piece> {
        if self.is_over || self.open.is_empty() {
            return Vec::new();
        }
        self.is_over = true;
        let mut pieces = Vec::new();
        for open in std::mem::take(&mut self.open) {
            match call(&open) {
                Some(call) => pieces.push(Piece::Call(call)),
                None => pieces.extend(self.content(question::text(&open, self.urls.as_ref()), true)),
            }
        }
        let has_calls = pieces.iter().any(|piece| matches!(piece, Piece::Call(_)));
        pieces.push(Piece::Finished(if has_calls { Finish::Calls } else { Finish::Stop }));
        pieces
    }

    /// What is told ends here although the run does not.
    pub(super) fn interrupted(&mut self, code: &str, message: &str) -> Vec<Piece> {
        if std::mem::replace(&mut self.is_over, true) { Vec::new() } else { vec![failed(code, message)] }
    }
}

fn failed(code: &str, message: &str) -> Piece {
    Piece::Failed { code: code.to_owned(), message: message.to_owned() }
}

fn call(open: &AskedQuestion) -> Option<ClientCall> {
    if open.kind != SuspensionKind::ClientTool {
        return None;
    }
    let arguments = open.tool_input.as_ref().map_or_else(|| "{}".to_owned(), ToString::to_string);
    Some(ClientCall { id: open.suspension_id.to_string(), name: open.tool_name.clone()?, arguments })
}

#[cfg(test)]
mod tests;
