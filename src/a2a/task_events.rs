//! What happens in a run, told as events of its task.
//!
//! A [`TaskEvents`] hears a run's observations in order, and its tokens. From the same observations it tells the same events,
//! whoever listens and wherever: streams of one task agree, and so do pushes. Tokens only bring the answer earlier: what
//! they said is completed, or replaced, by the answer itself.

use serde_json::Value;

use super::types::{Artifact, ArtifactUpdate, Message, Metadata, StatusUpdate, StreamEvent, TaskState, TaskStatus};
use super::view;
use crate::domain::Millis;
use crate::domain::fault::Code;
use crate::domain::frame::{Token, TokenType};
use crate::domain::message::ConversationMessage;
use crate::domain::observation::{Observation, ObservationType};

pub struct TaskEvents {
    task_id: String,
    context_id: String,
    state: TaskState,
    /// Contents of `AGENT_SUSPENDED`, oldest first.
    open: Vec<Value>,
    /// The suspension that was told last.
    asked: Option<Value>,
    /// The stream of tokens that is told.
    said: Option<Said>,
    failure: Option<Code>,
    answer: Option<ConversationMessage>,
}

/// A stream of tokens, and what of it was told. An answer begins and ends with a word: blanks around it are none of it,
/// so those at the end are held back until something follows.
struct Said {
    stream: String,
    /// How many bytes came.
    heard: u64,
    told: String,
    held: String,
}

impl Said {
    fn new(stream: &str) -> Self {
        Self { stream: stream.to_owned(), heard: 0, told: String::new(), held: String::new() }
    }

    /// Takes the next piece in; returns what may be told of it.
    fn apply(&mut self, piece: &str) -> String {
        self.heard += piece.len() as u64;
        self.held.push_str(piece);
        if self.told.is_empty() {
            self.held.drain(..self.held.len() - self.held.trim_start().len());
        }
        let blanks = self.held.split_off(self.held.trim_end().len());
        let next = std::mem::replace(&mut self.held, blanks);
        self.told.push_str(&next);
        next
    }
}

impl TaskEvents {
    /// What it must hear.
    pub const HEARD: [ObservationType; 7] = [
        ObservationType::RunStarted,
        ObservationType::AgentSuspended,
        ObservationType::AgentResumed,
        ObservationType::SuspensionTimeout,
        ObservationType::Error,
        ObservationType::FinalResponse,
        ObservationType::RunFinished,
    ];

    /// Goes on from the state as it was told; `open` are the contents of `AGENT_SUSPENDED` of the open questions, oldest
    /// first.
    pub fn new(task_id: &str, context_id: &str, state: TaskState, open: Vec<Value>) -> Self {
        let asked = open.first().map(|oldest| oldest["suspensionId"].clone());
        Self {
            task_id: task_id.to_owned(),
            context_id: context_id.to_owned(),
            state,
            open,
            asked,
            said: None,
            failure: None,
            answer: None,
        }
    }

    /// As of what was told last.
    pub fn state(&self) -> TaskState {
        self.state
    }

    /// What an observation of the thread means for the task; payloads are inlined.
    pub fn apply(&mut self, heard: &Observation) -> Vec<StreamEvent> {
        if heard.run_id.as_str() != self.task_id {
            return Vec::new();
        }
        let content = &heard.content;
        match heard.kind {
            ObservationType::RunStarted => self.stands(heard.timestamp),
            ObservationType::AgentSuspended => {
                self.open.push(content.clone());
                self.stands(heard.timestamp)
            }
            // Whoever is reminded is still asked.
            ObservationType::SuspensionTimeout if content["policy"] == "remind" => Vec::new(),
            ObservationType::AgentResumed | ObservationType::SuspensionTimeout => {
                self.open.retain(|open| open["suspensionId"] != content["suspensionId"]);
                self.stands(heard.timestamp)
            }
            ObservationType::Error => {
                if content["fatal"] == true {
                    self.failure = serde_json::from_value(content["code"].clone()).ok();
                }
                Vec::new()
            }
            ObservationType::FinalResponse => {
                self.answer = serde_json::from_value(content["message"].clone()).ok();
                Vec::new()
            }
            ObservationType::RunFinished => self.ended(content["status"].as_str(), heard.timestamp),
            ObservationType::Intent
            | ObservationType::Title
            | ObservationType::Plan
            | ObservationType::PlanUpdate
            | ObservationType::ItemStatusChange
            | ObservationType::LlmStreamStart
            | ObservationType::LlmStreamMetadata
            | ObservationType::LlmStreamEnd
            | ObservationType::LlmStreamError
            | ObservationType::Thoughts
            | ObservationType::ToolCall
            | ObservationType::ToolExecution
            | ObservationType::A2aTask
            | ObservationType::StateUpdate
            | ObservationType::Synthesis => Vec::new(),
        }
    }

    /// A piece of the answer. Another stream (a new attempt) begins it anew; after a piece that was lost, the rest waits
    /// for the whole.
    pub fn token(&mut self, token: &Token) -> Option<StreamEvent> {
        if token.run_id.as_str() != self.task_id || token.token_type != TokenType::SynthesisResponse {
            return None;
        }
        if token.offset == 0 {
            self.said = Some(Said::new(token.stream_id.as_str()));
        }
        let said = self.said.as_mut()?;
        if said.stream != token.stream_id.as_str() || said.heard != token.offset {
            return None;
        }
        let append = !said.told.is_empty();
        let next = said.apply(&token.data);
        (!next.is_empty()).then(|| self.update(view::answer_artifact(&next), append, false))
    }

    /// Working, or waiting for the answer to the oldest question; told if that is news.
    fn stands(&mut self, at: Millis) -> Vec<StreamEvent> {
        let oldest = self.open.first();
        let asked = oldest.map(|oldest| oldest["suspensionId"].clone());
        let state = view::standing(&self.open);
        if state == self.state && asked == self.asked {
            return Vec::new();
        }
        let question = oldest.map(|oldest| view::question(&self.task_id, &self.context_id, oldest));
        self.asked = asked;
        vec![self.status(state, question, at)]
    }

    fn ended(&mut self, status: Option<&str>, at: Millis) -> Vec<StreamEvent> {
        let answer = self.answer.take();
        let mut events = Vec::new();
        let (state, why) = match status {
            Some("completed") => {
                events.extend(answer.iter().flat_map(|answer| self.delivered(answer)));
                (TaskState::Completed, None)
            }
            Some("cancelled") => (TaskState::Canceled, None),
            Some(_) | None => (view::failed(self.failure), answer.as_ref().map(view::message)),
        };
        events.push(self.status(state, why, at));
        events
    }

    /// What stands beside the answer, then what the tokens have not said of it.
    fn delivered(&self, whole: &ConversationMessage) -> Vec<StreamEvent> {
        let beside = view::deliverables(whole).into_iter().map(|artifact| self.update(artifact, false, true));
        let mut events: Vec<StreamEvent> = beside.collect();
        let said = self.said.as_ref().map_or("", |said| said.told.as_str());
        events.push(match whole.content.strip_prefix(said) {
            Some(rest) => self.update(view::answer_artifact(rest), !said.is_empty(), true),
            None => self.update(view::answer_artifact(&whole.content), false, true),
        });
        events
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
