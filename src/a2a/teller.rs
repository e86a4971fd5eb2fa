//! What happens in a run, told as events of its task.
//!
//! A [`Teller`] hears a run's observations in order, and its tokens. From the same observations it tells the same events,
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

pub struct Teller {
    task_id: String,
    context_id: String,
    state: TaskState,
    /// Contents of `AGENT_SUSPENDED`, oldest first.
    open: Vec<Value>,
    /// The suspension that was told last.
    asked: Option<Value>,
    /// Which stream of tokens is told, and what of it.
    said: Option<(String, String)>,
    failure: Option<Code>,
    answer: Option<ConversationMessage>,
}

impl Teller {
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
    pub fn hear(&mut self, heard: &Observation) -> Vec<StreamEvent> {
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
        let append = token.offset > 0;
        match &mut self.said {
            Some((stream, said)) if append && *stream == token.stream_id.as_str() => {
                if said.len() as u64 != token.offset {
                    return None;
                }
                said.push_str(&token.data);
            }
            Some(_) | None if append => return None,
            said => *said = Some((token.stream_id.to_string(), token.data.clone())),
        }
        Some(self.update(view::answer_artifact(&token.data), append, false))
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
        let said = self.said.as_ref().map_or("", |(_, said)| said.as_str());
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
