//! Converts a run's observations and tokens to events of its A2A task.
//!
//! A [`TaskEvents`] receives a run's observations in order, and its tokens. The same observations always give the same
//! events, so all streams and pushes of a task agree. Tokens only make the answer available earlier: the final answer
//! replaces their text.

use super::types::{Artifact, ArtifactUpdate, Message, Metadata, StatusUpdate, StreamEvent, TaskState, TaskStatus};
use super::view;
use crate::domain::Millis;
use crate::domain::answer_text::AnswerText;
use crate::domain::console_urls::ConsoleUrls;
use crate::domain::facts::Fact;
use crate::domain::fault::Code;
use crate::domain::frame::{Token, TokenType};
use crate::domain::hitl::{AskedQuestion, ExpiryPolicy};
use crate::domain::ids::{RunId, SuspensionId};
use crate::domain::message::ConversationMessage;
use crate::domain::observation::ObservationType;
use crate::domain::run::RunStatus;

pub struct TaskEvents {
    task_id: String,
    context_id: String,
    state: TaskState,
    /// The open questions, oldest first.
    open: Vec<AskedQuestion>,
    /// The question of the last event.
    last_question: Option<SuspensionId>,
    /// The token stream that the events follow.
    streamed: Option<StreamedAnswer>,
    failure: Option<Code>,
    answer: Option<ConversationMessage>,
    urls: Option<ConsoleUrls>,
}

/// A token stream, and its text so far.
struct StreamedAnswer {
    stream: String,
    /// How many bytes were received.
    received_bytes: u64,
    text: AnswerText,
}

impl StreamedAnswer {
    fn new(stream: &str) -> Self {
        Self { stream: stream.to_owned(), received_bytes: 0, text: AnswerText::default() }
    }

    /// Adds the next tokens; returns the text that may be sent.
    fn apply(&mut self, piece: &str) -> String {
        self.received_bytes += piece.len() as u64;
        self.text.push(piece)
    }
}

impl TaskEvents {
    /// The observation types that must be passed to `apply`.
    pub const OBSERVATION_TYPES: [ObservationType; 7] = ObservationType::OF_CALLER_STATUS;

    /// Starts from this state; `open` are the open questions, oldest first.
    pub fn new(task_id: &str, context_id: &str, state: TaskState, open: Vec<AskedQuestion>) -> Self {
        let asked = open.first().map(|oldest| oldest.suspension_id.clone());
        Self {
            task_id: task_id.to_owned(),
            context_id: context_id.to_owned(),
            state,
            open,
            last_question: asked,
            streamed: None,
            failure: None,
            answer: None,
            urls: None,
        }
    }

    /// Adds links to the questions.
    #[must_use]
    pub fn linked(self, urls: Option<ConsoleUrls>) -> Self {
        Self { urls, ..self }
    }

    /// The task's state as of the last event.
    pub fn state(&self) -> TaskState {
        self.state
    }

    /// The events that a fact of the thread causes; payloads must be inlined.
    pub fn apply(&mut self, run: &RunId, at: Millis, fact: Fact) -> Vec<StreamEvent> {
        if run.as_str() != self.task_id {
            return Vec::new();
        }
        match fact {
            Fact::RunStarted(_) => self.status_if_changed(at),
            Fact::AgentSuspended(question) => {
                self.open.push(question);
                self.status_if_changed(at)
            }
            // A reminder does not close the question.
            Fact::SuspensionTimeout(body) if body.policy == ExpiryPolicy::Remind => Vec::new(),
            Fact::SuspensionTimeout(body) => self.on_question_closed(&body.suspension_id, at),
            Fact::AgentResumed(body) => self.on_question_closed(&body.suspension_id, at),
            Fact::Error(body) => {
                if body.fatal {
                    self.failure = Code::ALL.iter().copied().find(|code| code.as_str() == body.code);
                }
                Vec::new()
            }
            Fact::FinalResponse(body) => {
                self.answer = body.message.whole();
                if self.answer.is_none() {
                    tracing::warn!(messageId = %body.message.message_id, "a task ends without its answer: its text is gone");
                }
                Vec::new()
            }
            Fact::RunFinished(body) => self.on_run_ended(body.status, at),
            Fact::Intent(_)
            | Fact::Title(_)
            | Fact::Plan(_)
            | Fact::PlanUpdate(_)
            | Fact::ItemStatusChange(_)
            | Fact::LlmStreamStart(_)
            | Fact::LlmStreamMetadata(_)
            | Fact::LlmStreamEnd(_)
            | Fact::LlmStreamError(_)
            | Fact::Thoughts(_)
            | Fact::ToolCall(_)
            | Fact::ToolExecution(_)
            | Fact::A2aTask(_)
            | Fact::StateUpdate(_)
            | Fact::Synthesis(_) => Vec::new(),
        }
    }

