//! The protocol's nouns, independent of any version's JSON. An empty map or list means the same as an absent one.

mod card;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::domain::Millis;

pub use card::{AgentCard, Capabilities, Extension, Interface, Provider, SecurityRequirement, SecurityScheme, Skill};

/// Additional members that the protocol passes through.
pub type Metadata = Map<String, Value>;

/// One request and all work for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub id: String,
    pub context_id: String,
    pub status: TaskStatus,
    pub artifacts: Vec<Artifact>,
    pub history: Vec<Message>,
    pub metadata: Metadata,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TaskStatus {
    pub state: TaskState,
    pub message: Option<Message>,
    pub timestamp: Option<Millis>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// A state that this server does not know.
    Unspecified,
    Submitted,
    Working,
    InputRequired,
    AuthRequired,
    Completed,
    Failed,
    Canceled,
    Rejected,
}

impl TaskState {
    pub const ALL: [TaskState; 9] = [
        TaskState::Unspecified,
        TaskState::Submitted,
        TaskState::Working,
        TaskState::InputRequired,
        TaskState::AuthRequired,
        TaskState::Completed,
        TaskState::Failed,
        TaskState::Canceled,
        TaskState::Rejected,
    ];

    /// No other state follows.
    pub fn is_terminal(self) -> bool {
        match self {
            TaskState::Completed | TaskState::Failed | TaskState::Canceled | TaskState::Rejected => true,
            TaskState::Unspecified
            | TaskState::Submitted
            | TaskState::Working
            | TaskState::InputRequired
            | TaskState::AuthRequired => false,
        }
    }

    /// It continues after the other side has acted.
    pub fn is_interrupted(self) -> bool {
        match self {
            TaskState::InputRequired | TaskState::AuthRequired => true,
            TaskState::Unspecified
            | TaskState::Submitted
            | TaskState::Working
            | TaskState::Completed
            | TaskState::Failed
            | TaskState::Canceled
            | TaskState::Rejected => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub message_id: String,
    pub context_id: Option<String>,
    pub task_id: Option<String>,
    pub role: Role,
    pub parts: Vec<Part>,
    pub metadata: Metadata,
    pub extensions: Vec<String>,
    pub reference_task_ids: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    User,
    Agent,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub content: Content,
    pub filename: Option<String>,
    pub media_type: Option<String>,
    pub metadata: Metadata,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Text(String),
    Raw(Bytes),
    Url(String),
    Data(Value),
}

impl Part {
    pub fn new(content: Content) -> Self {
        Self { content, filename: None, media_type: None, metadata: Metadata::new() }
    }
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(Content::Text(text.into()))
    }
    pub fn data(data: Value) -> Self {
        Self::new(Content::Data(data))
    }
}

/// A result of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Artifact {
    pub artifact_id: String,
    pub name: Option<String>,
    pub description: Option<String>,
    pub parts: Vec<Part>,
    pub metadata: Metadata,
    pub extensions: Vec<String>,
}

/// One frame of a stream, and the body of a push.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    Task(Task),
    Message(Message),
    StatusUpdate(StatusUpdate),
    ArtifactUpdate(ArtifactUpdate),
}

#[derive(Clone, Debug, PartialEq)]
pub struct StatusUpdate {
    pub task_id: String,
    pub context_id: String,
    pub status: TaskStatus,
    pub metadata: Metadata,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ArtifactUpdate {
    pub task_id: String,
    pub context_id: String,
    pub artifact: Artifact,
    /// The parts continue those of the artifact of this id.
    pub append: bool,
    pub last_chunk: bool,
    pub metadata: Metadata,
}

/// What `SendMessage` answers.
#[derive(Clone, Debug, PartialEq)]
pub enum SendResult {
    Task(Task),
    Message(Message),
}

#[derive(Clone, Debug, PartialEq)]
pub struct SendRequest {
    pub tenant: Option<String>,
    pub message: Message,
    pub configuration: Configuration,
    pub metadata: Metadata,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    pub accepted_output_modes: Vec<String>,
    pub push: Option<PushConfig>,
    /// At most that many of the latest messages; `None`: all.
    pub history_length: Option<u32>,
    /// Return as soon as the task exists, without waiting until it ends or is interrupted.
    pub return_immediately: bool,
}

/// Where changes of a task are posted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PushConfig {
    pub tenant: Option<String>,
    pub id: Option<String>,
    /// Absent while the task is being created.
    pub task_id: Option<String>,
    pub url: String,
    pub token: Option<String>,
    pub authentication: Option<Authentication>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Authentication {
    pub scheme: String,
    pub credentials: Option<String>,
}

/// Names one task: get, cancel, subscribe.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskQuery {
    pub tenant: Option<String>,
    pub id: String,
    pub history_length: Option<u32>,
    pub metadata: Metadata,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListQuery {
    pub tenant: Option<String>,
    pub context_id: Option<String>,
    pub status: Option<TaskState>,
    pub page_size: Option<u32>,
    pub page_token: Option<String>,
    pub history_length: Option<u32>,
    pub status_timestamp_after: Option<Millis>,
    pub include_artifacts: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TaskPage {
    pub tasks: Vec<Task>,
    /// Empty on the last page.
    pub next_page_token: String,
    pub page_size: u32,
    pub total_size: u32,
}

/// Names one push configuration of a task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PushQuery {
    pub tenant: Option<String>,
    pub task_id: String,
    /// Only 0.3 may omit it: the task's only configuration is meant.
    pub id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PushListQuery {
    pub tenant: Option<String>,
    pub task_id: String,
    pub page_size: Option<u32>,
    pub page_token: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PushPage {
    pub configs: Vec<PushConfig>,
    /// Empty on the last page.
    pub next_page_token: String,
}