    fn on_question_closed(&mut self, id: &SuspensionId, at: Millis) -> Vec<StreamEvent> {
        self.open.retain(|open| open.suspension_id != *id);
        self.status_if_changed(at)
    }

    /// A piece of the answer. Another stream (a new attempt) starts it again; after a lost piece nothing is sent until
    /// the whole answer is known.
    pub fn token(&mut self, token: &Token) -> Option<StreamEvent> {
        if token.run_id.as_str() != self.task_id || token.token_type != TokenType::SynthesisResponse {
            return None;
        }
        if token.offset == 0 {
            self.streamed = Some(StreamedAnswer::new(token.stream_id.as_str()));
        }
        let streamed = self.streamed.as_mut()?;
        if streamed.stream != token.stream_id.as_str() || streamed.received_bytes != token.offset {
            return None;
        }
        let append = !streamed.text.sent().is_empty();
        let next = streamed.apply(&token.data);
        (!next.is_empty()).then(|| self.update(view::answer_artifact(&next), append, false))
    }

    /// An event for "working" or "waiting for the oldest question", if the state has changed.
    fn status_if_changed(&mut self, at: Millis) -> Vec<StreamEvent> {
        let oldest = self.open.first();
        let asked = oldest.map(|oldest| oldest.suspension_id.clone());
        let state = view::state_of_questions(&self.open);
        if state == self.state && asked == self.last_question {
            return Vec::new();
        }
        let question = oldest.map(|oldest| view::question(&self.task_id, &self.context_id, oldest, self.urls.as_ref()));
        self.last_question = asked;
        vec![self.status(state, question, at)]
    }

    fn on_run_ended(&mut self, status: RunStatus, at: Millis) -> Vec<StreamEvent> {
        let answer = self.answer.take();
        let mut events = Vec::new();
        let (state, why) = match status {
            RunStatus::Completed => {
                events.extend(answer.iter().flat_map(|answer| self.answer_events(answer)));
                (TaskState::Completed, None)
            }
            RunStatus::Cancelled => (TaskState::Canceled, None),
            RunStatus::Failed | RunStatus::Queued | RunStatus::Running | RunStatus::Suspended | RunStatus::Waiting => {
                (view::state_of_failure(self.failure), answer.as_ref().map(view::message))
            }
        };
        events.push(self.status(state, why, at));
        events
    }

    /// The deliverables beside the answer, then the answer. It replaces the pieces that were streamed, because some clients
    /// take the last update for the whole artifact.
    fn answer_events(&self, whole: &ConversationMessage) -> Vec<StreamEvent> {
        view::artifacts(whole).into_iter().map(|artifact| self.update(artifact, false, true)).collect()
    }

    fn update(&self, artifact: Artifact, append: bool, last_chunk: bool) -> StreamEvent {
        StreamEvent::ArtifactUpdate(ArtifactUpdate {
            task_id: self.task_id.clone(),
            context_id: self.context_id.clone(),
            artifact,
            append,
            last_chunk,
            metadata: Metadata::new(),
        })
    }

    fn status(&mut self, state: TaskState, message: Option<Message>, at: Millis) -> StreamEvent {
        self.state = state;
        StreamEvent::StatusUpdate(StatusUpdate {
            task_id: self.task_id.clone(),
            context_id: self.context_id.clone(),
            status: TaskStatus { state, message, timestamp: Some(at) },
            metadata: Metadata::new(),
        })
    }
}
